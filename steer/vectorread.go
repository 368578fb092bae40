package steer

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/trimtab/trimtab/internal/gguf"
	"github.com/trimtab/trimtab/internal/vec"
)

// maxVectorFaults is how many faults of a file are reported at once.
const maxVectorFaults = 16

// VectorOptions are the choices of [ReadVector].
type VectorOptions struct {
	// OneLate reads direction.N as that of block N-1. llama.cpp's loader
	// applies direction.N to the output of block N, and so does this package
	// by default. But llama.cpp's own generator (llama-cvector-generator)
	// names what it measured at block N direction.N+1, so its vectors act one
	// block later than they were made for; repeng does not do that. No file
	// states it (FormatGenerator is a hint), so it is asked for, never
	// guessed. Refused for files with glp or trimtab keys, which do state it.
	OneLate bool
}

// ReadVector reads a control-vector file: llama.cpp's, repeng's, EasySteer's,
// GLP's or this package's own. All faults are reported at once, each with its
// field. Blocks without a direction, or with one that is all zero, are left
// out. Errors wrap fs.ErrNotExist and the like as os.Open's do.
func ReadVector(path string, o VectorOptions) (*Vector, error) {
	f, err := gguf.Open(path)
	if err != nil {
		return nil, fmt.Errorf("steer: read vector: %w", err)
	}
	defer f.Close()
	v, err := readVector(f, o)
	if err != nil {
		return nil, fmt.Errorf("steer: read vector: %s: %w", path, err)
	}
	return v, nil
}

// ReadVectorFrom is ReadVector over a source of the given size in bytes.
func ReadVectorFrom(src io.ReaderAt, size int64, o VectorOptions) (*Vector, error) {
	if err := checkSize(size); err != nil {
		return nil, fmt.Errorf("steer: read vector: %w", err)
	}
	f, err := gguf.Read(src, size)
	if err != nil {
		return nil, fmt.Errorf("steer: read vector: %w", err)
	}
	v, err := readVector(f, o)
	if err != nil {
		return nil, fmt.Errorf("steer: read vector: %w", err)
	}
	return v, nil
}

func readVector(f *gguf.File, o VectorOptions) (*Vector, error) {
	if err := checkSize(f.Size); err != nil {
		return nil, err
	}
	r := &vectorReader{f: f, v: &Vector{Directions: map[int][]float32{}}}
	if r.kind() {
		r.format()
		r.meaning()
		r.provenance()
		r.directions()
		r.contents()
		r.shift(o)
	}
	if len(r.faults) == 0 {
		r.settle()
	}
	if extra := len(r.faults) - maxVectorFaults; extra > 0 {
		r.faults = append(r.faults[:maxVectorFaults], fmt.Errorf("and %d more faults", extra))
	}
	if len(r.faults) > 0 {
		return nil, errors.Join(r.faults...)
	}
	return r.v, nil
}

func checkSize(size int64) error {
	if size > maxVectorFile {
		return fmt.Errorf("size: %d bytes are over the limit of %d", size, maxVectorFile)
	}
	return nil
}

// vectorReader fills v from f. A fault leaves the field as it was.
type vectorReader struct {
	f      *gguf.File
	v      *Vector
	layers []int // of the tensors, as named
	faults []error
}

func (r *vectorReader) fault(format string, args ...any) {
	r.faults = append(r.faults, fmt.Errorf(format, args...))
}

func (r *vectorReader) has(key string) bool {
	_, ok := r.f.Meta(key)
	return ok
}

// text reads an optional string.
func (r *vectorReader) text(key string) string {
	if !r.has(key) {
		return ""
	}
	s, err := r.f.String(key)
	if err != nil {
		r.faults = append(r.faults, err)
		return ""
	}
	if err := checkText(s); err != nil {
		r.fault("%s: %w", key, err)
		return ""
	}
	return s
}

