package reach

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/monitors"
	"github.com/trimtab/trimtab/monitors/monitortest"
	"github.com/trimtab/trimtab/steer"
)

// plain is a model with V = the first value of the row.
func plain() *Model {
	return &Model{Name: "plain", Site: site3, Aim: Aim{Form: Sample}, Metrics: Metrics{AUROC: math.NaN()},
		Value:  steer.Value{Kind: steer.Linear, Layers: []steer.Dense{{In: 3, Out: 1, Weight: []float32{1, 0, 0}, Bias: []float32{0}}}},
		Levels: []Level{{C: 0, Alpha: 0.02, Run: 1, Texts: 50, On: "safe texts"}}}
}

// input is a candidate whose row has the value v.
func input(v float32) monitortest.Input {
	raw := make(decode.Logits, 4)
	return monitortest.Input{Token: 1, Piece: []byte("x"), Raw: raw, Rows: map[steer.Site][]float32{site3: {v, 1, 2}}}
}

func drawn(r *rand.Rand) monitortest.Input { return input(float32(r.NormFloat64())) }

func TestMonitorContract(t *testing.T) {
	nan := float32(math.NaN())
	for _, run := range []int{1, 3} {
		m, err := NewMonitor(plain(), MonitorOptions{Level: &Level{C: 0, Run: run}})
		if err != nil {
			t.Fatal(err)
		}
		narrow := input(0)
		narrow.Rows = map[steer.Site][]float32{site3: {1}}
		monitortest.Run(t, m, monitortest.Options{Next: drawn, Bad: []monitortest.Input{input(nan), input(float32(math.Inf(1))), narrow}})
	}
}

// Score, flag and onset of a written course of values.
func TestMonitorVerdicts(t *testing.T) {
	values := []float32{1, -0.5, 0.5, -0.1, -0.2, -0.3, 1}
	for _, c := range []struct {
		run   int
		flags string // one letter a token: . or the onset
	}{{1, ".1.111."}, {2, "....22."}, {3, ".....3."}} {
		m, err := NewMonitor(plain(), MonitorOptions{Name: "v", Level: &Level{C: 0, Run: c.run}})
		if err != nil {
			t.Fatal(err)
		}
		w, got := m.Start(), ""
		for i, v := range values {
			verdict, err := w.Observe(t.Context(), observe(i, v))
			if err != nil || verdict.Score != -float64(v) {
				t.Fatalf("token %d: %+v, %v", i, verdict, err)
			}
			if !verdict.Flag {
				got += "."
			} else {
				got += string(rune('0' + verdict.Onset))
			}
		}
		if got != c.flags {
			t.Errorf("run %d: %s, want %s", c.run, got, c.flags)
		}
	}
	m, _ := NewMonitor(plain(), MonitorOptions{})
	if v, err := m.Start().Observe(t.Context(), observe(0, -1)); err != nil || !v.Flag || v.Onset != 0 {
		t.Errorf("the first token: %+v, %v", v, err)
	}
}

func observe(step int, v float32) *monitors.Observation {
	return &monitors.Observation{Step: step, Token: 1, Activation: func(steer.Site) ([]float32, error) { return []float32{v, 0, 0}, nil }}
}

func TestMonitorFaults(t *testing.T) {
	bare := plain()
	bare.Levels = nil
	for _, c := range []struct {
		m    *Model
		o    MonitorOptions
		want string
	}{
		{bare, MonitorOptions{}, "not calibrated"},
		{&Model{}, MonitorOptions{}, "0 layers"},
		{plain(), MonitorOptions{Level: &Level{C: math.NaN()}}, "threshold NaN"},
		{plain(), MonitorOptions{Level: &Level{Run: 5000}}, "5000 rows"},
	} {
		if _, err := NewMonitor(c.m, c.o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
	m, err := NewMonitor(plain(), MonitorOptions{})
	if err != nil || m.Name != "reach" || m.Start().Rewind(1) == nil {
		t.Errorf("%+v, %v", m, err)
	}
}

func TestModelCheck(t *testing.T) {
	m := plain()
	m.ModelHash, m.Arch, m.TemplateHash = "h", "llama", "t"
	fits := steer.Facts{ModelHash: "h", Arch: "llama", TemplateHash: "t", Layers: 4, Width: 3}
	if err := m.Check(fits); err != nil {
		t.Error(err)
	}
	other := fits
	other.ModelHash, other.TemplateHash = "g", ""
	if err := m.Check(other); err == nil || !strings.Contains(err.Error(), "another model") || !strings.Contains(err.Error(), "states h, the model is g") {
		t.Error(err)
	}
	small := other
	small.Width, small.Layers = 8, 2
	err := m.Check(small)
	if err == nil || strings.Contains(err.Error(), "another model") || !strings.Contains(err.Error(), "takes rows of 3, the model has 8") || !strings.Contains(err.Error(), "layers 0 to 1") {
		t.Error(err)
	}
}
