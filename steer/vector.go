package steer

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/trimtab/trimtab/internal/vec"
)

// Bounds of a vector, so that a file from outside cannot take memory or time
// without limit.
const (
	// MaxVectorLayers is the number of blocks that llama.cpp v0.5.0 can hold.
	MaxVectorLayers = 512
	// MaxVectorWidth is the width of a residual row; the widest in use is 2^15.
	MaxVectorWidth = 1 << 17
)

// Vector is a direction in the residual stream, one for each block it knows,
// together with what it was made from. It is what a fit produces, a file keeps
// and an expression names; [Vector.Interventions] turns it into steps of a
// [Plan]. Make one as a struct literal, or with [ReadVector]; afterwards it and
// its slices must not be written to, and it is then safe for concurrent use.
//
// Empty strings, zeros and nil in the provenance mean "not stated".
type Vector struct {
	Name string
	Op   Op // what the directions are for: Add or Project

	// Directions holds, for a block counted from 0, the direction at
	// ResidPost. All are equally wide, finite and not all zero. Blocks may be
	// missing: nothing is done there.
	Directions map[int][]float32

	Dose float32 // the dose to use when nobody says another; 0 when not stated
	// From and To bound the rows that the vector was calibrated on, as in
	// [When]: those that it acts on when nobody names others. Nil is open.
	From, To *int

	ModelHash    string  // engine.Info.Hash of the model file it was made on
	ModelHint    string  // what other tools call the model, "mistral" or an architecture; not checked
	Arch         string  // architecture of that model, as GGUF spells it
	TemplateHash string  // [HashTemplate] of its chat template
	Method       string  // how it was made: "palrs", "caa", "mean", "pca", "probe"
	Layer        int     // the block that the method chose; stated when Method is
	Position     string  // the tokens whose states were read, in the method's words
	DataHash     string  // identifies the pairs
	MeanNorm     float64 // |mu+|, mean activation norm at Layer (PaLRS, Eq. 4)
	Calibration  *Calibration

	Format VectorFormat // where it was read from; set by ReadVector, never written
}

// Calibration is what was measured when the dose was chosen.
type Calibration struct {
	Dose   float64 // the chosen dose
	KL     float64 // mean KL(unsteered || steered) on neutral prompts, in nats per token
	Effect float64 // mean change of the measure that was optimised, in that measure's unit
	Low    float64 // interval around Effect
	High   float64
	Metric string // what Effect measures: "margin" is nats per answer token
	Pairs  int    // validation pairs it was measured on
}

// Facts are what [Vector.Check] needs to know of a model. Fill them from
// engine.Info; HashTemplate makes the last.
type Facts struct {
	ModelHash    string
	Arch         string
	Layers       int
	Width        int
	TemplateHash string
}

// ErrWrongModel is wrapped by the error of [Vector.Check] when only the
// provenance disagrees: a caller may offer to go on regardless.
var ErrWrongModel = errors.New("the vector was made on another model")

// Layers are the blocks that have a direction, in order.
func (v *Vector) Layers() []int { return slices.Sorted(maps.Keys(v.Directions)) }

// Width is the width of the directions, 0 when there are none.
func (v *Vector) Width() int {
	for _, d := range v.Directions {
		return len(d)
	}
	return 0
}

// Validate reports every reason why the vector can neither be used nor written.
func (v *Vector) Validate() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	switch v.Op {
	case Add, Project:
	case Ascend:
		fault("a vector is for add or project; ascend climbs a value function, which no vector holds: write it into a plan file")
	default:
		fault("a vector is for add or project, not %s", v.Op)
	}
	if len(v.Directions) == 0 {
		fault("the vector has no directions")
	}
	if n := len(v.Directions); n > MaxVectorLayers {
		fault("the vector has %d directions, the limit is %d", n, MaxVectorLayers)
		return errors.Join(faults...)
	}
	layers := v.Layers()
	for _, layer := range layers {
		if err := v.direction(layer, layers[0]); err != nil {
			fault("direction of block %d: %w", layer, err)
		}
	}
	if !finite(v.Dose) {
		fault("dose is %v", v.Dose)
	}
	if !(v.MeanNorm >= 0 && v.MeanNorm <= math.MaxFloat64) {
		fault("mean norm is %v", v.MeanNorm)
	}
	if err := v.windowFault(); err != nil {
		faults = append(faults, err)
	}
	return errors.Join(append(faults, v.Calibration.faults()...)...)
}

