package steer

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func ptr(n int) *int { return &n }

func TestNewPlanReportsEveryFault(t *testing.T) {
	good := []float32{1, 2}
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, c := range []struct {
		name string
		iv   Intervention
		want []string
	}{
		{"negative layer", Intervention{Site: Site{Layer: -1}, Vector: good}, []string{"layer -1 is negative"}},
		{"unknown point", Intervention{Site: Site{Point: 9}, Vector: good}, []string{"unknown point 9"}},
		{"unknown operation", Intervention{Op: 77, Vector: good}, []string{"unknown operation 77"}},
		{"scale", Intervention{Vector: good, Scale: nan}, []string{"scale is NaN"}},
		{"vector value", Intervention{Vector: []float32{0, inf}}, []string{"vector[1] is +Inf"}},
		{"no vector", Intervention{}, []string{"the plan would do nothing"}},
		{"zero vector", Intervention{Vector: []float32{0, 0}}, []string{"the plan would do nothing"}},
		{"empty window", Intervention{Vector: good, When: When{From: ptr(3), To: ptr(3)}}, []string{"window [3,3) is empty"}},
		{"clamp range", Intervention{Op: Clamp, Vector: good, Min: 2, Max: 1}, []string{"clamp range [2,1] is empty"}},
		{"clamp NaN", Intervention{Op: Clamp, Vector: good, Min: nan, Max: 1}, []string{"is empty"}},
		{"replace value", Intervention{Op: Replace, Vector: good, Value: inf}, []string{"value is +Inf"}},
		{"no direction", Intervention{Op: Project, Vector: []float32{1e-20}}, []string{"too short to have a direction"}},
		{"overflow", Intervention{Vector: []float32{1e30}, Scale: 1e30}, []string{"overflows"}},
		{"one vector for a plane", Intervention{Op: Rotate, Vector: good}, []string{"vector is 2 wide, toward 0"}},
		{"parallel vectors", Intervention{Op: Rotate, Vector: good, Toward: []float32{-2, -4}}, []string{"they span no plane"}},
		{"toward value", Intervention{Op: Rotate, Vector: good, Toward: []float32{nan, 0}}, []string{"toward[0] is NaN"}},
		{"no map", Intervention{Op: Affine}, []string{"affine has no map"}},
		{"rank", Intervention{Op: Affine, Map: &LowRank{Rank: 17}}, []string{"rank 17, want 1 to 16"}},
		{"rank 0", Intervention{Op: Affine, Map: &LowRank{}}, []string{"rank 0, want 1 to 16"}},
		{"ragged map", Intervention{Op: Affine, Map: &LowRank{2, make([]float32, 4), make([]float32, 5)}}, []string{"down holds 4 values and up 5"}},
		{"map against bias", Intervention{Op: Affine, Vector: good, Map: &LowRank{1, []float32{1}, []float32{1}}}, []string{"vector is 2 wide, the map 1"}},
		{"zero map", Intervention{Op: Affine, Map: &LowRank{1, []float32{1}, []float32{0}}}, []string{"the map and the vector are zero"}},
		{"map value", Intervention{Op: Affine, Map: &LowRank{1, []float32{inf}, []float32{1}}}, []string{"map down[0] is +Inf"}},
		{"phases", Intervention{Vector: good, When: When{Phases: 16}}, []string{"unknown phases 0x10"}},
		{"group", Intervention{Vector: good, Group: -1}, []string{"group -1, want 0 to 256"}},
		{"unknown schedule", Intervention{Vector: good, Schedule: Schedule{Kind: 9}}, []string{"unknown schedule 9"}},
		{"constant with an end", Intervention{Vector: good, Schedule: Schedule{End: 1}}, []string{"a constant schedule has no start"}},
		{"schedule length", Intervention{Vector: good, Schedule: Schedule{Kind: Ramp, End: 1}}, []string{"ramp over 0 rows"}},
		{"schedule value", Intervention{Vector: good, Schedule: Schedule{Kind: Decay, Start: nan, Over: 1}}, []string{"decay goes from NaN to 0"}},
		{"schedule of nothing", Intervention{Vector: good, Schedule: Schedule{Kind: Decay, Over: 1}}, []string{"goes from 0 to 0"}},
		{"late gate", Intervention{Vector: good, Gate: &Gate{Site: Site{Layer: 1}, Vector: good}}, []string{"gate at 1.post: it reads after the edit at 0.post"}},
		{"gate place", Intervention{Vector: good, Gate: &Gate{Site: Site{-1, 3}, Vector: good}}, []string{"layer -1 is negative", "unknown point 3"}},
		{"gate kind", Intervention{Vector: good, Gate: &Gate{Kind: 7, Vector: good}}, []string{"unknown kind 7"}},
		{"gate vector", Intervention{Vector: good, Gate: &Gate{}}, []string{"the probe would say nothing"}},
		{"gate values", Intervention{Vector: good, Gate: &Gate{Kind: Logistic, Vector: []float32{nan, 1}, Bias: inf, Threshold: nan}}, []string{"gate vector[0] is NaN", "bias is +Inf", "threshold is NaN"}},
		{"cosine with a bias", Intervention{Vector: good, Gate: &Gate{Vector: good, Bias: 1}}, []string{"only a logistic probe has a bias"}},
		{"closed cosine", Intervention{Vector: good, Gate: &Gate{Vector: good, Threshold: 1}}, []string{"with threshold 1 it never opens"}},
		{"closed probe", Intervention{Vector: good, Gate: &Gate{Kind: Logistic, Vector: good, Below: true}}, []string{"is between 0 and 1, with threshold 0 it never opens"}},
		{"several", Intervention{Site: Site{Layer: -1}, Op: 77, Scale: inf}, []string{"layer -1", "operation 77", "scale is +Inf", "do nothing"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := NewPlan(Intervention{Vector: good}, c.iv)
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range append(c.want, "intervention 1") {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not say %q", err, want)
				}
			}
		})
	}
	if _, err := NewPlan(make([]Intervention, MaxInterventions+1)...); err == nil || !strings.Contains(err.Error(), "the limit is 256") {
		t.Errorf("too many interventions: %v", err)
	}
}

