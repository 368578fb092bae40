package steer

import (
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/trimtab/trimtab/internal/gguf"
	"github.com/trimtab/trimtab/internal/vec"
)

// WriteFile writes the vector to path, all or nothing. The file is a llama.cpp
// control vector with GLP keys and the provenance; the same vector gives the
// same bytes. Directions of a projection are written at unit length, which GLP
// asks for and which changes nothing in what [Project] does.
//
// Control vectors have no place for block 0, and a file with a tensor
// direction.0 is refused by llama.cpp as a whole. A direction of block 0 is
// therefore kept in the metadata, under trimtab.direction.0: this package
// applies it, other tools do not see it.
func (v *Vector) WriteFile(path string) error {
	w, err := v.writer()
	if err == nil {
		err = w.WriteFile(path)
	}
	if err != nil {
		return fmt.Errorf("steer: write vector %q: %w", v.Name, err)
	}
	return nil
}

// WriteTo writes the bytes that WriteFile would, and returns their number.
func (v *Vector) WriteTo(out io.Writer) (int64, error) {
	w, err := v.writer()
	if err != nil {
		return 0, fmt.Errorf("steer: write vector %q: %w", v.Name, err)
	}
	return w.WriteTo(out)
}

func (v *Vector) writer() (*gguf.Writer, error) {
	if err := v.Validate(); err != nil {
		return nil, err
	}
	directions := v.Directions
	if v.Op == Project {
		directions = make(map[int][]float32, len(v.Directions))
		for layer, d := range v.Directions {
			directions[layer] = unit(d)
		}
	}
	layers := v.Layers()
	all, first := digest(directions, layers), directions[0]
	if first != nil {
		layers = layers[1:]
	}
	w := gguf.NewWriter()
	v.setPublic(w, layers, digest(directions, layers))
	w.Set(keyVersion, uint32(ownVersion))
	w.Set(keyAllContent, all)
	if first != nil {
		w.Set(keyBlock0, first)
	}
	if err := v.setOwn(w); err != nil {
		return nil, err
	}
	for _, layer := range layers {
		w.AddF32(fmt.Sprint(directionPrefix, layer), gguf.F32, []int64{int64(v.Width())}, directions[layer])
	}
	return w, nil
}

// unit returns d at length 1, or d itself where it is as good as that, so that
// writing what was read gives the same bytes.
func unit(d []float32) []float32 {
	norm := vec.Norm(d)
	if math.Abs(norm-1) < 1e-6 {
		return d
	}
	d = slices.Clone(d)
	for i, x := range d {
		d[i] = float32(float64(x) / norm)
	}
	return d
}

// setPublic states what other tools read.
func (v *Vector) setPublic(w *gguf.Writer, layers []int, content string) {
	w.Set(keyArchitecture, controlVector)
	setText(w, keyName, v.Name)
	hint := v.ModelHint
	if hint == "" {
		hint = v.Arch
	}
	setText(w, keyHint, hint)
	w.Set(keyLayerCount, uint32(len(layers)))
	w.Set(keySpec, uint32(glpVersion))
	w.Set(keyMode, v.Op.String())
	w.Set(keyHook, hookPost)
	w.Set(keyDerivedAt, hookPost)
	if v.Dose != 0 {
		w.Set(keyAlpha, v.Dose)
	}
	w.Set(keyRank, uint32(1))
	if v.Op == Project {
		w.Set(keyUnit, true)
	}
	setText(w, keyMethod, v.Method)
	w.Set(keyLayerIDs, layerIDs(layers))
	w.Set(keyContent, content)
}

// setOwn states the provenance.
func (v *Vector) setOwn(w *gguf.Writer) error {
	for _, t := range v.texts() {
		if err := checkText(*t.value); err != nil {
			return fmt.Errorf("%s: %w", t.key, err)
		}
		if t.own {
			setText(w, t.key, *t.value)
		}
	}
	if v.Method != "" {
		if v.Layer < 0 || v.Layer >= MaxVectorLayers {
			return fmt.Errorf("%s: %d is not a block", keyLayer, v.Layer)
		}
		w.Set(keyLayer, uint32(v.Layer))
	}
	if v.From != nil {
		w.Set(keyWindow+"from", int64(*v.From))
	}
	if v.To != nil {
		w.Set(keyWindow+"to", int64(*v.To))
	}
	if v.MeanNorm != 0 {
		w.Set(keyMeanNorm, v.MeanNorm)
	}
	if c := v.Calibration; c != nil {
		if err := checkText(c.Metric); err != nil {
			return fmt.Errorf("%smetric: %w", keyCalibration, err)
		}
		for _, n := range c.numbers() {
			w.Set(keyCalibration+n.key, *n.value)
		}
		setText(w, keyCalibration+"metric", c.Metric)
		w.Set(keyCalibration+"pairs", int64(c.Pairs))
	}
	return nil
}

func setText(w *gguf.Writer, key, text string) {
	if text != "" {
		w.Set(key, text)
	}
}

type textField struct {
	key   string
	value *string
	own   bool // under "trimtab"
}

// texts lists the fields that are kept as text, for reading and writing alike.
func (v *Vector) texts() []textField {
	return []textField{
		{keyName, &v.Name, false}, {keyHint, &v.ModelHint, false}, {keyMethod, &v.Method, false},
		{keyModelHash, &v.ModelHash, true}, {keyArch, &v.Arch, true}, {keyTemplateHash, &v.TemplateHash, true},
		{keyPosition, &v.Position, true}, {keyDataHash, &v.DataHash, true},
	}
}

type numberField struct {
	key   string
	value *float64
}

// numbers lists the fields that are kept as F64.
func (c *Calibration) numbers() []numberField {
	return []numberField{{"dose", &c.Dose}, {"kl", &c.KL}, {"effect", &c.Effect}, {"low", &c.Low}, {"high", &c.High}}
}
