package steer

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestScaled: a scaled plan is the plan that has these doses from the start.
func TestScaled(t *testing.T) {
	const seed = 11
	r := rand.New(rand.NewPCG(seed, 1))
	for round := range 200 {
		v := make([]float32, 8)
		for i := range v {
			v[i] = float32(r.NormFloat64())
		}
		iv := Intervention{Site: Site{Layer: r.IntN(3)}, Op: []Op{Add, Project, Clamp, Replace}[r.IntN(4)], Vector: v,
			Scale: float32(r.NormFloat64()), Min: -1, Max: 1, Value: 2, Renorm: r.IntN(2) == 0}
		from := r.IntN(5) - 2
		iv.When.From = &from
		p, err := NewPlan(iv)
		if err != nil {
			t.Fatal(err)
		}
		f := r.Float64()
		iv.Scale = float32(float64(iv.Scale) * f)
		want, err := NewPlan(iv)
		if err != nil {
			t.Fatal(err)
		}
		got := p.Scaled(f)
		if got.Fingerprint() != want.Fingerprint() || got.PromptFingerprint() != want.PromptFingerprint() {
			t.Fatalf("seed %d, round %d: factor %v of %s has other fingerprints than the plan of that dose", seed, round, f, iv.Op)
		}
		a, b := slices.Clone(v), slices.Clone(v)
		at := Row{Offset: 3}
		if e, w := got.Edit(iv.Site, at, a, nil), want.Edit(iv.Site, at, b, nil); e != w || !slices.Equal(a, b) {
			t.Fatalf("seed %d, round %d: factor %v of %s gives %v (%v), want %v (%v)", seed, round, f, iv.Op, a, e, b, w)
		}
	}
}

func TestScaledEnds(t *testing.T) {
	p, err := NewPlan(Intervention{Vector: []float32{1, 0}, Scale: 2})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range []float64{1, 2, math.Inf(1)} {
		if p.Scaled(f) != p {
			t.Errorf("factor %v: not the plan itself", f)
		}
	}
	for _, f := range []float64{0, -1, math.Inf(-1), math.NaN()} {
		q := p.Scaled(f)
		row := []float32{3, 4}
		if q.Fingerprint() != 0 || q.PromptFingerprint() != 0 || len(q.Sites()) != 0 || q.Edit(Site{}, Row{}, row, nil) || row[0] != 3 {
			t.Errorf("factor %v: the plan still acts", f)
		}
	}
	if (*Plan)(nil).Scaled(0.5) != nil || p.At(0).Scale != 2 {
		t.Error("scaling made a plan of none, or changed its own")
	}
}
