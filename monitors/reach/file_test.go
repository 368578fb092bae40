package reach

import (
	"bytes"
	"errors"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/trimtab/trimtab/internal/gguf"
	"github.com/trimtab/trimtab/steer"
)

// randomModel makes a valid model from a seed.
func randomModel(r *rand.Rand) *Model {
	m := &Model{Name: "né", Site: steer.Site{Layer: r.IntN(80)}, Aim: Aim{Form: Form(r.IntN(2)), Over: Over(r.IntN(2)), Gamma: 0.9},
		Metrics:   Metrics{Texts: r.IntN(1000), Rows: r.IntN(9999), Epochs: r.IntN(30), Loss: r.Float64(), AUROC: r.Float64()},
		ModelHash: "h", Arch: "llama", DataHash: "d"}
	dense := func(in, out int) steer.Dense {
		d := steer.Dense{In: in, Out: out, Weight: make([]float32, in*out), Bias: make([]float32, out)}
		for i := range d.Weight {
			d.Weight[i] = float32(r.NormFloat64())
		}
		return d
	}
	width := 1 + r.IntN(20)
	switch m.Value = (steer.Value{Kind: steer.ValueKind(r.IntN(3)), Norm: r.IntN(2) == 0}); m.Value.Kind {
	case steer.Linear:
		m.Value.Layers = []steer.Dense{dense(width, 1)}
	case steer.Facets:
		m.Value.Layers = []steer.Dense{dense(width, 1+r.IntN(4))}
	default:
		m.Value.Layers = []steer.Dense{dense(width, 5), dense(5, 3), dense(3, 1)}
	}
	for range r.IntN(3) {
		m.Levels = append(m.Levels, Level{C: r.NormFloat64(), Alpha: 0.02, Run: 1 + r.IntN(4), Texts: 60, On: "safe"})
	}
	if r.IntN(3) == 0 {
		m.Metrics.AUROC = math.NaN()
	}
	return m
}

func TestModelRoundTrip(t *testing.T) {
	const seed = 606
	r := rand.New(rand.NewPCG(seed, 0))
	for i := range 100 {
		m := randomModel(r)
		var a, b bytes.Buffer
		if _, err := m.WriteTo(&a); err != nil {
			t.Fatalf("seed %d, case %d: %v", seed, i, err)
		}
		got, err := ReadModelFrom(bytes.NewReader(a.Bytes()), int64(a.Len()))
		if err != nil {
			t.Fatalf("seed %d, case %d: %v", seed, i, err)
		}
		if _, err := got.WriteTo(&b); err != nil || !bytes.Equal(a.Bytes(), b.Bytes()) {
			t.Fatalf("seed %d, case %d: the second writing differs: %v", seed, i, err)
		}
		if diff := cmp.Diff(m, got, cmpopts.EquateNaNs()); diff != "" {
			t.Fatalf("seed %d, case %d: %s", seed, i, diff)
		}
	}
}

func TestModelFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "v.gguf")
	m := plain()
	if err := m.WriteFile(path); err != nil {
		t.Fatal(err)
	}
	if got, err := ReadModel(path); err != nil || got.Digest() != m.Digest() {
		t.Error(err)
	}
	m.Name = "a\nb"
	bad := filepath.Join(t.TempDir(), "bad.gguf")
	if err := m.WriteFile(bad); err == nil || !strings.Contains(err.Error(), "general.name: ") {
		t.Error(err)
	}
	if _, err := os.Stat(bad); !errors.Is(err, fs.ErrNotExist) {
		t.Error("a file was left")
	}
	if _, err := ReadModel(bad); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	raw[len(raw)-40] ^= 1 // a weight or a bias
	flipped := false
	for at := len(raw) - 200; at < len(raw); at++ {
		b := bytes.Clone(raw)
		b[at] ^= 0x40
		if _, err := ReadModelFrom(bytes.NewReader(b), int64(len(b))); err != nil && strings.Contains(err.Error(), "damaged") {
			flipped = true
		}
	}
	if !flipped {
		t.Error("a changed weight was not noticed")
	}
}

