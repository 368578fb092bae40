package reach

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/trimtab/trimtab/internal/gguf"
	"github.com/trimtab/trimtab/steer"
)

// Keys of a value-function file. docs/formats.md lists them for other programs.
const (
	keyArchitecture = "general.architecture"
	keyName         = "general.name"
	keyVersion      = "trimtab.version"
	keyContent      = "trimtab.content_sha256"
	keyModelHash    = "trimtab.model_hash"
	keyArch         = "trimtab.arch"
	keyTemplateHash = "trimtab.template_hash"
	keyDataHash     = "trimtab.data_hash"
	keyLayer        = "trimtab.layer"

	keyKind   = "trimtab.value.kind"
	keyNorm   = "trimtab.value.norm"
	keyForm   = "trimtab.value.form"
	keyOver   = "trimtab.value.over"
	keyGamma  = "trimtab.value.gamma"
	keyTexts  = "trimtab.value.texts"
	keyRows   = "trimtab.value.rows"
	keyEpochs = "trimtab.value.epochs"
	keyLoss   = "trimtab.value.loss"
	keyAUROC  = "trimtab.value.auroc"
	keyLevels = "trimtab.value.levels"
	keyLevel  = "trimtab.value.level." // I.c, .alpha, .run, .texts, .on

	valueArch  = "trimtab-value"
	ownVersion = 1
	// maxModelFile is the size of a file in bytes: all weights and room for the rest.
	maxModelFile = steer.MaxValueWeights*4 + 8<<20
	maxFaults    = 16 // of a file, reported at once
)

// tensor names of layer i.
func weightName(i int) string { return fmt.Sprintf("value.%d.weight", i) }
func biasName(i int) string   { return fmt.Sprintf("value.%d.bias", i) }

type textField struct {
	key   string
	value *string
}

func (m *Model) texts() []textField {
	return []textField{{keyName, &m.Name}, {keyModelHash, &m.ModelHash}, {keyArch, &m.Arch},
		{keyTemplateHash, &m.TemplateHash}, {keyDataHash, &m.DataHash}}
}

type countField struct {
	key   string
	value *int
}

