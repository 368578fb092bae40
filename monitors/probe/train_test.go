package probe

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// mixture draws examples whose classes are two clouds, some of the inputs far
// from zero, as residual rows have them.
func mixture(r *rand.Rand, n, width int, apart float64) []Example {
	dir := random(r, width)
	out := make([]Example, n)
	for k := range out {
		e := Example{Row: random(r, width), Positive: r.IntN(4) == 0}
		for i := range e.Row {
			side := -apart
			if e.Positive {
				side = apart
			}
			e.Row[i] += float32(side) * dir[i] / float32(math.Sqrt(float64(width)))
			if i%5 == 0 {
				e.Row[i] = e.Row[i]*20 + 300
			}
		}
		out[k] = e
	}
	return out
}

// newton is the outside judge: the same problem by Newton's method with the
// whole Hessian, on inputs scaled beforehand. It returns the logits.
func newton(examples []Example, l2 float64, balanced bool) []float64 {
	d, n := len(examples[0].Row), float64(len(examples))
	x := make([][]float64, len(examples))
	positives := 0.0
	for k, e := range examples {
		x[k] = make([]float64, d+1)
		x[k][d] = 1
		if e.Positive {
			positives++
		}
	}
	for i := range d {
		mean, sq := 0.0, 0.0
		for _, e := range examples {
			mean += float64(e.Row[i]) / n
		}
		for _, e := range examples {
			sq += math.Pow(float64(e.Row[i])-mean, 2) / n
		}
		for k, e := range examples {
			x[k][i] = (float64(e.Row[i]) - mean) / math.Sqrt(sq)
		}
	}
	theta := make([]float64, d+1)
	for range 30 {
		h := make([][]float64, d+1)
		for i := range h {
			h[i] = make([]float64, d+2) // the last column is minus the gradient
			if i < d {
				h[i][i], h[i][d+1] = l2, -l2*theta[i]
			}
		}
		for k, e := range examples {
			w, y := 1/n, 0.0
			if e.Positive {
				y = 1
			}
			if balanced {
				w = 0.5 / (n - positives)
				if e.Positive {
					w = 0.5 / positives
				}
			}
			p := sigmoid(inner(x[k], theta))
			for i := range h {
				h[i][d+1] -= w * (p - y) * x[k][i]
				for j := range d + 1 {
					h[i][j] += w * p * (1 - p) * x[k][i] * x[k][j]
				}
			}
		}
		step := solve(h)
		for i := range theta {
			theta[i] += step[i]
		}
	}
	out := make([]float64, len(examples))
	for k := range out {
		out[k] = inner(x[k], theta)
	}
	return out
}

// solve is Gaussian elimination of a positive definite system.
func solve(h [][]float64) []float64 {
	n := len(h)
	for i := range n {
		for j := i + 1; j < n; j++ {
			addScaled(h[j], -h[j][i]/h[i][i], h[i])
		}
	}
	x := make([]float64, n)
	for i := n - 1; i >= 0; i-- {
		x[i] = (h[i][n] - inner(x, h[i][:n])) / h[i][i]
	}
	return x
}

func TestTrainAgainstNewton(t *testing.T) {
	for seed := range uint64(8) {
		r := rand.New(rand.NewPCG(seed, 13))
		examples := mixture(r, 60+r.IntN(80), 2+r.IntN(10), r.Float64()*2)
		for _, unbalanced := range []bool{false, true} {
			p, err := Train(t.Context(), examples, TrainOptions{Name: "p", L2: 0.02, Unbalanced: unbalanced})
			if err != nil {
				t.Fatal(err)
			}
			work := p.Value.NewWork()
			for k, want := range newton(examples, 0.02, !unbalanced) {
				if got := p.Value.At(examples[k].Row, work); math.Abs(got-want) > 1e-3*(1+math.Abs(want)) {
					t.Fatalf("seed %d, unbalanced %v, example %d: logit %v, Newton's %v", seed, unbalanced, k, got, want)
				}
			}
		}
	}
}

// TestTrainFinds: in many inputs with few that matter it finds them, on
// examples it has not seen, and twice alike.
func TestTrainFinds(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 17))
	all := mixture(r, 1200, 64, 2.5)
	train := func() *Probe {
		p, err := Train(t.Context(), all[:800], TrainOptions{Name: "p"})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	p := train()
	if d := cmp.Diff(p, train()); d != "" {
		t.Errorf("the second training differs: %s", d)
	}
	m, err := p.Evaluate(all[800:])
	if err != nil {
		t.Fatal(err)
	}
	if m.AUROC < 0.97 || m.Accuracy < 0.9 || m.F1 < 0.85 || m.Positives+m.Negatives != 400 {
		t.Errorf("%+v", m)
	}
	t.Logf("%+v", *m)
}

// TestConstantInputs: an input that does not vary has no say.
func TestConstantInputs(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 19))
	examples := mixture(r, 100, 4, 2)
	for k := range examples {
		examples[k].Row[2] = 1234.567
	}
	p, err := Train(t.Context(), examples, TrainOptions{Name: "p"})
	if err != nil || p.Value.Layers[0].Weight[2] != 0 {
		t.Errorf("%v, %v", p, err)
	}
}

