package decode

import (
	"context"
	"math"
)

// TopNSigma keeps the tokens within n standard deviations of the best logit
// (Tang et al., arXiv:2411.07641). The deviation is taken over all allowed
// tokens. Unlike the other truncations it does not depend on a temperature
// applied before.
type TopNSigma struct {
	stateless
	n    float32
	view view
}

// NewTopNSigma returns a stage for n <= 100 standard deviations; n <= 0 keeps
// all.
func NewTopNSigma(n float32) (*TopNSigma, error) {
	if err := inRange("top-n-sigma", n, -1, 100); err != nil {
		return nil, err
	}
	return &TopNSigma{n: n}, nil
}

func (p *TopNSigma) name() string { return "top-n-sigma" }

// Process bans all tokens further from the best. Cost: four scans.
func (p *TopNSigma) Process(ctx context.Context, l Logits) error { return run(ctx, p, &p.view, l) }

func (p *TopNSigma) edit(_ context.Context, v *view) error {
	if p.n <= 0 {
		return nil
	}
	vals := v.values()
	m, err := v.peak(vals)
	if err != nil || m == negInf {
		return err
	}
	v.keepAtLeast(vals, m-float32(p.n*deviation(vals)))
	return nil
}

// deviation is the population standard deviation of the allowed values. Sums
// are rounded to float32 at each step, as llama.cpp's are.
func deviation(vals []float32) float32 {
	var sum, n float32
	for _, x := range vals {
		if x != negInf {
			sum += x
			n++
		}
	}
	mean := sum / n
	var acc float32
	for _, x := range vals {
		if x != negInf {
			d := float64(x - mean)
			acc = float32(float64(acc) + float64(d*d))
		}
	}
	return float32(math.Sqrt(float64(acc / n)))
}
