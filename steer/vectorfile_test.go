package steer

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/trimtab/trimtab/internal/gguf"
)

// fileOf writes metadata and F32 tensors, with nothing checked.
func fileOf(t testing.TB, edit func(w *gguf.Writer)) []byte {
	t.Helper()
	w := gguf.NewWriter()
	w.Set(keyArchitecture, controlVector)
	edit(w)
	var b bytes.Buffer
	if _, err := w.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func directionOf(w *gguf.Writer, name string, values ...float32) {
	w.AddF32(name, gguf.F32, []int64{int64(len(values))}, values)
}

func readBytes(b []byte, o VectorOptions) (*Vector, error) {
	return ReadVectorFrom(bytes.NewReader(b), int64(len(b)), o)
}

// TestBadVectorFiles: each fault is named by its field.
func TestBadVectorFiles(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(-1))
	ok := func(w *gguf.Writer) { directionOf(w, "direction.1", 1, 0) }
	set := func(key string, value any) func(w *gguf.Writer) {
		return func(w *gguf.Writer) { w.Set(key, value); ok(w) }
	}
	for _, c := range []struct {
		name string
		edit func(w *gguf.Writer)
		want string
	}{
		{"a model", set(keyArchitecture, "llama"), `general.architecture: is "llama", want "controlvector"`},
		{"architecture is a number", set(keyArchitecture, int32(1)), "general.architecture: is i32, want a string"},
		{"no directions", func(w *gguf.Writer) { w.Set(keyLayerCount, uint32(0)) }, "tensor_count: is 0"},
		{"block 0", func(w *gguf.Writer) { directionOf(w, "direction.0", 1) }, `tensor "direction.0": is for block 0`},
		{"negative block", func(w *gguf.Writer) { directionOf(w, "direction.-1", 1) }, `"direction.-1": block -1 is not in 1 to 511`},
		{"block too high", func(w *gguf.Writer) { directionOf(w, "direction.512", 1) }, `"direction.512": block 512 is not in 1 to 511`},
		{"huge number", func(w *gguf.Writer) { directionOf(w, "direction.99999999999999999999", 1) }, "is not named direction.N"},
		{"another tensor", func(w *gguf.Writer) { ok(w); directionOf(w, "bias.1", 1, 0) }, `tensor "bias.1": is not named direction.N`},
		{"twice, spelt differently", func(w *gguf.Writer) { ok(w); directionOf(w, "direction.01", 1, 0) }, `tensor "direction.01": is not named direction.N`},
		{"trailing words", func(w *gguf.Writer) { directionOf(w, "direction.1.weight", 1) }, "is not named direction.N"},
		{"F16", func(w *gguf.Writer) { w.AddF32("direction.1", gguf.F16, []int64{2}, []float32{1, 0}) }, `"direction.1": type is F16, want F32`},
		{"two dimensions", func(w *gguf.Writer) { w.AddF32("direction.1", gguf.F32, []int64{2, 2}, []float32{1, 0, 0, 1}) }, "shape is [2 2], want one dimension"},
		{"widths differ", func(w *gguf.Writer) { ok(w); directionOf(w, "direction.2", 1, 0, 0) }, `"direction.2": is 3 wide, the direction before it 2`},
		{"too wide", func(w *gguf.Writer) { directionOf(w, "direction.1", make([]float32, MaxVectorWidth+1)...) }, "is 131073 wide, want at most 131072"},
		{"NaN", func(w *gguf.Writer) { directionOf(w, "direction.1", 1, nan) }, `tensor "direction.1": value 1 is NaN`},
		{"Inf", func(w *gguf.Writer) { ok(w); directionOf(w, "direction.2", inf, 0) }, `tensor "direction.2": value 0 is -Inf`},
		{"all zero", func(w *gguf.Writer) { directionOf(w, "direction.1", 0, 0) }, "directions: are all zero"},
		{"layer count is text", set(keyLayerCount, "1"), "controlvector.layer_count: is string, want an integer"},
		{"layer count too low", func(w *gguf.Writer) { w.Set(keyLayerCount, int32(1)); ok(w); directionOf(w, "direction.2", 1, 0) }, "controlvector.layer_count: is 1, but there are 2 directions"},
		{"layer count negative", set(keyLayerCount, int32(-1)), "controlvector.layer_count: is -1"},
		{"unknown mode", set(keyMode, "rotate"), `glp.mode: unknown mode "rotate", want add or project`},
		{"empty mode", set(keyMode, ""), "glp.mode: is empty"},
		{"mode is a number", set(keyMode, uint32(1)), "glp.mode: is u32, want a string"},
		{"hook point", set(keyHook, "ffn_out_pre_residual"), `glp.hook_point: unknown hook point "ffn_out_pre_residual", want residual_stream_post_layer`},
		{"empty hook point", set(keyHook, ""), "glp.hook_point: unknown hook point"},
		{"spec version", set(keySpec, uint32(2)), "glp.spec_version: is 2, only 1 is known"},
		{"rank", set(keyRank, uint32(4)), "glp.rank: is 4, only 1 is known"},
		{"looped model", set(keyStructure, perStep), "glp.structure: per-execution-step"},
		{"dose NaN", set(keyAlpha, nan), "glp.alpha_default: is NaN"},
		{"dose too large", set(keyAlpha, 1e300), "glp.alpha_default: is too large"},
		{"projection not of unit length", func(w *gguf.Writer) { w.Set(keyMode, "project"); directionOf(w, "direction.1", 3, 4) }, `tensor "direction.1": norm is 5, glp.mode project needs unit directions`},
		{"layer list", set(keyLayerIDs, "1,2"), `glp.layer_ids_zero_based: lists "1,2", the directions are for "1"`},
		{"content hash", set(keyContent, strings.Repeat("0", 64)), "glp.content_sha256: states 0000"},
		{"own content hash", set(keyAllContent, "x"), "trimtab.content_sha256: states x"},
		{"own version", set(keyVersion, uint32(9)), "trimtab.version: is 9, only 1 is known"},
		{"block 0 of another width", set(keyBlock0, []float32{1}), "trimtab.direction.0: is 1 wide, the direction before it 2"},
		{"block 0 empty", set(keyBlock0, []float32{}), "trimtab.direction.0: is empty"},
		{"block 0 NaN", set(keyBlock0, []float32{nan, 1}), "trimtab.direction.0: value 0 is NaN"},
		{"block 0 of integers", set(keyBlock0, []int32{1, 2}), "trimtab.direction.0: is array of i32, want an array of floating-point numbers"},
		{"name with escapes", set(keyName, "\x1b[2J"), "general.name: "},
		{"name too long", set(keyName, strings.Repeat("x", 5000)), "general.name: is 5000 bytes long, want at most 4096"},
		{"layer", set(keyLayer, uint32(600)), "trimtab.layer: is 600, want 0 to 511"},
		{"mean norm", set(keyMeanNorm, -1.0), "trimtab.mean_norm: is -1"},
		{"calibration", func(w *gguf.Writer) { w.Set(keyCalibration+"kl", math.Inf(1)); set(keyCalibration+"dose", 1.0)(w) }, "trimtab.calibration.kl: is +Inf"},
		{"window bound is text", set(keyWindow+"from", "-1"), "trimtab.window.from: is string, want an integer"},
		{"window too far", set(keyWindow+"to", int64(1)<<40), "trimtab.window.to: is 1099511627776"},
		{"window backwards", func(w *gguf.Writer) { w.Set(keyWindow+"to", int64(-2)); set(keyWindow+"from", int64(4))(w) }, "trimtab.window: [4:-2] is empty"},
		{"two faults", func(w *gguf.Writer) { w.Set(keyMode, "x"); directionOf(w, "direction.0", 1) }, "glp.mode: unknown mode \"x\", want add or project\ntensor \"direction.0\""},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := readBytes(fileOf(t, c.edit), VectorOptions{})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("error is %v\nwant %q", err, c.want)
			}
		})
	}
}

