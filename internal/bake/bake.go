// Package bake writes steering vectors into copies of model files, so that
// servers that know nothing of vectors serve the steered model.
//
// The model for the reader's head: adding a constant to the output of a block
// is a bias, and many architectures have a place for one, blk.N.ffn_down.bias,
// even where models come without it. [Write] copies a GGUF file and fills that
// place with dose times direction. It needs no engine and streams the weights.
package bake

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"

	"github.com/trimtab/trimtab/internal/gguf"
	"github.com/trimtab/trimtab/steer"
)

// ErrArchitecture is wrapped by the error for a model that has no place for a
// vector.
var ErrArchitecture = errors.New("the architecture has no bias that acts as a vector does")

// ErrWindow is wrapped by the error for a vector that states a window, unless
// [Options.EveryRow] is set.
var ErrWindow = errors.New("a baked vector acts on every row, this one is for some only")

// Options are the choices of [Write].
type Options struct {
	// Scale is the dose; 0 stands for the vector's own.
	Scale float32
	// EveryRow bakes a vector that states a window all the same: a bias acts
	// on every row.
	EveryRow bool
	// Foreign goes on when the vector states that it was made on another model.
	Foreign bool
}

// Report says what [Write] did.
type Report struct {
	Arch   string
	Window string // what the vector states and the copy does not keep to; empty when it states none
	Scale  float32
	Layers []int // blocks that got a bias, or had theirs changed
	Summed []int // those of them that had a bias before
}

// Write copies the model file to out with the vector in it, all or nothing. The
// same arguments give the same bytes. Greedy text equals that of the model under
// a plan that adds the vector to every row; logits differ in their last bits,
// since the sum is taken in another order.
//
// A projection depends on the row and cannot be baked. A window cannot be kept:
// see [Options.EveryRow]. llama.cpp's own control
// vectors never act on block 0, a bias does.
func Write(ctx context.Context, out, model string, v *steer.Vector, o Options) (*Report, error) {
	if err := differ(out, model); err != nil {
		return nil, err
	}
	f, err := gguf.Open(model)
	if err != nil {
		return nil, fmt.Errorf("bake: %w", err)
	}
	defer f.Close()
	b := &baker{f: f, v: v, report: &Report{Layers: v.Layers(), Scale: o.Scale}}
	if o.Scale == 0 {
		b.report.Scale = v.Dose
	}
	if err := b.check(o); err != nil {
		return nil, fmt.Errorf("bake: %w", err)
	}
	w, err := b.writer(ctx)
	if err != nil {
		return nil, fmt.Errorf("bake: %w", err)
	}
	if err := w.WriteFile(out); err != nil {
		return nil, fmt.Errorf("bake: %w", err)
	}
	return b.report, nil
}

// differ refuses to write over the model that is being read.
func differ(out, model string) error {
	a, err := os.Stat(model)
	if err != nil {
		return fmt.Errorf("bake: %w", err)
	}
	if b, err := os.Stat(out); err == nil && os.SameFile(a, b) {
		return fmt.Errorf("bake: %s is the model itself; name another file to write", out)
	}
	return nil
}

type baker struct {
	f      *gguf.File
	v      *steer.Vector
	hash   string // of the model
	factor float64
	report *Report
}

// check reports all reasons why the vector cannot be baked into the model.
func (b *baker) check(o Options) error {
	if err := gguf.CheckModel(b.f); err != nil {
		return err
	}
	if err := b.v.Validate(); err != nil {
		return err
	}
	if b.v.Op != steer.Add {
		return fmt.Errorf("vector %q: glp.mode: %s depends on the row, only a constant can be a bias", b.v.Name, b.v.Op)
	}
	if b.report.Window = b.v.Window(); b.report.Window != "" && !o.EveryRow {
		return fmt.Errorf("vector %q: %w: it was calibrated for rows %s from the prompt's end", b.v.Name, ErrWindow, b.report.Window)
	}
	if s := b.report.Scale; s-s != 0 || s == 0 {
		return fmt.Errorf("scale is %v; give one that is not 0, since the vector states none", s)
	}
	facts, err := FactsOf(b.f)
	if err != nil {
		return err
	}
	b.hash, b.report.Arch = facts.ModelHash, facts.Arch
	if err := b.v.Check(facts); err != nil && !(o.Foreign && errors.Is(err, steer.ErrWrongModel)) {
		return err
	}
	if b.factor, err = residualFactor(b.f, facts); err != nil {
		return err
	}
	var faults []error
	for _, layer := range b.report.Layers {
		faults = append(faults, b.place(layer))
	}
	return errors.Join(faults...)
}

