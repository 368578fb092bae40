package extract

import (
	"fmt"
	"math"
	"strings"
)

// Method is a way from states to a direction, with the cells that it considers.
type Method string

// The methods. All but PaLRS consider layers between 20 and 80 % of the depth
// and choose the cell on validation pairs.
const (
	// Mean: mean difference at any place. AxBench (arXiv 2501.17148) found it
	// the best of the cheap directions.
	Mean Method = "mean"
	// PaLRS: mean difference at the template's tokens after the answer, at any
	// layer, at the cell most aligned with mu+ (Eq. 1-5 as published).
	PaLRS Method = "palrs"
	// Guarded is PaLRS with the cell chosen on validation pairs, and as further
	// places the question once more behind the answer, and what the answer
	// leaves in a later one.
	Guarded Method = "palrs-guarded"
	// CAA: mean difference of the mean over the answer's tokens.
	CAA Method = "caa"
	// PCA: the first principal component of the paired differences, about zero
	// (each pair counts in both orders, as in representation engineering), with
	// the sign of the mean difference.
	PCA Method = "pca"
	// Probe: the normal of a logistic regression that tells the sides apart.
	Probe Method = "probe"
)

// Methods lists the methods.
func Methods() []Method { return []Method{Mean, PaLRS, Guarded, CAA, PCA, Probe} }

// ParseMethod reads a method's name.
func ParseMethod(s string) (Method, error) {
	var names []string
	for _, m := range Methods() {
		if string(m) == s {
			return m, nil
		}
		names = append(names, string(m))
	}
	return "", fmt.Errorf("unknown method %q: choose %s", s, strings.Join(names, ", "))
}

// kinds are the sorts of places that a method reads.
func (m Method) kinds() []Kind {
	switch m {
	case PaLRS:
		return []Kind{AnswerEnd}
	case Guarded:
		return []Kind{AnswerEnd, Echo, Shown}
	case CAA:
		return []Kind{AnswerMean}
	}
	return []Kind{AnswerEnd, Echo, AnswerMean, Shown}
}

// needsRows reports that sums are not enough.
func (m Method) needsRows() bool { return m == PCA || m == Probe }

// Direction is the method's direction at a cell, of any length.
func (m *Moments) Direction(cell int, by Method) ([]float64, error) {
	switch by {
	case Mean, PaLRS, Guarded, CAA:
		return m.Difference(cell), nil
	case PCA:
		return m.component(cell)
	case Probe:
		return m.probe(cell)
	}
	return nil, fmt.Errorf("unknown method %q", by)
}

// Bounds of the two iterations. The power iteration loses a factor of the ratio
// of the two largest eigenvalues each round; where that is near 1 the component
// is not defined better either.
const (
	powerRounds    = 1000
	powerTolerance = 1e-12
	probeRounds    = 400
	probeRidge     = 1e-2
)

// component is the first eigenvector of the sum of d d^T over the kept
// differences d, by power iteration from the mean difference.
func (m *Moments) component(cell int) ([]float64, error) {
	rows := m.differences(cell)
	if len(rows) == 0 {
		return nil, fmt.Errorf("pca: no rows were kept")
	}
	mean := m.Difference(cell)
	v := append([]float64(nil), mean...)
	for i := range v { // off the mean, which could be an eigenvector of another value
		v[i] += 1e-3 * length(mean) / math.Sqrt(float64(len(v))) * math.Sin(float64(i+1))
	}
	if !unit(v) {
		return nil, fmt.Errorf("pca: the mean difference is zero")
	}
	for range powerRounds {
		next := make([]float64, len(v))
		for _, d := range rows {
			k := dot(d, v)
			for i, x := range d {
				next[i] += k * x
			}
		}
		if !unit(next) {
			return nil, fmt.Errorf("pca: the differences are zero")
		}
		done := 1-math.Abs(dot(next, v)) < powerTolerance
		v = next
		if done {
			break
		}
	}
	if dot(v, mean) < 0 {
		for i := range v {
			v[i] = -v[i]
		}
	}
	return v, nil
}

func (m *Moments) differences(cell int) [][]float64 {
	out := make([][]float64, len(m.rowsPlus[cell]))
	for n, p := range m.rowsPlus[cell] {
		out[n] = make([]float64, len(p))
		for i, x := range p {
			out[n][i] = float64(x) - float64(m.rowsMinus[cell][n][i])
		}
	}
	return out
}

func unit(v []float64) bool {
	n := length(v)
	if n == 0 || n-n != 0 {
		return false
	}
	for i := range v {
		v[i] /= n
	}
	return true
}

// probe fits a logistic regression to the kept rows, centred and divided by
// their root mean square length, by accelerated gradient descent (Nesterov 1983)
// with a ridge, and returns its normal. It starts from zero: there is nothing
// random in it.
func (m *Moments) probe(cell int) ([]float64, error) {
	x, y := m.labelled(cell)
	if len(x) == 0 {
		return nil, fmt.Errorf("probe: no rows were kept")
	}
	w, ahead := make([]float64, m.Width), make([]float64, m.Width)
	const step = 1 / (0.25 + probeRidge) // rows have unit mean square, the loss's curvature is at most a quarter of it
	for t := range probeRounds {
		g := make([]float64, m.Width)
		for n, row := range x {
			e := 1/(1+math.Exp(-dot(row, ahead))) - y[n]
			for i, v := range row {
				g[i] += e * v / float64(len(x))
			}
		}
		momentum := float64(t) / float64(t+3)
		for i := range w {
			next := ahead[i] - step*(g[i]+probeRidge*ahead[i])
			ahead[i] = next + momentum*(next-w[i])
			w[i] = next
		}
	}
	return w, nil
}

// labelled are the kept rows of both sides, centred and scaled, with 1 for
// chosen and 0 for rejected.
func (m *Moments) labelled(cell int) (x [][]float64, y []float64) {
	mean := make([]float64, m.Width)
	for n := range m.rowsPlus[cell] {
		for side, row := range [][]float32{m.rowsMinus[cell][n], m.rowsPlus[cell][n]} {
			wide := make([]float64, len(row))
			for i, v := range row {
				wide[i] = float64(v)
				mean[i] += float64(v)
			}
			x, y = append(x, wide), append(y, float64(side))
		}
	}
	square := 0.0
	for _, row := range x {
		for i := range row {
			row[i] -= mean[i] / float64(len(x))
			square += row[i] * row[i] / float64(len(x))
		}
	}
	for _, row := range x {
		for i := range row {
			row[i] /= math.Sqrt(square + math.SmallestNonzeroFloat64)
		}
	}
	return x, y
}