func TestCheck(t *testing.T) {
	p, err := NewPlan(Intervention{Site: Site{Layer: 5}, Vector: []float32{1}}, Intervention{Site: Site{Layer: 1}, Vector: []float32{1, 2, 3}})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Check(6, 1); err == nil || !strings.Contains(err.Error(), "intervention 1 (add at 1.post): vector is 3 wide, the model 1") {
		t.Errorf("width: %v", err)
	}
	if err := p.Check(5, 1); err == nil || !strings.Contains(err.Error(), "the model has layers 0 to 4") {
		t.Errorf("layer: %v", err)
	}
	wide := Intervention{Vector: []float32{1}, Gate: &Gate{Vector: []float32{1, 2}}}
	turn := Intervention{Op: Rotate, Vector: []float32{1, 0}, Toward: []float32{0, 1}}
	edit := Intervention{Op: Affine, Map: &LowRank{2, []float32{1, 1, 1, 1, 1, 1}, []float32{1, 2, 3, 4, 5, 6}}}
	if p, err = NewPlan(wide, turn, edit); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"0 (add at 0.post): gate vector is 2 wide", "1 (rotate at 0.post): toward is 2 wide", "map up is 3 wide"} {
		if err := p.Check(6, 1); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
	var none *Plan
	if none.Len() != 0 || none.Fingerprint() != 0 || none.PromptFingerprint() != 0 || none.Check(1, 1) != nil {
		t.Error("the nil plan does something")
	}
}

// TestPlanIsImmutable: what the caller does to its slices later changes nothing.
func TestPlanIsImmutable(t *testing.T) {
	iv := Intervention{Op: Affine, Vector: []float32{1, 2}, Scale: 1, When: When{From: ptr(-3), Tokens: []int32{7}},
		Map: &LowRank{1, []float32{1, 2}, []float32{1, 2}}, Gate: &Gate{Vector: []float32{1, 2}}, Toward: []float32{1}}
	p, err := NewPlan(iv)
	if err != nil {
		t.Fatal(err)
	}
	before := p.At(0).clone()
	iv.Vector[0], *iv.When.From, iv.When.Tokens[0] = 9, 9, 9
	iv.Map.Rank, iv.Map.Down[0], iv.Map.Up[0], iv.Gate.Bias, iv.Gate.Vector[0], iv.Toward[0] = 9, 9, 9, 9, 9, 9
	if d := cmp.Diff(&before, p.At(0)); d != "" {
		t.Error(d)
	}
	if got := p.At(0); got.Vector[0] != 1 || *got.When.From != -3 || got.When.Tokens[0] != 7 {
		t.Errorf("the plan changed with its input: %+v", got)
	}
}

