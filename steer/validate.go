package steer

import (
	"errors"
	"fmt"
	"math"

	"github.com/trimtab/trimtab/internal/vec"
)

// Bounds of what an edit may divide by.
const (
	minNorm  = 1e-12 // a shorter vector has no direction in float32
	minAngle = 1e-3  // radians between two vectors that span a plane
)

// faults are all reasons why the intervention makes no sense on any model.
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
	if f, t := iv.When.From, iv.When.To; f != nil && t != nil && *f >= *t {
		fault("window [%d,%d) is empty, the plan would do nothing", *f, *t)
	}
	if p := iv.When.Phases; p>>len(phaseNames) != 0 {
		fault("unknown phases %#x", uint8(p))
	}
	if iv.Group < 0 || iv.Group > MaxInterventions {
		fault("group %d, want 0 to %d", iv.Group, MaxInterventions)
	}
	faults = append(faults, iv.Schedule.faults()...)
	if iv.Gate != nil {
		faults = append(faults, iv.Gate.faults(iv.Site)...)
	}
	return append(faults, iv.operands()...)
}

// operands checks what the operation works with.
func (iv *Intervention) operands() (faults []error) {
	for _, v := range iv.vectors() {
		if err := checkValues(v.name, v.values); err != nil {
			faults = append(faults, err)
		}
	}
	if len(faults) > 0 {
		return faults
	}
	if iv.Op == Affine {
		return iv.affineFaults()
	}
	if iv.Op == Ascend {
		return iv.Ascent.faults(iv.Scale, &iv.Schedule)
	}
	norm := vec.Norm(iv.Vector)
	if norm == 0 {
		return []error{errors.New("vector is empty or all zero, the plan would do nothing")}
	}
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if iv.Op == Add {
		if k := iv.Schedule.peak() * float64(iv.Scale); math.Abs(k*norm) > math.MaxFloat32 {
			fault("dose %.3g times a vector of norm %.3g overflows", k, norm)
		}
	} else if norm < minNorm {
		fault("vector has norm %.3g, too short to have a direction", norm)
	}
	switch iv.Op {
	case Clamp:
		if !(iv.Min <= iv.Max) {
			fault("clamp range [%v,%v] is empty", iv.Min, iv.Max)
		}
	case Replace:
		if !finite(iv.Value) {
			fault("value is %v", iv.Value)
		}
	case Rotate:
		if err := checkPlane(iv.Vector, iv.Toward); err != nil {
			fault("%w", err)
		}
	}
	return faults
}

func checkPlane(v, w []float32) error {
	if len(v) != len(w) {
		return fmt.Errorf("vector is %d wide, toward %d", len(v), len(w))
	}
	_, along, rest := plane(v, w)
	if rest < minNorm || math.Atan2(rest, math.Abs(along)) < minAngle {
		return errors.New("vector and toward are parallel, they span no plane")
	}
	return nil
}

func (iv *Intervention) affineFaults() (faults []error) {
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	m := iv.Map
	if m == nil {
		return []error{errors.New("affine has no map")}
	}
	if m.Rank < 1 || m.Rank > MaxRank {
		return []error{fmt.Errorf("rank %d, want 1 to %d", m.Rank, MaxRank)}
	}
	if len(m.Up) == 0 || len(m.Up)%m.Rank != 0 || len(m.Down) != len(m.Up) {
		return []error{fmt.Errorf("down holds %d values and up %d, want two times rank %d rows of the width", len(m.Down), len(m.Up), m.Rank)}
	}
	if n := len(iv.Vector); n != 0 && n != len(m.Up)/m.Rank {
		fault("vector is %d wide, the map %d", n, len(m.Up)/m.Rank)
	}
	if (vec.Norm(m.Up) == 0 || vec.Norm(m.Down) == 0) && vec.Norm(iv.Vector) == 0 {
		fault("the map and the vector are zero, the plan would do nothing")
	}
	return faults
}

// operand is one field that must fit the model's width.
type operand struct {
	name   string
	values []float32
	rows   int
}

// vectors lists the operands that the operation uses.
func (iv *Intervention) vectors() []operand {
	var list []operand
	if iv.Op != Ascend && (iv.Op != Affine || len(iv.Vector) > 0) {
		list = append(list, operand{"vector", iv.Vector, 1})
	}
	if iv.Op == Rotate {
		list = append(list, operand{"toward", iv.Toward, 1})
	}
	if iv.Op == Affine && iv.Map != nil {
		list = append(list, operand{"map down", iv.Map.Down, iv.Map.Rank}, operand{"map up", iv.Map.Up, iv.Map.Rank})
	}
	if iv.Gate != nil {
		list = append(list, operand{"gate vector", iv.Gate.Vector, 1})
	}
	return list
}

func checkValues(name string, values []float32) error {
	for i, x := range values {
		if !finite(x) {
			return fmt.Errorf("%s[%d] is %v", name, i, x)
		}
	}
	return nil
}

func finite(x float32) bool { return x-x == 0 }
