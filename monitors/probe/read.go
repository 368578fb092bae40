package probe

import (
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/trimtab/trimtab/internal/gguf"
	"github.com/trimtab/trimtab/steer"
)

// maxFaults is how many faults of a file are reported at once.
const maxFaults = 16

// Read reads a probe file. All faults are reported at once, each with its
// field. Errors wrap fs.ErrNotExist and the like as os.Open's do. Whether the
// probe fits a model is the business of [Probe.Check].
func Read(path string) (*Probe, error) {
	f, err := gguf.Open(path)
	if err != nil {
		return nil, fmt.Errorf("probe: read: %w", err)
	}
	defer f.Close()
	p, err := read(f)
	if err != nil {
		return nil, fmt.Errorf("probe: read: %s: %w", path, err)
	}
	return p, nil
}

// ReadFrom is Read over a source of the given size in bytes.
func ReadFrom(src io.ReaderAt, size int64) (*Probe, error) {
	if err := checkSize(size); err != nil {
		return nil, fmt.Errorf("probe: read: %w", err)
	}
	f, err := gguf.Read(src, size)
	if err != nil {
		return nil, fmt.Errorf("probe: read: %w", err)
	}
	p, err := read(f)
	if err != nil {
		return nil, fmt.Errorf("probe: read: %w", err)
	}
	return p, nil
}

func checkSize(size int64) error {
	if size > maxFile {
		return fmt.Errorf("size: %d bytes are over the limit of %d", size, maxFile)
	}
	return nil
}

func read(f *gguf.File) (*Probe, error) {
	if err := checkSize(f.Size); err != nil {
		return nil, err
	}
	r := &reader{f: f, p: &Probe{Value: &steer.Value{}}}
	if r.kind() {
		r.facts()
		r.numbers()
		r.layers()
	}
	if len(r.faults) == 0 {
		if err := r.p.Validate(); err != nil {
			r.faults = append(r.faults, err)
		} else if want := r.text(keyContent); want != digest(r.p.Value) {
			r.fault("%s: states %.80q, the tensors have %s: the file was damaged or changed", keyContent, want, digest(r.p.Value))
		}
	}
	if extra := len(r.faults) - maxFaults; extra > 0 {
		r.faults = append(r.faults[:maxFaults], fmt.Errorf("and %d more faults", extra))
	}
	if len(r.faults) > 0 {
		return nil, errors.Join(r.faults...)
	}
	return r.p, nil
}

// reader fills p from f. A fault leaves the field as it was.
type reader struct {
	f      *gguf.File
	p      *Probe
	faults []error
}

func (r *reader) fault(format string, args ...any) {
	r.faults = append(r.faults, fmt.Errorf(format, args...))
}

func (r *reader) has(key string) bool {
	_, ok := r.f.Meta(key)
	return ok
}