// TestFingerprintTellsPlansApart: every field counts, doses of 0 do not, and
// equal plans agree.
func TestFingerprintTellsPlansApart(t *testing.T) {
	base := func() Intervention {
		return Intervention{Site: Site{Layer: 2}, Op: Clamp, Vector: []float32{1, 2}, Scale: 0.5, Min: -1, Max: 1}
	}
	edits := map[string]func(*Intervention){
		"nothing": func(*Intervention) {}, "layer": func(v *Intervention) { v.Site.Layer = 3 },
		"op": func(v *Intervention) { v.Op = Add }, "vector": func(v *Intervention) { v.Vector = []float32{2, 1} },
		"scale": func(v *Intervention) { v.Scale = -0.5 }, "min": func(v *Intervention) { v.Min = -2 },
		"max": func(v *Intervention) { v.Max = 2 }, "renorm": func(v *Intervention) { v.Renorm = true },
		"from": func(v *Intervention) { v.When.From = ptr(0) }, "to": func(v *Intervention) { v.When.To = ptr(0) },
		"phases": func(v *Intervention) { v.When.Phases = PhaseAnswer },
		"tokens": func(v *Intervention) { v.When.Tokens = []int32{1} },
		"value":  func(v *Intervention) { v.Value = 1 }, "toward": func(v *Intervention) { v.Toward = []float32{1} },
		"map":          func(v *Intervention) { v.Map = &LowRank{1, []float32{1, 2}, []float32{3, 4}} },
		"map down":     func(v *Intervention) { v.Map = &LowRank{1, []float32{2, 2}, []float32{3, 4}} },
		"map up":       func(v *Intervention) { v.Map = &LowRank{1, []float32{1, 2}, []float32{3, 5}} },
		"ascent":       func(v *Intervention) { v.Ascent = linearAscent(1, 2, 3, 4) },
		"threshold":    func(v *Intervention) { v.Ascent = linearAscent(0, 2, 3, 4) },
		"ascent value": func(v *Intervention) { v.Ascent = linearAscent(1, 2, 3, 5) },
		"ascent steps": func(v *Intervention) { v.Ascent = linearAscent(1, 2, 3, 4); v.Ascent.Steps = 1 },
		"map rank":     func(v *Intervention) { v.Map = &LowRank{2, []float32{1, 2}, []float32{3, 4}} },
		"group":        func(v *Intervention) { v.Group = 1 },
		"other group":  func(v *Intervention) { v.Group = 2 },
		"ramp":         func(v *Intervention) { v.Schedule = Schedule{Ramp, 1, 0, 5} },
		"decay":        func(v *Intervention) { v.Schedule = Schedule{Decay, 1, 0, 5} },
		"ramp start":   func(v *Intervention) { v.Schedule = Schedule{Ramp, 2, 0, 5} },
		"ramp end":     func(v *Intervention) { v.Schedule = Schedule{Ramp, 1, 2, 5} },
		"ramp over":    func(v *Intervention) { v.Schedule = Schedule{Ramp, 1, 0, 6} },
		"gate":         func(v *Intervention) { v.Gate = &Gate{Kind: Logistic, Vector: []float32{1, 2}} },
		"gate layer":   func(v *Intervention) { v.Gate = &Gate{Site: Site{Layer: 1}, Kind: Logistic, Vector: []float32{1, 2}} },
		"gate kind":    func(v *Intervention) { v.Gate = &Gate{Vector: []float32{1, 2}} },
		"gate vector":  func(v *Intervention) { v.Gate = &Gate{Kind: Logistic, Vector: []float32{1, 3}} },
		"gate bias":    func(v *Intervention) { v.Gate = &Gate{Kind: Logistic, Vector: []float32{1, 2}, Bias: 1} },
		"gate at half": func(v *Intervention) { v.Gate = &Gate{Kind: Logistic, Vector: []float32{1, 2}, Threshold: 0.5} },
		"gate below": func(v *Intervention) {
			v.Gate = &Gate{Kind: Logistic, Vector: []float32{1, 2}, Threshold: 0.5, Below: true}
		},
	}
	seen := map[uint64]string{}
	for name, edit := range edits {
		iv := base()
		edit(&iv)
		p, err := NewPlan(iv)
		if err != nil {
			t.Fatal(err)
		}
		again, _ := NewPlan(Intervention{Vector: []float32{5, 5}}, iv) // the first has dose 0
		if p.Fingerprint() == 0 || p.Fingerprint() != again.Fingerprint() {
			t.Errorf("%s: %x, and with a dose of 0 beside it %x", name, p.Fingerprint(), again.Fingerprint())
		}
		if other, ok := seen[p.Fingerprint()]; ok {
			t.Errorf("%s and %s have one fingerprint", name, other)
		}
		seen[p.Fingerprint()] = name
	}
}

