// Package policy holds the built-in policies: who decides what becomes of a
// candidate token when nobody writes a policy of their own.
//
//   - [Accept] commits, [Flag] commits and says what was flagged.
//   - [Threshold] stops or tries again at a flag, the same way each time; see
//     [StopOn].
//   - [Backtrack] goes back to where it began, under guidance, a plan and bans,
//     a few times, and then refuses. [Point] says where it began.
//   - [Filtered] tries other tokens for one whose state is flagged.
//   - [Chain], [Cascade] and [Budget] put policies together.
//
// All of them decide by the steps they are shown and their own decisions, so
// that traces replay, and all of them come to an end whatever is flagged. Those
// with state serve one session: make one for each.
package policy

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/runtime"
)

// Accept commits every candidate. It is what a session without a policy does,
// as a value. It may be shared.
type Accept struct{}

// Decide commits.
func (Accept) Decide(context.Context, *runtime.Step) (runtime.Action, error) {
	return runtime.Action{}, nil
}

// Threshold acts when a monitor flags a candidate, and commits otherwise. It
// keeps no state and may be shared.
type Threshold struct {
	// Monitors whose flags count. Nil for all.
	Monitors []string
	// Do is runtime.Stop to end the text before the candidate, or
	// runtime.Rewind to try again.
	Do runtime.Kind
	// Back is how many committed tokens a rewind takes besides the candidate.
	// A verdict whose Onset lies further back takes it that far.
	Back int
	// Ban keeps the first token that a rewind throws away from being sampled
	// at its place again.
	Ban bool
	// Release lets held text leave at a stop.
	Release bool
}

// Validate reports every fault of the settings.
func (p *Threshold) Validate() error {
	var faults []error
	if p.Do != runtime.Stop && p.Do != runtime.Rewind {
		faults = append(faults, fmt.Errorf("threshold policy: a flag must stop or rewind, not %s", p.Do))
	}
	if p.Back < 0 {
		faults = append(faults, fmt.Errorf("threshold policy: back by %d tokens, must not be negative", p.Back))
	}
	return errors.Join(faults...)
}

// Decide acts on the first flag that counts.
func (p *Threshold) Decide(_ context.Context, s *runtime.Step) (runtime.Action, error) {
	for i := range s.Verdicts {
		v := &s.Verdicts[i]
		if v.Flag && (p.Monitors == nil || slices.Contains(p.Monitors, v.Monitor)) {
			return p.act(s, v)
		}
	}
	return runtime.Action{}, nil
}

func (p *Threshold) act(s *runtime.Step, v *runtime.Verdict) (runtime.Action, error) {
	if err := p.Validate(); err != nil {
		return runtime.Action{}, err
	}
	a := runtime.Action{Kind: p.Do, Reason: fmt.Sprintf("%s: score %.4g", v.Monitor, v.Score)}
	if p.Do == runtime.Stop {
		a.Release = p.Release
		return a, nil
	}
	a.Rewind = max(p.Back, v.Onset)
	if p.Ban {
		a.Ban = []decode.Token{first(s, a.Rewind)}
	}
	return a, nil
}

// first is the first token that a rewind by n throws away.
func first(s *runtime.Step, n int) decode.Token {
	if n = min(n, s.Rewindable); n > 0 {
		return s.Tokens[len(s.Tokens)-n]
	}
	return s.Token
}

var (
	_ runtime.Policy = Accept{}
	_ runtime.Policy = (*Threshold)(nil)
)
