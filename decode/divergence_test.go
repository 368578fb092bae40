package decode

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestDivergence holds the formula against the definition.
func TestDivergence(t *testing.T) {
	const seed = 3
	r := rand.New(rand.NewPCG(seed, 1))
	inf := float32(math.Inf(-1))
	for range 200 {
		n := 2 + r.IntN(50)
		p, q := make([]float32, n), make([]float32, n)
		for i := range n {
			p[i], q[i] = float32(r.NormFloat64()*5), float32(r.NormFloat64()*5)
			if i > 0 && r.IntN(5) == 0 {
				p[i] = inf
			}
		}
		want, got := 0.0, Divergence(p, q)
		a, b := softmax(p), softmax(q)
		for i := range a {
			if a[i] > 0 {
				want += a[i] * math.Log(a[i]/b[i])
			}
		}
		if math.Abs(got-want) > 1e-12*math.Max(1, want) {
			t.Fatalf("seed %d: %v, by definition %v", seed, got, want)
		}
		if Divergence(p, p) != 0 || Divergence(q, q) != 0 {
			t.Fatalf("seed %d: equal rows differ", seed)
		}
	}
	nan := float32(math.NaN())
	for _, tt := range []struct {
		name string
		p, q []float32
		want float64
	}{
		{"excluded by both", []float32{1, inf}, []float32{5, inf}, 0},
		{"excluded by the steered", []float32{1, inf}, []float32{1, 1}, math.Log(2)},
		{"excluded by the unsteered", []float32{1, 1}, []float32{1, inf}, math.Inf(1)},
		{"no number", []float32{1, nan}, []float32{1, 1}, math.NaN()},
		{"no number in the other", []float32{1, 1}, []float32{1, nan}, math.NaN()},
		{"nothing allowed", []float32{inf, inf}, []float32{1, 1}, math.NaN()},
	} {
		got := Divergence(tt.p, tt.q)
		if !(math.Abs(got-tt.want) < 1e-12 || got == tt.want || got != got && tt.want != tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

func softmax(row []float32) []float64 {
	out, sum := make([]float64, len(row)), 0.0
	for i, x := range row {
		out[i] = math.Exp(float64(x))
		sum += out[i]
	}
	for i := range out {
		out[i] /= sum
	}
	return out
}
