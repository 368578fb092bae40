package steer

import (
	"errors"
	"fmt"
	"math"

	"github.com/trimtab/trimtab/internal/vec"
)

// ValueKind is the shape of a [Value].
type ValueKind uint8

const (
	// Linear: one layer with one output, V = w.x + b.
	Linear ValueKind = iota
	// Facets: one layer, V is the least of its outputs. V >= c describes a
	// polytope with one facet for each output (SAP, arXiv 2505.24445).
	Facets
	// MLP: layers with a ReLU between them, the last with one output.
	MLP
)

var valueNames = [...]string{Linear: "linear", Facets: "facets", MLP: "mlp"}

func (k ValueKind) String() string {
	if k.Known() {
		return valueNames[k]
	}
	return fmt.Sprintf("value(%d)", uint8(k))
}

// Known reports whether this version of the package defines the shape.
func (k ValueKind) Known() bool { return int(k) < len(valueNames) }

// Limits of a [Value], so that one from a file cannot make a step arbitrarily
// slow: an MLP of 896-256-256-1 has 0.3 million weights and takes less than
// 0.1 ms.
const (
	MaxValueLayers  = 8
	MaxValueWidth   = 1 << 15 // inputs or outputs of one layer
	MaxValueWeights = 1 << 22 // of all layers together
)

// valueEps is added to the mean square of a row before it is divided by its
// root, as RMSNorm does.
const valueEps = 1e-6

// Dense is one layer: Weight*x + Bias.
type Dense struct {
	In, Out int
	Weight  []float32 // row-major, Out rows of In
	Bias    []float32 // Out values
}

// Value is a scalar function of a residual row, as data: how safe, how formal
// or how far from a failure the state is. It must not be changed once it is in
// use, and is then safe for concurrent use; each goroutine brings a
// [ValueWork] of its own.
type Value struct {
	Kind ValueKind
	// Norm divides the row by the root of its mean square first (plus 1e-6
	// under the root), so that V does not depend on how long the row is.
	Norm   bool
	Layers []Dense // one for Linear and Facets, 1 to MaxValueLayers for MLP
}

// ValueWork is scratch memory for one goroutine and one [Value]. Make it with
// [Value.NewWork].
type ValueWork struct {
	x    []float32   // the row, normalised
	acts [][]float32 // what came out of each layer
	g, h []float32   // gradients on the way back
	low  int         // Facets: the least output
	ms   float64     // Norm: mean square plus eps
}

// Width is the length of the rows that the function takes, 0 without layers.
func (v *Value) Width() int {
	if len(v.Layers) == 0 {
		return 0
	}
	return v.Layers[0].In
}

// Check reports every reason why the function makes no sense or does not fit
// rows of the given width; a width of 0 stands for any.
func (v *Value) Check(width int) error {
	faults := v.faults()
	if w := v.Width(); width > 0 && w > 0 && w != width {
		faults = append(faults, fmt.Errorf("the function takes rows of %d, the model has %d", w, width))
	}
	return errors.Join(faults...)
}

func (v *Value) faults() (faults []error) {
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	n := len(v.Layers)
	if !v.Kind.Known() {
		fault("unknown value function %d", uint8(v.Kind))
	}
	switch {
	case n == 0 || n > MaxValueLayers:
		fault("%d layers, want 1 to %d", n, MaxValueLayers)
		return faults
	case v.Kind != MLP && n != 1:
		fault("a %s function has 1 layer, not %d", v.Kind, n)
	}
	weights := 0
	for i := range v.Layers {
		l := &v.Layers[i]
		if err := l.check(); err != nil {
			fault("layer %d: %w", i, err)
		}
		if i > 0 && l.In != v.Layers[i-1].Out {
			fault("layer %d takes %d values, the one before gives %d", i, l.In, v.Layers[i-1].Out)
		}
		weights += len(l.Weight)
	}
	if out := v.Layers[n-1].Out; v.Kind != Facets && out != 1 {
		fault("the last layer of a %s function has 1 output, not %d", v.Kind, out)
	}
	if weights > MaxValueWeights {
		fault("%d weights, the limit is %d", weights, MaxValueWeights)
	}
	if len(faults) == 0 && v.flat() {
		fault("a layer has only zero weights, the function would say the same of every row")
	}
	return faults
}

