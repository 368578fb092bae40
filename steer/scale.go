package steer

import "math"

// Scaled is the plan with every dose multiplied by f: what a controller uses to
// lower the dose of a plan without building another. The factor is limited to
// [0,1], and NaN counts as 0.
//
// With 1 it is the plan itself. With 0 its fingerprint is 0 and it does exactly
// nothing. In between it is another plan, with the fingerprint that a plan of
// those doses has from the start: half the dose adds half the vector, projects
// out half of a direction, goes half of the way to a value and turns by half
// of the angle. Conditions, schedules, gates and groups stay, but an
// intervention whose dose underflows no longer claims its group.
//
// The vectors are shared, not copied; the fingerprint is computed anew, which
// costs about 0.1 ms per MB of them.
func (p *Plan) Scaled(f float64) *Plan {
	f = math.Min(math.Max(f, 0), 1)
	if p == nil || f == 1 {
		return p
	}
	if math.IsNaN(f) {
		f = 0
	}
	q := &Plan{list: make([]Intervention, len(p.list))}
	for i := range p.list {
		q.list[i] = p.list[i]
		q.list[i].Scale = float32(float64(p.list[i].Scale) * f)
	}
	q.seal()
	return q
}

// seal computes what follows from the list.
func (p *Plan) seal() {
	p.full = fingerprint(p.list, func(*Intervention) bool { return true })
	p.prefix = fingerprint(p.list, (*Intervention).actsOnPrompt)
	p.compile()
}
