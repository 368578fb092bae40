package decode

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestExp(t *testing.T) {
	for _, d := range []float64{0, -1e-300, -1e-17, -math.Ln2, -707.999, -708, -730, -745.2, -1e300, math.Inf(-1), math.NaN()} {
		if got, want := exp(d), math.Exp(d); got != want && !(math.IsNaN(got) && math.IsNaN(want)) && math.Abs(got-want) > 4e-16*want {
			t.Errorf("exp(%v) = %v, want %v", d, got, want)
		}
	}
	seeds(t, 20, func(t *testing.T, r *rand.Rand) {
		for range 20000 {
			d := -math.Exp(r.Float64()*14 - 7)
			got, want := exp(d), math.Exp(d)
			if math.Abs(got-want) > 4.5e-16*want {
				t.Fatalf("exp(%v) = %v, want %v", d, got, want)
			}
		}
	})
}

// TestExpfRoundsOnce: in float32 the result is the correctly rounded one, but
// for the rare case in which it lies next to the middle of two numbers.
func TestExpfRoundsOnce(t *testing.T) {
	differ := 0
	r := NewRand(1)
	for range 1000000 {
		x := float32(-r.ExpFloat64() * 10)
		if expf(x) != float32(math.Exp(float64(x))) {
			differ++
		}
	}
	if differ > 1 {
		t.Errorf("%d of 1000000 differ", differ)
	}
}

func BenchmarkExp(b *testing.B) { benchmarkExp(b, exp) }

func BenchmarkMathExp(b *testing.B) { benchmarkExp(b, math.Exp) }

func benchmarkExp(b *testing.B, exp func(float64) float64) {
	sum, d := 0.0, 0.0
	for b.Loop() {
		sum += exp(d)
		d -= 0.001
		if d < -20 {
			d = 0
		}
	}
	if sum == 0 {
		b.Fatal()
	}
}