// text reads an optional text.
func (r *reader) text(key string) string {
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

// count reads a required integer.
func (r *reader) count(key string, hi int64) int {
	n, err := r.f.Int(key)
	if err != nil {
		r.faults = append(r.faults, err)
		return 0
	}
	if n < 0 || n > hi {
		r.fault("%s: is %d, want 0 to %d", key, n, hi)
		return 0
	}
	return int(n)
}

// real reads a required number.
func (r *reader) real(key string, hi float64) float64 {
	x, err := r.f.Float(key)
	if err != nil {
		r.faults = append(r.faults, err)
		return 0
	}
	if !(x >= 0 && x <= hi) {
		r.fault("%s: is %v, want 0 to %g", key, x, hi)
		return 0
	}
	return x
}

// kind reports whether this is a probe file of a version that is known.
func (r *reader) kind() bool {
	arch, err := r.f.String(keyArchitecture)
	if err != nil {
		r.faults = append(r.faults, err)
		return false
	}
	if arch != architecture {
		r.fault("%s: is %.40q, want %q: not a probe file", keyArchitecture, arch, architecture)
		return false
	}
	if n := r.count(keyVersion, math.MaxInt64); n != ownVersion && len(r.faults) == 0 {
		r.fault("%s: is %d, only %d is known", keyVersion, n, ownVersion)
	}
	return len(r.faults) == 0
}

// facts reads what the probe is.
func (r *reader) facts() {
	if r.has(keyCalibration + "rate") {
		r.p.Calibration = &Calibration{}
	}
	for _, t := range r.p.texts() {
		*t.value = r.text(t.key)
	}
	switch kind := r.text(keyKind); kind {
	case steer.Linear.String():
		r.p.Value.Kind = steer.Linear
	case steer.MLP.String():
		r.p.Value.Kind = steer.MLP
	default:
		r.fault("%s: unknown kind %.40q, want linear or mlp", keyKind, kind)
	}
	r.p.Site.Layer = r.count(keyLayer, steer.MaxVectorLayers-1)
	if point := r.text(keyPoint); point != steer.ResidPost.String() {
		r.fault("%s: unknown point %.40q, want %s", keyPoint, point, steer.ResidPost)
	}
	norm, err := r.f.Bool(keyNorm)
	if err != nil {
		r.faults = append(r.faults, err)
	}
	r.p.Value.Norm = norm
}

func (r *reader) numbers() {
	r.p.Threshold = r.real(keyThreshold, 1)
	if c := r.p.Calibration; c != nil {
		c.Rate = r.real(keyCalibration+"rate", 1)
		c.Texts = r.count(keyCalibration+"texts", math.MaxInt32)
	}
	if !r.has(keyMetrics + "auroc") {
		return
	}
	m := &Metrics{}
	for _, n := range m.numbers() {
		*n.value = r.real(keyMetrics+n.key, n.max)
	}
	m.Positives = r.count(keyMetrics+"positives", math.MaxInt32)
	m.Negatives = r.count(keyMetrics+"negatives", math.MaxInt32)
	r.p.Metrics = m
}

// layers reads the tensors. Their sizes are checked before any is read.
func (r *reader) layers() {
	n := len(r.f.Tensors)
	if n == 0 || n%2 != 0 || n > 2*steer.MaxValueLayers {
		r.fault("tensor_count: is %d, want a weight and a bias for each of 1 to %d layers", n, steer.MaxValueLayers)
		return
	}
	total := int64(0)
	for i := range r.f.Tensors {
		t := &r.f.Tensors[i]
		if t.Type != gguf.F32 {
			r.fault("tensor %q: type is %s, want F32", t.Name, t.Type)
		}
		if total += t.Elements(); t.Elements() > steer.MaxValueWeights || total > 2*steer.MaxValueWeights {
			r.fault("tensor %q: %d values are too many, the limit is %d", t.Name, t.Elements(), steer.MaxValueWeights)
			return
		}
	}
	if len(r.faults) > 0 {
		return
	}
	for i := range n / 2 {
		d, err := r.layer(i)
		if err != nil {
			r.faults = append(r.faults, err)
			return
		}
		r.p.Value.Layers = append(r.p.Value.Layers, d)
	}
}

func (r *reader) layer(i int) (steer.Dense, error) {
	w, err := r.f.Tensor(weightName(i))
	if err != nil {
		return steer.Dense{}, err
	}
	b, err := r.f.Tensor(biasName(i))
	if err != nil {
		return steer.Dense{}, err
	}
	if len(w.Shape) > 2 || b.Rows() != 1 || w.Rows() != b.Shape[0] {
		return steer.Dense{}, fmt.Errorf("tensor %q: shape is %v beside a bias of %v, want [inputs, outputs] and [outputs]", w.Name, w.Shape, b.Shape)
	}
	d := steer.Dense{In: int(w.Shape[0]), Out: int(b.Shape[0])}
	if d.Weight, err = r.values(w.Name); err != nil {
		return d, err
	}
	d.Bias, err = r.values(b.Name)
	return d, err
}

// values reads a tensor, all of it finite.
func (r *reader) values(name string) ([]float32, error) {
	list, err := r.f.ReadTensorF32(name)
	if err != nil {
		return nil, err
	}
	for i, x := range list {
		if x-x != 0 {
			return nil, fmt.Errorf("tensor %q: value %d is %v", name, i, x)
		}
	}
	return list, nil
}
