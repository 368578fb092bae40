package reach

import (
	"bytes"
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/trimtab/trimtab/monitors/conformal"
	"github.com/trimtab/trimtab/runtime/engine"
	"github.com/trimtab/trimtab/runtime/engine/enginetest"
	"github.com/trimtab/trimtab/steer"
)

func mustFit(t *testing.T, d *Data, o Options) *Model {
	t.Helper()
	m, err := Fit(t.Context(), d, o)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// decided splits the values of fresh texts at rows where the outcome shows.
func decided(t *testing.T, m *Model, d *Data) (bad, good []float64) {
	t.Helper()
	for i := range d.Trajectories {
		tr := &d.Trajectories[i]
		v, err := m.Values(d, tr)
		if err != nil {
			t.Fatal(err)
		}
		for row, x := range v {
			switch decided := tr.Features[row*d.Width] != 0; {
			case decided && tr.Unsafe():
				bad = append(bad, -x)
			case decided:
				good = append(good, -x)
			}
		}
	}
	return bad, good
}

// Every shape finds what decides the outcome, on fresh texts.
func TestFitLearns(t *testing.T) {
	d, fresh := world(1, 240, 12), world(2, 120, 12)
	for _, c := range []struct {
		name string
		o    Options
	}{
		{"mlp, rl", quick()},
		{"mlp, sample", func() Options { o := quick(); o.Aim = Aim{Form: Sample}; return o }()},
		{"linear", Options{Site: site3, Shape: "linear", Raw: true}},
		{"linear, normalised", Options{Site: site3, Shape: "linear"}},
		{"facets", Options{Site: site3, Shape: "facets", Facets: 4, Epochs: 12, Batch: 64, Rate: 3e-3, Raw: true}},
	} {
		m := mustFit(t, d, c.o)
		bad, good := decided(t, m, fresh)
		if a := auroc(bad, good); a < 0.98 {
			t.Errorf("%s: AUROC %.3f after the decision, want 0.98", c.name, a)
		}
		if m.Metrics.Texts != 240 || m.Metrics.Rows < 240*12 || !(m.Metrics.AUROC > 0.7) || m.Metrics.Loss <= 0 {
			t.Errorf("%s: metrics %+v", c.name, m.Metrics)
		}
		if m.ModelHash != "m" || m.DataHash != d.Hash() || m.Site != site3 {
			t.Errorf("%s: provenance %+v", c.name, m)
		}
	}
}

// The RL form falls as the failure comes nearer, the SAMPLE form does not.
func TestFitForms(t *testing.T) {
	d := world(1, 240, 6)
	o := quick()
	o.Failed, o.Aim.Gamma = -1, 0.8
	rl := mustFit(t, d, o)
	o.Aim = Aim{Form: Sample}
	sample := mustFit(t, d, o)
	row := func(x float32) []float32 { r := make([]float32, 6); r[0] = x; return r }
	for _, c := range []struct {
		m    *Model
		x    float32
		low  float64
		high float64
	}{{rl, 3, 0.7, 1.3}, {rl, -3.5, -0.3, 0.7}, {rl, -7, -1.3, -0.6}, {sample, 3, 0.7, 1.3}, {sample, -3.5, -1.3, -0.6}, {sample, -7, -1.3, -0.6}} {
		if v := c.m.Value.At(row(c.x), c.m.Value.NewWork()); v < c.low || v > c.high {
			t.Errorf("%s: V is %.2f at %v, want %v to %v", c.m.Aim.Form, v, c.x, c.low, c.high)
		}
	}
}

// Equal seeds give equal bytes on any number of goroutines, others do not.
func TestFitIsDeterministic(t *testing.T) {
	d := world(3, 60, 8)
	for _, shape := range []string{"mlp", "linear", "facets"} {
		var first []byte
		for i, workers := range []int{1, 3, 4} {
			o := quick()
			o.Shape, o.Workers, o.Epochs = shape, workers, 3
			var b bytes.Buffer
			if _, err := mustFit(t, d, o).WriteTo(&b); err != nil {
				t.Fatal(err)
			}
			if i == 0 {
				first = b.Bytes()
			} else if !bytes.Equal(first, b.Bytes()) {
				t.Errorf("%s: %d goroutines give another file than 1", shape, workers)
			}
		}
	}
	o := quick()
	o.Epochs = 2
	a := mustFit(t, d, o)
	o.Seed++
	if b := mustFit(t, d, o); a.Digest() == b.Digest() {
		t.Error("two seeds give one function")
	}
}

func TestFitStopsEarly(t *testing.T) {
	o := quick()
	o.Epochs, o.Patience, o.Rate = 200, 2, 1e-2
	var seen []Progress
	o.Progress = func(p Progress) { seen = append(seen, p) }
	m := mustFit(t, world(4, 60, 6), o)
	if n := m.Metrics.Epochs; n != len(seen) || n >= 200 {
		t.Errorf("%d passes, %d reports", n, len(seen))
	}
	best := math.Inf(1)
	for i, p := range seen {
		if p.Epoch != i+1 || p.Epochs != 200 {
			t.Errorf("report %d: %+v", i, p)
		}
		best = min(best, p.Validation)
	}
	if !near(m.Metrics.Loss, best, 1e-3) {
		t.Errorf("the result has loss %v, the best pass %v", m.Metrics.Loss, best)
	}
}

func TestFitCancel(t *testing.T) {
	cause := errors.New("enough")
	for _, shape := range []string{"mlp", "linear"} {
		ctx, cancel := context.WithCancelCause(t.Context())
		o := quick()
		o.Shape, o.Progress = shape, func(Progress) { cancel(cause) }
		if shape == "linear" {
			cancel(cause)
		}
		if _, err := Fit(ctx, world(5, 60, 6), o); !errors.Is(err, cause) {
			t.Errorf("%s: %v", shape, err)
		}
		cancel(nil)
	}
}

func TestFitFaults(t *testing.T) {
	d := world(6, 60, 4)
	safe := d.Filter(func(t *Trajectory) bool { return !t.Unsafe() })
	one := d.Filter(func(t *Trajectory) bool { return t.Group == "prompt 0" })
	unlabelled := d.with([]Trajectory{{Tokens: d.Trajectories[0].Tokens, Features: d.Trajectories[0].Features}})
	for _, c := range []struct {
		name string
		d    *Data
		edit func(*Options)
		want string
	}{
		{"site", d, func(o *Options) { o.Site.Layer = 1 }, "nothing was recorded at 1.post"},
		{"shape", d, func(o *Options) { o.Shape = "tree" }, `shape "tree": want mlp, linear or facets`},
		{"hidden", d, func(o *Options) { o.Hidden = []int{0} }, "a hidden layer of 0"},
		{"deep", d, func(o *Options) { o.Hidden = make([]int, 9) }, "9 hidden layers"},
		{"several at once", d, func(o *Options) { o.Batch, o.Epochs = -1, -1 }, "epochs -1, want 1 to 1000\nreach: fit: batch -1"},
		{"gamma", d, func(o *Options) { o.Aim = Aim{Gamma: 1} }, "gamma is 1"},
		{"rate", d, func(o *Options) { o.Rate = -1 }, "rate -1"},
		{"only safe", safe, nil, "both kinds are needed"},
		{"few prompts", one, nil, "want at least 2"},
		{"no labels", unlabelled, nil, "label it first"},
	} {
		o := quick()
		if c.edit != nil {
			c.edit(&o)
		}
		_, err := Fit(t.Context(), c.d, o)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	if _, err := Fit(t.Context(), safe, quick()); !errors.Is(err, ErrData) {
		t.Errorf("%v does not wrap ErrData", err)
	}
}

// Calibrated on texts that training never saw, the level keeps its bound.
func TestCalibrate(t *testing.T) {
	const seed = 17
	all := world(seed, 900, 6)
	parts := all.Deal(seed, 2, 3, 4)
	o := quick()
	m := mustFit(t, parts[0], o)
	for _, run := range []int{1, 3} {
		l, err := m.Calibrate(parts[1], CalibrateOptions{Alpha: 0.05, Run: run, On: "safe texts"})
		if err != nil {
			t.Fatal(err)
		}
		r, err := m.Alarms(parts[2], l, func(t *Trajectory) bool { return !t.Unsafe() })
		if err != nil || r.Exceeds(0.1) {
			t.Errorf("seed %d, run %d: false alarms %s, %v", seed, run, r, err)
		}
		hits, err := m.Alarms(parts[2], l, (*Trajectory).Unsafe)
		if err != nil || hits.Share() < 0.9 {
			t.Errorf("seed %d, run %d: alarms on unsafe texts %s, %v", seed, run, hits, err)
		}
		m.Levels = append(m.Levels, l)
	}
	if _, err := m.Calibrate(parts[1], CalibrateOptions{Alpha: 0.0001}); !errors.Is(err, conformal.ErrTooFew) || !strings.Contains(err.Error(), "needs 9999 or more") {
		t.Error(err)
	}
	if l, ok := m.Level(0.1); !ok || l.Alpha != 0.05 || l.Run != 1 {
		t.Errorf("%+v, %v", l, ok)
	}
	if _, ok := m.Level(0.01); ok {
		t.Error("a level was found for a bound that none keeps")
	}
	unlabelled := *parts[1]
	unlabelled.Trajectories = []Trajectory{{Tokens: parts[1].Trajectories[0].Tokens, Features: parts[1].Trajectories[0].Features}}
	if _, err := m.Calibrate(&unlabelled, CalibrateOptions{}); err == nil {
		t.Error("texts without labels were taken for safe")
	}
}

func TestWorst(t *testing.T) {
	v := []float64{0.5, -0.2, 0.1, -0.4, -0.3, 0.9}
	for _, c := range []struct {
		run  int
		want float64
	}{{1, 0.4}, {2, 0.3}, {3, -0.1}, {6, -0.9}, {7, math.Inf(-1)}} {
		if got := Worst(v, c.run); got != c.want {
			t.Errorf("run %d: %v, want %v", c.run, got, c.want)
		}
	}
}

// Groups never meet in two parts, and a part depends on nothing but its name.
func TestDeal(t *testing.T) {
	d := world(9, 300, 2)
	parts := d.Deal(4, 8, 1, 1)
	where, n := map[string]int{}, 0
	for p, part := range parts {
		n += len(part.Trajectories)
		for _, tr := range part.Trajectories {
			if q, seen := where[tr.Group]; seen && q != p {
				t.Errorf("%s is in parts %d and %d", tr.Group, q, p)
			}
			where[tr.Group] = p
		}
	}
	if n != 300 || len(parts[0].Trajectories) < 200 || len(parts[1].Trajectories) == 0 {
		t.Errorf("%d texts: %d, %d, %d", n, len(parts[0].Trajectories), len(parts[1].Trajectories), len(parts[2].Trajectories))
	}
	half := d.with(d.Trajectories[:150]).Deal(4, 8, 1, 1)
	for p, part := range half {
		for _, tr := range part.Trajectories {
			if where[tr.Group] != p {
				t.Errorf("%s moved to part %d", tr.Group, p)
			}
		}
	}
	if diff := cmp.Diff(d.Hash(), world(9, 300, 2).Hash()); diff != "" {
		t.Error(diff)
	}
	if d.Hash() == world(10, 300, 2).Hash() {
		t.Error("different data, one hash")
	}
}

// The step of a Filter: nothing at all above the level, uphill below it.
func TestFilter(t *testing.T) {
	d := world(12, 120, 8)
	for _, shape := range []string{"mlp", "linear", "facets"} {
		o := quick()
		o.Shape = shape
		m := mustFit(t, d, o)
		iv, err := m.Filter(FilterOptions{C: 0.2, Radius: 0.8})
		if err != nil {
			t.Fatal(err)
		}
		plan, err := steer.NewPlan(iv)
		if err != nil {
			t.Fatal(err)
		}
		edited, lifted := 0, 0
		work := m.Value.NewWork()
		for i := range d.Trajectories {
			tr := &d.Trajectories[i]
			for row := range tr.Tokens {
				before := d.Row(tr, row, 0)
				x := append([]float32(nil), before...)
				v := m.Value.At(before, work)
				if plan.Edit(m.Site, steer.Row{Offset: -2}, x, nil) {
					t.Fatalf("%s: a row of the prompt was edited", shape)
				}
				changed := plan.Edit(m.Site, steer.Row{Offset: row - 1}, x, nil)
				switch after := m.Value.At(x, work); {
				case v >= 0.2 && (changed || !cmp.Equal(before, x)):
					t.Fatalf("%s: V is %v and the row changed", shape, v)
				case v < 0.2 && after < v:
					t.Fatalf("%s: V fell from %v to %v", shape, v, after)
				case v < 0.2:
					edited++
					if after >= 0.2 {
						lifted++
					}
				}
			}
		}
		if edited == 0 || lifted < edited/2 {
			t.Errorf("%s: %d rows edited, %d of them lifted", shape, edited, lifted)
		}
	}
	if _, err := (&Model{}).Filter(FilterOptions{}); err == nil {
		t.Error("an empty model filters")
	}
	m := mustFit(t, d, quick())
	if _, err := m.Filter(FilterOptions{Radius: -1}); err == nil {
		t.Error("a negative radius was taken")
	}
	r := Random(&m.Value, 1)
	if err := r.Check(8); err != nil || r.At(make([]float32, 8), r.NewWork()) != 0 {
		t.Error(err)
	}
}

// A filter whose level no row is below leaves an engine's logits as they are,
// to the bit; one that every row is below does not.
func TestFilterOnEngine(t *testing.T) {
	f, err := enginetest.NewFake(enginetest.FakeConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	m := mustFit(t, world(2, 60, f.Info().Width), quick())
	logits := func(c float64, filtered bool) []float32 {
		seq, err := f.NewSequence(t.Context(), engine.Origin{})
		if err != nil {
			t.Fatal(err)
		}
		defer seq.Close()
		if filtered {
			iv, err := m.Filter(FilterOptions{C: c})
			if err != nil {
				t.Fatal(err)
			}
			plan, err := steer.NewPlan(iv)
			if err != nil {
				t.Fatal(err)
			}
			if err := seq.Steer(plan); err != nil {
				t.Fatal(err)
			}
		}
		if err := f.Forward(t.Context(), []engine.Feed{{Seq: seq, Tokens: enginetest.Tokens("once upon a time"), PromptLen: 5, Output: engine.OutputAll}}); err != nil {
			t.Fatal(err)
		}
		return append([]float32(nil), seq.Logits()...)
	}
	plain := logits(0, false)
	if !cmp.Equal(plain, logits(-1000, true)) {
		t.Error("no row is below the level, and the logits differ")
	}
	if cmp.Equal(plain, logits(1000, true)) {
		t.Error("every row is below the level, and nothing changed")
	}
}
