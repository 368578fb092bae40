package steer

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestValidateVector(t *testing.T) {
	one := map[int][]float32{3: {1, 2}}
	inf := math.Inf(1)
	for _, c := range []struct {
		name string
		v    Vector
		want string
	}{
		{"good", Vector{Directions: one}, ""},
		{"operation", Vector{Op: Clamp, Directions: one}, "a vector is for add or project, not clamp"},
		{"empty", Vector{}, "the vector has no directions"},
		{"negative block", Vector{Directions: map[int][]float32{-1: {1}}}, "direction of block -1: blocks are 0 to 511"},
		{"high block", Vector{Directions: map[int][]float32{512: {1}}}, "direction of block 512"},
		{"no width", Vector{Directions: map[int][]float32{2: nil}}, "direction of block 2: is 0 wide"},
		{"widths", Vector{Directions: map[int][]float32{2: {1}, 5: {1, 2}}}, "direction of block 5: is 2 wide, that of block 2 is 1"},
		{"value", Vector{Directions: map[int][]float32{2: {0, float32(inf)}}}, "direction of block 2: value 1 is +Inf"},
		{"zero", Vector{Directions: map[int][]float32{2: {0, 0}}}, "direction of block 2: is all zero"},
		{"dose", Vector{Directions: one, Dose: float32(math.NaN())}, "dose is NaN"},
		{"window", Vector{Directions: one, From: ptr(-1), To: ptr(4)}, ""},
		{"empty window", Vector{Directions: one, From: ptr(4), To: ptr(4)}, "window: [4:4] is empty"},
		{"far window", Vector{Directions: one, To: ptr(maxOffset + 1)}, "window: offset 1073741825 is not within"},
		{"mean norm", Vector{Directions: one, MeanNorm: inf}, "mean norm is +Inf"},
		{"calibration", Vector{Directions: one, Calibration: &Calibration{Low: inf, Pairs: -1}}, "calibration: low is +Inf\ncalibration: -1 pairs"},
	} {
		err := c.v.Validate()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: error is %v, want %q", c.name, err, c.want)
		}
	}
}

func TestCheckVector(t *testing.T) {
	v := &Vector{Name: "x", Directions: map[int][]float32{3: {1, 2}}, Arch: "llama", ModelHash: "aa", TemplateHash: "tt"}
	fits := Facts{ModelHash: "aa", Arch: "llama", Layers: 4, Width: 2, TemplateHash: "tt"}
	with := func(edit func(f *Facts)) Facts { f := fits; edit(&f); return f }
	for _, c := range []struct {
		name  string
		facts Facts
		want  string
		wrong bool // only the provenance disagrees
	}{
		{"fits", fits, "", false},
		{"unknown model", Facts{Layers: 4, Width: 2}, "", false},
		{"layers", with(func(f *Facts) { f.Layers = 3 }), "direction of block 3: the model has blocks 0 to 2", false},
		{"width", with(func(f *Facts) { f.Width = 5 }), "width: the vector is 2 wide, the model 5", false},
		{"hash", with(func(f *Facts) { f.ModelHash = "bb" }), "model hash: the vector states aa, the model is bb", true},
		{"architecture", with(func(f *Facts) { f.Arch = "qwen3" }), "architecture: the vector states llama, the model is qwen3", true},
		{"template", with(func(f *Facts) { f.TemplateHash = "uu" }), "template hash: the vector states tt, the model is uu", true},
		{"all", Facts{ModelHash: "b", Arch: "c", Layers: 1, Width: 9}, "width: the vector is 2 wide, the model 9\narchitecture: ", false},
	} {
		err := v.Check(c.facts)
		if (c.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.want) || errors.Is(err, ErrWrongModel) != c.wrong {
			t.Errorf("%s: error is %v, want %q", c.name, err, c.want)
		}
	}
}

func TestVectorInterventions(t *testing.T) {
	v := &Vector{Name: "x", Op: Project, Directions: map[int][]float32{5: {1}, 3: {2}}}
	list, err := v.Interventions(0.5)
	want := []Intervention{{Site: Site{Layer: 3}, Op: Project, Vector: []float32{2}, Scale: 0.5}, {Site: Site{Layer: 5}, Op: Project, Vector: []float32{1}, Scale: 0.5}}
	if diff := cmp.Diff(want, list); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
	if list, err := v.Interventions(1, 5); err != nil || len(list) != 1 || list[0].Site.Layer != 5 {
		t.Errorf("%v, %v", list, err)
	}
	if _, err := v.Interventions(1, 4); err == nil || !strings.Contains(err.Error(), "no direction for block 4, only for [3 5]") {
		t.Errorf("error is %v", err)
	}
}