func (m *Model) counts() []countField {
	return []countField{{keyTexts, &m.Metrics.Texts}, {keyRows, &m.Metrics.Rows}, {keyEpochs, &m.Metrics.Epochs}}
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

// Digest identifies the function itself: SHA-256 in hexadecimal over weights
// and biases, F32 in little endian, layer by layer.
func (m *Model) Digest() string {
	h := sha256.New()
	var b []byte
	for i := range m.Value.Layers {
		for _, list := range [][]float32{m.Value.Layers[i].Weight, m.Value.Layers[i].Bias} {
			b = b[:0]
			for _, x := range list {
				b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
			}
			h.Write(b)
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

// WriteFile writes the model to path, all or nothing. Equal models give equal
// bytes.
func (m *Model) WriteFile(path string) error {
	w, err := m.writer()
	if err == nil {
		err = w.WriteFile(path)
	}
	if err != nil {
		return fmt.Errorf("reach: write value function %q: %w", m.Name, err)
	}
	return nil
}

// WriteTo writes the bytes that WriteFile would, and returns their number.
func (m *Model) WriteTo(out io.Writer) (int64, error) {
	w, err := m.writer()
	if err != nil {
		return 0, fmt.Errorf("reach: write value function %q: %w", m.Name, err)
	}
	return w.WriteTo(out)
}

func (m *Model) writer() (*gguf.Writer, error) {
	if err := m.Validate(); err != nil {
		return nil, err
	}
	w := gguf.NewWriter()
	w.Set(keyArchitecture, valueArch)
	w.Set(keyVersion, uint32(ownVersion))
	for _, t := range m.texts() {
		if *t.value != "" {
			w.Set(t.key, *t.value)
		}
	}
	w.Set(keyContent, m.Digest())
	w.Set(keyLayer, uint32(m.Site.Layer))
	w.Set(keyKind, m.Value.Kind.String())
	w.Set(keyNorm, m.Value.Norm)
	w.Set(keyForm, m.Aim.Form.String())
	w.Set(keyOver, m.Aim.Over.String())
	w.Set(keyGamma, m.Aim.Gamma)
	for _, c := range m.counts() {
		w.Set(c.key, int64(*c.value))
	}
	w.Set(keyLoss, m.Metrics.Loss)
	if m.Metrics.AUROC == m.Metrics.AUROC {
		w.Set(keyAUROC, m.Metrics.AUROC)
	}
	w.Set(keyLevels, uint32(len(m.Levels)))
	for i, l := range m.Levels {
		at := fmt.Sprint(keyLevel, i)
		w.Set(at+".c", l.C)
		w.Set(at+".alpha", l.Alpha)
		w.Set(at+".run", uint32(l.Run))
		w.Set(at+".texts", uint32(l.Texts))
		w.Set(at+".on", l.On)
	}
	for i := range m.Value.Layers {
		l := &m.Value.Layers[i]
		w.AddF32(weightName(i), gguf.F32, []int64{int64(l.In), int64(l.Out)}, l.Weight)
		w.AddF32(biasName(i), gguf.F32, []int64{int64(l.Out)}, l.Bias)
	}
	return w, nil
}

// ReadModel reads a value-function file. All faults are reported at once, each
// with its field. Errors wrap fs.ErrNotExist and the like as os.Open's do.
func ReadModel(path string) (*Model, error) {
	f, err := gguf.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reach: read value function: %w", err)
	}
	defer f.Close()
	m, err := readModel(f)
	if err != nil {
		return nil, fmt.Errorf("reach: read value function: %s: %w", path, err)
	}
	return m, nil
}

// ReadModelFrom is ReadModel over a source of the given size in bytes.
func ReadModelFrom(src io.ReaderAt, size int64) (*Model, error) {
	if size > maxModelFile {
		return nil, fmt.Errorf("reach: read value function: %d bytes are over the limit of %d", size, maxModelFile)
	}
	f, err := gguf.Read(src, size)
	if err != nil {
		return nil, fmt.Errorf("reach: read value function: %w", err)
	}
	m, err := readModel(f)
	if err != nil {
		return nil, fmt.Errorf("reach: read value function: %w", err)
	}
	return m, nil
}

func readModel(f *gguf.File) (*Model, error) {
	if f.Size > maxModelFile {
		return nil, fmt.Errorf("size: %d bytes are over the limit of %d", f.Size, maxModelFile)
	}
	r := &fields{f: f}
	if !r.kind(valueArch, "a value function") {
		return nil, errors.Join(r.faults...)
	}
	m := &Model{}
	for _, t := range m.texts() {
		*t.value = r.text(t.key)
	}
	m.Site.Layer = r.number(keyLayer, 0, steer.MaxVectorLayers-1)
	m.Value.Norm = r.flag(keyNorm)
	m.Value.Kind = named(r, keyKind, shapeNamed)
	m.Aim.Form = named(r, keyForm, ParseForm)
	m.Aim.Over = named(r, keyOver, ParseOver)
	m.Aim.Gamma = r.real(keyGamma)
	for _, c := range m.counts() {
		*c.value = r.number(c.key, 0, math.MaxInt32)
	}
	m.Metrics.Loss, m.Metrics.AUROC = r.real(keyLoss), math.NaN()
	if r.has(keyAUROC) {
		m.Metrics.AUROC = r.real(keyAUROC)
	}
	for i := range r.number(keyLevels, 0, MaxLevels) {
		at := fmt.Sprint(keyLevel, i)
		m.Levels = append(m.Levels, Level{C: r.real(at + ".c"), Alpha: r.real(at + ".alpha"),
			Run: r.number(at+".run", 1, MaxRun), Texts: r.number(at+".texts", 1, math.MaxInt32), On: r.text(at + ".on")})
	}
	if len(r.faults) == 0 {
		r.layers(m)
	}
	if err := r.done(); err != nil {
		return nil, err
	}
	if want, got := r.text(keyContent), m.Digest(); r.has(keyContent) && !strings.EqualFold(want, got) {
		return nil, fmt.Errorf("%s: states %.80s, the weights have %s: the file was damaged or changed", keyContent, want, got)
	}
	return m, m.Validate()
}

// layers reads the weights.
func (r *fields) layers(m *Model) {
	n := len(r.f.Tensors) / 2
	if n < 1 || n > steer.MaxValueLayers || len(r.f.Tensors) != 2*n {
		r.fault("tensor_count: is %d, want a weight and a bias for each of 1 to %d layers", len(r.f.Tensors), steer.MaxValueLayers)
		return
	}
	for i := range n {
		w, err1 := r.f.Tensor(weightName(i))
		b, err2 := r.f.Tensor(biasName(i))
		if err := errors.Join(err1, err2); err != nil {
			r.faults = append(r.faults, err)
			return
		}
		if !isF32(w, 2) || !isF32(b, 1) || w.Shape[1] != b.Shape[0] || max(w.Shape[0], w.Shape[1]) > steer.MaxValueWidth || w.Elements() > steer.MaxValueWeights {
			r.fault("layer %d: shapes %v and %v (%s, %s), want a matrix and one bias a row in F32, at most %d wide and %d weights",
				i, w.Shape, b.Shape, w.Type, b.Type, steer.MaxValueWidth, steer.MaxValueWeights)
			return
		}
		d := steer.Dense{In: int(w.Shape[0]), Out: int(w.Shape[1])}
		if d.Weight, err1 = r.f.ReadTensorF32(w.Name); err1 == nil {
			d.Bias, err1 = r.f.ReadTensorF32(b.Name)
		}
		if err1 != nil {
			r.faults = append(r.faults, err1)
			return
		}
		m.Value.Layers = append(m.Value.Layers, d)
	}
}

func isF32(t *gguf.Tensor, dims int) bool {
	shape := t.Shape
	for len(shape) > dims && shape[len(shape)-1] == 1 {
		shape = shape[:len(shape)-1]
	}
	return t.Type == gguf.F32 && len(t.Shape) >= dims && len(shape) == dims
}

// named reads a text that must be one of a few.
func named[T any](r *fields, key string, parse func(string) (T, error)) T {
	v, err := parse(r.text(key))
	if err != nil {
		r.fault("%s: %w", key, err)
	}
	return v
}

// fields reads metadata and collects faults.
type fields struct {
	f      *gguf.File
	faults []error
}

func (r *fields) fault(format string, args ...any) {
	r.faults = append(r.faults, fmt.Errorf(format, args...))
}

func (r *fields) has(key string) bool { return slices.Contains(r.f.Keys(), key) }

func (r *fields) done() error {
	if extra := len(r.faults) - maxFaults; extra > 0 {
		r.faults = append(r.faults[:maxFaults], fmt.Errorf("and %d more faults", extra))
	}
	return errors.Join(r.faults...)
}

// kind checks what the file says it is.
func (r *fields) kind(want, what string) bool {
	if arch := r.text(keyArchitecture); arch != want {
		r.fault("%s: is %.40q, want %q: not %s", keyArchitecture, arch, want, what)
	}
	if v := r.number(keyVersion, 0, math.MaxInt32); v != ownVersion {
		r.fault("%s: is %d, only %d is known", keyVersion, v, ownVersion)
	}
	return len(r.faults) == 0
}

// text reads an optional text.
func (r *fields) text(key string) string {
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

// number reads an integer and checks its range.
func (r *fields) number(key string, lo, hi int64) int {
	n, err := r.f.Int(key)
	if err != nil {
		r.faults = append(r.faults, err)
		return int(lo)
	}
	if n < lo || n > hi {
		r.fault("%s: is %d, want %d to %d", key, n, lo, hi)
		return int(lo)
	}
	return int(n)
}

// real reads a finite number.
func (r *fields) real(key string) float64 {
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

func (r *fields) flag(key string) bool {
	b, err := r.f.Bool(key)
	if err != nil {
		r.faults = append(r.faults, err)
	}
	return b
}
