package bake

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/trimtab/trimtab/internal/gguf"
	"github.com/trimtab/trimtab/steer"
)

// TestWriteChangesOnlyBiases: every tensor and key of the model is in the copy,
// byte for byte, with the biases and marks beside them.
func TestWriteChangesOnlyBiases(t *testing.T) {
	model := modelFile(t, gguf.Q8_0)
	out := filepath.Join(t.TempDir(), "out.gguf")
	v := randomVector(1, 64, 2, 0, 3)
	r, err := Write(t.Context(), out, model, v, Options{Scale: 0.5})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&Report{Arch: "llama", Scale: 0.5, Layers: []int{0, 3}}, r); diff != "" {
		t.Error(diff)
	}
	a, b := open(t, model), open(t, out)
	for i := range a.Tensors {
		name := a.Tensors[i].Name
		if !bytes.Equal(stored(t, a, name), stored(t, b, name)) {
			t.Errorf("tensor %s differs", name)
		}
	}
	if len(b.Tensors) != len(a.Tensors)+2 || b.Alignment != a.Alignment {
		t.Errorf("%d tensors, alignment %d", len(b.Tensors), b.Alignment)
	}
	if diff := cmp.Diff(a.Keys(), b.Keys()[:len(a.Keys())]); diff != "" {
		t.Error(diff)
	}
	for layer, d := range v.Directions {
		bias, err := b.ReadTensorF32(map[int]string{0: "blk.0.ffn_down.bias", 3: "blk.3.ffn_down.bias"}[layer])
		if err != nil {
			t.Fatal(err)
		}
		for i := range d {
			if bias[i] != 0.5*d[i] {
				t.Fatalf("block %d: value %d is %v, want %v", layer, i, bias[i], 0.5*d[i])
			}
		}
	}
	marks(t, a, b, v)
	if err := gguf.CheckModel(b); err != nil {
		t.Error(err)
	}
}

func marks(t *testing.T, model, baked *gguf.File, v *steer.Vector) {
	t.Helper()
	hash, err := model.Fingerprint()
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{"model_hash": hash, "vector": "random", "digest": v.Digest()} {
		if got, err := baked.String("trimtab.baked.0." + key); err != nil || got != want {
			t.Errorf("%s is %q, %v; want %q", key, got, err, want)
		}
	}
	if layers, err := baked.Ints("trimtab.baked.0.layers"); err != nil || !cmp.Equal(layers, []int64{0, 3}) {
		t.Errorf("layers %v, %v", layers, err)
	}
	if scale, err := baked.Float("trimtab.baked.0.scale"); err != nil || scale != 0.5 {
		t.Errorf("scale %v, %v", scale, err)
	}
}

