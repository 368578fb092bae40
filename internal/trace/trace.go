// Package trace is the text form of what a session did: one JSON record per
// line, a [Start], then a [Step] for every candidate token, then an [End].
//
// A trace holds no times and nothing of the machine, so equal runs give equal
// bytes, and traces can be kept beside tests and compared as text.
package trace

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"unicode/utf8"
)

// Version is the format's version, in Start.Version.
const Version = 1

// Start opens a trace.
type Start struct {
	Kind    string  `json:"kind"` // "start"
	Version int     `json:"version"`
	Model   string  `json:"model"`
	Hash    string  `json:"hash"`            // of the weights
	Vocab   int     `json:"vocab,omitempty"` // width of a row of logits
	Width   int     `json:"width,omitempty"` // of a residual row
	Config  Config  `json:"config"`
	Prompt  []int32 `json:"prompt"`
	// Params are the sampling parameters (decode.Params), and Ends the tokens
	// that end an answer, where the rows are there to draw from them again.
	Params json.RawMessage `json:"params,omitempty"`
	Ends   []int32         `json:"ends,omitempty"`
}

// Config is the part of a session's description that its course depends on.
type Config struct {
	Seed         uint64   `json:"seed"`
	Sampler      string   `json:"sampler"`             // Go type
	Processor    string   `json:"processor,omitempty"` // Go type
	Policy       string   `json:"policy,omitempty"`    // Go type
	Plan         string   `json:"plan,omitempty"`      // fingerprint, hexadecimal
	Monitors     []string `json:"monitors,omitempty"`
	MaxTokens    int      `json:"max_tokens"`
	Stop         []string `json:"stop,omitempty"`
	HoldBack     int      `json:"hold_back,omitempty"`
	MaxRewinds   int      `json:"max_rewinds,omitempty"`
	MaxDiscarded int      `json:"max_discarded,omitempty"`
	MaxGuide     int      `json:"max_guide,omitempty"`
	FailOpen     bool     `json:"fail_open,omitempty"`
	PlanFrom     int      `json:"plan_from,omitempty"` // row of the prompt
	Shadow       *Shadow  `json:"shadow,omitempty"`    // nil: nothing was measured
}

// Shadow are the limits of what was measured, in nats; see runtime.Shadow.
type Shadow struct {
	Token  *float64 `json:"token,omitempty"`
	Mean   *float64 `json:"mean,omitempty"`
	Total  *float64 `json:"total,omitempty"`
	Window int      `json:"window"`
	Tries  int      `json:"tries"`
}

// Reading compares a row with the one that the model gives without steering.
type Reading struct {
	KL        float64 `json:"kl"` // nats
	Dose      float64 `json:"dose"`
	Unsteered bool    `json:"unsteered,omitempty"`
	Tries     []Try   `json:"tries,omitempty"`
}

// Try is a row that was thrown away. KL is nil when it was not finite.
type Try struct {
	Dose float64  `json:"dose"`
	KL   *float64 `json:"kl,omitempty"`
}

// Step is one candidate and what became of it.
type Step struct {
	Kind       string    `json:"kind"` // "step"
	Index      int       `json:"index"`
	Token      int32     `json:"token"`
	Piece      Bytes     `json:"piece"`
	End        bool      `json:"end,omitempty"`
	Forced     bool      `json:"forced,omitempty"`  // by the policy, not sampled
	Yielded    bool      `json:"yielded,omitempty"` // the bans gave way
	Rewindable int       `json:"rewindable,omitempty"`
	Logprob    *float64  `json:"logprob,omitempty"`
	Shadow     *Reading  `json:"shadow,omitempty"`
	Verdicts   []Verdict `json:"verdicts,omitempty"`
	Action     Action    `json:"action"`
	Rewound    int       `json:"rewound,omitempty"`
	Exhausted  string    `json:"exhausted,omitempty"`
	Faults     []Fault   `json:"faults,omitempty"`
	Text       string    `json:"text,omitempty"` // what left

	Raw         Floats            `json:"raw,omitempty"`
	Logits      Floats            `json:"logits,omitempty"` // absent when equal to Raw
	Activations map[string]Floats `json:"activations,omitempty"`
}

