package steer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/cespare/xxhash/v2"
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
}

// NewPlan checks and copies the interventions. All faults are reported at
// once, each with the number of its intervention, counted from 0.
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
		p.list[i] = iv.clone()
	}
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	p.full = fingerprint(p.list, func(*Intervention) bool { return true })
	p.prefix = fingerprint(p.list, func(iv *Intervention) bool { return iv.When.actsOnPrompt() })
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
		if len(iv.Vector) != width {
			faults = append(faults, fmt.Errorf("intervention %d (%s at %s): vector is %d wide, the model %d", i, iv.Op, iv.Site, len(iv.Vector), width))
		}
	}
	return errors.Join(faults...)
}

func (iv *Intervention) clone() Intervention {
	c := *iv
	c.Vector = slices.Clone(iv.Vector)
	c.When.Tokens = slices.Clone(iv.When.Tokens)
	c.When.From, c.When.To = clonePtr(iv.When.From), clonePtr(iv.When.To)
	return c
}

func clonePtr(p *int) *int {
	if p == nil {
		return nil
	}
	v := *p
	return &v
}

func (iv *Intervention) faults() (faults []error) {
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if iv.Site.Layer < 0 {
		fault("layer %d is negative", iv.Site.Layer)
	}
	if iv.Site.Point != ResidPost {
		fault("unknown point %d", uint8(iv.Site.Point))
	}
	if !iv.Op.Known() {
		fault("unknown operation %d", uint8(iv.Op))
	}
	if !finite(iv.Scale) {
		fault("scale is %v", iv.Scale)
	}
	if iv.Op == Clamp && !(iv.Min <= iv.Max) {
		fault("clamp range [%v,%v] is empty", iv.Min, iv.Max)
	}
	if f, t := iv.When.From, iv.When.To; f != nil && t != nil && *f >= *t {
		fault("window [%d,%d) is empty, the plan would do nothing", *f, *t)
	}
	nonzero := false
	for i, x := range iv.Vector {
		if !finite(x) {
			fault("vector[%d] is %v", i, x)
			return faults
		}
		nonzero = nonzero || x != 0
	}
	if !nonzero {
		fault("vector is empty or all zero, the plan would do nothing")
	}
	return faults
}

func finite(x float32) bool { return x-x == 0 }

func fingerprint(list []Intervention, keep func(*Intervention) bool) uint64 {
	d := xxhash.New()
	acts := false
	buf := make([]byte, 0, 4096)
	num := func(v uint64) { buf = binary.LittleEndian.AppendUint64(buf, v) }
	bound := func(p *int) {
		if p == nil {
			num(0)
			return
		}
		num(1)
		num(uint64(*p))
	}
	for i := range list {
		iv := &list[i]
		if iv.Scale == 0 || !keep(iv) {
			continue
		}
		acts = true
		num(uint64(iv.Site.Layer))
		num(uint64(iv.Site.Point))
		num(uint64(iv.Op))
		num(uint64(math.Float32bits(iv.Scale)))
		num(uint64(math.Float32bits(iv.Min)))
		num(uint64(math.Float32bits(iv.Max)))
		if iv.Renorm {
			num(1)
		} else {
			num(0)
		}
		bound(iv.When.From)
		bound(iv.When.To)
		num(uint64(iv.When.Phases))
		num(uint64(len(iv.When.Tokens)))
		for _, t := range iv.When.Tokens {
			num(uint64(uint32(t)))
		}
		num(uint64(len(iv.Vector)))
		for _, x := range iv.Vector {
			buf = binary.LittleEndian.AppendUint32(buf, math.Float32bits(x))
		}
		d.Write(buf)
		buf = buf[:0]
	}
	if !acts {
		return 0
	}
	return d.Sum64() | 1 // never 0, which means "does nothing"
}
