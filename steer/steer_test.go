package steer

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
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
	var none *Plan
	if none.Len() != 0 || none.Fingerprint() != 0 || none.PromptFingerprint() != 0 || none.Check(1, 1) != nil {
		t.Error("the nil plan does something")
	}
}

// TestPlanIsImmutable: what the caller does to its slices later changes nothing.
func TestPlanIsImmutable(t *testing.T) {
	iv := Intervention{Vector: []float32{1, 2}, Scale: 1, When: When{From: ptr(-3), Tokens: []int32{7}}}
	p, err := NewPlan(iv)
	if err != nil {
		t.Fatal(err)
	}
	iv.Vector[0], *iv.When.From, iv.When.Tokens[0] = 9, 9, 9
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

func TestPromptFingerprint(t *testing.T) {
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
		for _, op := range []Op{Add, Project, Clamp} {
			for _, renorm := range []bool{false, true} {
				iv := Intervention{Op: op, Vector: v, Scale: float32(r.NormFloat64()), Min: -0.5, Max: 0.25, Renorm: renorm}
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

func formula(iv *Intervention, x []float32) []float64 {
	dot, vv, xx := 0.0, 0.0, 0.0
	for i := range x {
		dot += float64(x[i]) * float64(iv.Vector[i])
		vv += float64(iv.Vector[i]) * float64(iv.Vector[i])
		xx += float64(x[i]) * float64(x[i])
	}
	k := float64(iv.Scale)
	switch iv.Op {
	case Project:
		k *= -dot / vv
	case Clamp:
		c := dot / math.Sqrt(vv)
		k *= (math.Min(math.Max(c, float64(iv.Min)), float64(iv.Max)) - c) / math.Sqrt(vv)
	}
	out, norm := make([]float64, len(x)), 0.0
	for i := range x {
		out[i] = float64(x[i]) + k*float64(iv.Vector[i])
		norm += out[i] * out[i]
	}
	if iv.Renorm && norm > 0 {
		for i := range out {
			out[i] *= math.Sqrt(xx / norm)
		}
	}
	return out
}

// TestZeroDoseIsNothing: not even a NaN or a negative zero changes.
func TestZeroDoseIsNothing(t *testing.T) {
	row := []float32{float32(math.Copysign(0, -1)), float32(math.NaN()), 1e30}
	for _, op := range []Op{Add, Project, Clamp} {
		got := append([]float32(nil), row...)
		(&Intervention{Op: op, Vector: []float32{1, 2, 3}, Renorm: true}).Apply(got)
		for i := range row {
			if math.Float32bits(got[i]) != math.Float32bits(row[i]) {
				t.Errorf("%s with dose 0 changed element %d from %v to %v", op, i, row[i], got[i])
			}
		}
	}
}
