package steer

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// randomDense is a layer with weights that keep the scale of what goes in.
func randomDense(r *rand.Rand, in, out int) Dense {
	d := Dense{In: in, Out: out, Weight: make([]float32, in*out), Bias: make([]float32, out)}
	scale := math.Sqrt(2 / float64(in))
	for i := range d.Weight {
		d.Weight[i] = float32(r.NormFloat64() * scale)
	}
	for i := range d.Bias {
		d.Bias[i] = float32(r.NormFloat64() * 0.1)
	}
	return d
}

func randomValue(r *rand.Rand, kind ValueKind, norm bool, widths ...int) *Value {
	v := &Value{Kind: kind, Norm: norm}
	for i := range len(widths) - 1 {
		v.Layers = append(v.Layers, randomDense(r, widths[i], widths[i+1]))
	}
	return v
}

func randomRow(r *rand.Rand, n int, scale float64) []float32 {
	row := make([]float32, n)
	for i := range row {
		row[i] = float32(r.NormFloat64() * scale)
	}
	return row
}

// exactValue is V in float64 by the book, and how far the nearest kink is.
func exactValue(v *Value, row []float64) (value, kink float64) {
	x := append([]float64(nil), row...)
	if v.Norm {
		ms := 0.0
		for _, a := range x {
			ms += a * a
		}
		ms = ms/float64(len(x)) + valueEps
		for i := range x {
			x[i] /= math.Sqrt(ms)
		}
	}
	kink = math.Inf(1)
	for i, l := range v.Layers {
		y := make([]float64, l.Out)
		for o := range y {
			y[o] = float64(l.Bias[o])
			for k, a := range x {
				y[o] += float64(l.Weight[o*l.In+k]) * a
			}
			if i < len(v.Layers)-1 {
				kink = min(kink, math.Abs(y[o]))
				y[o] = max(y[o], 0)
			}
		}
		x = y
	}
	low, second := math.Inf(1), math.Inf(1)
	for _, a := range x {
		low, second = min(low, a), min(second, max(low, a))
	}
	return low, min(kink, second-low)
}

// TestValueGradientByFiniteDifferences judges the gradient by V itself, in
// float64 so that the difference is not rounding.
func TestValueGradientByFiniteDifferences(t *testing.T) {
	tests := []struct {
		name string
		kind ValueKind
		wide []int
	}{
		{"linear", Linear, []int{17, 1}},
		{"facets", Facets, []int{16, 7}},
		{"one facet", Facets, []int{5, 1}},
		{"mlp", MLP, []int{33, 24, 19, 1}},
		{"widening mlp", MLP, []int{8, 64, 1}},
		{"mlp of one layer", MLP, []int{9, 1}},
		{"deep mlp", MLP, []int{12, 30, 5, 30, 1}},
	}
	for _, tt := range tests {
		for _, norm := range []bool{false, true} {
			for seed := range uint64(20) {
				r := rand.New(rand.NewPCG(seed, 5))
				v := randomValue(r, tt.kind, norm, tt.wide...)
				if err := v.Check(tt.wide[0]); err != nil {
					t.Fatalf("%s: %v", tt.name, err)
				}
				checkGradient(t, tt.name, seed, v, randomRow(r, tt.wide[0], 3))
			}
		}
	}
}

func checkGradient(t *testing.T, name string, seed uint64, v *Value, row []float32) {
	t.Helper()
	w := v.NewWork()
	g := make([]float32, len(row))
	got := v.Gradient(g, row, w)
	x := make([]float64, len(row))
	for i := range x {
		x[i] = float64(row[i])
	}
	want, kink := exactValue(v, x)
	if math.Abs(got-want) > 1e-5*(1+math.Abs(want)) || got != v.At(row, w) {
		t.Fatalf("%s norm %v seed %d: V is %v, by At %v, want %v", name, v.Norm, seed, got, v.At(row, w), want)
	}
	if kink < 1e-3 {
		return // the difference might step over it
	}
	const h = 1e-5
	for i := range x {
		old := x[i]
		x[i] = old + h
		up, _ := exactValue(v, x)
		x[i] = old - h
		down, _ := exactValue(v, x)
		x[i] = old
		if slope := (up - down) / (2 * h); math.Abs(slope-float64(g[i])) > 1e-4*(1+math.Abs(slope)) {
			t.Fatalf("%s norm %v seed %d: dV/dx[%d] is %v, the difference says %v", name, v.Norm, seed, i, g[i], slope)
		}
	}
}

