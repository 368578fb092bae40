package probe

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/monitors"
	"github.com/trimtab/trimtab/monitors/monitortest"
	"github.com/trimtab/trimtab/steer"
)

var nan = float32(math.NaN())

func random(r *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	return x
}

func linear(name string, layer int, bias float32, w ...float32) *Probe {
	return &Probe{
		Name: name, Site: steer.Site{Layer: layer}, Threshold: 0.5,
		Value: &steer.Value{Kind: steer.Linear, Layers: []steer.Dense{{In: len(w), Out: 1, Weight: w, Bias: []float32{bias}}}},
	}
}

func deep(r *rand.Rand, name string, layer int, widths ...int) *Probe {
	v := &steer.Value{Kind: steer.MLP}
	for i, in := range widths {
		out := 1
		if i+1 < len(widths) {
			out = widths[i+1]
		}
		v.Layers = append(v.Layers, steer.Dense{In: in, Out: out, Weight: random(r, in*out), Bias: random(r, out)})
	}
	return &Probe{Name: name, Site: steer.Site{Layer: layer}, Threshold: 0.5, Value: v}
}

func facts(width int) steer.Facts { return steer.Facts{Layers: 8, Width: width} }

func monitor(t testing.TB, width int, probes ...*Probe) monitors.Monitor {
	t.Helper()
	m, err := New(Options{Probes: probes, Model: facts(width)})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// see shows a watcher rows by block.
func see(t testing.TB, w monitors.Watcher, rows map[int][]float32) (monitors.Verdict, error) {
	t.Helper()
	return w.Observe(t.Context(), &monitors.Observation{Activation: func(s steer.Site) ([]float32, error) {
		row, ok := rows[s.Layer]
		if !ok {
			return nil, fmt.Errorf("activation at %s: the site is not named in Monitor.Sites", s)
		}
		return row, nil
	}})
}

func TestVerdict(t *testing.T) {
	a, b := linear("a", 1, 0, 1, 0), linear("b", 2, 1, 0, 2)
	b.Threshold = 0.9
	for _, tt := range []struct {
		rows map[int][]float32
		want float64
		flag bool
		note string
	}{
		{map[int][]float32{1: {-1, 9}, 2: {9, -1}}, -1, false, ""},         // a is 0.23 below, b 0.63
		{map[int][]float32{1: {0, 0}, 2: {0, 0}}, 0, true, "a"},            // at the threshold
		{map[int][]float32{1: {3, 0}, 2: {0, 2}}, 3, true, "a and 1 more"}, // b is past its own by less
		{map[int][]float32{1: {-4, 0}, 2: {0, 3}}, 7, true, "b"},
	} {
		v, err := see(t, monitor(t, 2, a, b).Start(), tt.rows)
		if err != nil || math.Abs(v.Score-sigmoid(tt.want)) > 1e-6 || v.Flag != tt.flag || v.Note != tt.note || v.Onset != 0 {
			t.Errorf("%v: %+v, %v, want %v %v %q", tt.rows, v, err, sigmoid(tt.want), tt.flag, tt.note)
		}
	}
}

// TestAgainstValue: the matrix of linear probes says what each says alone,
// whatever their sites, norms and kinds.
func TestAgainstValue(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 11))
		width := 1 + r.IntN(70)
		var probes []*Probe
		for i := range 1 + r.IntN(10) {
			p := linear(fmt.Sprint("p", i), r.IntN(3), float32(r.NormFloat64()), random(r, width)...)
			if r.IntN(3) == 0 {
				p = deep(r, p.Name, p.Site.Layer, width, 1+r.IntN(9))
			}
			p.Value.Norm = r.IntN(2) == 0
			p.Threshold = r.Float64()
			probes = append(probes, p)
		}
		rows := map[int][]float32{}
		for layer := range 3 {
			rows[layer] = random(r, width)
		}
		got, err := see(t, monitor(t, width, probes...).Start(), rows)
		if err != nil {
			t.Fatal(err)
		}
		best, want, flag := math.Inf(-1), 0.0, false
		for _, p := range probes {
			s := p.Probability(rows[p.Site.Layer], p.Value.NewWork())
			flag = flag || s >= p.Threshold
			if s-p.Threshold > best {
				best, want = s-p.Threshold, s
			}
		}
		if math.Abs(got.Score-want) > 1e-5 || got.Flag != flag {
			t.Errorf("seed %d: %+v, want %v %v", seed, got, want, flag)
		}
	}
}

