package decode

import (
	"context"
	"math"
	"slices"
)

// Typical is locally typical sampling (Meister et al., arXiv:2202.00666). It
// ranks tokens by how close their surprise is to the entropy of the row and
// keeps the first ones whose probabilities add up to more than p, so always at
// least one. The most probable token may be among those it bans.
type Typical struct {
	stateless
	p     float32
	view  view
	probs []float32
}

// NewTypical returns a stage for 0 <= p <= 1; 1 keeps all.
func NewTypical(p float32) (*Typical, error) {
	if err := inRange("typical", p, 0, 1); err != nil {
		return nil, err
	}
	return &Typical{p: p}, nil
}

func (p *Typical) name() string { return "typical" }

// Process bans the untypical tokens. Cost: two sorts and a logarithm for every
// allowed token; put it behind a [TopK].
func (p *Typical) Process(ctx context.Context, l Logits) error { return run(ctx, p, &p.view, l) }

func (p *Typical) edit(_ context.Context, v *view) error {
	if p.p >= 1 {
		return nil
	}
	vals := v.values()
	keys, err := v.best(vals, len(vals))
	if err != nil || len(keys) == 0 {
		return err
	}
	h := p.softmax(vals, keys)
	v.order = v.order[:0]
	for i, q := range p.probs {
		score := float32(math.Abs(float64(-logf(q) - h)))
		v.order = append(v.order, uint64(ascending(score))<<32|uint64(uint32(i)))
	}
	slices.Sort(v.order)
	n, cum := 0, float32(0)
	for n < len(v.order) && !(cum > p.p) {
		cum += p.probs[uint32(v.order[n])]
		n++
	}
	v.pos = v.pos[:0]
	for _, o := range v.order[:n] {
		v.pos = append(v.pos, uint32(keys[uint32(o)]))
	}
	slices.Sort(v.pos)
	v.keep(v.pos)
	return nil
}

// softmax fills probs for the ranked keys and returns the entropy in nats. A
// probability that underflows to 0 adds nothing to it; llama.cpp's sum turns
// into NaN there.
func (p *Typical) softmax(vals []float32, keys []uint64) (entropy float32) {
	m := vals[uint32(keys[0])]
	p.probs = p.probs[:0]
	var sum float32
	for _, k := range keys {
		q := expf(vals[uint32(k)] - m)
		p.probs = append(p.probs, q)
		sum += q
	}
	for i, q := range p.probs {
		q /= sum
		p.probs[i] = q
		if q > 0 {
			entropy += float32(-q * logf(q))
		}
	}
	return entropy
}
