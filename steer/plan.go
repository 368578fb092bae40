package steer

import (
	"errors"
	"fmt"
	"slices"
)

// MaxInterventions bounds a plan, so that a plan from outside cannot make a
// step arbitrarily slow. One intervention on 1024 wide rows costs under 1 us.
const MaxInterventions = 256

// Plan is an ordered list of interventions. It is immutable and safe for
// concurrent use; two plans with equal fingerprints do the same. The nil plan
// is valid and does nothing.
type Plan struct {
	list   []Intervention
	full   uint64
	prefix uint64

	stops []stop // what to do where; see Edit
	sites []Site // of the stops
	gated bool

	scratch []scratch // for each intervention, nil but for Ascend
}

// NewPlan checks and copies the interventions, except value functions, which
// are shared. All faults are reported at
// once, each with the number of its intervention, counted from 0. Fields that
// an operation has no use for are not looked at.
func NewPlan(list ...Intervention) (*Plan, error) {
	var faults []error
	if len(list) > MaxInterventions {
		faults = append(faults, fmt.Errorf("plan has %d interventions, the limit is %d", len(list), MaxInterventions))
	}
	p := &Plan{list: make([]Intervention, len(list))}
	for i, iv := range list {
		for _, err := range iv.faults() {
			faults = append(faults, fmt.Errorf("intervention %d (%s at %s): %w", i, iv.Op, iv.Site, err))
		}
		if len(faults) == 0 {
			p.list[i] = iv.clone()
		}
	}
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	p.seal()
	return p, nil
}

// Len is the number of interventions.
func (p *Plan) Len() int {
	if p == nil {
		return 0
	}
	return len(p.list)
}

// At returns intervention i, sharing its slices: they must not be written to.
func (p *Plan) At(i int) *Intervention { return &p.list[i] }

// Fingerprint identifies what the plan does: 0 for a plan that does nothing,
// otherwise a hash (xxHash64) over every intervention with a dose other than 0.
func (p *Plan) Fingerprint() uint64 {
	if p == nil {
		return 0
	}
	return p.full
}

// PromptFingerprint is Fingerprint over the interventions that can act on
// prompt rows, so a plan that acts only on generated rows has 0 here. Prompt
// rows that were cached under two plans are interchangeable when these agree
// and the prompts were equally long: a window may count from the prompt's end.
func (p *Plan) PromptFingerprint() uint64 {
	if p == nil {
		return 0
	}
	return p.prefix
}

// Check reports every reason why the plan does not fit a model with the given
// number of blocks and residual width.
func (p *Plan) Check(layers, width int) error {
	var faults []error
	for i := range p.Len() {
		iv := p.At(i)
		if iv.Site.Layer >= layers {
			faults = append(faults, fmt.Errorf("intervention %d (%s at %s): the model has layers 0 to %d", i, iv.Op, iv.Site, layers-1))
		}
		if iv.Op == Ascend && iv.Ascent.Value.Width() != width {
			faults = append(faults, fmt.Errorf("intervention %d (%s at %s): the value function takes rows of %d, the model has %d", i, iv.Op, iv.Site, iv.Ascent.Value.Width(), width))
		}
		for _, v := range iv.vectors() {
			if len(v.values) != v.rows*width {
				faults = append(faults, fmt.Errorf("intervention %d (%s at %s): %s is %d wide, the model %d", i, iv.Op, iv.Site, v.name, len(v.values)/max(v.rows, 1), width))
			}
		}
	}
	return errors.Join(faults...)
}

func (iv *Intervention) clone() Intervention {
	c := *iv
	c.Vector, c.Toward = slices.Clone(iv.Vector), slices.Clone(iv.Toward)
	c.When.Tokens = slices.Clone(iv.When.Tokens)
	c.When.From, c.When.To = clonePtr(iv.When.From), clonePtr(iv.When.To)
	if c.Gate = clonePtr(iv.Gate); c.Gate != nil {
		c.Gate.Vector = slices.Clone(iv.Gate.Vector)
	}
	if c.Map = clonePtr(iv.Map); c.Map != nil {
		c.Map.Down, c.Map.Up = slices.Clone(iv.Map.Down), slices.Clone(iv.Map.Up)
	}
	c.Ascent = clonePtr(iv.Ascent)
	return c
}

func clonePtr[T any](p *T) *T {
	if p == nil {
		return nil
	}
	v := *p
	return &v
}