// checkText refuses what cannot be shown on a terminal.
func checkText(s string) error {
	switch {
	case len(s) > maxText:
		return fmt.Errorf("is %d bytes long, want at most %d", len(s), maxText)
	case !utf8.ValidString(s):
		return fmt.Errorf("%.40q is not valid UTF-8", s)
	case strings.ContainsFunc(s, unicode.IsControl):
		return fmt.Errorf("%.40q contains a control character", s)
	}
	return nil
}

// number reads an optional integer and checks its range.
func (r *vectorReader) number(key string, lo, hi int64) int64 {
	if !r.has(key) {
		return lo
	}
	n, err := r.f.Int(key)
	if err != nil {
		r.faults = append(r.faults, err)
		return lo
	}
	if n < lo || n > hi {
		r.fault("%s: is %d, want %d to %d", key, n, lo, hi)
		return lo
	}
	return n
}

// offset reads an optional bound of a window.
func (r *vectorReader) offset(key string) *int {
	if !r.has(key) {
		return nil
	}
	before := len(r.faults)
	n := int(r.number(key, -maxOffset, maxOffset))
	if len(r.faults) > before {
		return nil
	}
	return &n
}

// real reads an optional finite number.
func (r *vectorReader) real(key string) float64 {
	if !r.has(key) {
		return 0
	}
	x, err := r.f.Float(key)
	if err != nil {
		r.faults = append(r.faults, err)
		return 0
	}
	if x-x != 0 {
		r.fault("%s: is %v, want a finite number", key, x)
		return 0
	}
	return x
}

func (r *vectorReader) kind() bool {
	arch, err := r.f.String(keyArchitecture)
	if err != nil {
		r.faults = append(r.faults, err)
		return false
	}
	if arch != controlVector {
		r.fault("%s: is %.40q, want %q: not a vector file", keyArchitecture, arch, controlVector)
		return false
	}
	return true
}

func (r *vectorReader) format() {
	count, _ := r.f.Meta(keyLayerCount)
	r.v.Format = FormatPlain
	switch {
	case r.has(keyVersion):
		r.v.Format = FormatTrimtab
	case r.glp():
		r.v.Format = FormatGLP
	case count.Type == gguf.Int32 && r.has(keyLayerCount):
		r.v.Format = FormatGenerator
	}
	r.exactly(keyVersion, ownVersion)
	r.exactly(keySpec, glpVersion)
	r.exactly(keyRank, 1)
}

func (r *vectorReader) glp() bool {
	for _, key := range r.f.Keys() {
		if strings.HasPrefix(key, "glp.") {
			return true
		}
	}
	return false
}

// exactly refuses an optional number that is not the one this version knows.
func (r *vectorReader) exactly(key string, want int64) {
	if n := r.number(key, 0, math.MaxInt64); r.has(key) && n != want {
		r.fault("%s: is %d, only %d is known", key, n, want)
	}
}

// meaning reads what the directions are for.
func (r *vectorReader) meaning() {
	switch mode := r.text(keyMode); mode {
	case "", Add.String():
		r.v.Op = Add
		if mode == "" && r.has(keyMode) {
			r.fault("%s: is empty, want add or project", keyMode)
		}
	case Project.String():
		r.v.Op = Project
	default:
		r.fault("%s: unknown mode %.40q, want add or project", keyMode, mode)
	}
	if hook := r.text(keyHook); r.has(keyHook) && hook != hookPost {
		r.fault("%s: unknown hook point %.40q, want %s; a dose does not carry over from one point to another", keyHook, hook, hookPost)
	}
	if r.text(keyStructure) == perStep {
		r.fault("%s: %s counts steps of a looped model, not blocks", keyStructure, perStep)
	}
	r.v.From, r.v.To = r.offset(keyWindow+"from"), r.offset(keyWindow+"to")
	if err := r.v.windowFault(); err != nil {
		r.fault("trimtab.%w", err)
	}
	r.v.Dose = float32(r.real(keyAlpha))
	if !finite(r.v.Dose) {
		r.fault("%s: is too large for a 32-bit float", keyAlpha)
	}
}