// TestFingerprintIsStable holds the value that plans had before there were
// gates: cached rows and traces state it.
func TestFingerprintIsStable(t *testing.T) {
	p, err := NewPlan(Intervention{Site: Site{Layer: 2}, Op: Clamp, Vector: []float32{1, 2}, Scale: 0.5, Min: -1, Max: 1,
		When: When{From: ptr(-1), Tokens: []int32{3}}})
	if err != nil {
		t.Fatal(err)
	}
	if got := p.Fingerprint(); got != 0x838100db353cb2cb {
		t.Errorf("the fingerprint is %#x", got)
	}
}

func TestPromptFingerprint(t *testing.T) {
	late, err := NewPlan(Intervention{Vector: []float32{1}, Scale: 1, Schedule: Schedule{Ramp, 0, 1, 8}})
	if err != nil || late.PromptFingerprint() != 0 || late.Fingerprint() == 0 {
		t.Errorf("a dose that grows from 0 acts on the prompt: %x, %v", late.PromptFingerprint(), err)
	}
	for _, c := range []struct {
		name string
		when When
		acts bool
	}{
		{"always", When{}, true},
		{"generated rows", When{From: ptr(0)}, false},
		{"last prompt row on", When{From: ptr(-1)}, true},
		{"answers", When{Phases: PhaseAnswer | PhaseThink}, false},
		{"prompts", When{Phases: PhasePrompt}, true},
	} {
		p, err := NewPlan(Intervention{Vector: []float32{1}, Scale: 1, When: c.when})
		if err != nil {
			t.Fatal(err)
		}
		if got := p.PromptFingerprint() != 0; got != c.acts {
			t.Errorf("%s: acts on the prompt is %v, want %v", c.name, got, c.acts)
		}
	}
}

func TestWhen(t *testing.T) {
	w := When{From: ptr(-2), To: ptr(3), Phases: PhaseAnswer, Tokens: []int32{5, 6}}
	for _, c := range []struct {
		row  Row
		want bool
	}{
		{Row{Offset: -2, Token: 5, Phase: PhaseAnswer}, true},
		{Row{Offset: 2, Token: 6, Phase: PhaseAnswer | PhaseConstrained}, true},
		{Row{Offset: -3, Token: 5, Phase: PhaseAnswer}, false},
		{Row{Offset: 3, Token: 5, Phase: PhaseAnswer}, false},
		{Row{Offset: 0, Token: 7, Phase: PhaseAnswer}, false},
		{Row{Offset: 0, Token: 5, Phase: PhaseThink}, false},
		{Row{Offset: 0, Token: 5}, false},
	} {
		if got := w.Active(c.row); got != c.want {
			t.Errorf("%+v: active is %v, want %v", c.row, got, c.want)
		}
	}
	var always When
	if !always.Always() || w.Always() || !always.Active(Row{Offset: -100}) {
		t.Error("the zero When is not always")
	}
}

