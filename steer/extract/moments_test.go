package extract

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestEquations holds Eq. 3 and 4 against numbers done by hand: mu+ = (3,4),
// mu- = (0,4), so r = (3,0), cos(r, mu+) = 3/5, r_hat = (5,0); at the other
// cell mu+ = (0,2), r = (0,1), the cosine is 1 and r_hat = (0,2).
func TestEquations(t *testing.T) {
	cells := []Cell{{1, Place{AnswerEnd, 0}}, {2, Place{AnswerEnd, 1}}}
	m := NewMoments(cells, 2, 0)
	m.Add([][]float64{{2, 5}, {0, 1}}, [][]float64{{-1, 4}, {0, 2}}, false)
	m.Add([][]float64{{4, 3}, {0, 3}}, [][]float64{{1, 4}, {0, 0}}, true)
	near(t, "Eq. 3", m.Alignment(0), 0.6, 1e-15)
	near(t, "Eq. 3, other cell", m.Alignment(1), 1, 1e-15)
	if at := m.MostAligned(func(Cell) bool { return true }); at != 1 {
		t.Errorf("the most aligned cell is %d, want 1", at)
	}
	if at := m.MostAligned(func(c Cell) bool { return c.Layer == 1 }); at != 0 {
		t.Errorf("among the cells of layer 1 it is %d, want 0", at)
	}
	for cell, want := range [][]float64{{5, 0}, {0, 2}} {
		got, err := scaled(m.Difference(cell), length(m.MeanChosen(cell)))
		if err != nil {
			t.Fatal(err)
		}
		near(t, "r_hat[0]", float64(got[0]), want[0], 1e-6)
		near(t, "r_hat[1]", float64(got[1]), want[1], 1e-6)
	}
	// The differences at the first cell are (3,1) and (3,-1): |r|^2 = 9, variance 1.
	near(t, "separation", m.Separation(0), 9, 1e-12)
	// Shuffled: ((3,1) - (3,-1))/2 = (0,1) at the first cell.
	near(t, "shuffled[0]", m.Shuffled(0)[0], 0, 1e-15)
	near(t, "shuffled[1]", m.Shuffled(0)[1], 1, 1e-15)
	if _, err := scaled([]float64{0, 0}, 5); err == nil {
		t.Error("a zero direction was scaled")
	}
}

func TestTopShare(t *testing.T) {
	near(t, "even", topShare([]float32{1, -1, 1, -1, 1, 1}), 0.5, 1e-12)
	near(t, "one huge", topShare([]float32{100, 0, 0, 1e-3, 0}), 1, 1e-6)
	near(t, "short", topShare([]float32{1, 2}), 1, 1e-12)
	near(t, "zero", topShare(make([]float32, 5)), 0, 0)
}

// clouds adds n pairs whose sides differ by direction, with noise.
func clouds(r *rand.Rand, n int, direction []float64, noise float64) *Moments {
	m := NewMoments([]Cell{{}}, len(direction), n)
	for i := range n {
		p, q := make([]float64, len(direction)), make([]float64, len(direction))
		for k, d := range direction {
			shared := 3 * r.NormFloat64()
			p[k] = shared + d/2 + noise*r.NormFloat64()
			q[k] = shared - d/2 + noise*r.NormFloat64()
		}
		m.Add([][]float64{p}, [][]float64{q}, i%2 == 0)
	}
	return m
}

// TestMethodsFindThePlant: every method recovers a direction hidden in noise,
// and shuffled labels do not.
func TestMethodsFindThePlant(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 2))
	u := make([]float64, 24)
	for i := range u {
		u[i] = r.NormFloat64()
	}
	m := clouds(r, 400, u, 0.3)
	for _, c := range []struct {
		by    Method
		least float64
	}{{Mean, 0.99}, {PaLRS, 0.99}, {CAA, 0.99}, {PCA, 0.99}, {Probe, 0.7}} {
		d, err := m.Direction(0, c.by)
		if err != nil {
			t.Fatal(err)
		}
		if got := cosine(d, u); got < c.least {
			t.Errorf("%s: cosine %.3f with the plant, want %.2f", c.by, got, c.least)
		}
	}
	if got := length(m.Shuffled(0)) / length(u); got > 0.1 {
		t.Errorf("shuffled labels leave %.3f of the plant's length", got)
	}
	if _, err := m.Direction(0, "magic"); err == nil {
		t.Error("an unknown method has a direction")
	}
}

// TestComponentClosedForm: differences on an ellipse with known axes. Their
// second moments are 9 along (3,4)/5 and 1 across, plus the mean.
func TestComponentClosedForm(t *testing.T) {
	m := NewMoments([]Cell{{}}, 2, 100)
	a, b := []float64{0.6, 0.8}, []float64{-0.8, 0.6}
	for i := range 60 {
		s, c := math.Sincos(2 * math.Pi * float64(i) / 60)
		d := []float64{3*c*a[0] + s*b[0] + 0.01*a[0], 3*c*a[1] + s*b[1] + 0.01*a[1]}
		m.Add([][]float64{d}, [][]float64{{0, 0}}, false)
	}
	d, err := m.Direction(0, PCA)
	if err != nil {
		t.Fatal(err)
	}
	near(t, "first component [0]", d[0], 0.6, 1e-6)
	near(t, "first component [1]", d[1], 0.8, 1e-6)
}

// TestProbeOneDimension: with one feature the best ridge weight solves a scalar
// equation, which the fit must meet.
func TestProbeOneDimension(t *testing.T) {
	m := NewMoments([]Cell{{}}, 1, 100)
	for i := range 50 {
		x := float64(i%10) / 10
		m.Add([][]float64{{x + 0.4}}, [][]float64{{x - 0.4}}, false)
	}
	d, err := m.Direction(0, Probe)
	if err != nil {
		t.Fatal(err)
	}
	x, y := m.labelled(0)
	g := probeRidge * d[0]
	for n := range x {
		g += (1/(1+math.Exp(-x[n][0]*d[0])) - y[n]) * x[n][0] / float64(len(x))
	}
	near(t, "gradient at the fit", g, 0, 1e-6)
	if d[0] <= 0 {
		t.Errorf("the weight is %v, want it above 0", d[0])
	}
}

func TestRowsAreNeeded(t *testing.T) {
	m := NewMoments([]Cell{{}}, 1, 0)
	m.Add([][]float64{{1}}, [][]float64{{0}}, false)
	for _, by := range []Method{PCA, Probe} {
		if _, err := m.Direction(0, by); err == nil {
			t.Errorf("%s found a direction without rows", by)
		}
	}
}
