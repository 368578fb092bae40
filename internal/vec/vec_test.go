package vec

import (
	"math"
	"testing"
)

func TestKernels(t *testing.T) {
	for n := range 9 { // odd and even lengths, and none
		a, b := make([]float32, n), make([]float32, n)
		dot, sq := 0.0, 0.0
		for i := range n {
			a[i], b[i] = float32(i)-2.5, 1/float32(i+1)
			dot += float64(a[i]) * float64(b[i])
			sq += float64(a[i]) * float64(a[i])
		}
		if got := Dot(a, b); math.Abs(got-dot) > 1e-12 {
			t.Errorf("Dot of %d values is %v, want %v", n, got, dot)
		}
		if got := Norm(a); math.Abs(got-math.Sqrt(sq)) > 1e-12 {
			t.Errorf("Norm of %d values is %v, want %v", n, got, math.Sqrt(sq))
		}
		sum := append([]float32(nil), a...)
		AddScaled(sum, 0.3, b)
		Scale(sum, 2)
		for i := range n {
			if want := 2 * (a[i] + float32(0.3*b[i])); sum[i] != want {
				t.Errorf("element %d of %d is %v, want %v", i, n, sum[i], want)
			}
		}
	}
}

// TestAddScaledRoundsTheProduct: with a fused multiply-add this sum is not 0.
func TestAddScaledRoundsTheProduct(t *testing.T) {
	k := float32(1 + 1.0/(1<<12))
	a := []float32{-float32(k * k)}
	AddScaled(a, k, []float32{k})
	if a[0] != 0 {
		t.Errorf("the sum is %g, so the product was not rounded", a[0])
	}
}
