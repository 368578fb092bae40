package runtime

import (
	"context"
	"fmt"
	"slices"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/monitors"
	"github.com/trimtab/trimtab/steer"
)

// Policy judges every candidate token: it is the only place where a decision
// is made. It must depend on the [Step] and on its own earlier decisions only,
// so that a trace replays. A policy with state serves one session; it is called
// by one goroutine at a time and must not keep any slice of the step.
//
// An error, a panic or an invalid Action is a fault: see [Config.OnFault].
type Policy interface {
	Decide(ctx context.Context, s *Step) (Action, error)
}

// Step is what a policy sees of one candidate. Slices are valid during Decide
// only and must not be written to.
type Step struct {
	Index    int            // visible tokens committed before this candidate
	Token    decode.Token   // the candidate
	Piece    []byte         // its bytes, perhaps part of a character
	End      bool           // it ends the answer
	Forced   bool           // a policy named it (Action.Force), it was not sampled
	Yielded  bool           // nothing but banned tokens was left, see Action.Yield
	Verdicts []Verdict      // one for each monitor that still runs, in their order
	Tokens   []decode.Token // the visible tokens committed so far

	Rewindable  int    // most tokens that a rewind can take back: what has left stays
	RewindsLeft int    // of Config.MaxRewinds
	DiscardLeft int    // of Config.MaxDiscarded
	Plan        uint64 // fingerprint of the plan in force
}

// Verdict is a monitor's opinion, with its name.
type Verdict struct {
	Monitor string
	monitors.Verdict
}

// Kind says what becomes of a candidate.
type Kind uint8

const (
	Commit Kind = iota // the candidate becomes part of the text
	Rewind             // the candidate and Action.Rewind tokens before it are thrown away
	Stop               // the candidate is thrown away and the text ends, "content_filter"
)

var kindNames = [...]string{Commit: "commit", Rewind: "rewind", Stop: "stop"}

func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// Action is the one decision about a candidate. The zero Action commits it.
type Action struct {
	Kind Kind
	// Rewind is how many committed tokens go besides the candidate; 0 samples
	// the same place again. Text that has left is never taken back: asked for
	// more than Step.Rewindable, the session takes that many and the [Event]
	// reports both numbers. When the budgets of the Config do not allow another
	// rewind, the session stops as for Stop: a candidate that the policy
	// rejected is never committed.
	Rewind int
	// Plan, if not nil, steers every row that is fed from now on. After a
	// rewind that begins with the row before the place. An empty plan
	// removes steering.
	Plan *steer.Plan
	// Guide are hidden tokens spliced in after what is kept. They are fed but
	// are no part of the text, the processors or the monitors. A rewind to
	// their place or before it removes them.
	Guide []decode.Token
	// GuideSpan removes the guidance, and feeds again what came after it,
	// once so many visible tokens follow it. 0 keeps it to the end.
	GuideSpan int
	// Ban are tokens that must not be sampled at the next place. Bans of
	// several rewinds to one place add up until a token is committed there.
	// That they leave nothing to sample is a fault.
	Ban []decode.Token
	// Yield lets all bans of the next place go where they leave nothing to
	// sample, instead of a fault; the candidate then has Step.Yielded.
	Yield bool
	// Force are the visible tokens that come next in place of sampled ones, at
	// most MaxForce: the text of a refusal, a choice made by the policy. They
	// are text like any other: fed, accepted by the processor, held back,
	// observed, and judged one by one with Step.Forced. No truncation keeps one
	// out, and no ban of an earlier action; but one that this action bans or that
	// the processor forbids, a grammar for instance, is a fault. What is
	// still to come of them ends with the next rewind, and is replaced by the
	// next Force. It cannot go with Stop.
	Force []decode.Token
	// Final ends the text, "content_filter", with the last token of Force, and
	// lets all of it leave.
	Final bool
	// Release lets all held text leave: after Commit with the candidate, with
	// Stop without it. It means nothing with Rewind.
	Release bool
	Reason  string // for people, events and traces; at most 1024 bytes
}

// check reports why the action cannot be carried out.
func (a *Action) check(vocab int) error {
	if int(a.Kind) >= len(kindNames) {
		return fmt.Errorf("unknown action %s", a.Kind)
	}
	if a.Rewind < 0 || a.GuideSpan < 0 {
		return fmt.Errorf("action %s: rewind %d and guide span %d must not be negative", a.Kind, a.Rewind, a.GuideSpan)
	}
	if len(a.Reason) > maxNote {
		return fmt.Errorf("action %s: reason of %d bytes, the limit is %d", a.Kind, len(a.Reason), maxNote)
	}
	if a.Kind != Rewind && a.Rewind != 0 {
		return fmt.Errorf("action %s: rewinds %d tokens", a.Kind, a.Rewind)
	}
	if err := checkTokens("guidance", a.Guide, vocab); err != nil {
		return fmt.Errorf("action %s: %w", a.Kind, err)
	}
	if err := checkTokens("banned", a.Ban, vocab); err != nil {
		return fmt.Errorf("action %s: %w", a.Kind, err)
	}
	return a.checkForce(vocab)
}

func (a *Action) checkForce(vocab int) error {
	switch n := len(a.Force); {
	case n == 0 && a.Final:
		return fmt.Errorf("action %s: final without forced tokens", a.Kind)
	case n == 0:
		return nil
	case a.Kind == Stop:
		return fmt.Errorf("action %s: %d forced tokens, a stopped text has none", a.Kind, n)
	case n > MaxForce:
		return fmt.Errorf("action %s: %d forced tokens, the limit is %d", a.Kind, n, MaxForce)
	case slices.Contains(a.Ban, a.Force[0]):
		return fmt.Errorf("action %s: token %d is both banned and forced", a.Kind, a.Force[0])
	}
	if err := checkTokens("forced", a.Force, vocab); err != nil {
		return fmt.Errorf("action %s: %w", a.Kind, err)
	}
	return nil
}

func checkTokens(what string, list []decode.Token, vocab int) error {
	for i, t := range list {
		if t < 0 || int(t) >= vocab {
			return fmt.Errorf("%s token %d at %d is outside the vocabulary of %d", what, t, i, vocab)
		}
	}
	return nil
}
