package steer

import (
	"errors"
	"fmt"
	"math"

	"github.com/trimtab/trimtab/internal/vec"
)

// MaxAscentSteps bounds Ascent.Steps: each step costs one evaluation of the
// function and one gradient.
const MaxAscentSteps = 16

// Ascent is what an [Ascend] edit climbs, and how far. Nothing happens to a row
// with V(x) >= Threshold, or whose V is not a number: not a bit of it changes.
// Any other row moves to x + u with |u| <= dose*Radius, in up to Steps steps
// along the gradient of V, until V reaches Threshold + Margin. The ball is
// around the row as it was, and the best row on the way is kept, so that V is
// never lower afterwards, unless Intervention.Renorm scales the row back: use
// Value.Norm with that, whose V does not depend on the length.
//
//   - Linear: the step is as long as the slope says, (c+Margin-V)/|w| along w,
//     which is the closed form x + max(0, c+Margin-V) w/|w|^2 of linear optimal
//     control, cut off at the ball (LiSeCo, arXiv 2405.15454). With Value.Norm
//     the slope changes along the way and further steps correct for it.
//   - Facets: likewise on the facet that is least after each step, a projection
//     onto a polytope (SAP, arXiv 2505.24445).
//   - MLP: each step is Radius/Steps long, or as long as the slope says when that
//     is less, so that a row near the threshold moves a little only
//     (BRT-Align's filter, arXiv 2509.21528, with the gradient in place of
//     random directions).
//
// The schedule and the dose are factors on the radius and must not be negative.
type Ascent struct {
	Value     *Value  // shared, never copied
	Threshold float32 // c
	Margin    float32 // in units of V, not negative
	Radius    float32 // greatest |u| at dose 1, as a share of the row's norm
	Absolute  bool    // Radius is in units of the residual instead
	Steps     int     // 1 to MaxAscentSteps; the filter's sources take 3

	// Always climbs from every row, whatever V is, with Steps full steps of
	// Radius/Steps: test-time ascent on a value model without a threshold
	// (RE-Control, arXiv 2406.05954), for comparison. The row may end where V
	// is lower, when a step goes too far.
	Always bool
}

func (a *Ascent) faults(scale float32, s *Schedule) (faults []error) {
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if a == nil {
		return []error{errors.New("ascend has no ascent: say which value function to climb")}
	}
	if a.Value == nil {
		fault("ascent has no value function")
	} else if err := a.Value.Check(0); err != nil {
		fault("value function: %w", err)
	}
	if !finite(a.Threshold) {
		fault("threshold is %v", a.Threshold)
	}
	if !(a.Margin >= 0) || !finite(a.Margin) {
		fault("margin is %v, want 0 or more", a.Margin)
	}
	if !(a.Radius > 0) || !finite(a.Radius) {
		fault("radius is %v, want more than 0: the plan would do nothing", a.Radius)
	}
	if a.Steps < 1 || a.Steps > MaxAscentSteps {
		fault("%d steps, want 1 to %d", a.Steps, MaxAscentSteps)
	}
	if scale < 0 || s.Start < 0 || s.End < 0 {
		fault("dose and schedule scale the radius of an ascent and cannot be negative")
	}
	return faults
}

// ascentWork is scratch memory for one ascent.
type ascentWork struct {
	value             *ValueWork
	slope, from, best []float32
}

func (a *Ascent) newWork() *ascentWork {
	w := a.Value.Width()
	return &ascentWork{a.Value.NewWork(), make([]float32, w), make([]float32, w), make([]float32, w)}
}

// scratch keeps ascentWork for the next row, as much as there were rows edited
// at once, up to maxScratch: nothing is allocated from then on. The nil scratch
// keeps nothing.
type scratch chan *ascentWork

const maxScratch = 32 // more goroutines than edit rows of one plan at once

func (s scratch) get(a *Ascent) *ascentWork {
	select {
	case w := <-s:
		return w
	default:
		return a.newWork()
	}
}

func (s scratch) put(w *ascentWork) {
	select {
	case s <- w:
	default:
	}
}

// climb edits the row in place and reports whether it did.
func (a *Ascent) climb(row []float32, dose float32, s scratch) bool {
	w := s.get(a)
	defer s.put(w)
	v := a.Value.At(row, w.value)
	if v-v != 0 || !a.Always && v >= float64(a.Threshold) {
		return false
	}
	radius := float64(a.Radius) * float64(dose)
	if !a.Absolute {
		radius *= vec.Norm(row)
	}
	if !(radius > 0) || math.IsInf(radius, 0) {
		return false
	}
	copy(w.from, row)
	copy(w.best, row)
	if a.Always {
		return a.march(row, radius, w)
	}
	return a.seek(row, v, radius, w)
}

// seek climbs until the target is reached and keeps the best row.
func (a *Ascent) seek(row []float32, v, radius float64, w *ascentWork) bool {
	target, best, moved := float64(a.Threshold)+float64(a.Margin), v, false
	for range a.Steps {
		a.Value.slope(w.slope, row, w.value)
		norm := vec.Norm(w.slope)
		if !(norm > minNorm) || norm-norm != 0 {
			break // a plateau: no direction is better than another
		}
		length := (target - v) / norm
		if a.Value.Kind == MLP {
			length = min(length, radius/float64(a.Steps))
		}
		// More than across the ball is cut off anyway, and might overflow.
		vec.AddScaled(row, float32(min(length, 2*radius)/norm), w.slope)
		clip(row, w.from, radius)
		v = a.Value.At(row, w.value)
		if v > best {
			best, moved = v, true
			copy(w.best, row)
		}
		if !(v < target) {
			break
		}
	}
	copy(row, w.best)
	return moved
}

// march takes every step.
func (a *Ascent) march(row []float32, radius float64, w *ascentWork) bool {
	moved := false
	for step := range a.Steps {
		if step > 0 {
			a.Value.At(row, w.value)
		}
		a.Value.slope(w.slope, row, w.value)
		norm := vec.Norm(w.slope)
		if !(norm > minNorm) || norm-norm != 0 {
			break
		}
		vec.AddScaled(row, float32(radius/float64(a.Steps)/norm), w.slope)
		moved = true
	}
	return moved
}

// clip moves the row straight back towards from until it is inside the ball.
func clip(row, from []float32, radius float64) {
	sum := 0.0
	for i, x := range row {
		d := float64(x) - float64(from[i])
		sum += d * d
	}
	if far := math.Sqrt(sum); far > radius {
		k := radius / far
		for i, x := range row {
			row[i] = float32(float64(from[i]) + k*(float64(x)-float64(from[i])))
		}
	}
}