// hostile writes a model file after an edit of its parts.
func hostile(t testing.TB, edit func(w *gguf.Writer)) []byte {
	w, err := plain().writer()
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

func TestModelFaults(t *testing.T) {
	set := func(key string, v any) func(*gguf.Writer) { return func(w *gguf.Writer) { w.Set(key, v) } }
	for _, c := range []struct {
		name string
		edit func(*gguf.Writer)
		want string
	}{
		{"another kind of file", set(keyArchitecture, "controlvector"), `is "controlvector", want "trimtab-value"`},
		{"version", set(keyVersion, uint32(2)), "only 1 is known"},
		{"shape", set(keyKind, "tree"), `trimtab.value.kind: shape "tree"`},
		{"form", set(keyForm, "q"), `trimtab.value.form: form "q"`},
		{"over", set(keyOver, "max"), `trimtab.value.over: over "max"`},
		{"gamma", set(keyGamma, math.NaN()), "trimtab.value.gamma: is NaN"},
		{"layer", set(keyLayer, uint32(9999)), "trimtab.layer: is 9999"},
		{"levels", set(keyLevels, uint32(65)), "trimtab.value.levels: is 65"},
		{"missing level", set(keyLevels, uint32(2)), "trimtab.value.level.1.c"},
		{"threshold", set(keyLevel+"0.c", math.Inf(1)), "level.0.c: is +Inf"},
		{"alpha", set(keyLevel+"0.alpha", 2.0), "alpha is 2"},
		{"norm", set(keyNorm, "yes"), "trimtab.value.norm"},
		{"control character", set(keyDataHash, "\x1b[31m"), "control character"},
		{"digest", set(keyContent, "00"), "damaged or changed"},
		{"tensor too many", func(w *gguf.Writer) { w.AddF32("value.1.weight", gguf.F32, []int64{1}, []float32{1}) }, "tensor_count: is 3"},
		{"other tensors", func(w *gguf.Writer) {
			w.AddF32("a", gguf.F32, []int64{1}, []float32{1})
			w.AddF32("b", gguf.F32, []int64{1}, []float32{1})
		}, `"value.1.weight"`},
	} {
		b := hostile(t, c.edit)
		if _, err := ReadModelFrom(bytes.NewReader(b), int64(len(b))); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

func TestDataRoundTrip(t *testing.T) {
	path := filepath.Join(t.TempDir(), "d.gguf")
	d := world(3, 20, 5)
	if err := d.WriteFile(path); err != nil {
		t.Fatal(err)
	}
	got, err := ReadData(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(d, got); diff != "" || d.Hash() != got.Hash() {
		t.Error(diff)
	}
	half, _ := os.Stat(path)
	d.Trajectories[3].Features[2] = 1e6 + 0.5 // half precision cannot hold it
	d.Trajectories[0].Margins[0] = 0.1
	if err := d.WriteFile(path); err != nil {
		t.Fatal(err)
	}
	if got, err = ReadData(path); err != nil || got.Hash() != d.Hash() {
		t.Error(err)
	}
	if full, _ := os.Stat(path); full.Size() < half.Size()+2500 {
		t.Errorf("%d bytes in half precision, %d in full", half.Size(), full.Size())
	}
	for i := range d.Trajectories {
		d.Trajectories[i].Margins = nil
	}
	var b bytes.Buffer
	if _, err := d.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	if got, err = ReadDataFrom(bytes.NewReader(b.Bytes()), int64(b.Len())); err != nil || got.Trajectories[0].Margins != nil {
		t.Error(err)
	}
	d.Trajectories[1].Margins = make([]float32, len(d.Trajectories[1].Tokens)+1)
	if err := d.WriteFile(path); err == nil || !strings.Contains(err.Error(), "some are labelled") {
		t.Error(err)
	}
	if _, err := (&Data{}).WriteTo(&b); err == nil {
		t.Error("nothing was written")
	}
}

func TestDataFaults(t *testing.T) {
	set := func(key string, v any) func(*gguf.Writer) { return func(w *gguf.Writer) { w.Set(key, v) } }
	for _, c := range []struct {
		name string
		edit func(*gguf.Writer)
		want string
	}{
		{"another kind of file", set(keyArchitecture, "llama"), "not a trajectory file"},
		{"width", set(keyWidth, uint32(0)), "trimtab.width: is 0"},
		{"other width", set(keyWidth, uint32(7)), `tensor "features"`},
		{"sites", set(keySites, []int32{1, 1, 1, 1, 1, 1, 1, 1, 1}), "9 values are over the limit of 8"},
		{"negative site", set(keySites, []int32{-1}), "block -1"},
		{"lengths", set(keyLengths, []int32{1, 2}), "texts for 2 trajectories"},
		{"negative length", set(keyLengths, []int32{-1, 1, 1}), "trajectory 0 has -1 tokens"},
		{"long length", set(keyLengths, []int32{1, 1, math.MaxInt32}), "trajectory 2 has 2147483647 tokens"},
		{"tokens", set(keyTokens, []int32{1}), "trajectory 0 has"},
		{"groups", set(keyGroups, []string{"a"}), "1 texts for 3"},
		{"groups of numbers", set(keyGroups, []int32{1, 2, 3}), "array of strings"},
	} {
		w, err := world(3, 3, 2).writer()
		if err != nil {
			t.Fatal(err)
		}
		c.edit(w)
		var b bytes.Buffer
		if _, err := w.WriteTo(&b); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadDataFrom(bytes.NewReader(b.Bytes()), int64(b.Len())); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

func FuzzReadModel(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 4 {
		var b bytes.Buffer
		if _, err := randomModel(r).WriteTo(&b); err != nil {
			f.Fatal(err)
		}
		f.Add(b.Bytes())
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := ReadModelFrom(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			return
		}
		if err := m.Validate(); err != nil {
			t.Fatalf("a model with faults was read: %v", err)
		}
		var b bytes.Buffer
		if _, err := m.WriteTo(&b); err != nil {
			t.Fatalf("cannot be written: %v", err)
		}
		m.Value.At(make([]float32, m.Value.Width()), m.Value.NewWork())
	})
}

func FuzzReadData(f *testing.F) {
	for seed := range uint64(3) {
		var b bytes.Buffer
		if _, err := world(seed, 2, 2).WriteTo(&b); err != nil {
			f.Fatal(err)
		}
		f.Add(b.Bytes())
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		d, err := ReadDataFrom(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			return
		}
		if err := d.Check(len(d.Trajectories) > 0 && d.Trajectories[0].Margins != nil); err != nil {
			t.Fatalf("data with faults was read: %v", err)
		}
	})
}
