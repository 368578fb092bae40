package steer

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/trimtab/trimtab/internal/vec"
)

// linearAscent climbs w.x to the threshold, with a ball that is wide enough.
func linearAscent(threshold float32, w ...float32) *Ascent {
	v := &Value{Layers: []Dense{{In: len(w), Out: 1, Weight: w, Bias: []float32{0}}}}
	return &Ascent{Value: v, Threshold: threshold, Radius: 100, Absolute: true, Steps: 3}
}

func ascend(a *Ascent, row []float32) (after []float32, edited bool) {
	p, err := NewPlan(Intervention{Op: Ascend, Scale: 1, Ascent: a})
	if err != nil {
		panic(err)
	}
	after = slices.Clone(row)
	edited = p.Edit(Site{}, Row{}, after, nil)
	return after, edited
}

// TestAscendLinear holds it against the closed form x + max(0, c - V) w/|w|^2.
func TestAscendLinear(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		n := 1 + r.IntN(40)
		v := randomValue(r, Linear, false, n, 1)
		row, w := randomRow(r, n, 2), v.Layers[0].Weight
		a := &Ascent{Value: v, Threshold: float32(r.NormFloat64()), Margin: r.Float32(), Radius: 50, Absolute: true, Steps: 1 + r.IntN(3)}
		got, edited := ascend(a, row)
		before := v.At(row, v.NewWork())
		if before >= float64(a.Threshold) {
			if edited || !slices.Equal(got, row) {
				t.Fatalf("seed %d: V %v is over %v and the row changed", seed, before, a.Threshold)
			}
			continue
		}
		if !edited {
			t.Fatalf("seed %d: V %v is under %v and nothing was done", seed, before, a.Threshold)
		}
		k := (float64(a.Threshold) + float64(a.Margin) - before) / vec.Dot(w, w)
		k = min(k, 50/vec.Norm(w)) // the ball
		for i := range got {
			if want := float64(row[i]) + k*float64(w[i]); math.Abs(float64(got[i])-want) > 1e-5*(1+math.Abs(want)) {
				t.Fatalf("seed %d: element %d is %v, the closed form gives %v", seed, i, got[i], want)
			}
		}
	}
}

// TestAscendKeepsItsPromises, for every shape: nothing over the threshold, V
// higher and u inside the ball under it.
func TestAscendKeepsItsPromises(t *testing.T) {
	lifted, reached, quiet := 0, 0, 0
	for seed := range uint64(600) {
		r := rand.New(rand.NewPCG(seed, 2))
		n := 4 + r.IntN(30)
		v := [...]*Value{
			randomValue(r, Linear, seed&1 == 1, n, 1),
			randomValue(r, Facets, seed&1 == 1, n, 1+r.IntN(8)),
			randomValue(r, MLP, seed&1 == 1, n, 32, 16, 1),
		}[seed%3]
		row, w := randomRow(r, n, 1+float64(r.IntN(3))), v.NewWork()
		before := v.At(row, w)
		a := &Ascent{Value: v, Threshold: float32(before + r.NormFloat64()), Margin: 0.1 * r.Float32(),
			Radius: 0.3, Absolute: seed&2 == 2, Steps: 1 + r.IntN(MaxAscentSteps)}
		got, edited := ascend(a, row)
		u, after := 0.0, v.At(got, w)
		for i := range got {
			u += math.Pow(float64(got[i])-float64(row[i]), 2)
		}
		u = math.Sqrt(u)
		radius := 0.3
		if !a.Absolute {
			radius *= vec.Norm(row)
		}
		switch {
		case before >= float64(a.Threshold):
			quiet++
			if edited || !slices.Equal(got, row) {
				t.Fatalf("seed %d: a row over the threshold was edited", seed)
			}
		case edited != (after > before) || after < before:
			t.Fatalf("seed %d: %s edited %v: V went from %v to %v", seed, v.Kind, edited, before, after)
		case u > radius*(1+1e-4):
			t.Fatalf("seed %d: %s moved the row by %v, the ball has %v", seed, v.Kind, u, radius)
		default:
			lifted++
			if after >= float64(a.Threshold) {
				reached++
			}
		}
	}
	if quiet < 100 || lifted < 100 || reached < lifted/4 {
		t.Errorf("of 600 rows %d were left alone, %d lifted, %d over the threshold: the cases say little", quiet, lifted, reached)
	}
}