func TestTrainFaults(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 23))
	good := mixture(r, 40, 3, 1)
	with := func(f func([]Example)) []Example {
		out := slices.Clone(good)
		f(out)
		return out
	}
	equal := []Example{{[]float32{1, 2}, true}, {[]float32{1, 2}, false}}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tt := range []struct {
		name     string
		ctx      context.Context
		examples []Example
		o        TrainOptions
		want     string
	}{
		{"none", nil, nil, TrainOptions{}, "0 examples, want 2"},
		{"empty rows", nil, make([]Example, 2), TrainOptions{}, "rows of 0 values"},
		{"widths", nil, with(func(e []Example) { e[3].Row = e[3].Row[:2] }), TrainOptions{}, "example 3 has 2 values"},
		{"NaN", nil, with(func(e []Example) { e[4].Row = []float32{0, nan, 0} }), TrainOptions{}, "example 4: value 1 is NaN"},
		{"one class", nil, with(func(e []Example) {
			for i := range e {
				e[i].Positive = true
			}
		}), TrainOptions{}, "40 positive and 0 negative"},
		{"L2", nil, good, TrainOptions{L2: -1}, "L2 is -1"},
		{"iterations", nil, good, TrainOptions{Iterations: -1}, "-1 iterations"},
		{"equal rows", nil, equal, TrainOptions{}, "all rows are equal"},
		{"no name", nil, good, TrainOptions{}, "no name"},
		{"cancelled", cancelled, good, TrainOptions{Name: "p"}, "context canceled"},
	} {
		ctx := tt.ctx
		if ctx == nil {
			ctx = t.Context()
		}
		if _, err := Train(ctx, tt.examples, tt.o); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", tt.name, err)
		} else if tt.ctx != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v is no context error", tt.name, err)
		}
	}
}

// TestProgress: the loss never rises, and the last slope is the end's.
func TestProgress(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 29))
	last, slope, calls := math.Inf(1), 0.0, 0
	_, err := Train(t.Context(), mixture(r, 200, 20, 1), TrainOptions{Name: "p", Progress: func(i int, loss, s float64) {
		calls++
		if i != calls || loss > last {
			t.Errorf("iteration %d of %d: loss %v behind %v", i, calls, loss, last)
		}
		last, slope = loss, s
	}})
	if err != nil || slope >= slopeEnd {
		t.Errorf("%v, slope %v after %d iterations", err, slope, calls)
	}
}

// TestMetrics against counting.
func TestMetrics(t *testing.T) {
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 31))
		p := linear("p", 1, 0, 1)
		p.Threshold = 0.3 + 0.4*r.Float64()
		examples := []Example{{[]float32{1}, true}, {[]float32{0}, false}}
		for range r.IntN(40) {
			examples = append(examples, Example{[]float32{float32(r.IntN(7) - 3)}, r.IntN(2) == 0})
		}
		got, err := p.Evaluate(examples)
		if err != nil {
			t.Fatal(err)
		}
		want := Metrics{}
		tp, fp, fn, wins := 0.0, 0.0, 0.0, 0.0
		for _, a := range examples {
			s := sigmoid(float64(a.Row[0]))
			flag := s >= p.Threshold
			switch {
			case flag && a.Positive:
				tp++
			case flag:
				fp++
			case a.Positive:
				fn++
			}
			if !a.Positive {
				want.Negatives++
				want.LogLoss -= math.Log(1-s) / float64(len(examples))
				continue
			}
			want.Positives++
			want.LogLoss -= math.Log(s) / float64(len(examples))
			for _, b := range examples {
				if !b.Positive && a.Row[0] > b.Row[0] {
					wins++
				} else if !b.Positive && a.Row[0] == b.Row[0] {
					wins += 0.5
				}
			}
		}
		want.AUROC = wins / float64(want.Positives*want.Negatives)
		want.Accuracy = (float64(len(examples)) - fp - fn) / float64(len(examples))
		want.F1 = 2 * tp / (2*tp + fp + fn)
		near := cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) < 1e-9 })
		if d := cmp.Diff(want, *got, near); d != "" {
			t.Fatalf("seed %d: %s", seed, d)
		}
	}
	p := linear("p", 1, 0, 1)
	for want, examples := range map[string][]Example{
		"want some of each":     {{[]float32{1}, true}, {[]float32{1}, true}},
		"rows of 2 values, the": {{[]float32{1, 2}, true}, {[]float32{1, 2}, false}},
	} {
		if _, err := p.Evaluate(examples); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v", err)
		}
	}
}

func BenchmarkTrain(b *testing.B) {
	examples := mixture(rand.New(rand.NewPCG(1, 37)), 1000, 256, 1)
	for b.Loop() {
		if _, err := Train(b.Context(), examples, TrainOptions{Name: "p"}); err != nil {
			b.Fatal(err)
		}
	}
}
