package policy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/trimtab/trimtab/runtime"
)

// Chain asks policies in order; the first that does more than commit decides,
// and those behind it are not asked. Put what acts on cheap and sure signs
// first. A commit that only gives a reason, such as that of [Flag], or only
// sets a plan, such as that of a [Backtrack] whose dose fades, does not keep the
// others from being asked: the first reason stands when nobody decides, and the
// first plan also beside a decision that brings none. It is as stateful as its
// policies.
type Chain []runtime.Policy

// Decide returns the first decisive action.
func (c Chain) Decide(ctx context.Context, s *runtime.Step) (runtime.Action, error) {
	var mark runtime.Action
	for i, p := range c {
		a, err := p.Decide(ctx, s)
		if err != nil {
			return a, fmt.Errorf("policy %d of the chain: %w", i+1, err)
		}
		if decisive(&a) {
			if a.Plan == nil && a.Kind != runtime.Stop {
				a.Plan = mark.Plan
			}
			return a, nil
		}
		mark.Plan, mark.Reason = cmp.Or(mark.Plan, a.Plan), cmp.Or(mark.Reason, a.Reason)
	}
	return mark, nil
}

func decisive(a *runtime.Action) bool {
	return a.Kind != runtime.Commit || len(a.Guide) > 0 || len(a.Ban) > 0 || len(a.Force) > 0 || a.Release
}

// Cascade asks a costly or drastic policy only while a cheap monitor is
// worried: at its flag and for Span tokens after it. Otherwise it commits. A plan
// whose dose falls with every safe token, as that of [Backtrack], stays where it
// is while Then is not asked. It serves one session.
type Cascade struct {
	Cheap []string // monitors; nil for all
	Span  int
	Then  runtime.Policy

	until int // asked while Step.Index is below
}

// Decide asks Then, or commits.
func (c *Cascade) Decide(ctx context.Context, s *runtime.Step) (runtime.Action, error) {
	if c.Then == nil || c.Span < 0 {
		return runtime.Action{}, errors.New("cascade policy: it needs a policy, and a span that is not negative")
	}
	c.until = min(c.until, s.Index+c.Span+1) // a rewind ends worries about what is gone
	if flag(s, c.Cheap) != nil {
		c.until = s.Index + c.Span + 1
	}
	if s.Index >= c.until {
		return runtime.Action{}, nil
	}
	return c.Then.Decide(ctx, s)
}

// Flag only marks: it commits everything, and says in Action.Reason which
// monitor flagged what. It may be shared.
type Flag struct {
	Monitors []string // nil for all
}

// Decide commits.
func (p Flag) Decide(_ context.Context, s *runtime.Step) (runtime.Action, error) {
	if v := flag(s, p.Monitors); v != nil {
		return runtime.Action{Reason: fmt.Sprintf("%s: score %.4g", v.Monitor, v.Score)}, nil
	}
	return runtime.Action{}, nil
}

// StopOn ends the text before the first candidate that one of the monitors
// flags; without names, any of them.
func StopOn(names ...string) *Threshold {
	return &Threshold{Do: runtime.Stop, Monitors: slices.Clone(names)}
}

// Budget bounds what another policy may cost: rewinds, and tokens thrown away.
// A rewind over the budget becomes what Then says, or a stop. It serves one
// session.
type Budget struct {
	Policy   runtime.Policy
	Rewinds  int
	Discard  int
	Then     runtime.Policy // nil to stop
	rewinds  int
	discards int
}

// Decide passes on what the budget allows.
func (b *Budget) Decide(ctx context.Context, s *runtime.Step) (runtime.Action, error) {
	if b.Policy == nil || b.Rewinds < 0 || b.Discard < 0 {
		return runtime.Action{}, errors.New("budget policy: it needs a policy, and budgets that are not negative")
	}
	a, err := b.Policy.Decide(ctx, s)
	if err != nil || a.Kind != runtime.Rewind {
		return a, err
	}
	n := min(a.Rewind, s.Rewindable) + 1
	if b.rewinds < b.Rewinds && b.discards+n <= b.Discard {
		b.rewinds++
		b.discards += n
		return a, nil
	}
	if b.Then != nil {
		return b.Then.Decide(ctx, s)
	}
	why := fmt.Sprintf("budget: %d of %d rewinds and %d of %d tokens are spent", b.rewinds, b.Rewinds, b.discards, b.Discard)
	return runtime.Action{Kind: runtime.Stop, Reason: why}, nil
}

var (
	_ runtime.Policy = Chain(nil)
	_ runtime.Policy = (*Cascade)(nil)
	_ runtime.Policy = Flag{}
	_ runtime.Policy = (*Budget)(nil)
)
