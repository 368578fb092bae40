//go:build linux && amd64

package judge_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"unsafe"

	"github.com/ebitengine/purego"
	"github.com/google/go-cmp/cmp"

	"github.com/trimtab/trimtab/bindings/llamacpp/libs"
	"github.com/trimtab/trimtab/internal/gguf"
	"github.com/trimtab/trimtab/steer"
)

// llama.cpp's own reader of control vectors is a C++ function of its common
// library: a vector of (strength, file name) in, the width and one long row of
// floats out, in which block 1 comes first. The structs below are libstdc++'s
// on 64-bit Linux; the result is returned through a hidden first argument.
const controlVectorLoad = "_Z26common_control_vector_loadRKSt6vectorI31common_control_vector_load_infoSaIS0_EE"

type cppVector struct{ begin, end, capacity unsafe.Pointer }

type cppString struct {
	text   *byte
	length uintptr
	local  [16]byte
}

type loadInfo struct {
	strength float32
	name     cppString
}

type loadResult struct {
	width int32
	data  cppVector
}

// loadControlVector returns what llama.cpp reads; width -1 when it refuses.
func loadControlVector(t *testing.T, lib uintptr, path string, strength float32) (int32, []float32) {
	t.Helper()
	var load func(out *loadResult, in *cppVector) uintptr
	purego.RegisterLibFunc(&load, lib, controlVectorLoad)
	text := append([]byte(path), 0)
	info := &loadInfo{strength, cppString{text: &text[0], length: uintptr(len(path))}}
	in := &cppVector{begin: unsafe.Pointer(info), end: unsafe.Add(unsafe.Pointer(info), unsafe.Sizeof(*info))}
	in.capacity = in.end
	out := &loadResult{}
	var pins runtime.Pinner
	defer pins.Unpin()
	for _, p := range []any{&text[0], info, in, out} {
		pins.Pin(p)
	}
	load(out, in)
	if out.data.begin == nil {
		return out.width, nil
	}
	n := (uintptr(out.data.end) - uintptr(out.data.begin)) / 4
	return out.width, append([]float32(nil), unsafe.Slice((*float32)(out.data.begin), n)...)
}

// commonLibrary is llama.cpp's library of what its programs share. The package that
// the judge installs holds it; `trimtab engine install` leaves it out.
func commonLibrary() (uintptr, error) {
	dir := filepath.Join(nodeModules(), "@node-llama-cpp", "linux-x64", "bins", "linux-x64")
	if _, err := os.Stat(filepath.Join(dir, "libllama-common.so")); err != nil {
		dir = "" // where the engine was found, which may be an unpacked package
	}
	set, err := libs.Find(dir, libs.Host())
	if err != nil {
		return 0, err
	}
	for _, path := range []string{set.Base, set.GGML, set.Llama} {
		if _, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_GLOBAL); err != nil {
			return 0, err
		}
	}
	return purego.Dlopen(filepath.Join(set.Dir, "libllama-common.so"), purego.RTLD_NOW)
}

// TestControlVectorFiles: llama.cpp reads from a file what we do, and what we
// write it reads as it was. Cases that differ say why.
func TestControlVectorFiles(t *testing.T) {
	lib, err := commonLibrary()
	if err != nil {
		missing(t, fmt.Errorf("the common library of llama.cpp v0.5.0: %w", err))
	}
	gaps := &steer.Vector{Name: "gaps", Directions: map[int][]float32{2: {1, -2, 3}, 5: {0.5, 0, 7}}}
	zero := &steer.Vector{Name: "zero", Directions: map[int][]float32{0: {9, 9, 9}, 1: {1, 2, 3}}}
	only0 := &steer.Vector{Name: "only0", Directions: map[int][]float32{0: {9, 9, 9}}}
	unit := &steer.Vector{Name: "unit", Op: steer.Project, Directions: map[int][]float32{3: {0, 1, 0}}}
	tensor := func(names ...string) func(path string) error {
		return func(path string) error {
			w := gguf.NewWriter()
			w.Set("general.architecture", "controlvector")
			for _, name := range names {
				w.AddF32(name, gguf.F32, []int64{3}, []float32{1, 2, 3})
			}
			return w.WriteFile(path)
		}
	}
	for _, c := range []struct {
		name  string
		write func(path string) error
		ours  bool // we read it
		same  bool // llama.cpp reads it as we do
		why   string
	}{
		{"gaps", gaps.WriteFile, true, true, ""},
		{"plain", tensor("direction.1", "direction.2"), true, true, ""},
		{"block 0 beside others", zero.WriteFile, true, true, ""}, // compared from block 1 on
		{"block 0 alone", only0.WriteFile, true, false, "llama.cpp cannot act on block 0, so it finds nothing in the file"},
		{"projection", unit.WriteFile, true, true, ""}, // the values: llama.cpp would add them
		{"direction.0", tensor("direction.0"), false, true, ""},
		{"another name", tensor("direction.1", "bias.1"), false, true, ""},
		{"no number", tensor("direction.x"), false, true, ""},
		{"one block twice", tensor("direction.1", "direction.01"), false, false, "llama.cpp adds the two up"},
		{"words behind the number", tensor("direction.1.weight"), false, false, "llama.cpp reads as far as there are digits"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "v.gguf")
			if err := c.write(path); err != nil {
				t.Fatal(err)
			}
			width, data := loadControlVector(t, lib, path, 2)
			v, err := steer.ReadVector(path, steer.VectorOptions{})
			if (err == nil) != c.ours {
				t.Fatalf("ours: %v", err)
			}
			same := err != nil && width == -1 || err == nil && int(width) == v.Width() && cmp.Equal(data, flat(v, 2))
			if same != c.same {
				t.Errorf("llama.cpp: width %d, %v\nours: %+v, %v\nexpected to differ: %v %s", width, data, v, err, !c.same, c.why)
			}
		})
	}
}

// flat is the vector as llama.cpp keeps it: from block 1 on, gaps are zero.
func flat(v *steer.Vector, strength float32) []float32 {
	layers := v.Layers()
	row := make([]float32, layers[len(layers)-1]*v.Width())
	for layer, d := range v.Directions {
		for i, x := range d {
			if layer > 0 {
				row[(layer-1)*v.Width()+i] = strength * x
			}
		}
	}
	return row
}
