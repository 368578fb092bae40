package planfile

import (
	"errors"

	"github.com/trimtab/trimtab/steer"
)

// ascent is a steer.Ascent. Pointers tell "not given" from zero.
type ascent struct {
	Threshold *float32 `json:"threshold" yaml:"threshold"`
	Margin    float32  `json:"margin,omitempty" yaml:"margin,omitempty"`
	Radius    *float32 `json:"radius" yaml:"radius"`
	Absolute  bool     `json:"absolute,omitempty" yaml:"absolute,omitempty"`
	Steps     *whole   `json:"steps" yaml:"steps"`
	Always    bool     `json:"always,omitempty" yaml:"always,omitempty"`
	Value     *climbed `json:"value" yaml:"value"`
}

// climbed is a steer.Value.
type climbed struct {
	Kind   string  `json:"kind" yaml:"kind"`
	Norm   bool    `json:"norm,omitempty" yaml:"norm,omitempty"`
	Layers []dense `json:"layers" yaml:"layers"`
}

type dense struct {
	In     whole     `json:"in" yaml:"in"`
	Out    whole     `json:"out" yaml:"out"`
	Weight []float32 `json:"weight" yaml:"weight,flow"`
	Bias   []float32 `json:"bias" yaml:"bias,flow"`
}

func describeAscent(a *steer.Ascent) *ascent {
	d := &ascent{Threshold: &a.Threshold, Margin: a.Margin, Radius: &a.Radius, Absolute: a.Absolute,
		Steps: wholePtr(&a.Steps), Always: a.Always}
	if v := a.Value; v != nil {
		d.Value = &climbed{Kind: v.Kind.String(), Norm: v.Norm}
		for _, l := range v.Layers {
			d.Value.Layers = append(d.Value.Layers, dense{whole(l.In), whole(l.Out), l.Weight, l.Bias})
		}
	}
	return d
}

// ascent is judged by steer.NewPlan; here, only what it cannot see.
func (a *ascent) ascent() (*steer.Ascent, error) {
	var faults []error
	for _, f := range []struct {
		name  string
		given bool
	}{{"threshold", a.Threshold != nil}, {"radius", a.Radius != nil}, {"steps", a.Steps != nil}, {"value", a.Value != nil}} {
		if !f.given {
			faults = append(faults, errors.New(f.name+" is missing"))
		}
	}
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	kind, err := named("value", a.Value.Kind, steer.Linear)
	if err != nil {
		return nil, err
	}
	v := &steer.Value{Kind: kind, Norm: a.Value.Norm}
	for _, l := range a.Value.Layers {
		v.Layers = append(v.Layers, steer.Dense{In: int(l.In), Out: int(l.Out), Weight: l.Weight, Bias: l.Bias})
	}
	return &steer.Ascent{Value: v, Threshold: *a.Threshold, Margin: a.Margin, Radius: *a.Radius, Absolute: a.Absolute,
		Steps: int(*a.Steps), Always: a.Always}, nil
}
