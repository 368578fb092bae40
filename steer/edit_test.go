package steer

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func mustPlan(t testing.TB, list ...Intervention) *Plan {
	t.Helper()
	p, err := NewPlan(list...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestSchedule(t *testing.T) {
	for _, c := range []struct {
		s    Schedule
		at   int
		want float32
	}{
		{Schedule{}, -9, 1}, {Schedule{}, 1 << 40, 1},
		{Schedule{Ramp, 0, 2, 4}, -3, 0}, {Schedule{Ramp, 0, 2, 4}, 0, 0}, {Schedule{Ramp, 0, 2, 4}, 1, 0.5},
		{Schedule{Ramp, 0, 2, 4}, 4, 2}, {Schedule{Ramp, 0, 2, 4}, 5, 2}, {Schedule{Ramp, 1, 0, 2}, 1 << 40, 0},
		{Schedule{Decay, 1, 0, 8}, -1, 1}, {Schedule{Decay, 1, 0, 8}, 8, 0.5}, {Schedule{Decay, 1, 0, 8}, 24, 0.125},
		{Schedule{Decay, 1, 0.5, 8}, 8, 0.75}, {Schedule{Decay, 0, 1, 8}, 0, 0}, {Schedule{Decay, 1, 0, 1}, 1 << 40, 0},
	} {
		if got := c.s.At(c.at); got != c.want {
			t.Errorf("%+v at %d is %v, want %v", c.s, c.at, got, c.want)
		}
	}
}

func TestGate(t *testing.T) {
	x := []float32{3, 4}
	for _, c := range []struct {
		gate  Gate
		value float64
		open  bool
	}{
		{Gate{Vector: []float32{1, 0}, Threshold: 0.5}, 0.6, true},
		{Gate{Vector: []float32{1, 0}, Threshold: 0.7}, 0.6, false},
		{Gate{Vector: []float32{-20, 0}, Threshold: -0.5, Below: true}, -0.6, true},
		{Gate{Kind: Logistic, Vector: []float32{1, -1}, Bias: 1, Threshold: 0.4}, 0.5, true},
		{Gate{Kind: Logistic, Vector: []float32{1, -1}, Bias: 1, Threshold: 0.5}, 0.5, false},
		{Gate{Kind: Logistic, Vector: []float32{1, -1}, Bias: 1, Threshold: 0.5, Below: true}, 0.5, false},
	} {
		if v := c.gate.Value(x); math.Abs(v-c.value) > 1e-7 || c.gate.Open(x) != c.open {
			t.Errorf("%+v of %v is %v, open %v; want %v, %v", c.gate, x, v, c.gate.Open(x), c.value, c.open)
		}
	}
	for _, below := range []bool{false, true} {
		if g := (Gate{Vector: []float32{1, 1}, Below: below}); g.Open([]float32{0, 0}) || g.Open([]float32{float32(math.NaN()), 1}) {
			t.Error("a gate opens for a row without a direction")
		}
	}
}

// TestEdit plays rows through the sites of plans, in the order of the blocks.
func TestEdit(t *testing.T) {
	up := func(layer int, by float32) Intervention {
		return Intervention{Site: Site{Layer: layer}, Vector: []float32{1, 0}, Scale: by}
	}
	gated := func(iv Intervention, layer int, threshold float32) Intervention {
		iv.Gate = &Gate{Site: Site{Layer: layer}, Vector: []float32{1, 0}, Threshold: threshold}
		return iv
	}
	group := func(n int, iv Intervention) Intervention { iv.Group = n; return iv }
	in := func(iv Intervention, from int) Intervention { iv.When.From = &from; return iv }
	for _, c := range []struct {
		name string
		list []Intervention
		at   int
		want float32 // x[0] at the end, from (0,1) at the start
	}{
		{"stacked", []Intervention{up(0, 1), up(0, 2), up(3, 4)}, 0, 7},
		{"the first group goes before", []Intervention{group(1, up(0, 1)), group(2, up(0, 2)), up(0, 4), group(1, up(0, 8))}, 0, 13},
		{"what has no group takes no part", []Intervention{up(0, 4), group(2, up(0, 1)), group(1, up(0, 2))}, 0, 5},
		{"the first group is silent", []Intervention{group(1, in(up(0, 1), 9)), group(2, up(0, 2)), group(2, up(0, 4))}, 0, 6},
		{"another site does not count", []Intervention{group(1, up(0, 1)), group(2, up(1, 2))}, 0, 3},
		{"the first has a closed gate", []Intervention{group(1, gated(up(0, 1), 0, 0.5)), group(2, up(0, 2))}, 0, 2},
		{"scheduled", []Intervention{{Vector: []float32{1, 0}, Scale: 8, Schedule: Schedule{Decay, 1, 0, 1}}}, 2, 2},
		{"scheduled, prompt", []Intervention{{Vector: []float32{1, 0}, Scale: 8, Schedule: Schedule{Decay, 1, 0, 1}}}, -2, 8},
		{"a gate sees the edits before it at its site", []Intervention{up(2, 1), gated(up(2, 2), 2, 0.5)}, 0, 3},
		{"but not those after it", []Intervention{gated(up(2, 2), 2, 0.5), up(2, 1)}, 0, 1},
		{"a gate sees all edits at an earlier site", []Intervention{gated(up(2, 2), 1, 0.5), up(1, 1)}, 0, 3},
		{"a gate does not see what comes between", []Intervention{gated(up(2, 2), 1, 0.5), up(2, 1)}, 0, 1},
		{"a gate outside its window", []Intervention{up(0, 1), gated(in(up(2, 2), 1), 1, 0.5)}, 0, 1},
		{"two gates", []Intervention{up(0, 1), gated(up(2, 2), 1, 0.5), gated(up(2, 4), 1, 0.9)}, 0, 3},
	} {
		p := mustPlan(t, c.list...)
		x, row := []float32{0, 1}, Row{Offset: c.at}
		var v Verdicts
		for layer := range 4 {
			site := Site{Layer: layer}
			before := slices.Clone(x)
			needs := p.Needs(site, row)
			edited := p.Edit(site, row, x, &v)
			if edited != !slices.Equal(before, x) || edited && !needs || needs && !slices.Contains(p.Sites(), site) {
				t.Errorf("%s: layer %d: %v became %v, edited %v, needed %v, sites %v", c.name, layer, before, x, edited, needs, p.Sites())
			}
		}
		if x[0] != c.want || x[1] != 1 {
			t.Errorf("%s: got %v, want %v", c.name, x, c.want)
		}
	}
}

// TestClosedByDefault: without a verdict a gate lets nothing through, and the
// nil plan and doses of 0 have no sites.
func TestClosedByDefault(t *testing.T) {
	p := mustPlan(t, Intervention{Site: Site{Layer: 2}, Vector: []float32{1}, Scale: 1, Gate: &Gate{Vector: []float32{1}, Threshold: -1}})
	x := []float32{1}
	var v Verdicts
	if p.Edit(Site{Layer: 2}, Row{}, x, nil) || p.Edit(Site{Layer: 2}, Row{}, x, &v) || x[0] != 1 {
		t.Error("a gate opened before it was asked")
	}
	if !p.Gated() || len(p.Sites()) != 2 {
		t.Errorf("gated %v, sites %v", p.Gated(), p.Sites())
	}
	var none *Plan
	off := mustPlan(t, Intervention{Vector: []float32{1}, Gate: &Gate{Vector: []float32{1}}})
	for _, p := range []*Plan{none, off} {
		if p.Edit(Site{}, Row{}, x, nil) || p.Needs(Site{}, Row{}) || len(p.Sites()) != 0 || p.Gated() {
			t.Error("a plan of nothing does something")
		}
	}
}

// TestVerdictsKeepApart: as many gates as a plan may have, each with its own
// verdict, and a second row through the same Verdicts sees only its own.
func TestVerdictsKeepApart(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	var list []Intervention
	for range MaxInterventions {
		list = append(list, Intervention{Site: Site{Layer: 1}, Vector: []float32{0, 0, 1}, Scale: 1,
			Gate: &Gate{Vector: normal(r, 3), Threshold: float32(r.Float64() - 0.5)}})
	}
	p := mustPlan(t, list...)
	var v Verdicts
	for range 5 {
		x := normal(r, 3)
		x[2] = 0
		want := float32(0)
		for i := range list {
			if list[i].Gate.Open(x) {
				want++
			}
		}
		p.Edit(Site{}, Row{}, x, &v)
		p.Edit(Site{Layer: 1}, Row{}, x, &v)
		if x[2] != want {
			t.Fatalf("%v gates let the row through, want %v", x[2], want)
		}
	}
}

// TestEditDoesNotAllocate covers every operation, gate and schedule.
func TestEditDoesNotAllocate(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	const n = 64
	var list []Intervention
	for op := Add; op.Known(); op++ {
		for _, kind := range []GateKind{Cosine, Logistic} {
			list = append(list, Intervention{Site: Site{Layer: 1}, Op: op, Vector: normal(r, n), Scale: 0.1, Toward: normal(r, n),
				Map: &LowRank{2, normal(r, 2*n), normal(r, 2*n)}, Renorm: true, Schedule: Schedule{Ramp, 1, 0.5, 3},
				Ascent: &Ascent{Value: randomValue(r, MLP, true, n, 8, 1), Threshold: 100, Radius: 0.1, Steps: 3},
				Gate:   &Gate{Kind: kind, Vector: normal(r, n), Threshold: 0.01}, When: When{Phases: PhaseAnswer}})
		}
	}
	p := mustPlan(t, list...)
	x, row := normal(r, n), Row{Offset: 1, Phase: PhaseAnswer}
	var v Verdicts
	if got := testing.AllocsPerRun(100, func() {
		for layer := range 2 {
			if site := (Site{Layer: layer}); p.Needs(site, row) {
				p.Edit(site, row, x, &v)
			}
		}
	}); got != 0 {
		t.Errorf("%v allocations a row", got)
	}
}

func TestUniformAndPositional(t *testing.T) {
	for _, c := range []struct {
		name                string
		iv                  Intervention
		uniform, positional bool
	}{
		{"plain", Intervention{}, true, false},
		{"window", Intervention{When: When{To: ptr(0)}}, false, true},
		{"phase", Intervention{When: When{Phases: PhaseThink}}, false, true},
		{"token", Intervention{When: When{Tokens: []int32{1}}}, false, false},
		{"schedule", Intervention{Schedule: Schedule{Ramp, 0, 1, 2}}, false, true},
		{"gate", Intervention{Gate: &Gate{}}, false, false},
		{"group", Intervention{Group: 1}, false, false},
	} {
		if c.iv.Uniform() != c.uniform || c.iv.Positional() != c.positional {
			t.Errorf("%s: uniform %v, positional %v", c.name, c.iv.Uniform(), c.iv.Positional())
		}
	}
}

// BenchmarkEdit is one row of width 1024 under one addition behind a gate at an
// earlier block.
func BenchmarkEdit(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	p := mustPlan(b, Intervention{Site: Site{Layer: 1}, Vector: normal(r, 1024), Scale: 1e-9,
		Gate: &Gate{Vector: normal(r, 1024), Threshold: -1}})
	x := normal(r, 1024)
	var v Verdicts
	for b.Loop() {
		for layer := range 2 {
			p.Edit(Site{Layer: layer}, Row{}, x, &v)
		}
	}
}
