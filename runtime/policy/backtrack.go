package policy

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/runtime"
	"github.com/trimtab/trimtab/steer"
)

// ErrOutOfReach is wrapped by the fault of a strict [Backtrack] whose rollback
// point lies in text that has left.
var ErrOutOfReach = errors.New("rollback point out of reach")

// Defaults of [BacktrackOptions].
const (
	DefaultInterventions = 3
	DefaultDiscard       = 256
)

// BacktrackOptions describe a [Backtrack]. They are data and may be shared.
type BacktrackOptions struct {
	// Monitors whose flags count. Nil for all.
	Monitors []string
	// Point chooses the place to go back to. Nil for Onset{}.
	Point Point
	// Reread, if not nil, scores the last tokens anew before Point is asked, for
	// Peak for instance. A scorer that fails is a fault of the policy.
	Reread *Reread
	// Strict makes a point that lies in text that has left a fault, see
	// runtime.Config.OnFault. Otherwise what can be taken back is.
	Strict bool
	// Ban keeps the first rejected token from being sampled at its place
	// again, as long as another one is allowed there.
	Ban bool
	// Guide are hidden tokens for the model to read at that place, removed
	// after GuideSpan visible tokens; 0 keeps them to the end. One guidance is
	// in force at a time. GuideFor, if not nil, chooses them by the verdict; it
	// must be a pure function.
	Guide     []decode.Token
	GuideFor  func(v runtime.Verdict) []decode.Token
	GuideSpan int
	// Plan steers after a rewind, on top of Base, which steers otherwise:
	// usually runtime.Config.Plan. Nil for none.
	Plan, Base *steer.Plan
	Strength   Strength
	// Most interventions, and Discard tokens thrown away by them, until the
	// text ends with a refusal. 0 for the defaults, negative for none.
	// runtime.Config.MaxRewinds and MaxDiscarded bound them as well: the
	// refusal takes one rewind and what is held back.
	Most, Discard int
	// Refusal is the text that ends what could not be mended, in place of all
	// that has not left. Nil stops without a word. Under a grammar that
	// does not allow it, it is a fault.
	Refusal []decode.Token
}

// Backtrack rewinds when a monitor flags a candidate, and lets the model try
// again: under guidance, under a plan, without the token that led there. After
// a bounded number of interventions it ends the text with a refusal. Every
// flag costs an intervention or ends the text, so it never loops.
//
// It has state and serves one session.
type Backtrack struct {
	o        BacktrackOptions
	record   Record
	dose     dose
	done     int // interventions
	spent    int // tokens thrown away
	failures int // interventions since the text last got past its trouble
	trouble  int // the place of the furthest of those
	guide    struct{ at, until int }
	refusing bool
}

// NewBacktrack reports every fault of the options at once.
func NewBacktrack(o BacktrackOptions) (*Backtrack, error) {
	if o.Point == nil {
		o.Point = Onset{}
	}
	o.Most, o.Discard = budget(o.Most, DefaultInterventions), budget(o.Discard, DefaultDiscard)
	d, err := newDose(o.Plan, o.Base, o.Strength)
	faults := []error{err}
	if o.Reread != nil {
		o.Reread, err = o.Reread.check()
		faults = append(faults, err)
	}
	if o.GuideSpan < 0 {
		faults = append(faults, fmt.Errorf("guide span %d, must not be negative", o.GuideSpan))
	}
	if n := len(o.Refusal); n > runtime.MaxForce {
		faults = append(faults, fmt.Errorf("refusal of %d tokens, the limit is %d", n, runtime.MaxForce))
	}
	if err := errors.Join(faults...); err != nil {
		return nil, fmt.Errorf("backtrack policy: %w", err)
	}
	return &Backtrack{o: o, dose: d}, nil
}

func budget(n, otherwise int) int {
	if n == 0 {
		return otherwise
	}
	return max(n, 0)
}

// Decide commits what nobody flags.
func (p *Backtrack) Decide(ctx context.Context, s *runtime.Step) (runtime.Action, error) {
	p.record.See(s)
	if s.Index >= p.guide.until {
		p.guide.until = 0
	}
	if p.refusing && s.Forced {
		return runtime.Action{}, nil
	}
	v := flag(s, p.o.Monitors)
	if v == nil {
		return p.safe(s)
	}
	return p.intervene(ctx, s, v)
}

