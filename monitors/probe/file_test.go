package probe

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/trimtab/trimtab/internal/gguf"
	"github.com/trimtab/trimtab/steer"
)

func readBytes(b []byte) (*Probe, error) { return ReadFrom(bytes.NewReader(b), int64(len(b))) }

// randomProbe makes a valid probe from a seed.
func randomProbe(r *rand.Rand) *Probe {
	width := 1 + r.IntN(40)
	p := linear(fmt.Sprint("p", r.Uint32()), r.IntN(steer.MaxVectorLayers), float32(r.NormFloat64()), random(r, width)...)
	if r.IntN(2) == 0 {
		p = deep(r, p.Name, p.Site.Layer, []int{width, 1 + r.IntN(9), 1 + r.IntN(5)}[:1+r.IntN(3)]...)
	}
	p.Value.Norm, p.Threshold, p.Method = r.IntN(2) == 0, r.Float64(), "logistic"
	if r.IntN(2) == 0 {
		p.Smooth, p.Labels = "mean:8", [2]string{"safe", "unsafe"}
		p.ModelHash, p.Arch, p.TemplateHash, p.DataHash = "0123456789abcdef", "llama", steer.HashTemplate("x"), "d"
		p.Metrics = &Metrics{AUROC: r.Float64(), Accuracy: r.Float64(), F1: r.Float64(), LogLoss: r.ExpFloat64(), Positives: r.IntN(1000), Negatives: r.IntN(1000)}
		p.Calibration = &Calibration{Method: "conformal", Rate: 0.02, Texts: r.IntN(1000)}
	}
	return p
}

// TestRoundTrip: reading what was written gives the probe back, and writing
// that again the same bytes.
func TestRoundTrip(t *testing.T) {
	const seed = 4713
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for i := range 200 {
		p := randomProbe(r)
		var a, b bytes.Buffer
		if _, err := p.WriteTo(&a); err != nil {
			t.Fatalf("case %d: %v", i, err)
		}
		got, err := readBytes(a.Bytes())
		if err != nil {
			t.Fatalf("case %d: %v", i, err)
		}
		if d := cmp.Diff(p, got); d != "" {
			t.Fatalf("case %d:\n%s", i, d)
		}
		if _, err := got.WriteTo(&b); err != nil || !bytes.Equal(a.Bytes(), b.Bytes()) {
			t.Fatalf("case %d: the second writing differs: %v", i, err)
		}
	}
}

