package decode

import "context"

// Temperature divides logits by t: below 1 sharpens the distribution, above 1
// flattens it. At 0 only the best token stays, with its logit; among equals
// the lowest.
type Temperature struct {
	stateless
	t    float32
	view view
}

// MaxTemperature bounds a temperature: far above it every distribution is flat.
const MaxTemperature = 100

// NewTemperature returns a stage for 0 <= t <= MaxTemperature; 1 does nothing.
func NewTemperature(t float32) (*Temperature, error) {
	if err := inRange("temperature", t, 0, MaxTemperature); err != nil {
		return nil, err
	}
	return &Temperature{t: t}, nil
}

func (p *Temperature) name() string { return "temperature" }

// Process scales the row. Cost: a division for every allowed token.
func (p *Temperature) Process(ctx context.Context, l Logits) error { return run(ctx, p, &p.view, l) }

func (p *Temperature) edit(_ context.Context, v *view) error {
	if p.t == 1 {
		return nil
	}
	vals := v.values()
	m, err := v.peak(vals)
	if err != nil || m == negInf {
		return err
	}
	if p.t == 0 {
		v.keepFirst(vals, m)
		return nil
	}
	v.divide(vals, p.shift(m))
	return nil
}

// keepFirst keeps the first token whose value is m.
func (v *view) keepFirst(vals []float32, m float32) {
	for j, x := range vals {
		if x == m {
			v.pos = append(v.pos[:0], uint32(j))
			v.keep(v.pos)
			return
		}
	}
}

// scale is x -> (x - shift) / t.
type scale struct{ shift, t float32 }

// shift is the plain division, unless that would push the best logit m past
// the largest float32: then the best becomes 0, which is the same distribution.
func (p *Temperature) shift(m float32) scale {
	if y := m / p.t; y-y != 0 {
		return scale{m, p.t}
	}
	return scale{0, p.t}
}

func (v *view) divide(vals []float32, s scale) {
	if v.listed {
		for j, x := range vals {
			v.row[v.ids[j]] = (x - s.shift) / s.t
		}
		return
	}
	for j, x := range v.row {
		v.row[j] = (x - s.shift) / s.t
	}
}