// Verdict is a monitor's opinion.
type Verdict struct {
	Monitor string  `json:"monitor"`
	Score   float64 `json:"score"`
	Flag    bool    `json:"flag,omitempty"`
	Onset   int     `json:"onset,omitempty"`
	Note    string  `json:"note,omitempty"`
}

// Action is the policy's decision.
type Action struct {
	Kind      string  `json:"kind"`
	Rewind    int     `json:"rewind,omitempty"`
	Plan      string  `json:"plan,omitempty"` // fingerprint, hexadecimal; "0" for the empty plan
	Guide     []int32 `json:"guide,omitempty"`
	GuideSpan int     `json:"guide_span,omitempty"`
	Ban       []int32 `json:"ban,omitempty"`
	Yield     bool    `json:"yield,omitempty"`
	Force     []int32 `json:"force,omitempty"`
	Final     bool    `json:"final,omitempty"`
	Release   bool    `json:"release,omitempty"`
	Reason    string  `json:"reason,omitempty"`
}

// Fault is a part that was switched off.
type Fault struct {
	Part  string `json:"part"`
	Name  string `json:"name,omitempty"`
	Error string `json:"error"`
	// Stalled says that it did not answer in time, which no replay can show.
	Stalled bool `json:"stalled,omitempty"`
}

// End closes a trace.
type End struct {
	Kind       string  `json:"kind"` // "end"
	Finish     string  `json:"finish"`
	StopString string  `json:"stop_string,omitempty"`
	Text       string  `json:"text"`
	Tokens     []int32 `json:"tokens"`
	Rewinds    int     `json:"rewinds,omitempty"`
	Discarded  int     `json:"discarded,omitempty"`
}

// Bytes are a token's bytes: a JSON string when they are valid UTF-8, else
// {"bytes": base64}.
type Bytes []byte

type rawBytes struct {
	Bytes []byte `json:"bytes"`
}

// MarshalJSON writes the form that keeps every byte.
func (b Bytes) MarshalJSON() ([]byte, error) {
	if utf8.Valid(b) {
		return marshal(string(b))
	}
	return marshal(rawBytes{b})
}

// UnmarshalJSON reads either form.
func (b *Bytes) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '{' {
		var r rawBytes
		if err := json.Unmarshal(data, &r); err != nil {
			return err
		}
		*b = r.Bytes
		return nil
	}
	var s string
	if err := json.Unmarshal(data, &s); err != nil {
		return err
	}
	*b = Bytes(s)
	return nil
}

// Floats are written as base64 of their little endian bytes, so that every bit
// survives.
type Floats []float32

// MarshalJSON writes the base64 string.
func (f Floats) MarshalJSON() ([]byte, error) {
	b := make([]byte, 0, 4*len(f))
	for _, x := range f {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return json.Marshal(b)
}

// UnmarshalJSON reads the base64 string.
func (f *Floats) UnmarshalJSON(data []byte) error {
	var b []byte
	if err := json.Unmarshal(data, &b); err != nil {
		return err
	}
	if len(b)%4 != 0 {
		return fmt.Errorf("%d bytes are no whole number of float32", len(b))
	}
	*f = make(Floats, len(b)/4)
	for i := range *f {
		(*f)[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return nil
}

// Write appends one record and a line break, in one Write.
func Write(w io.Writer, record any) error {
	b, err := marshal(record)
	if err != nil {
		return fmt.Errorf("trace: %w", err)
	}
	if _, err := w.Write(append(b, '\n')); err != nil {
		return fmt.Errorf("trace: %w", err)
	}
	return nil
}

// marshal leaves <, > and & as they are: people read this.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