func stored(t *testing.T, f *gguf.File, name string) []byte {
	t.Helper()
	r, err := f.TensorData(name)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestBakeTwice: the second vector is added to the first, whose marks stay, and
// taking both away again leaves zeros.
func TestBakeTwice(t *testing.T) {
	dir := t.TempDir()
	model := modelFile(t, gguf.F32)
	one, two := filepath.Join(dir, "1.gguf"), filepath.Join(dir, "2.gguf")
	v := randomVector(2, 64, 1, 1)
	if _, err := Write(t.Context(), one, model, v, Options{Scale: 2}); err != nil {
		t.Fatal(err)
	}
	r, err := Write(t.Context(), two, one, v, Options{Scale: -2})
	if err != nil || !cmp.Equal(r.Summed, []int{1}) {
		t.Fatalf("%+v, %v", r, err)
	}
	f := open(t, two)
	bias, err := f.ReadTensorF32("blk.1.ffn_down.bias")
	if err != nil || !cmp.Equal(bias, make([]float32, 64)) {
		t.Errorf("%v, %v", bias, err)
	}
	if n, err := f.Uint("trimtab.baked.count"); err != nil || n != 2 {
		t.Errorf("count %d, %v", n, err)
	}
	if _, err := f.String("trimtab.baked.1.vector"); err != nil {
		t.Error(err)
	}
}

// TestResidualScale: where the graph scales the bias, the file undoes it.
func TestResidualScale(t *testing.T) {
	model := modelFile(t, gguf.F32)
	v := randomVector(3, 64, 1, 2)
	for _, c := range []struct {
		arch   string
		set    map[string]any
		factor float64
	}{
		{"granite", map[string]any{"logit_scale": float32(1)}, 1},
		{"granite", map[string]any{"residual_scale": float32(0)}, 1},
		{"granite", map[string]any{"residual_scale": float32(0.25)}, 0.25},
		{"minicpm", nil, 0.7}, // 1.4/sqrt(4)
		{"minicpm", map[string]any{"residual_scale": float32(0.5)}, 0.5},
	} {
		out := filepath.Join(t.TempDir(), "out.gguf")
		if _, err := Write(t.Context(), out, renamed(t, model, c.arch, c.set), v, Options{Scale: 1}); err != nil {
			t.Errorf("%s %v: %v", c.arch, c.set, err)
			continue
		}
		bias, err := open(t, out).ReadTensorF32("blk.2.ffn_down.bias")
		if err != nil {
			t.Fatal(err)
		}
		for i, x := range v.Directions[2] {
			if got := float64(bias[i]) * c.factor; math.Abs(got-float64(x)) > 1e-7 {
				t.Fatalf("%s %v: value %d comes out as %v, want %v", c.arch, c.set, i, got, x)
			}
		}
	}
}

// TestRefusals: what cannot be baked says why, and leaves no file.
func TestRefusals(t *testing.T) {
	llama := modelFile(t, gguf.F32)
	good := randomVector(4, 64, 1, 1)
	with := func(edit func(v *steer.Vector)) *steer.Vector { v := *good; edit(&v); return &v }
	scaled := changed(t, llama, func(_ *gguf.File, w *gguf.Writer) {
		w.AddF32("blk.1.ffn_down.scale", gguf.F32, []int64{1}, []float32{2})
	})
	full := changed(t, llama, func(_ *gguf.File, w *gguf.Writer) { w.Set(keyCount, uint32(maxBaked)) })
	for _, c := range []struct {
		name, model string
		v           *steer.Vector
		o           Options
		want        string
	}{
		{"qwen3", presetFile(t, "tiny-qwen3", gguf.F32), randomVector(4, 128, 1, 1), Options{Scale: 1}, "qwen3: the architecture has no bias"},
		{"gemma3", presetFile(t, "tiny-gemma3", gguf.F32), randomVector(4, 96, 1, 1), Options{Scale: 1}, "gemma3: the architecture has no bias"},
		{"projection", llama, with(func(v *steer.Vector) { v.Op = steer.Project }), Options{Scale: 1}, "glp.mode: project depends on the row"},
		{"no scale", llama, good, Options{}, "scale is 0"},
		{"scale NaN", llama, good, Options{Scale: float32(math.NaN())}, "scale is NaN"},
		{"overflow", llama, good, Options{Scale: math.MaxFloat32}, ""},
		{"width", llama, randomVector(4, 32, 1, 1), Options{Scale: 1}, "width: the vector is 32 wide, the model 64"},
		{"layer", llama, randomVector(4, 64, 1, 4), Options{Scale: 1}, "direction of block 4: the model has blocks 0 to 3"},
		{"another model", llama, with(func(v *steer.Vector) { v.ModelHash = "0" }), Options{Scale: 1}, "model hash: the vector states 0"},
		{"foreign width", llama, with(func(v *steer.Vector) { v.ModelHash = "0"; v.Directions = map[int][]float32{9: {1}} }), Options{Scale: 1, Foreign: true}, "width: "},
		{"faulty vector", llama, &steer.Vector{}, Options{Scale: 1}, "the vector has no directions"},
		{"scaled afterwards", scaled, good, Options{Scale: 1}, `tensor "blk.1.ffn_down.scale"`},
		{"too many", full, good, Options{Scale: 1}, "trimtab.baked.count: 64 vectors"},
		{"not a model", filepath.Join("..", "..", "steer", "testdata", "repeng.gguf"), good, Options{Scale: 1}, "not a usable model"},
		{"no model", "none.gguf", good, Options{Scale: 1}, "none.gguf"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.want == "" { // norm 1 values times the largest float stay finite only below 1
				c.v = with(func(v *steer.Vector) {
					v.Directions = map[int][]float32{1: append([]float32{2}, make([]float32, 63)...)}
				})
				c.want = "value 0 is +Inf"
			}
			out := filepath.Join(t.TempDir(), "out.gguf")
			_, err := Write(t.Context(), out, c.model, c.v, c.o)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error is %v, want %q", err, c.want)
			}
			if left, _ := os.ReadDir(filepath.Dir(out)); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
	if _, err := Write(t.Context(), filepath.Join(t.TempDir(), "o"), presetFile(t, "tiny-qwen3", gguf.F32), randomVector(4, 128, 1, 1), Options{Scale: 1}); !errors.Is(err, ErrArchitecture) {
		t.Errorf("error is %v", err)
	}
	foreign := with(func(v *steer.Vector) { v.ModelHash = "0" })
	if _, err := Write(t.Context(), filepath.Join(t.TempDir(), "o"), llama, foreign, Options{Scale: 1, Foreign: true}); err != nil {
		t.Errorf("foreign: %v", err)
	}
	if _, err := Write(t.Context(), llama, llama, good, Options{Scale: 1}); err == nil || !strings.Contains(err.Error(), "is the model itself") {
		t.Errorf("over the model: %v", err)
	}
}

// TestStops: a context that ends leaves nothing behind.
func TestStops(t *testing.T) {
	stop := errors.New("stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stop)
	out := filepath.Join(t.TempDir(), "out.gguf")
	if _, err := Write(ctx, out, modelFile(t, gguf.F32), randomVector(5, 64, 1, 1), Options{Scale: 1}); !errors.Is(err, stop) {
		t.Errorf("error is %v", err)
	}
	if left, _ := os.ReadDir(filepath.Dir(out)); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}
