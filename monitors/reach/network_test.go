package reach

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/trimtab/trimtab/steer"
)

// Gradients of the loss by every parameter agree with finite differences, and
// the network with the steer.Value that it becomes.
func TestGradients(t *testing.T) {
	for _, c := range []struct {
		name   string
		kind   steer.ValueKind
		widths []int
	}{
		{"mlp", steer.MLP, []int{7, 5, 6, 1}}, {"one hidden layer", steer.MLP, []int{4, 9, 1}},
		{"no hidden layer", steer.MLP, []int{5, 1}}, {"facets", steer.Facets, []int{6, 4}},
	} {
		const seed, rows = 31, 9
		r := rand.New(rand.NewPCG(seed, 0))
		n := newNetwork(c.kind, c.widths, rows, 3, r)
		for i := range n.params {
			n.params[i] += float32(r.NormFloat64() * 0.1) // biases too
		}
		targets, unsafe := make([]float32, rows), make([]bool, rows)
		for i := range n.x {
			n.x[i] = float32(r.NormFloat64())
		}
		for i := range targets {
			targets[i], unsafe[i] = float32(r.Float64()*6-3), r.IntN(2) == 0
		}
		v, dv := make([]float32, rows), make([]float32, rows)
		total := func() float64 {
			n.forward(rows, v)
			sum := 0.0
			for i := range v {
				l, slope := loss(v[i], targets[i], unsafe[i], 0.5)
				sum += l
				dv[i] = float32(slope)
			}
			return sum
		}
		total()
		n.backward(rows, dv)
		grads := append([]float32(nil), n.grads...)
		for i := range n.params {
			keep := n.params[i]
			const h = 1e-3
			n.params[i] = keep + h
			up := total()
			n.params[i] = keep - h
			down := total()
			n.params[i] = keep
			want := (up - down) / (2 * h)
			if !near(float64(grads[i]), want, 2e-2*(1+math.Abs(want))) {
				t.Errorf("%s, seed %d: parameter %d has slope %v, differences say %v", c.name, seed, i, grads[i], want)
			}
		}
	}
}

func TestNetworkIsItsValue(t *testing.T) {
	const seed = 8
	r := rand.New(rand.NewPCG(seed, 0))
	for _, norm := range []bool{false, true} {
		const width, rows = 20, 16
		s := &samples{width: width, norm: norm}
		for range rows {
			row := make([]float32, width)
			for i := range row {
				row[i] = float32(r.NormFloat64()*3 + 5)
			}
			s.rows = append(s.rows, row)
		}
		s.measure()
		n := newNetwork(steer.MLP, []int{width, 12, 1}, rows, 2, r)
		for i := range rows {
			s.fill(n.x[i*width:(i+1)*width], i)
		}
		v := make([]float32, rows)
		n.forward(rows, v)
		value := n.value(norm, s.mean, s.spread)
		if err := value.Check(width); err != nil {
			t.Fatal(err)
		}
		work := value.NewWork()
		for i, row := range s.rows {
			if got := value.At(row, work); !near(got, float64(v[i]), 1e-4) {
				t.Errorf("norm %v, seed %d: row %d is %v in training and %v as a value", norm, seed, i, v[i], got)
			}
		}
	}
}

func TestLossSlope(t *testing.T) {
	for v := float32(-3); v <= 3; v += 0.37 {
		for _, unsafe := range []bool{false, true} {
			for _, target := range []float32{-1, 0.2, 1} {
				_, slope := loss(v, target, unsafe, 0.5)
				up, _ := loss(v+1e-3, target, unsafe, 0.5)
				down, _ := loss(v-1e-3, target, unsafe, 0.5)
				if want := (up - down) / 2e-3; !near(slope, want, 1e-2) {
					t.Errorf("v %v, target %v, unsafe %v: slope %v, want %v", v, target, unsafe, slope, want)
				}
			}
		}
	}
}

func TestCholesky(t *testing.T) {
	const seed, n = 3, 9
	r := rand.New(rand.NewPCG(seed, 0))
	b, a, x := make([]float64, n), make([]float64, n*n), make([]float64, n)
	m := make([]float64, n*n)
	for i := range m {
		m[i] = r.NormFloat64()
	}
	for i := range n {
		x[i] = r.NormFloat64()
		for j := range n {
			for k := range n {
				a[i*n+j] += m[i*n+k] * m[j*n+k]
			}
		}
	}
	for i := range n {
		for j := range n {
			b[i] += a[i*n+j] * x[j]
		}
	}
	if err := cholesky(a, b, n); err != nil {
		t.Fatal(err)
	}
	for i := range b {
		if !near(b[i], x[i], 1e-6) {
			t.Errorf("seed %d: x[%d] is %v, want %v", seed, i, b[i], x[i])
		}
	}
	if err := cholesky([]float64{math.NaN()}, []float64{1}, 1); err == nil {
		t.Error("NaN was solved")
	}
}

func TestAUROC(t *testing.T) {
	for _, c := range []struct {
		bad, good []float64
		want      float64
	}{{[]float64{2, 3}, []float64{0, 1}, 1}, {[]float64{0}, []float64{1}, 0}, {[]float64{1, 1}, []float64{1}, 0.5}, {[]float64{1, 3}, []float64{2, 2}, 0.5}} {
		if got := auroc(c.bad, c.good); got != c.want {
			t.Errorf("%v over %v: %v, want %v", c.bad, c.good, got, c.want)
		}
	}
	if !math.IsNaN(auroc(nil, []float64{1})) {
		t.Error("no positives have an area")
	}
}
