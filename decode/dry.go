package decode

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
)

// DRYOptions are the dosages of [DRY].
type DRYOptions struct {
	// Multiplier scales the penalty, 0 to 100; 0 does nothing.
	Multiplier float32
	// Base is the growth per further repeated token, 0 to 100; below 1 the
	// stage does nothing.
	Base float32
	// AllowedLength is the length up to which a repetition is free, 0 to MaxWindow.
	AllowedLength int
	// LastN is how many of the last tokens are searched, 0 to MaxWindow; 0 does
	// nothing.
	LastN int
	// Breakers end repetitions. Nil for none.
	Breakers *Breakers
	// Prompt is the text before the first accepted token. Its end is searched
	// too; it cannot be rewound.
	Prompt []Token
}

func (o *DRYOptions) faults() error {
	return errors.Join(
		inRange("dry multiplier", o.Multiplier, 0, 100),
		inRange("dry base", o.Base, 0, 100),
		inCount("dry allowed length", o.AllowedLength),
		inCount("dry last-n", o.LastN))
}

func inCount(what string, n int) error {
	if n < 0 || n > MaxWindow {
		return fmt.Errorf("%s is %d, want 0 to %d", what, n, MaxWindow)
	}
	return nil
}

func (o *DRYOptions) neutral() bool { return o.Multiplier == 0 || o.Base < 1 || o.LastN == 0 }

// DRY penalises tokens that would extend a repetition of what came before,
// exponentially in its length: multiplier * base^(length - allowed length)
// (p-e-w, text-generation-webui pull request 5677; the linear search is
// pi6am's, koboldcpp pull request 982). The length counts the tokens before the
// new one. It remembers what [RewindLimit] says. Process is linear in LastN.
type DRY struct {
	o      DRYOptions
	past   history
	cap    int // largest exponent that base can have in float32, 0 for no cap
	suffix []int
	found  []uint64 // token << 32 | length
	view   view
}

// NewDRY checks the options; all faults are reported at once.
func NewDRY(o DRYOptions) (*DRY, error) {
	if err := o.faults(); err != nil {
		return nil, err
	}
	past, err := newHistory(o.LastN, o.Prompt)
	if err != nil {
		return nil, err
	}
	o.Prompt = nil
	return &DRY{o: o, past: past, cap: exponentCap(o.Base)}, nil
}

// exponentCap keeps base^n finite: the logarithm of the largest float32 over
// that of the base. Bases too near to 1 need none.
func exponentCap(base float32) int {
	if base <= 1.000001 {
		return 0
	}
	return int(88.7228391 / logf(base))
}

func (p *DRY) name() string { return "dry" }

// Process lowers the logits of the tokens that would extend a repetition.
func (p *DRY) Process(ctx context.Context, l Logits) error { return run(ctx, p, &p.view, l) }

func (p *DRY) edit(_ context.Context, v *view) error {
	past := p.past.last(p.o.LastN)
	if p.o.neutral() || len(past) <= p.o.AllowedLength {
		return nil
	}
	limit := p.reach(past)
	if limit < p.o.AllowedLength {
		return nil
	}
	p.repeats(past, limit)
	for i, f := range p.found {
		t, n := Token(f>>32), int(uint32(f))
		if i+1 < len(p.found) && Token(p.found[i+1]>>32) == t {
			continue // a longer one of the same token follows
		}
		if err := v.change(t, -p.penalty(n)); err != nil {
			return err
		}
	}
	return nil
}

// reach is how many of the last tokens stand after the newest breaker.
func (p *DRY) reach(past []Token) int {
	for i := range past {
		if n := p.o.Breakers.match(past, len(past)-1-i); n >= 0 {
			return i - n
		}
	}
	return len(past)
}

// repeats collects the tokens that followed an earlier copy of the text's end,
// each with the length of that copy, sorted.
func (p *DRY) repeats(past []Token, limit int) {
	p.suffixes(past)
	p.found = p.found[:0]
	for k := 1; k < len(past); k++ {
		n := min(p.suffix[k], limit)
		next := past[len(past)-k]
		if n >= p.o.AllowedLength && !p.o.Breakers.alone(next) {
			p.found = append(p.found, uint64(uint32(next))<<32|uint64(uint32(n)))
		}
	}
	slices.Sort(p.found)
}

// suffixes sets suffix[k] to the number of tokens that the text shares, from
// its end backwards, with itself less its last k tokens: the Z function of the
// reversed text (Gusfield, Algorithms on Strings, 1997, section 1.3).
func (p *DRY) suffixes(past []Token) {
	n := len(past)
	back := func(i int) Token { return past[n-1-i] }
	p.suffix = append(slices.Grow(p.suffix[:0], n), 0)
	lo, hi := 0, 0 // the known match that reaches furthest: [lo,hi) equals [0,hi-lo)
	for k := 1; k < n; k++ {
		z := 0
		if k < hi {
			z = min(p.suffix[k-lo], hi-k)
		}
		for k+z < n && back(z) == back(k+z) {
			z++
		}
		p.suffix = append(p.suffix, z)
		if k+z > hi {
			lo, hi = k, k+z
		}
	}
}

// penalty is what a copy of n tokens costs, at most the largest float32.
func (p *DRY) penalty(n int) float32 {
	e := n - p.o.AllowedLength
	if p.cap > 0 {
		e = min(e, p.cap)
	}
	y := float64(p.o.Multiplier) * math.Pow(float64(p.o.Base), float64(e))
	return float32(min(y, math.MaxFloat32))
}

// Accept appends t to the text.
func (p *DRY) Accept(t Token) error { return p.past.accept(t) }

// Rewind takes the last n tokens off the text. See [RewindLimit] for its bound.
func (p *DRY) Rewind(n int) error { return p.past.rewind(n) }