func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "p.gguf")
	p := linear("p", 3, 0.5, 1, 2)
	if err := p.WriteFile(path); err != nil {
		t.Fatal(err)
	}
	got, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(p, got); d != "" {
		t.Error(d)
	}
	p.Threshold = 2
	if err := p.WriteFile(path); err == nil || !strings.Contains(err.Error(), "threshold is 2") {
		t.Errorf("a probe with faults: %v", err)
	}
	if _, err := p.WriteTo(&bytes.Buffer{}); err == nil {
		t.Error("a probe with faults was written")
	}
	if _, err := Read(path); err != nil {
		t.Errorf("the file was touched: %v", err)
	}
	if _, err := Read(filepath.Join(t.TempDir(), "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

// fileOf is a good file of a probe of width 2, edited before it is written.
func fileOf(t testing.TB, edit func(w *gguf.Writer)) []byte {
	t.Helper()
	p := linear("p", 1, 0.5, 1, 2)
	p.Metrics, p.Calibration = &Metrics{}, &Calibration{}
	w, err := p.writer()
	if err != nil {
		t.Fatal(err)
	}
	edit(w)
	var b bytes.Buffer
	if _, err := w.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// bare is a file with all keys and the tensors that the test adds.
func bare(t testing.TB, tensors func(w *gguf.Writer)) []byte {
	t.Helper()
	w := gguf.NewWriter()
	w.Set(keyArchitecture, architecture)
	w.Set(keyVersion, uint32(1))
	w.Set(keyName, "p")
	w.Set(keyKind, "mlp")
	w.Set(keyLayer, uint32(1))
	w.Set(keyPoint, "post")
	w.Set(keyNorm, false)
	w.Set(keyThreshold, 0.5)
	tensors(w)
	var b bytes.Buffer
	if _, err := w.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestReadFaults(t *testing.T) {
	set := func(key string, value any) []byte {
		return fileOf(t, func(w *gguf.Writer) { w.Set(key, value) })
	}
	add := func(w *gguf.Writer, name string, shape []int64, values ...float32) {
		w.AddF32(name, gguf.F32, shape, values)
	}
	damaged := fileOf(t, func(*gguf.Writer) {})
	damaged[len(damaged)-32] ^= 1 // in the bias, which is padded to 32 bytes
	for _, c := range []struct {
		name string
		data []byte
		want string
	}{
		{"empty", nil, "magic"},
		{"a vector", set(keyArchitecture, "controlvector"), `general.architecture: is "controlvector", want "probe": not a probe file`},
		{"version", set(keyVersion, uint32(2)), "trimtab.version: is 2, only 1 is known"},
		{"version is text", set(keyVersion, "1"), "trimtab.version: is string"},
		{"kind", set(keyKind, "facets"), `trimtab.probe.kind: unknown kind "facets", want linear or mlp`},
		{"layer", set(keyLayer, int32(-1)), "trimtab.probe.layer: is -1, want 0 to 511"},
		{"point", set(keyPoint, "mid"), `trimtab.probe.point: unknown point "mid", want post`},
		{"norm", set(keyNorm, uint32(1)), "trimtab.probe.norm: is u32, want a bool"},
		{"threshold", set(keyThreshold, math.NaN()), "trimtab.probe.threshold: is NaN, want 0 to 1"},
		{"smooth", set(keySmooth, "mean:0"), `window "mean:0"`},
		{"label", set(keyPositive, "\x1b[2J"), "trimtab.probe.label.positive: "},
		{"long name", set(keyName, strings.Repeat("x", 5000)), "general.name: is 5000 bytes long"},
		{"no name", set(keyName, ""), "the probe has no name"},
		{"metric", set(keyMetrics+"auroc", 1.5), "trimtab.probe.metrics.auroc: is 1.5, want 0 to 1"},
		{"log loss", set(keyMetrics+"log_loss", math.Inf(1)), "trimtab.probe.metrics.log_loss: is +Inf"},
		{"positives", set(keyMetrics+"positives", int64(1)<<40), "trimtab.probe.metrics.positives: is 1099511627776"},
		{"rate", set(keyCalibration+"rate", -1.0), "trimtab.probe.calibration.rate: is -1"},
		{"content", set(keyContent, "x"), `trimtab.content_sha256: states "x", the tensors have`},
		{"damaged", damaged, "the file was damaged or changed"},
		{"two faults", fileOf(t, func(w *gguf.Writer) { w.Set(keyKind, "x"); w.Set(keyPoint, "y") }), "want linear or mlp\ntrimtab.probe.point"},
		{"a third tensor", fileOf(t, func(w *gguf.Writer) { add(w, "probe.1.weight", []int64{1}, 1) }), "tensor_count: is 3"},
		{"no tensors", bare(t, func(*gguf.Writer) {}), "tensor_count: is 0"},
		{"names", bare(t, func(w *gguf.Writer) { add(w, "w", []int64{2}, 1, 2); add(w, "probe.0.bias", []int64{1}, 1) }), `tensor "probe.0.weight": not in the file`},
		{"F16", bare(t, func(w *gguf.Writer) {
			w.AddF32("probe.0.weight", gguf.F16, []int64{2}, []float32{1, 2})
			add(w, "probe.0.bias", []int64{1}, 1)
		}), "type is F16, want F32"},
		{"shapes", bare(t, func(w *gguf.Writer) {
			add(w, "probe.0.weight", []int64{2, 2}, 1, 2, 3, 4)
			add(w, "probe.0.bias", []int64{1}, 1)
		}), "shape is [2 2] beside a bias of [1]"},
		{"three dimensions", bare(t, func(w *gguf.Writer) {
			add(w, "probe.0.weight", []int64{1, 1, 2}, 1, 2)
			add(w, "probe.0.bias", []int64{2}, 1, 1)
		}), "shape is [1 1 2]"},
		{"NaN weight", bare(t, func(w *gguf.Writer) {
			add(w, "probe.0.weight", []int64{2}, 1, nan)
			add(w, "probe.0.bias", []int64{1}, 1)
		}), `tensor "probe.0.weight": value 1 is NaN`},
		{"NaN bias", bare(t, func(w *gguf.Writer) {
			add(w, "probe.0.weight", []int64{2}, 1, 2)
			add(w, "probe.0.bias", []int64{1}, nan)
		}), `tensor "probe.0.bias": value 0 is NaN`},
		{"layers that do not fit", bare(t, func(w *gguf.Writer) {
			add(w, "probe.0.weight", []int64{2}, 1, 2)
			add(w, "probe.0.bias", []int64{1}, 1)
			add(w, "probe.1.weight", []int64{2}, 1, 2)
			add(w, "probe.1.bias", []int64{1}, 1)
		}), "layer 1 takes 2 values, the one before gives 1"},
		{"too many weights", bare(t, func(w *gguf.Writer) {
			w.AddF32("probe.0.weight", gguf.F32, []int64{1 << 11, 1<<11 + 1}, make([]float32, 1<<22+1<<11))
			add(w, "probe.0.bias", []int64{1}, 1)
		}), "4196352 values are too many"},
	} {
		if _, err := readBytes(c.data); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v\nwant %q", c.name, err, c.want)
		}
	}
	if _, err := ReadFrom(bytes.NewReader(nil), maxFile+1); err == nil || !strings.Contains(err.Error(), "over the limit") {
		t.Errorf("size: %v", err)
	}
}

func FuzzRead(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 4 {
		var b bytes.Buffer
		if _, err := randomProbe(r).WriteTo(&b); err != nil {
			f.Fatal(err)
		}
		f.Add(b.Bytes())
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := readBytes(data)
		if err != nil {
			return
		}
		if err := p.Validate(); err != nil {
			t.Fatalf("a probe with faults was read: %v", err)
		}
		var b bytes.Buffer
		if _, err := p.WriteTo(&b); err != nil {
			t.Fatalf("cannot be written: %v", err)
		}
		again, err := readBytes(b.Bytes())
		if err != nil {
			t.Fatalf("cannot be read again: %v", err)
		}
		if d := cmp.Diff(p, again); d != "" {
			t.Fatal(d)
		}
		if p.Width() <= 4096 {
			if _, err := New(Options{Probes: []*Probe{p}, Model: steer.Facts{Layers: steer.MaxVectorLayers, Width: p.Width()}}); err != nil {
				t.Fatalf("cannot be used: %v", err)
			}
		}
	})
}