func TestValueCheck(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	broken := func(change func(v *Value)) *Value {
		v := randomValue(r, MLP, true, 4, 3, 1)
		change(v)
		return v
	}
	nan := float32(math.NaN())
	tests := []struct {
		name  string
		v     *Value
		wants []string
	}{
		{"nothing", &Value{}, []string{"0 layers"}},
		{"kind", broken(func(v *Value) { v.Kind = 9 }), []string{"unknown value function 9"}},
		{"linear with two layers", broken(func(v *Value) { v.Kind = Linear }), []string{"has 1 layer, not 2"}},
		{"two outputs", randomValue(r, MLP, false, 4, 2), []string{"1 output, not 2"}},
		{"all at once", broken(func(v *Value) {
			v.Layers[0].Weight[2] = nan
			v.Layers[0].Bias[1] = float32(math.Inf(1))
			v.Layers[1].In = 5
		}), []string{"layer 0: weight[2] is NaN", "bias[1] is +Inf", "layer 1: 3 weights and 1 biases, want 5 and 1", "takes 5 values, the one before gives 3"}},
		{"negative", broken(func(v *Value) { v.Layers[0].In = -4 }), []string{"-4 inputs"}},
		{"huge", broken(func(v *Value) { v.Layers[0].In = math.MaxInt }), []string{"want 1 to 32768"}},
		{"deep", broken(func(v *Value) { v.Layers = make([]Dense, 9) }), []string{"9 layers"}},
		{"flat", broken(func(v *Value) { clear(v.Layers[1].Weight) }), []string{"same of every row"}},
	}
	for _, tt := range tests {
		err := tt.v.Check(0)
		for _, want := range tt.wants {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", tt.name, err, want)
			}
		}
	}
	v := randomValue(r, Facets, false, 4, 9)
	if err := v.Check(4); err != nil {
		t.Error(err)
	}
	if err := v.Check(5); err == nil || !strings.Contains(err.Error(), "rows of 4, the model has 5") {
		t.Error("a function of another width was accepted:", err)
	}
}

// TestValueOfBrokenRows: what is not a number must not look safe.
func TestValueOfBrokenRows(t *testing.T) {
	for _, kind := range []ValueKind{Linear, Facets, MLP} {
		for _, norm := range []bool{false, true} {
			r := rand.New(rand.NewPCG(3, 3))
			v := randomValue(r, kind, norm, 6, 1)
			if kind == MLP {
				v = randomValue(r, kind, norm, 6, 8, 1)
			}
			row := randomRow(r, 6, 1)
			row[2] = float32(math.NaN())
			if got := v.At(row, v.NewWork()); got == got {
				t.Errorf("%s, norm %v: V of a row with NaN is %v", kind, norm, got)
			}
		}
	}
}

func TestValueAllocatesNothing(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	v := randomValue(r, MLP, true, 64, 32, 32, 1)
	w, row, g := v.NewWork(), randomRow(r, 64, 1), make([]float32, 64)
	if n := testing.AllocsPerRun(100, func() { v.At(row, w); v.Gradient(g, row, w) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// BenchmarkValue: 256x256 at width 896, the size of a value function for a
// 0.5B model.
func BenchmarkValue(b *testing.B) {
	r := rand.New(rand.NewPCG(2, 2))
	v := randomValue(r, MLP, true, 896, 256, 256, 1)
	w, row, g := v.NewWork(), randomRow(r, 896, 1), make([]float32, 896)
	b.Run("at", func(b *testing.B) {
		for b.Loop() {
			v.At(row, w)
		}
	})
	b.Run("gradient", func(b *testing.B) {
		for b.Loop() {
			v.Gradient(g, row, w)
		}
	})
}