// TestAscendFacets: the result lies within all facets, not only the first one.
func TestAscendFacets(t *testing.T) {
	v := &Value{Kind: Facets, Layers: []Dense{{In: 2, Out: 2, Weight: []float32{1, 0, 0.2, 1}, Bias: []float32{0, 0}}}}
	a := &Ascent{Value: v, Threshold: 1, Radius: 9, Absolute: true, Steps: 8}
	got, edited := ascend(a, []float32{-2, -2})
	if now := v.At(got, v.NewWork()); !edited || now < 1-1e-4 {
		t.Errorf("%v has V %v, want 1", got, now)
	}
}

// TestAscendAlways moves rows that a filter leaves alone, by the whole radius
// where the slope is constant.
func TestAscendAlways(t *testing.T) {
	a := linearAscent(-5, 3, 4)
	a.Radius, a.Always = 2, true
	got, edited := ascend(a, []float32{1, 1})
	if want := []float32{2.2, 2.6}; !edited || math.Abs(float64(got[0]-want[0])) > 1e-5 || math.Abs(float64(got[1]-want[1])) > 1e-5 {
		t.Errorf("%v, want %v", got, want)
	}
	a.Always = false
	if got, edited := ascend(a, []float32{1, 1}); edited || got[0] != 1 {
		t.Errorf("over the threshold: %v", got)
	}
}

// TestAscendDose: the dose is a factor on the radius, as is the schedule.
func TestAscendDose(t *testing.T) {
	a := linearAscent(1000, 1, 0)
	a.Radius = 4
	p, err := NewPlan(Intervention{Op: Ascend, Scale: 0.5, Ascent: a, Schedule: Schedule{Ramp, 0, 1, 4}})
	if err != nil {
		t.Fatal(err)
	}
	for offset, want := range []float32{0, 0.5, 1, 1.5, 2, 2} {
		row := []float32{0, 7}
		p.Edit(Site{}, Row{Offset: offset}, row, nil)
		if row[0] != want || row[1] != 7 {
			t.Errorf("%d rows into the answer: %v, want %v", offset, row, want)
		}
	}
}

// TestAscendLeavesBrokenRows: what cannot be judged is not touched, and no edit
// makes a row infinite.
func TestAscendLeavesBrokenRows(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	r := rand.New(rand.NewPCG(8, 8))
	for _, v := range []*Value{randomValue(r, Linear, true, 3, 1), randomValue(r, Facets, false, 3, 4), randomValue(r, MLP, false, 3, 9, 1)} {
		for _, always := range []bool{false, true} {
			for _, row := range [][]float32{{nan, 1, 2}, {1, inf, 2}, {inf, -inf, inf}, {0, 0, 0}, {1e-30, 0, 0}, {3e38, 3e38, -3e38}, {1e30, 1, 1}} {
				a := &Ascent{Value: v, Threshold: 1e30, Margin: 1e30, Radius: 0.5, Steps: 3, Always: always}
				got, edited := ascend(a, row)
				for i := range got {
					if !edited && math.Float32bits(got[i]) != math.Float32bits(row[i]) || edited && got[i]-got[i] != 0 {
						t.Errorf("%s: %v became %v, edited %v", v.Kind, row, got, edited)
					}
				}
			}
		}
	}
}

// TestAscendGivesWay: a row over the threshold does not belong to the group.
func TestAscendGivesWay(t *testing.T) {
	p := mustPlan(t, Intervention{Op: Ascend, Scale: 1, Ascent: linearAscent(0, 1), Group: 1}, Intervention{Vector: []float32{10}, Scale: 1, Group: 2})
	for in, want := range map[float32]float32{-2: 0, 3: 13} {
		row := []float32{in}
		if p.Edit(Site{}, Row{}, row, nil); row[0] != want {
			t.Errorf("%v became %v, want %v", in, row[0], want)
		}
	}
}

// TestAscendConcurrently: one plan, many goroutines, the same rows.
func TestAscendConcurrently(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 9))
	p := mustPlan(t, Intervention{Op: Ascend, Scale: 1, Ascent: &Ascent{Value: randomValue(r, MLP, true, 24, 16, 1), Threshold: 9, Radius: 0.5, Steps: 3}})
	row := randomRow(r, 24, 1)
	want := slices.Clone(row)
	p.Edit(Site{}, Row{}, want, nil)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 200 {
				got := slices.Clone(row)
				if p.Edit(Site{}, Row{}, got, nil); !slices.Equal(got, want) {
					t.Error("two goroutines disturb each other")
					return
				}
			}
		})
	}
	wg.Wait()
}

