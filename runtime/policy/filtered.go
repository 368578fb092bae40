package policy

import (
	"context"
	"errors"
	"fmt"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/runtime"
)

// DefaultTop is how many candidates of one place a [Filtered] tries.
const DefaultTop = 8

// FilteredOptions describe a [Filtered].
type FilteredOptions struct {
	// Monitors whose flags count. Nil for all. Their scores are compared: of
	// several that speak, the highest score of a candidate counts.
	Monitors []string
	// Top is how many candidates of one place are tried, 2 to 64. Default 8.
	Top int
	// Otherwise decides when the best candidate is flagged as well, when
	// nothing can be taken back, and on flags before the first token. Nil goes
	// on with the best.
	Otherwise runtime.Policy
}

// Filtered chooses among candidates by the state they lead to (value-filtered
// decoding, arXiv 2605.14746). It is for monitors that judge the state the last
// committed token made, which they can only see one step later: when they flag
// it, that token is taken back and another one is drawn, up to Top of them. The
// first that is not flagged stays. When all are, the one with the lowest score
// does, and Otherwise decides on it.
//
// Drawn means sampled without those that were tried: with a greedy sampler that
// is the order of the logits. A text without flags is not touched.
//
// A try costs a rewind and two discarded tokens: give the session the budget
// for them (runtime.Config.MaxRewinds, MaxDiscarded) and a hold-back of at
// least 1. It has state and serves one session.
type Filtered struct {
	o     FilteredOptions
	place int // of the candidates in tried
	tried []try
	best  bool // the best of them was forced
}

type try struct {
	token decode.Token
	score float64
}

// NewFiltered reports every fault of the options.
func NewFiltered(o FilteredOptions) (*Filtered, error) {
	if o.Top == 0 {
		o.Top = DefaultTop
	}
	if o.Top < 2 || o.Top > 64 {
		return nil, fmt.Errorf("filtered policy: top %d, must be 2 to 64", o.Top)
	}
	return &Filtered{o: o}, nil
}

// Decide looks at the token before the candidate.
func (p *Filtered) Decide(ctx context.Context, s *runtime.Step) (runtime.Action, error) {
	if s.Index < p.place {
		p.tried = p.tried[:0] // what led to the place is another text now
	}
	v := flag(s, p.o.Monitors)
	if v == nil || s.Index == 0 {
		return p.otherwise(ctx, s)
	}
	if place := s.Index - 1; place != p.place || len(p.tried) == 0 {
		p.place, p.tried, p.best = place, p.tried[:0], false
	}
	if p.best || s.Rewindable < 1 || s.RewindsLeft < 1 || s.DiscardLeft < 2 {
		return p.otherwise(ctx, s)
	}
	token := s.Tokens[p.place]
	again := p.know(token)
	if !again {
		p.tried = append(p.tried, try{token, p.worst(s)})
	}
	// Kept for the best: one rewind, two tokens.
	if again || len(p.tried) >= p.o.Top || s.RewindsLeft < 2 || s.DiscardLeft < 4 {
		return p.settle(ctx, s, v, token)
	}
	a := runtime.Action{Kind: runtime.Rewind, Rewind: 1, Yield: true,
		Reason: fmt.Sprintf("%s: score %.4g, candidate %d of %d", v.Monitor, v.Score, len(p.tried)+1, p.o.Top)}
	for _, t := range p.tried {
		a.Ban = append(a.Ban, t.token)
	}
	return a, nil
}

// know reports whether a token was tried at the place: the bans gave way.
func (p *Filtered) know(t decode.Token) bool {
	for _, other := range p.tried {
		if other.token == t {
			return true
		}
	}
	return false
}

// worst is the highest score of the flags that count.
func (p *Filtered) worst(s *runtime.Step) float64 {
	worst := flag(s, p.o.Monitors).Score
	for i := range s.Verdicts {
		one := runtime.Step{Verdicts: s.Verdicts[i : i+1]}
		if v := flag(&one, p.o.Monitors); v != nil {
			worst = max(worst, v.Score)
		}
	}
	return worst
}

// settle puts the best candidate in its place.
func (p *Filtered) settle(ctx context.Context, s *runtime.Step, v *runtime.Verdict, token decode.Token) (runtime.Action, error) {
	p.best = true
	best := p.tried[0]
	for _, t := range p.tried[1:] {
		if t.score < best.score {
			best = t
		}
	}
	if best.token == token {
		return p.otherwise(ctx, s)
	}
	return runtime.Action{Kind: runtime.Rewind, Rewind: 1, Force: []decode.Token{best.token},
		Reason: fmt.Sprintf("%s: the best of %d candidates has score %.4g", v.Monitor, len(p.tried), best.score)}, nil
}

func (p *Filtered) otherwise(ctx context.Context, s *runtime.Step) (runtime.Action, error) {
	if p.o.Otherwise == nil {
		return runtime.Action{}, nil
	}
	a, err := p.o.Otherwise.Decide(ctx, s)
	if err != nil {
		return a, errors.Join(errors.New("filtered policy: otherwise"), err)
	}
	if a.Kind == runtime.Rewind {
		p.tried = p.tried[:0] // the place is another one now
	}
	return a, nil
}

var _ runtime.Policy = (*Filtered)(nil)
