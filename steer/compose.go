package steer

import (
	"errors"
	"fmt"
	"math"

	"github.com/trimtab/trimtab/internal/vec"
)

// Stack joins plans into one in which every one of them acts, in the given
// order: at one site, each on what those before it left. Nil plans are skipped.
// At most one of the plans may have groups.
func Stack(plans ...*Plan) (*Plan, error) {
	var list []Intervention
	grouped := 0
	for _, p := range plans {
		has := 0
		for i := range p.Len() {
			list = append(list, *p.At(i))
			if p.At(i).Group != 0 {
				has = 1
			}
		}
		grouped += has
	}
	if grouped > 1 {
		return nil, fmt.Errorf("stack: %d of the plans have groups, which would mix: prioritise them in one go", grouped)
	}
	return NewPlan(list...)
}

// Prioritise joins plans into one in which, at each site, a row is edited by
// one plan only: the first of them that has a dose and an open gate for it.
// The plans must not have groups already.
func Prioritise(plans ...*Plan) (*Plan, error) {
	var list []Intervention
	for k, p := range plans {
		for i := range p.Len() {
			iv := *p.At(i)
			if iv.Group != 0 {
				return nil, fmt.Errorf("prioritise: intervention %d of plan %d is in group %d already", i, k, iv.Group)
			}
			iv.Group = k + 1
			list = append(list, iv)
		}
	}
	return NewPlan(list...)
}

// CosinePair says how alike the vectors of two interventions of a plan are: 1
// for the same direction, 0 for none in common, -1 for opposites. Near 1 the
// doses add up; near -1 one undoes the other; projecting one out takes the
// square of it from the other's effect.
type CosinePair struct {
	A, B   int // numbers of the interventions, A < B
	Cosine float64
}

// Cosines reports on every pair of interventions that have vectors of equal
// width, at whatever sites: what one block adds, a later one can undo. The
// vector b of an affine map is left out, and ascents have none.
func (p *Plan) Cosines() []CosinePair {
	var pairs []CosinePair
	norms := make([]float64, p.Len())
	for b := range p.Len() {
		y := p.At(b)
		if y.Op == Affine || y.Op == Ascend {
			continue
		}
		norms[b] = vec.Norm(y.Vector)
		for a := range b {
			x := p.At(a)
			if x.Op == Affine || x.Op == Ascend || len(x.Vector) != len(y.Vector) {
				continue
			}
			pairs = append(pairs, CosinePair{a, b, vec.Dot(x.Vector, y.Vector) / (norms[a] * norms[b])})
		}
	}
	return pairs
}

// minRest is how much of a vector must be left after orthogonalisation,
// relative to its length. Less is mostly rounding.
const minRest = 1e-3

// Orthogonalise returns the interventions of all groups in order, with vectors
// that have no component along any vector of an earlier group (Gram-Schmidt),
// so that no group adds to, undoes or removes what another does. Vectors of one
// group, such as one concept at several blocks, are left as they are to each
// other. What is left of a vector is not stretched to its old length.
//
// Affine maps, rotations and ascents are neither changed nor an obstacle. The error
// names every vector of which nothing is left, and every one of another width.
func Orthogonalise(groups ...[]Intervention) ([]Intervention, error) {
	var out []Intervention
	var faults []error
	var basis [][]float64
	for g, group := range groups {
		earlier := basis
		for i, iv := range group {
			if iv.Op == Affine || iv.Op == Rotate || iv.Op == Ascend {
				out = append(out, iv)
				continue
			}
			rest, err := without(iv.Vector, earlier)
			if err != nil {
				faults = append(faults, fmt.Errorf("orthogonalise: group %d, intervention %d (%s at %s): %w", g, i, iv.Op, iv.Site, err))
				continue
			}
			if len(earlier) > 0 {
				iv.Vector = narrow(rest)
			}
			out = append(out, iv)
			basis = extend(basis, rest)
		}
	}
	return out, errors.Join(faults...)
}

// without is v minus its components along an orthonormal basis. The second
// pass removes what rounding left of the first.
func without(v []float32, basis [][]float64) ([]float64, error) {
	rest := make([]float64, len(v))
	for i, x := range v {
		rest[i] = float64(x)
	}
	before := length(rest)
	for range 2 {
		for _, e := range basis {
			if len(e) != len(rest) {
				return nil, fmt.Errorf("the vector is %d wide, an earlier one %d", len(rest), len(e))
			}
			subtract(rest, e)
		}
	}
	if after := length(rest); !(after > minRest*before) {
		return nil, errors.New("nothing is left of the vector: it lies in the span of the earlier groups")
	}
	return rest, nil
}

// extend adds to the basis what a vector has beyond it.
func extend(basis [][]float64, v []float64) [][]float64 {
	e := append([]float64(nil), v...)
	for range 2 {
		for _, b := range basis {
			if len(b) != len(e) {
				return basis // reported when a later group meets it
			}
			subtract(e, b)
		}
	}
	n := length(e)
	if !(n > minRest*length(v)) {
		return basis
	}
	for i := range e {
		e[i] /= n
	}
	return append(basis, e)
}

// subtract removes from x its component along the unit vector e.
func subtract(x, e []float64) {
	dot := 0.0
	for i := range x {
		dot += x[i] * e[i]
	}
	for i := range x {
		x[i] -= dot * e[i]
	}
}

func length(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += v * v
	}
	return math.Sqrt(sum)
}

func narrow(x []float64) []float32 {
	out := make([]float32, len(x))
	for i, v := range x {
		out[i] = float32(v)
	}
	return out
}