func TestConformance(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	a, b, c := linear("a", 1, -1, 1, 2, 3), linear("b", 1, 0, 3, -2, 1), deep(r, "c", 4, 3, 5)
	a.Smooth, b.Smooth, c.Smooth = "mean:3", "ewma:0.4", "max:2"
	b.Value.Norm, c.Threshold = true, 0.9
	row := func(list ...float32) map[steer.Site][]float32 {
		return map[steer.Site][]float32{{Layer: 1}: list, {Layer: 4}: {1, 2, 3}}
	}
	bad := []monitortest.Input{
		{Rows: row(1, nan, 2)}, {Rows: row(1, 2)}, {Rows: row(1, 2, 3, 4)}, {Rows: row()}, {},
		{Rows: row(1, 2, float32(math.Inf(1)))},
		{Rows: map[steer.Site][]float32{{Layer: 1}: {1, 2, 3}}},
		{Rows: map[steer.Site][]float32{{Layer: 1}: {1, 2, 3}, {Layer: 4}: {nan, 0, 0}}}, // behind a group that is fine
	}
	monitortest.Run(t, monitor(t, 3, a, b, c), monitortest.Options{Bad: bad, Walks: 10, Next: func(r *rand.Rand) monitortest.Input {
		return monitortest.Input{Token: decode.Token(r.IntN(9)), Rows: map[steer.Site][]float32{
			{Layer: 1}: random(r, 3), {Layer: 4}: random(r, 3), {Layer: 5}: {nan},
		}}
	}})
}

