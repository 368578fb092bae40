package steer

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/trimtab/trimtab/internal/vec"
)

func TestStackAndPrioritise(t *testing.T) {
	add := func(layer int, by float32) Intervention {
		return Intervention{Site: Site{Layer: layer}, Vector: []float32{1}, Scale: by}
	}
	late := add(0, 1)
	late.When.From = ptr(0)
	a, b := mustPlan(t, late, late), mustPlan(t, add(0, 8), add(0, 16), add(1, 32))
	stacked, err := Stack(a, nil, b)
	if err != nil {
		t.Fatal(err)
	}
	chosen, err := Prioritise(a, nil, b)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		plan   *Plan
		offset int
		want   float32
	}{
		{"stacked, prompt", stacked, -1, 56}, {"stacked, answer", stacked, 0, 58},
		{"prioritised, prompt", chosen, -1, 56}, {"prioritised, answer", chosen, 0, 34},
	} {
		x := []float32{0}
		for layer := range 2 {
			c.plan.Edit(Site{Layer: layer}, Row{Offset: c.offset}, x, nil)
		}
		if x[0] != c.want {
			t.Errorf("%s: %v, want %v", c.name, x[0], c.want)
		}
	}
	if again, err := Stack(chosen, a); err != nil || again.Len() != 7 {
		t.Errorf("one plan with groups in a stack: %v", err)
	}
	if _, err := Stack(chosen, chosen); err == nil || !strings.Contains(err.Error(), "2 of the plans have groups") {
		t.Errorf("two plans with groups in a stack: %v", err)
	}
	if _, err := Prioritise(a, chosen); err == nil || !strings.Contains(err.Error(), "intervention 0 of plan 1 is in group 1 already") {
		t.Errorf("groups of groups: %v", err)
	}
	if none, err := Stack(); err != nil || none.Fingerprint() != 0 {
		t.Errorf("a stack of nothing: %v", err)
	}
	if mustPlan(t, add(0, 8)).Fingerprint() == stacked.Fingerprint() || chosen.Fingerprint() == stacked.Fingerprint() {
		t.Error("one fingerprint for two plans")
	}
}

func TestCosines(t *testing.T) {
	p := mustPlan(t,
		Intervention{Vector: []float32{2, 0}, Scale: 1},
		Intervention{Site: Site{Layer: 3}, Op: Project, Vector: []float32{1, 1}, Scale: 1},
		Intervention{Op: Affine, Map: &LowRank{1, []float32{1, 1}, []float32{1, 1}}},
		Intervention{Vector: []float32{-1, 0}, Scale: 1},
		Intervention{Vector: []float32{1}, Scale: 1})
	want := []CosinePair{{0, 1, math.Sqrt(0.5)}, {0, 3, -1}, {1, 3, -math.Sqrt(0.5)}}
	if d := cmp.Diff(want, p.Cosines(), cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) < 1e-12 })); d != "" {
		t.Error(d)
	}
	var none *Plan
	if none.Cosines() != nil {
		t.Error("the nil plan has cosines")
	}
}

// TestOrthogonalise: no vector has a component along one of an earlier group,
// everything else is as it was.
func TestOrthogonalise(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	shared := normal(r, 32)
	near := func(layer int, op Op) Intervention {
		v := normal(r, 32)
		vec.AddScaled(v, 5, shared)
		return Intervention{Site: Site{Layer: layer}, Op: op, Vector: v, Scale: 0.5, Renorm: true}
	}
	turn := Intervention{Op: Rotate, Vector: normal(r, 32), Toward: normal(r, 32), Scale: 1}
	groups := [][]Intervention{
		{near(1, Add), near(2, Add)}, {near(1, Project), turn}, {}, {near(7, Clamp), near(8, Add), near(9, Replace)},
	}
	out, err := Orthogonalise(groups...)
	if err != nil {
		t.Fatal(err)
	}
	var flat []Intervention
	var of []int
	for g := range groups {
		for _, iv := range groups[g] {
			flat, of = append(flat, iv), append(of, g)
		}
	}
	for b := range flat {
		iv := out[b]
		iv.Vector = flat[b].Vector
		if d := cmp.Diff(flat[b], iv); d != "" {
			t.Errorf("intervention %d: %s", b, d)
		}
		if iv.Op == Rotate || of[b] == 0 {
			if d := cmp.Diff(flat[b].Vector, out[b].Vector); d != "" {
				t.Errorf("vector %d: %s", b, d)
			}
			continue
		}
		for a := range b {
			cos := vec.Dot(out[a].Vector, out[b].Vector) / vec.Norm(out[a].Vector) / vec.Norm(out[b].Vector)
			if orthogonal := math.Abs(cos) < 1e-6; out[a].Op != Rotate && orthogonal != (of[a] < of[b]) {
				t.Errorf("vectors %d and %d have cosine %v", a, b, cos)
			}
		}
	}
	if &flat[0].Vector[0] != &out[0].Vector[0] || &flat[2].Vector[0] == &out[2].Vector[0] {
		t.Error("inputs must be shared or left alone")
	}
	_, err = Orthogonalise(groups[0], []Intervention{{Vector: shared}, {Vector: groups[0][1].Vector}, {Vector: []float32{1}}})
	for _, want := range []string{"group 1, intervention 1 (add at 0.post): nothing is left", "intervention 2 (add at 0.post): the vector is 1 wide, an earlier one 32"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
}
