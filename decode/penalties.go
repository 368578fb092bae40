package decode

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// MaxWindow bounds the number of past tokens that penalties look at.
const MaxWindow = 1 << 16

// PenaltyOptions are the dosages of [Penalties].
type PenaltyOptions struct {
	// LastN is how many of the last tokens count, 0 to MaxWindow; 0 does nothing.
	LastN int
	// Repeat divides positive logits and multiplies others (Keskar et al.,
	// arXiv:1909.05858, in the form that penalises negative logits too): 0.01
	// to 100, 1 does nothing.
	Repeat float32
	// Frequency is subtracted once per occurrence and Presence once, as the
	// OpenAI API defines them: -100 to 100, 0 does nothing.
	Frequency, Presence float32
	// Prompt is the text before the first accepted token. Its end counts as
	// past tokens; it cannot be rewound.
	Prompt []Token
}

func (o *PenaltyOptions) faults() error {
	var window error
	if o.LastN < 0 || o.LastN > MaxWindow {
		window = fmt.Errorf("last-n is %d, want 0 to %d", o.LastN, MaxWindow)
	}
	return errors.Join(window,
		inRange("repeat penalty", o.Repeat, 0.01, 100),
		inRange("frequency penalty", o.Frequency, -100, 100),
		inRange("presence penalty", o.Presence, -100, 100))
}

func (o *PenaltyOptions) neutral() bool {
	return o.LastN == 0 || o.Repeat == 1 && o.Frequency == 0 && o.Presence == 0
}

// Penalties makes tokens less likely that occur among the last ones. It
// remembers what [RewindLimit] says. Accept and Rewind cost a search in the
// window's distinct tokens for each token, Process one step per distinct token.
type Penalties struct {
	o      PenaltyOptions
	past   history
	counts []tokenCount // the window's distinct tokens, ascending
	view   view
}

type tokenCount struct {
	token Token
	n     int32
}

// NewPenalties checks the options; all faults are reported at once.
func NewPenalties(o PenaltyOptions) (*Penalties, error) {
	if err := o.faults(); err != nil {
		return nil, err
	}
	past, err := newHistory(o.LastN, o.Prompt)
	if err != nil {
		return nil, err
	}
	o.Prompt = nil
	p := &Penalties{o: o, past: past}
	p.recount()
	return p, nil
}

func (p *Penalties) name() string { return "penalties" }

// Process lowers the logits of the tokens in the window. A token there that
// the row is too narrow for is an error.
func (p *Penalties) Process(ctx context.Context, l Logits) error { return run(ctx, p, &p.view, l) }

func (p *Penalties) edit(_ context.Context, v *view) error {
	if p.o.neutral() {
		return nil
	}
	for _, c := range p.counts {
		if int(c.token) >= len(v.row) {
			return fmt.Errorf("past token %d is outside the row of %d", c.token, len(v.row))
		}
		if x := v.row[c.token]; x != negInf {
			v.row[c.token] = finite(x, p.lower(x, c.n))
		}
	}
	return nil
}

// lower is the logit of a token that occurs n times.
func (p *Penalties) lower(x float32, n int32) float32 {
	if x <= 0 {
		x *= p.o.Repeat
	} else {
		x /= p.o.Repeat
	}
	return x - float32(float32(float32(n)*p.o.Frequency)+p.o.Presence)
}

// Accept moves the window on by t.
func (p *Penalties) Accept(t Token) error {
	if err := p.past.accept(t); err != nil {
		return err
	}
	p.count(t, 1)
	if old, ok := p.past.leaving(); ok {
		p.count(old, -1)
	}
	return nil
}

// Rewind moves the window back by n tokens. See [RewindLimit] for its bound.
func (p *Penalties) Rewind(n int) error {
	if err := p.past.canRewind(n); err != nil {
		return err
	}
	if n > 2*p.o.LastN { // nothing of the window stays
		p.past.toks = p.past.toks[:len(p.past.toks)-n]
		p.recount()
		return nil
	}
	for range n {
		if old, ok := p.past.leaving(); ok {
			p.count(old, 1)
		}
		last := len(p.past.toks) - 1
		p.count(p.past.toks[last], -1)
		p.past.toks = p.past.toks[:last]
	}
	return nil
}

func (p *Penalties) recount() {
	p.counts = p.counts[:0]
	for _, t := range p.past.last(p.o.LastN) {
		p.count(t, 1)
	}
}

func (p *Penalties) count(t Token, d int32) {
	i, found := slices.BinarySearchFunc(p.counts, t, func(c tokenCount, t Token) int { return int(c.token) - int(t) })
	if !found {
		p.counts = slices.Insert(p.counts, i, tokenCount{token: t})
	}
	p.counts[i].n += d
	if p.counts[i].n == 0 {
		p.counts = slices.Delete(p.counts, i, i+1)
	}
}
