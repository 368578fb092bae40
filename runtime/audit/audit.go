// Package audit keeps a log of every intervention: what the monitors said, what
// the policy did about it, what the reader therefore never saw, and how it
// came out.
//
// A log is text, one JSON record per line: a [Header], then [Intervention],
// [Outcome], [Mark] and [Fault] records in the order of what happened, then a
// [Footer]. One file may hold the logs of many sessions, one behind another.
// Like a trace it holds no times, so equal runs give equal logs. It holds the
// text that was thrown away: mind who may read it.
package audit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"github.com/trimtab/trimtab/internal/trace"
)

// Version is the format's version, in Header.Version.
const Version = 1

// Header opens a log.
type Header struct {
	Kind    string `json:"kind"` // "audit"
	Version int    `json:"version"`
	ID      string `json:"id,omitempty"` // of the request, in a file of many
	Model   string `json:"model"`
	Hash    string `json:"hash"` // of the weights
	// Config is a hash (xxHash64, hexadecimal) of all that the course of the
	// session depends on, besides model, prompt and seed; as far as it is data.
	Config   string    `json:"config"`
	Prompt   string    `json:"prompt"` // hash of the prompt's tokens
	Seed     uint64    `json:"seed"`
	Policy   string    `json:"policy,omitempty"` // Go type
	Monitors []Monitor `json:"monitors,omitempty"`
	HoldBack int       `json:"hold_back"`
	OnFault  Mode      `json:"on_fault"`
}

// Monitor names a monitor and what it was: a hash of its name, description and sites.
type Monitor struct {
	Name string `json:"name"`
	Hash string `json:"hash"`
}

// Mode says what happens at a fault.
type Mode string

// The modes of runtime.FaultMode.
const (
	Closed Mode = "closed" // the session ends
	Open   Mode = "open"   // it goes on without the part
)

// Score is what one monitor said of a candidate.
type Score struct {
	Monitor string  `json:"monitor"`
	Score   float64 `json:"score"`
	Flag    bool    `json:"flag,omitempty"`
	Onset   int     `json:"onset,omitempty"`
	Note    string  `json:"note,omitempty"`
}

// Text is a run of tokens, with what they say.
type Text struct {
	Tokens []int32     `json:"tokens"`
	Text   trace.Bytes `json:"text"` // a string, or {"bytes": base64}; empty without a tokenizer
}

// Intervention is a candidate that was rejected.
type Intervention struct {
	Kind      string  `json:"kind"` // "intervention"
	N         int     `json:"n"`    // 1 for the first of the session
	Step      int     `json:"step"` // visible tokens before the candidate
	Scores    []Score `json:"scores,omitempty"`
	Action    string  `json:"action"` // "rewind", "stop"
	Reason    string  `json:"reason,omitempty"`
	Wanted    int     `json:"wanted,omitempty"`  // tokens the policy wanted back
	Rewound   int     `json:"rewound,omitempty"` // tokens taken back: what has left stays
	Point     int     `json:"point"`             // the rollback point: visible tokens that were kept
	Discarded Text    `json:"discarded"`         // what the reader never sees of the text so far, and the candidate
	Guide     *Text   `json:"guide,omitempty"`
	GuideSpan int     `json:"guide_span,omitempty"`
	Force     *Text   `json:"force,omitempty"`
	Final     bool    `json:"final,omitempty"` // the text ends with Force
	Ban       []int32 `json:"ban,omitempty"`
	Plan      string  `json:"plan,omitempty"` // fingerprint, hexadecimal; "0" for the empty plan
	Exhausted string  `json:"exhausted,omitempty"`
}

// Result says how an intervention came out.
type Result string

// The outcomes. An intervention is past its trouble when the text has grown
// beyond the place of the rejected candidate.
const (
	Safe      Result = "safe"           // the text got past it, and nothing was flagged
	Accepted  Result = "accepted"       // the text got past it, with a flag that the policy let pass
	Violated  Result = "violated again" // another intervention came before that
	Refused   Result = "refused"        // it ended the text with words of the policy
	Stopped   Result = "stopped"        // it ended the text
	Exhausted Result = "exhausted"      // it was a rewind that a budget did not allow, and ended the text
	Cut       Result = "cut"            // the session was cancelled or failed before that
)

// Outcome belongs to the intervention with the same number.
type Outcome struct {
	Kind    string `json:"kind"` // "outcome"
	N       int    `json:"n"`
	Step    int    `json:"step"` // visible tokens at that time
	Outcome Result `json:"outcome"`
}

// Mark is a candidate that was committed with a remark, or with a change for
// what follows.
type Mark struct {
	Kind      string  `json:"kind"` // "mark"
	Step      int     `json:"step"`
	Scores    []Score `json:"scores,omitempty"`
	Reason    string  `json:"reason,omitempty"`
	Guide     *Text   `json:"guide,omitempty"`
	GuideSpan int     `json:"guide_span,omitempty"`
	Force     *Text   `json:"force,omitempty"`
	Final     bool    `json:"final,omitempty"`
	Ban       []int32 `json:"ban,omitempty"`
	Plan      string  `json:"plan,omitempty"`
}

// Fault is a monitor or a policy that failed.
type Fault struct {
	Kind  string `json:"kind"` // "fault"
	Step  int    `json:"step"`
	Part  string `json:"part"` // "monitor", "policy"
	Name  string `json:"name,omitempty"`
	Error string `json:"error"`
	Mode  Mode   `json:"mode"` // what followed
}

// Footer closes a log.
type Footer struct {
	Kind          string `json:"kind"` // "end"
	Finish        string `json:"finish"`
	Tokens        int    `json:"tokens"` // released
	Text          string `json:"text"`   // hash of the released text
	Interventions int    `json:"interventions"`
	Rewinds       int    `json:"rewinds"`
	Discarded     int    `json:"discarded"` // tokens, candidates included
	Faults        int    `json:"faults"`
}

// write appends one record and a line break, in one Write.
func write(w io.Writer, record any) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // people read this
	if err := e.Encode(record); err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	if _, err := w.Write(b.Bytes()); err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	return nil
}