func (l *Dense) check() error {
	if l.In < 1 || l.In > MaxValueWidth || l.Out < 1 || l.Out > MaxValueWidth {
		return fmt.Errorf("%d inputs and %d outputs, want 1 to %d of each", l.In, l.Out, MaxValueWidth)
	}
	if len(l.Weight) != l.In*l.Out || len(l.Bias) != l.Out {
		return fmt.Errorf("%d weights and %d biases, want %d and %d for %d inputs and %d outputs",
			len(l.Weight), len(l.Bias), l.In*l.Out, l.Out, l.In, l.Out)
	}
	return errors.Join(checkValues("weight", l.Weight), checkValues("bias", l.Bias))
}

// flat reports whether a layer without weights cuts the row off.
func (v *Value) flat() bool {
	for i := range v.Layers {
		if vec.Norm(v.Layers[i].Weight) == 0 {
			return true
		}
	}
	return false
}

// NewWork allocates scratch memory, once for many rows. The function must have
// passed Check.
func (v *Value) NewWork() *ValueWork {
	w := &ValueWork{x: make([]float32, v.Width())}
	widest := v.Width()
	for i := range v.Layers {
		w.acts = append(w.acts, make([]float32, v.Layers[i].Out))
		widest = max(widest, v.Layers[i].Out)
	}
	w.g, w.h = make([]float32, widest), make([]float32, widest)
	return w
}

// At is V of a row that is Width wide. The function must have passed Check. It
// allocates nothing; a row with values that are not finite gives a V that is
// not.
func (v *Value) At(row []float32, w *ValueWork) float64 {
	x := row[:v.Width()]
	if v.Norm {
		w.ms = vec.Dot(x, x)/float64(len(x)) + valueEps
		copy(w.x, x)
		vec.Scale(w.x, float32(1/math.Sqrt(w.ms)))
		x = w.x
	}
	for i := range v.Layers {
		l, out := &v.Layers[i], w.acts[i]
		vec.Dense(out, l.Weight, l.Bias, x)
		if i < len(v.Layers)-1 {
			relu(out)
		}
		x = out
	}
	w.low = 0
	for i, y := range x {
		if y < x[w.low] || y != y {
			w.low = i
		}
		if y != y {
			break
		}
	}
	return float64(x[w.low])
}

// relu keeps NaN, so that a broken row does not look like a good one.
func relu(x []float32) {
	for i, y := range x {
		if y < 0 {
			x[i] = 0
		}
	}
}

// Gradient sets dst to dV/drow and returns V. Where V has a kink, the slope on
// the side of zero of a ReLU and of the first of equal facets is taken. dst and
// row are Width wide and must not overlap. It allocates nothing.
func (v *Value) Gradient(dst, row []float32, w *ValueWork) float64 {
	value := v.At(row, w)
	v.slope(dst, row, w)
	return value
}

// slope is the way back from the row that At has just seen with the same w.
func (v *Value) slope(dst, row []float32, w *ValueWork) {
	last := len(v.Layers) - 1
	l := &v.Layers[last]
	g := w.g[:l.In]
	copy(g, l.Weight[w.low*l.In:(w.low+1)*l.In])
	spare := w.h
	for i := last - 1; i >= 0; i-- {
		for j, y := range w.acts[i] {
			if y == 0 {
				g[j] = 0
			}
		}
		l = &v.Layers[i]
		next := spare[:l.In]
		vec.DenseBack(next, l.Weight, g)
		g, spare = next, g[:cap(g)]
	}
	copy(dst, g)
	if v.Norm {
		unnormalise(dst, row, w.ms)
	}
}

// unnormalise turns a gradient by x/rms into one by x:
// (g - (g.x) x / (n rms^2)) / rms.
func unnormalise(g, x []float32, ms float64) {
	x = x[:len(g)]
	along := vec.Dot(g, x) / (float64(len(x)) * ms)
	rms := math.Sqrt(ms)
	for i := range g {
		g[i] = float32((float64(g[i]) - along*float64(x[i])) / rms)
	}
}