// FactsOf reads what [steer.Vector.Check] asks from a model file that
// [gguf.CheckModel] has passed. They equal those of an engine that runs it.
func FactsOf(f *gguf.File) (steer.Facts, error) {
	var facts steer.Facts
	var err error
	if facts.Arch, err = f.String("general.architecture"); err != nil {
		return facts, err
	}
	layers, err := f.Uint(facts.Arch + ".block_count")
	if err != nil {
		return facts, err
	}
	width, err := f.Uint(facts.Arch + ".embedding_length")
	if err != nil {
		return facts, err
	}
	facts.Layers, facts.Width = int(layers), int(width)
	template, err := f.String("tokenizer.chat_template")
	if err != nil && !errors.Is(err, gguf.ErrMissing) {
		return facts, err
	}
	facts.TemplateHash = steer.HashTemplate(template)
	facts.ModelHash, err = f.Fingerprint()
	return facts, err
}

// place checks that block has a dense feed-forward part whose bias is added
// and not scaled afterwards.
func (b *baker) place(block int) error {
	name := func(suffix string) string { return fmt.Sprintf("blk.%d.%s", block, suffix) }
	if _, err := b.f.Tensor(name("ffn_down.weight")); err != nil {
		return fmt.Errorf("block %d has no dense feed-forward part to put a bias into (a mixture of experts has none)", block)
	}
	for _, suffix := range []string{"ffn_gate_inp.weight", "ffn_down.scale"} {
		if _, err := b.f.Tensor(name(suffix)); err == nil {
			return fmt.Errorf("tensor %q: block %d does not add its bias to the residual as it is", name(suffix), block)
		}
	}
	return nil
}

// writer prepares the copy: everything as it was, the biases at the end.
func (b *baker) writer(ctx context.Context) (*gguf.Writer, error) {
	var names []string
	biases := map[string][]float32{}
	for _, layer := range b.report.Layers {
		name := fmt.Sprintf("blk.%d.ffn_down.bias", layer)
		bias, err := b.bias(name, layer)
		if err != nil {
			return nil, fmt.Errorf("tensor %q: %w", name, err)
		}
		names, biases[name] = append(names, name), bias
	}
	w, err := gguf.CopyOf(ctx, b.f, names...)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		w.AddF32(name, gguf.F32, []int64{int64(len(biases[name]))}, biases[name])
	}
	return w, b.mark(w)
}

// bias is the vector at one block, plus the bias that was there. The product is
// rounded to 32 bits first, as it is at run time.
func (b *baker) bias(name string, layer int) ([]float32, error) {
	d := b.v.Directions[layer]
	bias := make([]float32, len(d))
	if t, err := b.f.Tensor(name); err == nil {
		if t.Elements() != int64(len(d)) {
			return nil, fmt.Errorf("shape is %v, the vector is %d wide", t.Shape, len(d))
		}
		if bias, err = b.f.ReadTensorF32(name); err != nil {
			return nil, err
		}
		b.report.Summed = append(b.report.Summed, layer)
	}
	for i, x := range d {
		bias[i] = float32(float64(bias[i]) + float64(b.report.Scale*x)/b.factor)
		if math.IsInf(float64(bias[i]), 0) || bias[i] != bias[i] {
			return nil, fmt.Errorf("value %d is %v with scale %v", i, bias[i], b.report.Scale)
		}
	}
	return bias, nil
}

// Keys that tell a baked model: how many vectors, and what each was.
const (
	keyCount = "trimtab.baked.count"
	keyBaked = "trimtab.baked.%d.%s" // model_hash, vector, digest, scale, layers
	// maxBaked is the number of vectors in one file; the marks grow with it.
	maxBaked = 64
)

// mark states in the metadata what was done. Marks of earlier vectors stay.
func (b *baker) mark(w *gguf.Writer) error {
	n, err := b.f.Uint(keyCount)
	if err != nil && !errors.Is(err, gguf.ErrMissing) {
		return err
	}
	if n >= maxBaked {
		return fmt.Errorf("%s: %d vectors are in this file, the limit is %d", keyCount, n, maxBaked)
	}
	key := func(name string) string { return fmt.Sprintf(keyBaked, n, name) }
	layers := make([]int32, 0, len(b.report.Layers))
	for _, layer := range slices.Sorted(slices.Values(b.report.Layers)) {
		layers = append(layers, int32(layer))
	}
	w.Set(keyCount, uint32(n+1))
	w.Set(key("model_hash"), b.hash)
	w.Set(key("vector"), b.v.Name)
	w.Set(key("digest"), b.v.Digest())
	w.Set(key("scale"), b.report.Scale)
	w.Set(key("layers"), layers)
	return nil
}