// flag is the first flag that counts, or nil.
func flag(s *runtime.Step, names []string) *runtime.Verdict {
	for i := range s.Verdicts {
		v := &s.Verdicts[i]
		if v.Flag && (names == nil || slices.Contains(names, v.Monitor)) {
			return v
		}
	}
	return nil
}

func (p *Backtrack) safe(s *runtime.Step) (runtime.Action, error) {
	if s.Index >= p.trouble {
		p.failures, p.trouble = 0, 0
	}
	plan, err := p.dose.safe()
	return runtime.Action{Plan: plan}, err
}

func (p *Backtrack) intervene(ctx context.Context, s *runtime.Step, v *runtime.Verdict) (runtime.Action, error) {
	if p.o.Reread != nil && p.exhausted(s, 1) == "" {
		if err := p.o.Reread.look(ctx, &p.record, s); err != nil {
			return runtime.Action{}, fmt.Errorf("backtrack policy: %w", err)
		}
	}
	t := &Trouble{Verdict: *v, Index: s.Index, Reach: s.Rewindable, Failures: p.failures}
	back := min(max(p.o.Point.Back(&p.record, t), 0), s.Index)
	if back > s.Rewindable && p.o.Strict {
		return runtime.Action{}, fmt.Errorf("backtrack policy: %w: %s asks for %d tokens, %d can be taken back", ErrOutOfReach, v.Monitor, back, s.Rewindable)
	}
	if why := p.exhausted(s, min(back, s.Rewindable)+1); why != "" {
		return p.refuse(s, v, why), nil
	}
	a := runtime.Action{Kind: runtime.Rewind, Rewind: back, Yield: p.o.Ban,
		Reason: fmt.Sprintf("%s: score %.4g, intervention %d of %d", v.Monitor, v.Score, p.done+1, p.o.Most)}
	if p.o.Ban {
		a.Ban = []decode.Token{first(s, back)}
	}
	p.splice(&a, *v, s.Index-min(back, s.Rewindable))
	var err error
	a.Plan, err = p.dose.violated()
	p.done++
	p.spent += min(back, s.Rewindable) + 1
	p.failures++
	p.trouble = max(p.trouble, s.Index)
	return a, err
}

// splice adds guidance at the place unless some is in force there.
func (p *Backtrack) splice(a *runtime.Action, v runtime.Verdict, place int) {
	if p.guide.until > place && p.guide.at < place {
		return
	}
	if a.Guide = p.o.Guide; p.o.GuideFor != nil {
		a.Guide = p.o.GuideFor(v)
	}
	if p.guide.until = 0; len(a.Guide) == 0 {
		return
	}
	a.GuideSpan = p.o.GuideSpan
	p.guide.at, p.guide.until = place, place+a.GuideSpan
	if a.GuideSpan == 0 {
		p.guide.until = math.MaxInt // to the end
	}
}

// exhausted says why there is no further attempt. One rewind is kept for the
// refusal.
func (p *Backtrack) exhausted(s *runtime.Step, discard int) string {
	spare := min(len(p.o.Refusal), 1)
	switch {
	case p.done >= p.o.Most:
		return fmt.Sprintf("all %d interventions are spent", p.o.Most)
	case p.spent+discard > p.o.Discard:
		return fmt.Sprintf("%d tokens to discard, %d of %d left", discard, p.o.Discard-p.spent, p.o.Discard)
	case s.RewindsLeft <= spare:
		return fmt.Sprintf("%d rewinds of the session are left", s.RewindsLeft)
	case s.DiscardLeft < discard+spare:
		return fmt.Sprintf("%d tokens of the session are left to discard", s.DiscardLeft)
	}
	return ""
}

// refuse ends the text: with the refusal in place of what has not left, or, when
// the budgets of the session do not allow it, without a word and without it.
func (p *Backtrack) refuse(s *runtime.Step, v *runtime.Verdict, why string) runtime.Action {
	reason := fmt.Sprintf("%s: score %.4g, %s", v.Monitor, v.Score, why)
	if len(p.o.Refusal) == 0 || s.RewindsLeft < 1 || s.DiscardLeft < s.Rewindable+1 {
		return runtime.Action{Kind: runtime.Stop, Reason: reason}
	}
	p.refusing = true
	return runtime.Action{Kind: runtime.Rewind, Rewind: s.Rewindable, Force: p.o.Refusal, Final: true, Reason: reason}
}

var _ runtime.Policy = (*Backtrack)(nil)
