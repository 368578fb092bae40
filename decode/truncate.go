package decode

import (
	"context"
	"fmt"
)

// The truncating stages follow llama.cpp v0.5.0 (src/llama-sampler.cpp) with
// min_keep 1, in float32 where it computes in float32. Where it leaves the
// order of equal logits to an unstable sort, the lower token ranks first here.

// TopK keeps the k tokens with the largest logits. Among equal logits the
// lower tokens stay.
type TopK struct {
	stateless
	k    int
	view view
}

// NewTopK returns a stage that keeps k tokens; k <= 0 keeps all.
func NewTopK(k int) *TopK { return &TopK{k: k} }

func (p *TopK) name() string { return "top-k" }

// Process bans all but the k best. Cost: one scan of the row.
func (p *TopK) Process(ctx context.Context, l Logits) error { return run(ctx, p, &p.view, l) }

func (p *TopK) edit(_ context.Context, v *view) error {
	if p.k <= 0 {
		return nil
	}
	keys, err := v.best(v.values(), p.k)
	if err != nil {
		return err
	}
	v.keepKeys(keys)
	return nil
}

// TopP is nucleus sampling (Holtzman et al., arXiv:1904.09751): it keeps the
// smallest set of best tokens whose probabilities add up to at least p, so
// always at least one.
type TopP struct {
	stateless
	p    float32
	view view
}

// NewTopP returns a stage for 0 <= p <= 1; 1 keeps all, 0 only the best token.
func NewTopP(p float32) (*TopP, error) {
	if err := inRange("top-p", p, 0, 1); err != nil {
		return nil, err
	}
	return &TopP{p: p}, nil
}

func (p *TopP) name() string { return "top-p" }

// Process bans all tokens outside the nucleus. Cost: an exponential per
// allowed token, and a sort of about as many tokens as stay.
func (p *TopP) Process(ctx context.Context, l Logits) error { return run(ctx, p, &p.view, l) }

func (p *TopP) edit(_ context.Context, v *view) error {
	if p.p >= 1 {
		return nil
	}
	vals := v.values()
	m, err := v.peak(vals)
	if err != nil || m == negInf {
		return err
	}
	sum := expSum(vals, m)
	// The nucleus is small as a rule, so rank a few first and more on demand.
	for k := 256; ; k *= 8 {
		keys, err := v.best(vals, k)
		if err != nil {
			return err
		}
		n, full := p.nucleus(vals, keys, m, sum)
		if full || len(keys) < k {
			v.keepKeys(keys[:n])
			return nil
		}
	}
}

// nucleus is how many of the ranked keys it takes to reach p, and whether they
// reached it.
func (p *TopP) nucleus(vals []float32, keys []uint64, m, sum float32) (int, bool) {
	var cum float32
	for i, k := range keys {
		cum += expf(vals[uint32(k)]-m) / sum
		if cum >= p.p {
			return i + 1, true
		}
	}
	return len(keys), false
}

// MinP keeps the tokens at least p times as probable as the best one
// (Nguyen et al., arXiv:2407.01082).
type MinP struct {
	stateless
	p    float32
	view view
}

// NewMinP returns a stage for 0 <= p <= 1; 0 keeps all, 1 only the best and
// its equals.
func NewMinP(p float32) (*MinP, error) {
	if err := inRange("min-p", p, 0, 1); err != nil {
		return nil, err
	}
	return &MinP{p: p}, nil
}

func (p *MinP) name() string { return "min-p" }

// Process bans all less probable tokens. Cost: two scans.
func (p *MinP) Process(ctx context.Context, l Logits) error { return run(ctx, p, &p.view, l) }

func (p *MinP) edit(_ context.Context, v *view) error {
	if p.p <= 0 {
		return nil
	}
	vals := v.values()
	m, err := v.peak(vals)
	if err != nil || m == negInf {
		return err
	}
	v.keepAtLeast(vals, m+logf(p.p))
	return nil
}

func inRange(what string, x, lo, hi float32) error {
	if !(x >= lo && x <= hi) { // also true for NaN
		return fmt.Errorf("%s is %v, want %v to %v", what, x, lo, hi)
	}
	return nil
}
