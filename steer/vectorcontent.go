package steer

import (
	"slices"
	"strings"
)

// block0 reads the direction that has no place among the tensors.
func (r *vectorReader) block0(width *int64) {
	v, ok := r.f.Meta(keyBlock0)
	if !ok {
		return
	}
	if v.Len == 0 {
		r.fault("%s: is empty", keyBlock0)
		return
	}
	if err := sameWidth(int64(v.Len), width); err != nil {
		r.fault("%s: %w", keyBlock0, err)
		return
	}
	list, err := r.f.Floats(keyBlock0)
	if err != nil {
		r.faults = append(r.faults, err)
		return
	}
	d := make([]float32, len(list))
	for i, x := range list {
		d[i] = float32(x)
	}
	if err := r.keep(0, d); err != nil {
		r.fault("%s: %w", keyBlock0, err)
	}
}

// contents compares the directions with what the file says of them. It is of
// use only when all were read.
func (r *vectorReader) contents() {
	if len(r.faults) > 0 {
		return
	}
	slices.Sort(r.layers)
	if ids := strings.ReplaceAll(r.text(keyLayerIDs), " ", ""); r.has(keyLayerIDs) && ids != layerIDs(r.layers) {
		r.fault("%s: lists %.80q, the directions are for %.80q", keyLayerIDs, ids, layerIDs(r.layers))
	}
	r.sameContent(keyContent, r.layers)
	r.sameContent(keyAllContent, r.v.Layers())
}

func (r *vectorReader) sameContent(key string, layers []int) {
	if !r.has(key) {
		return
	}
	if want, got := r.text(key), digest(r.v.Directions, layers); !strings.EqualFold(want, got) {
		r.fault("%s: states %.80s, the directions have %s: the file was damaged or changed", key, want, got)
	}
}

// shift moves every direction one block down, if that was asked for.
func (r *vectorReader) shift(o VectorOptions) {
	if !o.OneLate {
		return
	}
	if f := r.v.Format; f != FormatPlain && f != FormatGenerator {
		r.fault("one block late: a %s file states its blocks, they are not shifted", f)
		return
	}
	moved := make(map[int][]float32, len(r.v.Directions))
	for layer, d := range r.v.Directions {
		moved[layer-1] = d
	}
	r.v.Directions = moved
}

// settle leaves out directions that do nothing and checks the result as a whole.
func (r *vectorReader) settle() {
	for layer, d := range r.v.Directions {
		if !slices.ContainsFunc(d, func(x float32) bool { return x != 0 }) {
			delete(r.v.Directions, layer)
		}
	}
	if len(r.v.Directions) == 0 {
		r.fault("directions: are all zero, the vector would do nothing")
		return
	}
	if err := r.v.Validate(); err != nil {
		r.faults = append(r.faults, err)
	}
}
