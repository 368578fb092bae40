package probe

import (
	"context"
	"errors"
	"math"
)

// history is how many steps the descent remembers.
const history = 10

// maxHalvings bounds the search along one direction.
const maxHalvings = 60

// pair is one remembered step: where it went, and how the slope changed.
type pair struct {
	s, y []float64
	rho  float64 // 1/(s.y)
}

// descend minimises the loss by L-BFGS (Nocedal 1980; Nocedal and Wright,
// Numerical Optimization, algorithm 7.4) with backtracking, from zero.
func descend(ctx context.Context, l *logistic, o TrainOptions) ([]float64, error) {
	n := len(l.mean) + 1
	x, g := make([]float64, n), make([]float64, n)
	next, gNext := make([]float64, n), make([]float64, n)
	loss := l.at(x, g)
	var kept []pair
	for t := range o.Iterations {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if steepest(g) < slopeEnd {
			break
		}
		dir := direction(g, kept)
		slope := inner(dir, g)
		if slope >= 0 { // rounding has spoilt the memory
			kept, dir = nil, direction(g, nil)
			slope = inner(dir, g)
		}
		nextLoss, ok := search(l, x, dir, next, gNext, loss, slope)
		if !ok {
			break // no smaller loss can be told apart
		}
		p := pair{s: make([]float64, n), y: make([]float64, n)}
		for i := range x {
			p.s[i], p.y[i] = next[i]-x[i], gNext[i]-g[i]
		}
		if sy := inner(p.s, p.y); sy > 1e-12*inner(p.s, p.s) {
			p.rho = 1 / sy
			kept = append(kept[max(0, len(kept)-history+1):], p)
		}
		x, next, g, gNext, loss = next, x, gNext, g, nextLoss
		if o.Progress != nil {
			o.Progress(t+1, loss, steepest(g))
		}
	}
	if loss-loss != 0 {
		return nil, errors.New("the loss is not finite: the rows' values are too large")
	}
	return x, nil
}

// search halves the step until the loss falls by a share of what the slope
// promises (Armijo). next and gNext are set to where it ended.
func search(l *logistic, x, dir, next, gNext []float64, loss, slope float64) (float64, bool) {
	step := 1.0
	for range maxHalvings {
		for i := range x {
			next[i] = x[i] + step*dir[i]
		}
		if got := l.at(next, gNext); got <= loss+1e-4*step*slope && got < loss {
			return got, true
		}
		step /= 2
	}
	return loss, false
}

// direction is minus the inverse curvature times the gradient, as far as the
// remembered steps tell it (two-loop recursion).
func direction(g []float64, kept []pair) []float64 {
	d := make([]float64, len(g))
	for i, v := range g {
		d[i] = -v
	}
	alpha := make([]float64, len(kept))
	for k := len(kept) - 1; k >= 0; k-- {
		p := &kept[k]
		alpha[k] = p.rho * inner(p.s, d)
		addScaled(d, -alpha[k], p.y)
	}
	if n := len(kept); n > 0 {
		p := &kept[n-1]
		c := 1 / (p.rho * inner(p.y, p.y))
		for i := range d {
			d[i] *= c
		}
	}
	for k := range kept {
		p := &kept[k]
		addScaled(d, alpha[k]-p.rho*inner(p.y, d), p.s)
	}
	return d
}

func inner(a, b []float64) float64 {
	s := 0.0
	for i, x := range a {
		s += x * b[i]
	}
	return s
}

func addScaled(a []float64, k float64, b []float64) {
	for i, x := range b {
		a[i] += k * x
	}
}

func steepest(g []float64) float64 {
	m := 0.0
	for _, x := range g {
		m = max(m, math.Abs(x))
	}
	return m
}