func (r *vectorReader) provenance() {
	for _, t := range r.v.texts() {
		*t.value = r.text(t.key)
	}
	r.v.Layer = int(r.number(keyLayer, 0, MaxVectorLayers-1))
	r.v.MeanNorm = r.real(keyMeanNorm)
	if r.v.MeanNorm < 0 {
		r.fault("%s: is %v, want a norm", keyMeanNorm, r.v.MeanNorm)
	}
	if !r.has(keyCalibration + "dose") {
		return
	}
	c := &Calibration{}
	for _, n := range c.numbers() {
		*n.value = r.real(keyCalibration + n.key)
	}
	c.Metric = r.text(keyCalibration + "metric")
	c.Pairs = int(r.number(keyCalibration+"pairs", 0, math.MaxInt32))
	r.v.Calibration = c
}

func (r *vectorReader) directions() {
	if n := len(r.f.Tensors); n > MaxVectorLayers {
		r.fault("tensor_count: %d directions are over the limit of %d", n, MaxVectorLayers)
		return
	}
	width := int64(0)
	for i := range r.f.Tensors {
		t := &r.f.Tensors[i]
		layer, err := directionLayer(t.Name)
		if err == nil {
			err = r.direction(t, layer, &width)
		}
		if err != nil {
			r.fault("tensor %q: %w", t.Name, err)
		}
	}
	r.block0(&width)
	if len(r.f.Tensors) == 0 && !r.has(keyBlock0) {
		r.fault("tensor_count: is 0, the file has no directions")
	}
	if n := r.number(keyLayerCount, 0, 1<<20); r.has(keyLayerCount) && n < int64(len(r.f.Tensors)) {
		r.fault("%s: is %d, but there are %d directions", keyLayerCount, n, len(r.f.Tensors))
	}
}

// directionLayer reads the block out of a tensor's name. Only the plain decimal
// spelling is taken: llama.cpp reads direction.1 and direction.01 as one block
// and adds them up.
func directionLayer(name string) (int, error) {
	digits, ok := strings.CutPrefix(name, directionPrefix)
	n, err := strconv.Atoi(digits)
	if !ok || err != nil || strconv.Itoa(n) != digits {
		return 0, errors.New("is not named direction.N")
	}
	if n == 0 {
		return 0, errors.New("is for block 0, which control vectors cannot act on: N starts at 1")
	}
	if n < 0 || n >= MaxVectorLayers {
		return 0, fmt.Errorf("block %d is not in 1 to %d", n, MaxVectorLayers-1)
	}
	return n, nil
}

func (r *vectorReader) direction(t *gguf.Tensor, layer int, width *int64) error {
	if t.Type != gguf.F32 {
		return fmt.Errorf("type is %s, want F32", t.Type)
	}
	if t.Rows() != 1 {
		return fmt.Errorf("shape is %v, want one dimension", t.Shape)
	}
	if err := sameWidth(t.Shape[0], width); err != nil {
		return err
	}
	d, err := r.f.ReadTensorF32(t.Name)
	if err != nil {
		return err
	}
	r.layers = append(r.layers, layer)
	return r.keep(layer, d)
}

// sameWidth checks a width against the bound and those before it.
func sameWidth(n int64, width *int64) error {
	if n > MaxVectorWidth {
		return fmt.Errorf("is %d wide, want at most %d", n, MaxVectorWidth)
	}
	if *width == 0 {
		*width = n
	}
	if n != *width {
		return fmt.Errorf("is %d wide, the direction before it %d", n, *width)
	}
	return nil
}

// keep takes a direction over if its values can be used.
func (r *vectorReader) keep(layer int, d []float32) error {
	for i, x := range d {
		if !finite(x) {
			return fmt.Errorf("value %d is %v", i, x)
		}
	}
	r.v.Directions[layer] = d
	if norm := vec.Norm(d); r.v.Op == Project && norm != 0 && math.Abs(norm-1) > unitTolerance {
		return fmt.Errorf("norm is %.4g, %s project needs unit directions", norm, keyMode)
	}
	return nil
}