func (v *Vector) windowFault() error {
	for _, n := range []*int{v.From, v.To} {
		if n != nil && (*n < -maxOffset || *n > maxOffset) {
			return fmt.Errorf("window: offset %d is not within %d of the prompt's end", *n, maxOffset)
		}
	}
	if v.From != nil && v.To != nil && *v.From >= *v.To {
		return fmt.Errorf("window: [%d:%d] is empty", *v.From, *v.To)
	}
	return nil
}

// Window is the window as expressions write it, such as "[-1:4]"; empty when
// the vector acts on every row.
func (v *Vector) Window() string { return window(v.From, v.To) }

func (v *Vector) direction(layer, first int) error {
	d := v.Directions[layer]
	switch {
	case layer < 0 || layer >= MaxVectorLayers:
		return fmt.Errorf("blocks are 0 to %d", MaxVectorLayers-1)
	case len(d) == 0 || len(d) > MaxVectorWidth:
		return fmt.Errorf("is %d wide, want 1 to %d", len(d), MaxVectorWidth)
	case len(d) != len(v.Directions[first]):
		return fmt.Errorf("is %d wide, that of block %d is %d", len(d), first, len(v.Directions[first]))
	}
	for i, x := range d {
		if !finite(x) {
			return fmt.Errorf("value %d is %v", i, x)
		}
	}
	if norm := vec.Norm(d); norm == 0 {
		return errors.New("is all zero, it would do nothing")
	}
	return nil
}

func (c *Calibration) faults() (faults []error) {
	if c == nil {
		return nil
	}
	for _, f := range []struct {
		name  string
		value float64
	}{{"dose", c.Dose}, {"kl", c.KL}, {"effect", c.Effect}, {"low", c.Low}, {"high", c.High}} {
		if f.value-f.value != 0 {
			faults = append(faults, fmt.Errorf("calibration: %s is %v", f.name, f.value))
		}
	}
	if c.Pairs < 0 {
		faults = append(faults, fmt.Errorf("calibration: %d pairs", c.Pairs))
	}
	return faults
}

// Interventions are the steps of a plan that apply the vector with the given
// dose to the rows of its window: one for each block in order, or for the named
// blocks only. The caller may set When, Renorm and the like on them; the
// directions are shared. A named block without a direction is an error.
func (v *Vector) Interventions(dose float32, layers ...int) ([]Intervention, error) {
	if len(layers) == 0 {
		layers = v.Layers()
	}
	list := make([]Intervention, 0, len(layers))
	for _, layer := range layers {
		d, ok := v.Directions[layer]
		if !ok {
			return nil, fmt.Errorf("vector %q has no direction for block %d, only for %v", v.Name, layer, v.Layers())
		}
		list = append(list, Intervention{Site: Site{Layer: layer}, Op: v.Op, Vector: d, Scale: dose,
			When: When{From: v.From, To: v.To}})
	}
	return list, nil
}

// Check reports every reason why the vector does not fit a model: its size,
// and the provenance where both sides state it. When the size fits and only
// the provenance does not, the error wraps [ErrWrongModel].
func (v *Vector) Check(f Facts) error {
	var faults []error
	for _, layer := range v.Layers() {
		if layer >= f.Layers {
			faults = append(faults, fmt.Errorf("direction of block %d: the model has blocks 0 to %d", layer, f.Layers-1))
		}
	}
	if w := v.Width(); w != f.Width {
		faults = append(faults, fmt.Errorf("width: the vector is %d wide, the model %d", w, f.Width))
	}
	fits := len(faults) == 0
	for _, p := range []struct{ name, vector, model string }{
		{"architecture", v.Arch, f.Arch}, {"model hash", v.ModelHash, f.ModelHash}, {"template hash", v.TemplateHash, f.TemplateHash},
	} {
		if p.vector != "" && p.model != "" && p.vector != p.model {
			faults = append(faults, fmt.Errorf("%s: the vector states %s, the model is %s", p.name, p.vector, p.model))
		}
	}
	switch {
	case len(faults) == 0:
		return nil
	case fits:
		return fmt.Errorf("vector %q: %w: %w", v.Name, ErrWrongModel, errors.Join(faults...))
	}
	return fmt.Errorf("vector %q does not fit the model: %w", v.Name, errors.Join(faults...))
}
