package bake

import (
	"math"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trimtab/trimtab/internal/gguf"
	"github.com/trimtab/trimtab/internal/randmodel"
	"github.com/trimtab/trimtab/steer"
)

// modelFile makes a random llama of 4 blocks, 64 wide.
func modelFile(t testing.TB, typ gguf.TensorType) string {
	t.Helper()
	return presetFile(t, "tiny", typ)
}

func presetFile(t testing.TB, preset string, typ gguf.TensorType) string {
	t.Helper()
	spec, err := randmodel.Preset(preset)
	if err != nil {
		t.Fatal(err)
	}
	spec.Type = typ
	path := filepath.Join(t.TempDir(), "model.gguf")
	if err := randmodel.Write(path, spec); err != nil {
		t.Fatal(err)
	}
	return path
}

// changed writes a copy of a model with edits.
func changed(t testing.TB, model string, edit func(f *gguf.File, w *gguf.Writer), without ...string) string {
	t.Helper()
	f, err := gguf.Open(model)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w, err := gguf.CopyOf(t.Context(), f, without...)
	if err != nil {
		t.Fatal(err)
	}
	edit(f, w)
	path := filepath.Join(t.TempDir(), "changed.gguf")
	if err := w.WriteFile(path); err != nil {
		t.Fatal(err)
	}
	return path
}

// renamed is a llama file under another architecture with the same tensors.
func renamed(t testing.TB, model, arch string, set map[string]any) string {
	return changed(t, model, func(f *gguf.File, w *gguf.Writer) {
		for _, key := range f.Keys() {
			suffix, ok := strings.CutPrefix(key, "llama.")
			if !ok {
				continue
			}
			if n, err := f.Uint(key); err == nil {
				w.Set(arch+"."+suffix, uint32(n))
			} else if x, err := f.Float(key); err == nil {
				w.Set(arch+"."+suffix, float32(x))
			} else {
				t.Fatal(err)
			}
		}
		w.Set("general.architecture", arch)
		for key, value := range set {
			w.Set(arch+"."+key, value)
		}
	})
}

// randomVector has directions of the given norm for some blocks.
func randomVector(seed uint64, width int, norm float64, layers ...int) *steer.Vector {
	rng := rand.New(rand.NewPCG(seed, 0))
	v := &steer.Vector{Name: "random", Directions: map[int][]float32{}}
	for _, layer := range layers {
		d, sq := make([]float32, width), 0.0
		for i := range d {
			d[i] = float32(rng.NormFloat64())
			sq += float64(d[i]) * float64(d[i])
		}
		for i := range d {
			d[i] *= float32(norm / math.Sqrt(sq))
		}
		v.Directions[layer] = d
	}
	return v
}

// open opens a file for reading until the test ends.
func open(t testing.TB, path string) *gguf.File {
	t.Helper()
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}
