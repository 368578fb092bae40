package decode

import (
	"context"
	"errors"
)

// XTC excludes top choices: with some probability it bans every token that
// reaches the threshold except the least probable of them, so that a step takes
// an unusual turn where several are good (p-e-w, text-generation-webui pull
// request 6335). At least one token always stays.
//
// The draw is a function of the seed and of the number of tokens accepted, so
// a rewound step draws the same again.
type XTC struct {
	probability float32
	threshold   float32
	seed        uint64
	accepted    int
	view        view
}

// NewXTC returns a stage that acts in the given share of steps, 0 to 1, on
// tokens with at least the threshold's probability, 0 to 1. Above 0.5 the
// threshold cannot be reached twice and the stage does nothing.
func NewXTC(probability, threshold float32, seed uint64) (*XTC, error) {
	err := errors.Join(
		inRange("xtc probability", probability, 0, 1),
		inRange("xtc threshold", threshold, 0, 1))
	if err != nil {
		return nil, err
	}
	return &XTC{probability: probability, threshold: threshold, seed: seed}, nil
}

func (p *XTC) name() string { return "xtc" }

// Process bans the top choices if this step's draw says so. Cost then: an
// exponential per allowed token.
func (p *XTC) Process(ctx context.Context, l Logits) error { return run(ctx, p, &p.view, l) }

func (p *XTC) edit(_ context.Context, v *view) error {
	if p.probability <= 0 || p.threshold > 0.5 {
		return nil
	}
	vals := v.values()
	m, err := v.peak(vals)
	if err != nil || m == negInf || p.chance() > p.probability {
		return err
	}
	p.exclude(v, vals, m)
	return nil
}

// exclude bans all tokens that reach the threshold but the last in rank.
func (p *XTC) exclude(v *view, vals []float32, m float32) {
	sum := expSum(vals, m)
	last := -1
	for j, x := range vals {
		if x == negInf || expf(x-m)/sum < p.threshold {
			continue
		}
		if last >= 0 && x > vals[last] {
			v.row[v.token(uint32(j))] = negInf
			continue
		}
		if last >= 0 {
			v.row[v.token(uint32(last))] = negInf
		}
		last = j
	}
}

// chance is uniform in [0,1) with 24 bits.
func (p *XTC) chance() float32 {
	return float32(mix(p.seed^mix(uint64(p.accepted)))>>40) / (1 << 24)
}

// mix is the finaliser of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// Accept moves on to the next draw.
func (p *XTC) Accept(t Token) error { return count(&p.accepted, t) }

// Rewind goes back n draws; more than were accepted is an error.
func (p *XTC) Rewind(n int) error { return uncount(&p.accepted, n) }