// TestAscendKeysTheCache: a filter from the answer on shares the prompt's rows
// with everybody; one that reads the prompt does not, nor with another threshold.
func TestAscendKeysTheCache(t *testing.T) {
	from := 0
	late := mustPlan(t, Intervention{Op: Ascend, Scale: 1, Ascent: linearAscent(0, 1), When: When{From: &from}})
	all, other := mustPlan(t, Intervention{Op: Ascend, Scale: 1, Ascent: linearAscent(0, 1)}), mustPlan(t, Intervention{Op: Ascend, Scale: 1, Ascent: linearAscent(1, 1)})
	none := mustPlan(t, Intervention{Op: Ascend, Ascent: linearAscent(0, 1)})
	if late.PromptFingerprint() != 0 || late.Fingerprint() == 0 || all.PromptFingerprint() == 0 || all.PromptFingerprint() == other.PromptFingerprint() || none.Fingerprint() != 0 {
		t.Errorf("late %x, all %x, other %x, dose 0 %x", late.PromptFingerprint(), all.PromptFingerprint(), other.PromptFingerprint(), none.Fingerprint())
	}
	if late.Needs(Site{}, Row{Offset: -1}) || !late.Needs(Site{}, Row{}) || none.Needs(Site{}, Row{}) || len(none.Sites()) != 0 {
		t.Error("the plan wants other rows than it edits")
	}
}

func TestAscendFaults(t *testing.T) {
	nan := float32(math.NaN())
	change := func(f func(a *Ascent)) *Ascent { a := linearAscent(0, 1); f(a); return a }
	for _, tt := range []struct {
		name string
		iv   Intervention
		want []string
	}{
		{"none", Intervention{}, []string{"ascend has no ascent"}},
		{"no function", Intervention{Ascent: &Ascent{Steps: 1, Radius: 1}}, []string{"has no value function"}},
		{"a broken one", Intervention{Ascent: change(func(a *Ascent) { a.Value = &Value{Kind: MLP} })}, []string{"value function: 0 layers"}},
		{"all at once", Intervention{Scale: -1, Ascent: change(func(a *Ascent) { a.Threshold, a.Margin, a.Radius, a.Steps = nan, -1, 0, 99 })},
			[]string{"threshold is NaN", "margin is -1", "radius is 0", "99 steps, want 1 to 16", "cannot be negative"}},
		{"infinite", Intervention{Ascent: change(func(a *Ascent) { a.Margin, a.Radius = float32(math.Inf(1)), nan })}, []string{"margin is +Inf", "radius is NaN"}},
		{"schedule", Intervention{Scale: 1, Ascent: linearAscent(0, 1), Schedule: Schedule{Ramp, 1, -1, 3}}, []string{"cannot be negative"}},
	} {
		tt.iv.Op = Ascend
		_, err := NewPlan(tt.iv)
		for _, want := range tt.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", tt.name, err, want)
			}
		}
	}
	p := mustPlan(t, Intervention{Op: Ascend, Ascent: linearAscent(0, 1, 2)})
	if err := p.Check(1, 3); err == nil || !strings.Contains(err.Error(), "takes rows of 2, the model has 3") {
		t.Error("a function of another width was accepted:", err)
	}
	e := &Expr{Terms: []ExprTerm{{Name: "v"}}}
	_, err := e.Plan(map[string]*Vector{"v": {Op: Ascend, Directions: map[int][]float32{0: {1}}}})
	if err == nil || !strings.Contains(err.Error(), "write it into a plan file") {
		t.Error("an expression with an ascent:", err)
	}
}

// BenchmarkAscend is the filter on one row: over the threshold, and under it
// with all three steps.
func BenchmarkAscend(b *testing.B) {
	r := rand.New(rand.NewPCG(2, 2))
	v := randomValue(r, MLP, true, 896, 256, 256, 1)
	from := randomRow(r, 896, 1)
	for name, threshold := range map[string]float32{"passes": -1e6, "three steps": 1e6} {
		p := mustPlan(b, Intervention{Op: Ascend, Scale: 1, Ascent: &Ascent{Value: v, Threshold: threshold, Radius: 0.1, Steps: 3}})
		row := make([]float32, 896)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				copy(row, from)
				p.Edit(Site{}, Row{}, row, nil)
			}
		})
	}
}
