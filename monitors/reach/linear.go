package reach

import (
	"cmp"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/trimtab/trimtab/internal/vec"
	"github.com/trimtab/trimtab/steer"
)

const (
	ridge      = 1e-3 // on the diagonal, in units of a standardised input's variance
	gramBlock  = 1024 // rows summed in float32 before they join the float64 sums
	maxLinear  = 8192 // width: the matrix takes 8 bytes times its square
	linearRows = 1 << 18
)

// linear is the least-squares solution for the targets.
func (t *trainer) linear(ctx context.Context) (steer.Value, error) {
	s := t.train
	w := s.width
	if w > maxLinear {
		return steer.Value{}, errors.New("rows are too wide for the closed form: fit facets with one facet instead")
	}
	gram, moment := make([]float64, w*w), make([]float64, w)
	order := firstOf(len(s.rows), linearRows)
	center := 0.0
	for _, i := range order {
		center += float64(s.targets[i])
	}
	center /= float64(len(order))
	n := network{crew: t.o.Workers}
	block, x := make([]float32, w*w), make([]float32, gramBlock*w)
	for at := 0; at < len(order); at += gramBlock {
		if ctx.Err() != nil {
			return steer.Value{}, context.Cause(ctx)
		}
		part := order[at:min(at+gramBlock, len(order))]
		for k, i := range part {
			row := x[k*w : (k+1)*w]
			s.fill(row, i)
			for j, y := range row {
				moment[j] += float64(y) * (float64(s.targets[i]) - center)
			}
		}
		n.each(w, func(from, to int) { // the lower triangle
			for j := from; j < to; j++ {
				sum := block[j*w : j*w+j+1]
				clear(sum)
				for k := range part {
					vec.AddScaled(sum, x[k*w+j], x[k*w:k*w+j+1])
				}
				for i, y := range sum {
					gram[j*w+i] += float64(y)
				}
			}
		})
	}
	for j := range w {
		gram[j*w+j] += ridge * float64(len(order))
	}
	if err := cholesky(gram, moment, w); err != nil {
		return steer.Value{}, err
	}
	d := steer.Dense{In: w, Out: 1, Weight: make([]float32, w), Bias: []float32{float32(center)}}
	for j, y := range moment {
		d.Weight[j] = float32(y)
	}
	unstandardise(&d, s.mean, s.spread)
	return steer.Value{Kind: steer.Linear, Norm: s.norm, Layers: []steer.Dense{d}}, nil
}

// cholesky solves a x = b in place of b; a is symmetric, its lower triangle is
// used and overwritten.
func cholesky(a, b []float64, n int) error {
	for j := range n {
		rj := a[j*n : j*n+j+1]
		for k := range j {
			rk := a[k*n : k*n+k+1]
			sum := rj[k]
			for i := range k {
				sum -= rj[i] * rk[i]
			}
			rj[k] = sum / rk[k]
		}
		sum := rj[j]
		for _, x := range rj[:j] {
			sum -= x * x
		}
		if !(sum > 0) {
			return errors.New("the inputs are not finite")
		}
		rj[j] = math.Sqrt(sum)
	}
	for j := range n {
		for i, x := range a[j*n : j*n+j] {
			b[j] -= x * b[i]
		}
		b[j] /= a[j*n+j]
	}
	for j := n - 1; j >= 0; j-- {
		for i := j + 1; i < n; i++ {
			b[j] -= a[i*n+j] * b[i]
		}
		b[j] /= a[j*n+j]
	}
	return nil
}

// Random is a linear function of random weights with about the slope of v: the
// control that shows what an edit does by its size alone.
func Random(v *steer.Value, seed uint64) steer.Value {
	r := rand.New(rand.NewPCG(seed, 0x72616e646f6d))
	d := steer.Dense{In: v.Width(), Out: 1, Weight: make([]float32, v.Width()), Bias: []float32{0}}
	for i := range d.Weight {
		d.Weight[i] = float32(r.NormFloat64() / math.Sqrt(float64(d.In)))
	}
	return steer.Value{Kind: steer.Linear, Norm: v.Norm, Layers: []steer.Dense{d}}
}

// auroc is the chance that a bad score is above a good one, ties counting half;
// NaN when there is none of one kind.
func auroc(bad, good []float64) float64 {
	type scored struct {
		score float64
		bad   bool
	}
	all := make([]scored, 0, len(bad)+len(good))
	for _, s := range bad {
		all = append(all, scored{s, true})
	}
	for _, s := range good {
		all = append(all, scored{s, false})
	}
	slices.SortFunc(all, func(a, b scored) int { return cmp.Compare(a.score, b.score) })
	sum, below := 0.0, 0.0
	for i := 0; i < len(all); {
		b, g := 0.0, 0.0
		for j := i; j < len(all) && all[j].score == all[i].score; j++ {
			if all[j].bad {
				b++
			} else {
				g++
			}
		}
		sum += b * (below + g/2)
		below += g
		i += int(b + g)
	}
	return sum / (float64(len(bad)) * float64(len(good)))
}