// TestBadVectorBytes: what is no GGUF file at all, or no file.
func TestBadVectorBytes(t *testing.T) {
	good := fileOf(t, func(w *gguf.Writer) { directionOf(w, "direction.1", 1, 0) })
	twice := bytes.ReplaceAll(fileOf(t, func(w *gguf.Writer) {
		directionOf(w, "direction.1", 1, 0)
		directionOf(w, "direction.2", 1, 0)
	}), []byte("direction.2"), []byte("direction.1"))
	for _, c := range []struct {
		name, want string
		data       []byte
	}{
		{"empty", "magic", nil},
		{"text", "not a GGUF file", []byte("direction.1 = 1\n")},
		{"cut off", "is past the end of the file", good[:len(good)-30]},
		{"the same name twice", `tensor "direction.1" is there twice`, twice},
	} {
		if _, err := readBytes(c.data, VectorOptions{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error is %v, want %q", c.name, err, c.want)
		}
	}
	if _, err := ReadVector(filepath.Join(t.TempDir(), "none.gguf"), VectorOptions{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	if _, err := ReadVectorFrom(bytes.NewReader(good), maxVectorFile+1, VectorOptions{}); err == nil || !strings.Contains(err.Error(), "size: ") {
		t.Errorf("too large: %v", err)
	}
}

// TestPlainFiles: what other tools write is read as llama.cpp's loader reads
// it, and one block lower only when that is asked for.
func TestPlainFiles(t *testing.T) {
	plain := fileOf(t, func(w *gguf.Writer) {
		w.Set(keyHint, "mistral")
		w.Set(keyLayerCount, int32(3))
		directionOf(w, "direction.1", 1, 0)
		directionOf(w, "direction.3", 0, 2)
		directionOf(w, "direction.4", 0, 0)
	})
	v, err := readBytes(plain, VectorOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := map[int][]float32{1: {1, 0}, 3: {0, 2}} // block 4 is all zero: a gap
	if diff := cmp.Diff(want, v.Directions); diff != "" || v.Format != FormatGenerator || v.Op != Add || v.ModelHint != "mistral" {
		t.Errorf("%+v\n%s", v, diff)
	}
	late, err := readBytes(plain, VectorOptions{OneLate: true})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[int][]float32{0: {1, 0}, 2: {0, 2}}, late.Directions); diff != "" {
		t.Errorf("one late:\n%s", diff)
	}
	var own bytes.Buffer
	if _, err := v.WriteTo(&own); err != nil {
		t.Fatal(err)
	}
	if _, err := readBytes(own.Bytes(), VectorOptions{OneLate: true}); err == nil || !strings.Contains(err.Error(), "a trimtab file states its blocks") {
		t.Errorf("one late on our own file: %v", err)
	}
}

// TestRepengFile reads a file that Python's gguf package wrote, with the calls
// of repeng's export (testdata/repeng.py), and its sums to go by.
func TestRepengFile(t *testing.T) {
	v, err := ReadVector("testdata/repeng.gguf", VectorOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := map[int][]float32{}
	for layer := 1; layer <= 4; layer++ {
		d := make([]float32, 8)
		for i := range d {
			d[i] = float32(layer) + float32(i)/8
		}
		want[layer] = d
	}
	if diff := cmp.Diff(want, v.Directions); diff != "" {
		t.Error(diff)
	}
	if v.Format != FormatPlain || v.ModelHint != "mistral" || v.Op != Add {
		t.Errorf("%+v", v)
	}
}

// TestGLPFile: the projections of other tools, written by Python's gguf package.
func TestGLPFile(t *testing.T) {
	v, err := ReadVector("testdata/glp.gguf", VectorOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if v.Format != FormatGLP || v.Op != Project || v.Dose != 1.5 || v.Name != "glp" || v.Method != "paired_difference_of_means" {
		t.Errorf("%+v", v)
	}
	if diff := cmp.Diff(map[int][]float32{1: {0.5, 0.5, 0.5, 0.5}, 2: {1, 0, 0, 0}}, v.Directions); diff != "" {
		t.Error(diff)
	}
}

// randomVector makes a valid vector from a seed.
func randomVector(rng *rand.Rand) *Vector {
	v := &Vector{Name: fmt.Sprint("v", rng.Uint32()), Op: Op(rng.IntN(2)), Directions: map[int][]float32{}, Dose: rng.Float32()}
	width := 1 + rng.IntN(40)
	for range 1 + rng.IntN(6) {
		d := make([]float32, width)
		for i := range d {
			d[i] = float32(rng.NormFloat64() * math.Pow(10, float64(rng.IntN(9)-4)))
		}
		if v.Op == Project {
			d = unit(unit(d))
		}
		v.Directions[rng.IntN(MaxVectorLayers)] = d
	}
	v.ModelHint, v.Arch, v.ModelHash = "hint", "llama", "0123456789abcdef"
	if rng.IntN(2) == 0 {
		v.TemplateHash, v.DataHash, v.Position, v.MeanNorm = HashTemplate("x"), "d", "-1", rng.Float64()*100
		v.Method, v.Layer = "palrs", rng.IntN(MaxVectorLayers)
		v.Calibration = &Calibration{Dose: rng.Float64(), KL: rng.Float64(), Effect: rng.NormFloat64(), Low: -1, High: 2, Metric: "margin", Pairs: rng.IntN(1000)}
	}
	return v
}

// TestRoundTrip: reading what was written gives the vector back, and writing
// that again the same bytes.
func TestRoundTrip(t *testing.T) {
	const seed = 4711
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for i := range 200 {
		v := randomVector(rng)
		var a, b bytes.Buffer
		if _, err := v.WriteTo(&a); err != nil {
			t.Fatalf("case %d: %v", i, err)
		}
		got, err := readBytes(a.Bytes(), VectorOptions{})
		if err != nil {
			t.Fatalf("case %d: %v", i, err)
		}
		if _, err := got.WriteTo(&b); err != nil || !bytes.Equal(a.Bytes(), b.Bytes()) {
			t.Fatalf("case %d: the second writing differs: %v", i, err)
		}
		v.Format = FormatTrimtab
		if diff := cmp.Diff(v, got); diff != "" {
			t.Fatalf("case %d:\n%s", i, diff)
		}
	}
}

// TestWriteFile: nothing is written for a vector with faults, and a projection
// comes out at unit length.
func TestWriteFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "v.gguf")
	bad := &Vector{Name: "bad", Directions: map[int][]float32{1: {1}}, Position: "a\nb"}
	if err := bad.WriteFile(path); err == nil || !strings.Contains(err.Error(), "trimtab.position: ") {
		t.Errorf("control character: %v", err)
	}
	if entries, _ := os.ReadDir(filepath.Dir(path)); len(entries) > 0 {
		t.Errorf("files were left: %v", entries)
	}
	v := &Vector{Name: "p", Op: Project, Directions: map[int][]float32{0: {3, 4}, 2: {0, 5}}}
	if err := v.WriteFile(path); err != nil {
		t.Fatal(err)
	}
	got, err := ReadVector(path, VectorOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[int][]float32{0: {0.6, 0.8}, 2: {0, 1}}, got.Directions); diff != "" {
		t.Error(diff)
	}
	if v.Directions[0][0] != 3 {
		t.Error("writing changed the vector")
	}
}

func FuzzReadVector(f *testing.F) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 4 {
		var b bytes.Buffer
		if _, err := randomVector(rng).WriteTo(&b); err != nil {
			f.Fatal(err)
		}
		f.Add(b.Bytes(), false)
	}
	f.Add(fileOf(f, func(w *gguf.Writer) { w.Set(keyLayerCount, int32(1)); directionOf(w, "direction.1", 1, 0) }), true)
	f.Fuzz(func(t *testing.T, data []byte, late bool) {
		v, err := readBytes(data, VectorOptions{OneLate: late})
		if err != nil {
			return
		}
		if err := v.Validate(); err != nil {
			t.Fatalf("a vector with faults was read: %v", err)
		}
		var b bytes.Buffer
		if _, err := v.WriteTo(&b); err != nil {
			t.Fatalf("cannot be written: %v", err)
		}
		if again, err := readBytes(b.Bytes(), VectorOptions{}); err != nil || again.Op != v.Op || len(again.Directions) != len(v.Directions) {
			t.Fatalf("cannot be read again: %v", err)
		}
	})
}
