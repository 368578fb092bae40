package policy

import (
	"errors"
	"fmt"
	"math"

	"github.com/trimtab/trimtab/steer"
)

// Strength says how the dose of a plan follows what happens (arXiv 2509.23441).
// Zero fields mean their defaults. Doses are multiples of the plan's own.
type Strength struct {
	First  float64 // of the first intervention; default 1
	Grow   float64 // factor for a violation while the plan is on; at least 1, default 1.5
	Most   float64 // the highest; default 3, or First where the plan does more than add
	Shrink float64 // factor for every safe token; default 0.9, 1 to keep the dose
	Least  float64 // below it the plan is taken off; default 0.05
}

func (s Strength) filled(p *steer.Plan) Strength {
	set := func(p *float64, v float64) {
		if *p == 0 {
			*p = v
		}
	}
	set(&s.First, 1)
	set(&s.Grow, 1.5)
	most := max(3, s.First)
	for i := range p.Len() {
		if p.At(i).Op != steer.Add {
			most = s.First // twice a projection is none
		}
	}
	set(&s.Most, most)
	set(&s.Shrink, 0.9)
	set(&s.Least, 0.05)
	return s
}

func (s *Strength) faults() error {
	var faults []error
	check := func(what string, x, lo, hi float64) {
		if !(x >= lo && x <= hi) {
			faults = append(faults, fmt.Errorf("strength: %s %v, must be %v to %v", what, x, lo, hi))
		}
	}
	check("most", s.Most, s.First, math.MaxFloat32)
	check("first", s.First, s.Least, math.MaxFloat32)
	check("grow", s.Grow, 1, 1e3)
	check("shrink", s.Shrink, 1e-3, 1)
	check("least", s.Least, 1e-6, math.MaxFloat32)
	return errors.Join(faults...)
}

// dose is a plan whose strength changes with the text.
type dose struct {
	most, base *steer.Plan // most is the plan at the highest dose, nil for none
	rule       Strength
	now        float64 // 0 when the plan is off
}

func newDose(p, base *steer.Plan, s Strength) (dose, error) {
	d := dose{base: base, rule: s.filled(p)}
	if err := d.rule.faults(); err != nil || p.Len() == 0 {
		return d, err
	}
	list := make([]steer.Intervention, p.Len())
	for i := range list {
		list[i] = *p.At(i)
		list[i].Scale *= float32(d.rule.Most)
	}
	var err error
	if d.most, err = steer.NewPlan(list...); err == nil {
		_, err = steer.Stack(base, d.most)
	}
	if err != nil {
		return d, fmt.Errorf("strength: plan at %v times its dose: %w", d.rule.Most, err)
	}
	return d, nil
}

// violated is the plan after a violation.
func (d *dose) violated() (*steer.Plan, error) {
	if d.most == nil {
		return nil, nil
	}
	if d.now == 0 {
		d.now = d.rule.First
	} else {
		d.now = min(d.now*d.rule.Grow, d.rule.Most)
	}
	return d.at()
}

// safe is the plan after a token that nothing was said against, nil for no change.
func (d *dose) safe() (*steer.Plan, error) {
	if d.now == 0 || d.rule.Shrink == 1 {
		return nil, nil
	}
	if d.now *= d.rule.Shrink; d.now < d.rule.Least {
		d.now = 0
	}
	return d.at()
}

func (d *dose) at() (*steer.Plan, error) {
	if d.now == 0 {
		return steer.Stack(d.base)
	}
	return steer.Stack(d.base, d.most.Scaled(d.now/d.rule.Most))
}