// TestApply holds the arithmetic against its formulas in float64.
func TestApply(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	for range 300 {
		n := 1 + r.IntN(40)
		x, v := make([]float32, n), make([]float32, n)
		for i := range x {
			x[i], v[i] = float32(r.NormFloat64()), float32(r.NormFloat64())
		}
		for op := Add; op.Known(); op++ {
			for _, renorm := range []bool{false, true} {
				iv := Intervention{Op: op, Vector: v, Scale: float32(r.NormFloat64()), Min: -0.5, Max: 0.25, Value: 0.75, Renorm: renorm}
				iv.Toward, iv.Map = normal(r, n), &LowRank{Rank: 1 + r.IntN(MaxRank)}
				iv.Map.Down, iv.Map.Up = normal(r, n*iv.Map.Rank), normal(r, n*iv.Map.Rank)
				if n == 1 && op == Rotate || op == Ascend {
					continue // no plane; ascend_test.go
				}
				got := append([]float32(nil), x...)
				iv.Apply(got)
				want := formula(&iv, x)
				for i := range want {
					if math.Abs(float64(got[i])-want[i]) > 1e-4*(1+math.Abs(want[i])) {
						t.Fatalf("%s renorm=%v: element %d is %v, the formula gives %v", op, renorm, i, got[i], want[i])
					}
				}
			}
		}
	}
}

func normal(r *rand.Rand, n int) []float32 {
	out := make([]float32, n)
	for i := range out {
		out[i] = float32(r.NormFloat64())
	}
	return out
}

func dot64(a, b []float64) (sum float64) {
	for i := range a {
		sum += a[i] * b[i]
	}
	return sum
}

func wide(a []float32) []float64 {
	out := make([]float64, len(a))
	for i := range a {
		out[i] = float64(a[i])
	}
	return out
}

// formula is what the documentation of the operations says, literally.
func formula(iv *Intervention, row []float32) []float64 {
	x, v, w, a := wide(row), wide(iv.Vector), wide(iv.Toward), float64(iv.Scale)
	norm := math.Sqrt(dot64(v, v))
	c := dot64(x, v) / norm
	out := slices.Clone(x)
	plus := func(k float64, u []float64) {
		for i := range out {
			out[i] += k * u[i]
		}
	}
	switch iv.Op {
	case Add:
		plus(a, v)
	case Project:
		plus(-a*c/norm, v)
	case Clamp:
		plus(a*(math.Min(math.Max(c, float64(iv.Min)), float64(iv.Max))-c)/norm, v)
	case Replace:
		plus(a*(float64(iv.Value)-c)/norm, v)
	case Affine:
		for k := range iv.Map.Rank {
			down, up := wide(iv.Map.Down[k*len(x):][:len(x)]), wide(iv.Map.Up[k*len(x):][:len(x)])
			plus(a*dot64(down, x), up)
		}
		plus(a, v)
	case Rotate:
		e, f := slices.Clone(v), slices.Clone(w)
		for i := range e {
			e[i] /= norm
		}
		along := dot64(w, e)
		for i := range f {
			f[i] -= along * e[i]
		}
		rest := math.Sqrt(dot64(f, f))
		for i := range f {
			f[i] /= rest
		}
		p, q := dot64(x, e), dot64(x, f)
		plus(p*math.Cos(a)-q*math.Sin(a)-p, e)
		plus(p*math.Sin(a)+q*math.Cos(a)-q, f)
	}
	if after := dot64(out, out); iv.Renorm && after > 0 {
		for i := range out {
			out[i] *= math.Sqrt(dot64(x, x) / after)
		}
	}
	return out
}

// TestZeroDoseIsNothing: not even a NaN or a negative zero changes.
func TestZeroDoseIsNothing(t *testing.T) {
	row := []float32{float32(math.Copysign(0, -1)), float32(math.NaN()), 1e30}
	for op := Add; op.Known(); op++ {
		got := append([]float32(nil), row...)
		(&Intervention{Op: op, Vector: []float32{1, 2, 3}, Value: 7, Toward: []float32{3, 2, 1}, Renorm: true,
			Map: &LowRank{1, []float32{1, 1, 1}, []float32{1, 1, 1}}, Ascent: linearAscent(3, 1, 1, 1)}).Apply(got)
		for i := range row {
			if math.Float32bits(got[i]) != math.Float32bits(row[i]) {
				t.Errorf("%s with dose 0 changed element %d from %v to %v", op, i, row[i], got[i])
			}
		}
	}
}