// TestVectorWindow: a vector acts on its own rows where nobody names others,
// and removing one that was made for adding does not.
func TestVectorWindow(t *testing.T) {
	one := map[int][]float32{3: {2}}
	lib := map[string]*Vector{"open": {Directions: one}, "add": {Directions: one, From: ptr(-1), To: ptr(4)},
		"project": {Op: Project, Directions: one, From: ptr(0)}}
	for _, c := range []struct{ text, want string }{
		{"open", ""}, {"open[2:]", "[2:]"},
		{"add", "[-1:4]"}, {"add:0.5@3#answer", "[-1:4]"}, {"add[2:]", "[2:]"}, {"add[:]", ""}, {"!add", ""}, {"!add[:3]", "[:3]"},
		{"project", "[0:]"}, {"!project", "[0:]"}, {"project[:]", ""},
	} {
		e, err := ParseExpr(c.text)
		if err != nil {
			t.Fatal(err)
		}
		p, err := e.Plan(lib)
		if err != nil {
			t.Fatal(err)
		}
		if w := p.At(0).When; window(w.From, w.To) != c.want {
			t.Errorf("%s acts on %q, want %q", c.text, window(w.From, w.To), c.want)
		}
	}
	list, err := lib["add"].Interventions(1)
	if err != nil || *list[0].When.From != -1 || *list[0].When.To != 4 || lib["add"].Window() != "[-1:4]" {
		t.Errorf("%+v, %v", list, err)
	}
	plan := func(text string) uint64 {
		e, err := ParseExpr(text)
		if err != nil {
			t.Fatal(err)
		}
		p, err := e.Plan(lib)
		if err != nil {
			t.Fatal(err)
		}
		return p.Fingerprint()
	}
	if plan("add:1") != plan("open:1[-1:4]") || plan("add:1[:]") != plan("open:1") || plan("add:1") == plan("open:1") {
		t.Error("fingerprints do not follow the window")
	}
}

func TestSumVectors(t *testing.T) {
	a := &Vector{Name: "a", Directions: map[int][]float32{1: {1, 2}, 2: {1, 0}}, ModelHash: "h", Arch: "llama"}
	b := &Vector{Name: "b", Directions: map[int][]float32{1: {4, 0}, 2: {-2, 0}, 7: {0, 1}}, Arch: "llama"}
	sum, err := SumVectors("a+b", Term{a, 2}, Term{b, 1})
	if err != nil {
		t.Fatal(err)
	}
	want := &Vector{Name: "a+b", Dose: 1, ModelHash: "h", Arch: "llama", Directions: map[int][]float32{1: {6, 4}, 7: {0, 1}}}
	if diff := cmp.Diff(want, sum); diff != "" {
		t.Error(diff)
	}
	for _, c := range []struct {
		name, want string
		other      *Vector
	}{
		{"projection", "glp.mode: project cannot be summed", &Vector{Name: "p", Op: Project, Directions: map[int][]float32{1: {1, 0}}}},
		{"width", "width: is 1, that of the vectors before it 2", &Vector{Directions: map[int][]float32{1: {1}}}},
		{"model", "model hash: states i, the vectors before it h", &Vector{Directions: map[int][]float32{1: {1, 1}}, ModelHash: "i"}},
		{"window", `window: is "[-1:]", that of the vectors before it ""`, &Vector{Directions: map[int][]float32{1: {1, 1}}, From: ptr(-1)}},
		{"faults", "value 0 is NaN", &Vector{Directions: map[int][]float32{1: {float32(math.NaN()), 1}}}},
	} {
		if _, err := SumVectors("s", Term{a, 1}, Term{c.other, 1}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error is %v, want %q", c.name, err, c.want)
		}
	}
	if _, err := SumVectors("s"); err == nil {
		t.Error("a sum of nothing")
	}
	if _, err := SumVectors("s", Term{a, 1}, Term{a, -1}); err == nil || !strings.Contains(err.Error(), "no directions") {
		t.Errorf("a sum that does nothing: %v", err)
	}
}
