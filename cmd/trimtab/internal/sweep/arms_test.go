package sweep

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/trimtab/trimtab/cmd/trimtab/internal/plot"
	"github.com/trimtab/trimtab/steer"
)

func TestArms(t *testing.T) {
	from := -1
	lib := map[string]*steer.Vector{
		"a": {Directions: map[int][]float32{1: {1}, 2: {1}}, Dose: 0.4, From: &from},
		"b": {Directions: map[int][]float32{1: {1}}},
	}
	for _, c := range []struct {
		text   string
		doses  []float64
		layers []int
		want   string
	}{
		{"a", []float64{1, 0, 0.5, 1}, nil, "; a:0.5; a:1"},
		{"a", nil, nil, "; a:0.1; a:0.2; a:0.3; a:0.4; a:0.6; a:0.8; a:1.2"},
		{"b", nil, nil, "; b:0.05; b:0.1; b:0.2; b:0.3; b:0.4; b:0.6; b:0.8"},
		{"a[2:]#answer", []float64{-1, 1}, []int{2, 1}, "; a:-1@2[2:]#answer; a:1@2[2:]#answer; a:-1@1[2:]#answer; a:1@1[2:]#answer"},
		{"a + b:0.3", []float64{0, 1}, nil, "; a:0 + b:0.3; a:1 + b:0.3"},
		{"a + b", []float64{0.1}, []int{1}, "; a:0.1@1 + b:0.1@1"},
		{"b:1", nil, nil, ErrFixed.Error()},
		{"b@1", []float64{1}, []int{1}, "b names its blocks"},
		{"b", []float64{1}, []int{7}, "no direction for block 7"},
		{"b", []float64{0}, nil, "no dose but 0"},
		{"b", make300(), nil, "the limit is 256"},
	} {
		e, err := steer.ParseExpr(c.text)
		if err != nil {
			t.Fatal(err)
		}
		arms, err := Arms(e, lib, c.doses, c.layers)
		var names []string
		for _, a := range arms {
			names = append(names, a.Expression)
		}
		if got := strings.Join(names, "; "); err == nil && got != c.want || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %q, %v; want %q", c.text, got, err, c.want)
		}
		if err == nil && (arms[0].Plan.Fingerprint() != 0 || arms[1].Plan == nil) {
			t.Errorf("%s: the unsteered model does not come first", c.text)
		}
	}
	e, _ := steer.ParseExpr("b:1")
	if _, err := Arms(e, lib, nil, nil); !errors.Is(err, ErrFixed) {
		t.Error(err)
	}
}

func make300() (out []float64) {
	for i := range 300 {
		out = append(out, float64(i+1))
	}
	return out
}

// TestSummarise: closed forms for the estimates; texts weigh by their rows.
func TestSummarise(t *testing.T) {
	b := Bootstrapping{Seed: 1, Draws: 200, Level: 0.9}
	base := &Observations{Chosen: []float64{-4, -2}, Rejected: []float64{-1, -3}}
	o := &Observations{Chosen: []float64{-3, -2}, Rejected: []float64{-4, -1},
		Neutral: []Tally{{1, Row{Away: 3}}, {3, Row{Away: 1}}}, Held: []Tally{{2, Row{Steered: -4}}, {2, Row{Steered: -4}}},
		Score: [][]float64{{1, 0}, {1, math.NaN()}, {math.NaN()}}, Labels: map[string]int{"x": 2}}
	r := b.Summarise(Arm{Expression: "v:1", Dose: 1}, o, base)
	for _, c := range []struct {
		name string
		e    *Estimate
		want float64
	}{{"margin", r.Margin, 0}, {"effect", r.Effect, 0}, {"KL", r.KL, 1}, {"perplexity", r.Perplexity, math.Exp(2)}, {"score", r.Score, 0.75}} {
		if c.e == nil || math.Abs(c.e.Mean-c.want) > 1e-12 || c.e.Low > c.e.Mean || c.e.High < c.e.Mean {
			t.Errorf("%s: %+v, want %v", c.name, c.e, c.want)
		}
	}
	if r.Distinct != nil || r.Loops != nil || r.Perplexity.Low != r.Perplexity.High || r.Labels["x"] != 2 {
		t.Errorf("%+v", r)
	}
	if same := b.Summarise(Arm{}, base, base); *same.Effect != (Estimate{}) {
		t.Errorf("the unsteered model beside itself: %+v", same.Effect)
	}
}

func TestCharts(t *testing.T) {
	one, two, three := 1, 2, Estimate{3, 2, 4}
	results := []Result{{KL: &Estimate{}}, {Expression: "v:-1@1", Dose: -1, Layer: &one, KL: &three}, {Expression: "v:1@1", Dose: 1, Layer: &one, KL: &three},
		{Expression: "v:0@2 + w:1", Dose: 0, Layer: &two, KL: &three}}
	charts := Charts(results)
	if len(charts) != 1 {
		t.Fatalf("%d charts", len(charts))
	}
	p := func(x, y, lo, hi float64) plot.Point { return plot.Point{X: x, Y: y, Low: lo, High: hi} }
	want := []plot.Series{{Name: "block 1", Points: []plot.Point{p(-1, 3, 2, 4), p(0, 0, 0, 0), p(1, 3, 2, 4)}}, {Name: "block 2", Points: []plot.Point{p(0, 3, 2, 4)}}}
	if diff := cmp.Diff(want, charts[0].(plot.Lines).Series); diff != "" {
		t.Error(diff)
	}
}