// TestObserveFaults: each fault has words that say where.
func TestObserveFaults(t *testing.T) {
	huge := linear("huge", 1, 0, 3e38, 3e38)
	for _, tt := range []struct {
		name string
		rows map[int][]float32
		want string
	}{
		{"NaN", map[int][]float32{1: {0, nan}}, "activation at 1.post: value 1 is NaN"},
		{"Inf", map[int][]float32{1: {float32(math.Inf(-1)), 0}}, "activation at 1.post: value 0 is -Inf"},
		{"narrow", map[int][]float32{1: {0}}, "activation at 1.post: 1 values, the probes read 2"},
		{"missing", nil, "activation at 1.post: the site is not named"},
		{"overflow", map[int][]float32{1: {3e38, 3e38}}, `probe "huge" at 1.post: the logit is +Inf, the row is too large`},
	} {
		if _, err := see(t, monitor(t, 2, huge).Start(), tt.rows); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	w := monitor(t, 2, huge).Start()
	if _, err := w.Observe(t.Context(), &monitors.Observation{}); err == nil || !strings.Contains(err.Error(), "the engine shows none") {
		t.Errorf("no Activation: %v", err)
	}
	if err := w.Rewind(1); err == nil {
		t.Error("rewound what was not observed")
	}
}

func TestNewFaults(t *testing.T) {
	good := func() *Probe { return linear("p", 1, 0, 1, 2) }
	change := func(f func(*Probe)) Options {
		p := good()
		f(p)
		return Options{Probes: []*Probe{p}, Model: steer.Facts{Layers: 8, Width: 2, ModelHash: "m", Arch: "llama", TemplateHash: "t"}}
	}
	for _, tt := range []struct {
		o     Options
		want  string
		wrong bool // another model
	}{
		{Options{Model: facts(2)}, "0 probes, want 1 to 256", false},
		{Options{Probes: make([]*Probe, MaxProbes+1), Model: facts(2)}, "257 probes", false},
		{Options{Probes: []*Probe{nil}, Model: facts(2)}, "probe 0 is nil", false},
		{Options{Probes: []*Probe{good()}}, "Options.Model does not state", false},
		{change(func(p *Probe) { p.Name = "" }), "no name", false},
		{change(func(p *Probe) { p.Name = "a\nb" }), "general.name: \"a\\nb\" contains a control character", false},
		{change(func(p *Probe) { p.Value = nil }), "no function", false},
		{change(func(p *Probe) { p.Value.Kind = steer.Facets }), "a probe is linear or mlp, not facets", false},
		{change(func(p *Probe) { p.Value.Layers[0].Weight[1] = nan }), "weight[1] is NaN", false},
		{change(func(p *Probe) { p.Value.Layers[0].Bias[0] = nan }), "bias[0] is NaN", false},
		{change(func(p *Probe) { p.Threshold = math.NaN() }), "threshold is NaN", false},
		{change(func(p *Probe) { p.Threshold = 1.1 }), "threshold is 1.1", false},
		{change(func(p *Probe) { p.Smooth = "median:3" }), "window \"median:3\"", false},
		{change(func(p *Probe) { p.Site.Layer = 8 }), "site 8.post: the model has blocks 0 to 7", false},
		{change(func(p *Probe) { p.Site.Layer = -1 }), "site -1.post: want", false},
		{change(func(p *Probe) { *p = *linear("p", 1, 0, 1, 2, 3) }), "width: the probe reads rows of 3, the model has 2", false},
		{change(func(p *Probe) { p.Metrics = &Metrics{AUROC: 2} }), "metrics: auroc is 2", false},
		{change(func(p *Probe) { p.Metrics = &Metrics{Positives: -1} }), "-1 positives", false},
		{change(func(p *Probe) { p.Calibration = &Calibration{Rate: -1} }), "calibration: rate is -1", false},
		{change(func(p *Probe) { p.Calibration = &Calibration{Texts: -1} }), "calibration: -1 texts", false},
		{change(func(p *Probe) { p.ModelHash = "other" }), "model hash: the probe states other, the model is m", true},
		{change(func(p *Probe) { p.Arch = "qwen3" }), "architecture: the probe states qwen3", true},
		{change(func(p *Probe) { p.TemplateHash = "x" }), "template hash: the probe states x", true},
	} {
		_, err := New(tt.o)
		if err == nil || !strings.Contains(err.Error(), tt.want) || errors.Is(err, ErrWrongModel) != tt.wrong {
			t.Errorf("%v, want %q", err, tt.want)
		}
		tt.o.AnyModel = true
		if _, err := New(tt.o); (err == nil) != tt.wrong {
			t.Errorf("any model: %v", err)
		}
	}
}

// TestLongNote: the longest names fit the step loop's bound.
func TestLongNote(t *testing.T) {
	v, err := see(t, monitor(t, 1, linear(strings.Repeat("ä", 2000), 1, 9, 1)).Start(), map[int][]float32{1: {1}})
	if err != nil || !v.Flag || len(v.Note) > 210 || strings.ContainsRune(v.Note, '\ufffd') {
		t.Errorf("%d bytes, %v", len(v.Note), err)
	}
}

// BenchmarkObserve is the goal of eight linear probes at width 4096, and a
// perceptron of 256x256 at 896.
func BenchmarkObserve(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	var eight []*Probe
	for i := range 8 {
		eight = append(eight, linear(fmt.Sprint("p", i), 1, 0, random(r, 4096)...))
	}
	for _, bb := range []struct {
		name   string
		width  int
		probes []*Probe
	}{
		{"8xlinear-4096", 4096, eight},
		{"mlp-896-256-256", 896, []*Probe{deep(r, "m", 1, 896, 256, 256)}},
	} {
		b.Run(bb.name, func(b *testing.B) {
			w := monitor(b, bb.width, bb.probes...).Start()
			row := random(r, bb.width)
			o := &monitors.Observation{Activation: func(steer.Site) ([]float32, error) { return row, nil }}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := w.Observe(b.Context(), o); err != nil {
					b.Fatal(err)
				}
				if o.Step++; o.Step == 1024 {
					if err := w.Rewind(o.Step); err != nil {
						b.Fatal(err)
					}
					o.Step = 0
				}
			}
		})
	}
}
