package sweep

import (
	"errors"
	"fmt"
	"slices"

	"github.com/trimtab/trimtab/steer"
	"github.com/trimtab/trimtab/steer/extract"
)

// Arm is one way to steer that is measured. The first of a sweep is the
// unsteered model, whose expression is empty.
type Arm struct {
	Expression string
	Dose       float64
	Layer      *int // nil: the blocks of the expression
	Plan       *steer.Plan
}

// MaxArms bounds a sweep.
const MaxArms = 256

// ErrFixed: no term of the expression leaves its dose open.
var ErrFixed = errors.New("every term names its dose, none is left to sweep")

// Arms makes the ways to steer: the terms of e without a dose get each of the
// doses, in turn at each of the layers if there are any. Without doses they are
// shares of the vector's own. The unsteered model comes first; where nothing
// else is in e, dose 0 is that, and is not repeated.
func Arms(e *steer.Expr, vectors map[string]*steer.Vector, doses []float64, layers []int) ([]Arm, error) {
	open, err := openTerms(e, layers)
	if err != nil {
		return nil, err
	}
	if len(doses) == 0 {
		doses = defaultDoses(e, open, vectors)
	}
	doses = slices.Compact(slices.Sorted(slices.Values(doses)))
	where := []*int{nil}
	if len(layers) > 0 {
		where = nil
		for _, l := range layers {
			where = append(where, &l)
		}
	}
	arms := []Arm{{}}
	for _, layer := range where {
		for _, dose := range doses {
			if dose == 0 && len(open) == len(e.Terms) {
				continue
			}
			if len(arms) == MaxArms {
				return nil, fmt.Errorf("%d doses at %d places: the limit is %d ways to steer", len(doses), len(where), MaxArms)
			}
			a, err := newArm(e, open, vectors, dose, layer)
			if err != nil {
				return nil, err
			}
			arms = append(arms, a)
		}
	}
	if len(arms) == 1 {
		return nil, errors.New("there is no dose but 0, so nothing is steered")
	}
	return arms, nil
}

// openTerms are the numbers of the terms that are swept.
func openTerms(e *steer.Expr, layers []int) ([]int, error) {
	var open []int
	for i := range e.Terms {
		t := &e.Terms[i]
		if t.Dose != nil {
			continue
		}
		if len(layers) > 0 && t.Layers != nil {
			return nil, fmt.Errorf("%s names its blocks, so they cannot be swept too", t.Name)
		}
		open = append(open, i)
	}
	if len(open) == 0 {
		return nil, ErrFixed
	}
	return open, nil
}

// defaultDoses surround the dose that a vector was calibrated to.
func defaultDoses(e *steer.Expr, open []int, vectors map[string]*steer.Vector) []float64 {
	if v := vectors[e.Terms[open[0]].Name]; len(open) == 1 && v != nil && v.Dose != 0 {
		var doses []float64
		for _, share := range []float64{0.25, 0.5, 0.75, 1, 1.5, 2, 3} {
			doses = append(doses, share*float64(v.Dose))
		}
		return doses
	}
	return extract.Doses()
}

func newArm(e *steer.Expr, open []int, vectors map[string]*steer.Vector, dose float64, layer *int) (Arm, error) {
	mine := &steer.Expr{Terms: slices.Clone(e.Terms)}
	d := float32(dose)
	for _, i := range open {
		mine.Terms[i].Dose = &d
		if layer != nil {
			mine.Terms[i].Layers = []steer.LayerRange{{First: *layer, Last: *layer}}
		}
	}
	p, err := mine.Plan(vectors)
	if err != nil {
		return Arm{}, fmt.Errorf("%s: %w", mine, err)
	}
	return Arm{mine.String(), dose, layer, p}, nil
}
