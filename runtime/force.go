package runtime

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/trimtab/trimtab/decode"
)

// MaxForce bounds Action.Force, in tokens.
const MaxForce = 1024

// forced are the visible tokens that a policy has named in place of sampled
// ones, and that are still to come.
type forced struct {
	queue []decode.Token
	final bool // the text ends with the last of them
}

// set takes what an action names. One that names nothing leaves the rest as it is.
func (f *forced) set(a *Action) {
	if len(a.Force) > 0 {
		f.queue = append(f.queue[:0], a.Force...)
		f.final = a.Final
	}
}

func (f *forced) drop() { f.queue, f.final = f.queue[:0], false }

// pop takes out the token that was committed. True means that the text ends
// with it.
func (f *forced) pop() (last bool) {
	copy(f.queue, f.queue[1:])
	f.queue = f.queue[:len(f.queue)-1]
	return f.final && len(f.queue) == 0
}

// above is how far a forced token's logit is put over all others before the
// processor sees it: more than any bias (decode.MaxBias), so that truncation
// keeps it, and only a ban takes it away.
const above = 1e8

func (f *forced) raise(l decode.Logits) {
	t := f.queue[0]
	if math.IsInf(float64(l[t]), -1) {
		return // the model cannot say it, or it was banned
	}
	most := l[t]
	for _, x := range l {
		most = max(most, x)
	}
	l[t] = most + above
}

// draw names the candidate: a forced token, or a sampled one. What a policy
// made impossible is its fault; in FailOpen it is then not asked again, and the
// token is sampled as if it had asked for nothing.
func (s *Session) draw(ctx context.Context) (decode.Token, error) {
	s.event.Forced, s.event.Yielded = false, false
	for range 3 { // as asked, bans that give way, without the policy
		t, err := s.pick(ctx)
		if err == nil {
			return t, nil
		}
		if !errors.Is(err, errImpossible) {
			return 0, err
		}
		if s.yield && len(s.force.queue) == 0 {
			s.event.Yielded, s.bans = true, s.bans[:0]
			continue
		}
		s.bans, s.policy = s.bans[:0], nil
		s.force.drop()
		if err := s.fault("policy", "", err); err != nil {
			return 0, err
		}
	}
	return 0, decode.ErrNoToken
}

// errImpossible marks what a policy asked for and cannot have.
var errImpossible = errors.New("impossible")

func (s *Session) pick(ctx context.Context) (decode.Token, error) {
	err := s.process(ctx)
	if err != nil && !errors.Is(err, decode.ErrNoToken) {
		return 0, fmt.Errorf("process: %w", err)
	}
	if len(s.force.queue) > 0 {
		t := s.force.queue[0]
		if err != nil || math.IsInf(float64(s.logits[t]), -1) {
			return 0, fmt.Errorf("%w: the forced token %d is banned or forbidden here", errImpossible, t)
		}
		s.event.Forced = true
		return t, nil
	}
	var t decode.Token
	if err == nil {
		t, err = s.cfg.Sampler.Sample(s.logits, s.rng)
	}
	if errors.Is(err, decode.ErrNoToken) && len(s.bans) > 0 {
		return 0, fmt.Errorf("%w: with %d banned tokens nothing is left to sample", errImpossible, len(s.bans))
	}
	if err != nil {
		return 0, fmt.Errorf("sample: %w", err)
	}
	return t, nil
}
