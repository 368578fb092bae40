package vec

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func random(r *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	return x
}

// dot32ByTheBook is the order that Dot32 promises, written plainly.
func dot32ByTheBook(a, b []float32) float32 {
	var lanes [16]float32
	for i := range a {
		lanes[i%16] += float32(a[i] * b[i])
	}
	for width := 8; width > 0; width /= 2 {
		for i := range width {
			lanes[i] += lanes[i+width]
		}
	}
	return lanes[0]
}

// TestDot32 asks for the promised bits at every length and alignment, and for
// closeness to the sum in float64.
func TestDot32(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for n := range 200 {
		for shift := range 4 {
			a, b := random(r, n+shift)[shift:], random(r, n+3)[3:]
			got, want, sum := Dot32(a, b), dot32ByTheBook(a, b), 0.0
			for i := range a {
				sum += math.Abs(float64(a[i]) * float64(b[i]))
			}
			if math.Float32bits(got) != math.Float32bits(want) {
				t.Fatalf("length %d: %v, want the bits of %v", n, got, want)
			}
			if exact := Dot(a, b); math.Abs(float64(got)-exact) > 1e-6*(1+sum) {
				t.Fatalf("length %d: %v, exactly %v", n, got, exact)
			}
		}
	}
}

func TestDense(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, size := range [][2]int{{1, 1}, {3, 5}, {16, 16}, {37, 20}, {64, 3}} {
		in, out := size[0], size[1]
		w, bias, x := random(r, in*out), random(r, out), random(r, in)
		y := random(r, out)
		Dense(y, w, bias, x)
		for o := range y {
			if want := bias[o] + Dot32(w[o*in:(o+1)*in], x); y[o] != want {
				t.Errorf("%dx%d: output %d is %v, want %v", in, out, o, y[o], want)
			}
		}
		g, back := random(r, out), random(r, in)
		g[0] = 0
		DenseBack(back, w, g)
		for i := range back {
			want, sum := 0.0, 0.0
			for o := range g {
				p := float64(g[o]) * float64(w[o*in+i])
				want, sum = want+p, sum+math.Abs(p)
			}
			if math.Abs(float64(back[i])-want) > 1e-6*(1+sum) {
				t.Errorf("%dx%d: gradient %d is %v, want %v", in, out, i, back[i], want)
			}
		}
	}
}

// TestKernelsAreTheGoVersions, at every length that the callers use, whatever
// lies behind the slices.
func TestKernelsAreTheGoVersions(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for n := 0; n < 400; n += 8 {
		for shift := range 4 {
			x, b, k := random(r, n+shift+9), random(r, n+shift)[shift:], random(r, 1)[0]
			y := append([]float32(nil), x...)
			addScaled(x[shift:shift+n], k, b)
			addScaledGo(y[shift:shift+n], k, b)
			k4, rows := [4]float32(random(r, 4)), [4]int{0, n + 3, 1, 2*n + 5}
			w := random(r, 3*n+5)
			addScaled4(x[shift:shift+n], w, &k4, &rows)
			addScaled4Go(y[shift:shift+n], w, &k4, &rows)
			var got, want [16]float32
			if n%16 == 0 {
				copy(got[:], random(r, 16))
				want = got
				dotLanes(&got, x[shift:shift+n], b)
				dotLanesGo(&want, x[shift:shift+n], b)
			}
			if got != want || !slices.Equal(x, y) {
				t.Fatalf("length %d, shift %d: the kernels differ", n, shift)
			}
		}
	}
}

func BenchmarkDot32(b *testing.B) {
	r := rand.New(rand.NewPCG(7, 8))
	x, y := random(r, 4096), random(r, 4096)
	for b.Loop() {
		Dot32(x, y)
	}
}
