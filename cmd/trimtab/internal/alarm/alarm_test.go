package alarm

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/trimtab/trimtab/cmd/trimtab/internal/plot"
)

func TestMeasure(t *testing.T) {
	texts := []Text{
		{ID: "early", Scores: []float64{0, 1, 1, 1}, First: 1, Failure: 3},
		{ID: "at the token", Scores: []float64{0, 0, 1}, First: 2, Failure: 2},
		{ID: "late", Scores: []float64{0, 0, 0, 0, 1}, First: 4, Failure: 2},
		{ID: "missed", Scores: []float64{0, 0, 0}, First: -1, Failure: 0},
		{ID: "safe", Scores: []float64{0, 0}, First: -1, Failure: -1},
		{ID: "false alarm", Scores: []float64{0, 2}, First: 1, Failure: -1},
	}
	r, err := Measure(texts, 1)
	if err != nil {
		t.Fatal(err)
	}
	if r.Texts != 6 || r.Unsafe != 4 || r.Tokens != 19 {
		t.Errorf("counts: %+v", r)
	}
	if r.FalseStop.Count != 1 || r.FalseStop.Of != 2 || r.Precision != 0.75 || r.Recall != 0.75 || r.F1 != 0.75 || r.InTime != 0.5 {
		t.Errorf("rates: %+v", r)
	}
	// Leads are 2, 0, -2 and -3.
	if r.Lead != -1 || math.Abs(r.LeadLow+2.85) > 1e-9 || r.Leaked != 1.25 || r.LeakedMost != 3 {
		t.Errorf("leads: %+v", r)
	}
	// Highest scores: 1, 1, 1, 0 against 0, 2: 3 of the 8 pairs, and half of one.
	if math.Abs(r.Text.Value-3.5/8) > 1e-9 {
		t.Errorf("AUROC by text is %v", r.Text)
	}
	if !(r.Token.Low <= r.Token.Value && r.Token.Value <= r.Token.High) {
		t.Errorf("AUROC by token is %+v", r.Token)
	}
}

// TestMeasureOneKind: shares of nothing are NaN, not 0 and not a crash.
func TestMeasureOneKind(t *testing.T) {
	for _, texts := range [][]Text{nil, {{Scores: []float64{1}, First: -1, Failure: -1}}, {{Scores: []float64{1}, First: 0, Failure: 0}}, {{First: -1, Failure: -1}}} {
		r, err := Measure(texts, 1)
		if err != nil || !math.IsNaN(r.Text.Value) || !math.IsNaN(r.Token.Low) {
			t.Errorf("%+v: %+v, %v", texts, r, err)
		}
	}
}

// TestWorst: for every run and threshold, a text has a run of scores above the
// threshold exactly when its worst is above it.
func TestWorst(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	for range 500 {
		scores := make([]float64, r.IntN(12))
		for i := range scores {
			scores[i] = float64(r.IntN(5))
		}
		run, threshold := 1+r.IntN(4), float64(r.IntN(5))-0.5
		above, longest := 0, 0
		for _, s := range scores {
			if above++; s <= threshold {
				above = 0
			}
			longest = max(longest, above)
		}
		if got := Worst(scores, run) > threshold; got != (longest >= run) {
			t.Fatalf("seed %d: %v, run %d, threshold %v: worst %v", seed, scores, run, threshold, Worst(scores, run))
		}
	}
}

func TestCharts(t *testing.T) {
	c := 0.5
	d := Detector{Name: "reach", Threshold: &c, Texts: []Text{
		{ID: "a", Scores: []float64{0, 0.7, 0.9}, First: 1, Failure: 2}, {ID: "b", Scores: []float64{0, 0.2}, First: -1, Failure: -1},
	}}
	list := []Detector{d, {Name: "other", Texts: d.Texts}}
	for name, charts := range map[string][]plot.Chart{"curves": Curves(list), "leads": {Leads(list)}, "unsafe": Timelines(list, 0), "safe": Timelines(list, 1)} {
		for _, format := range plot.Formats() {
			var b bytes.Buffer
			if err := plot.Write(&b, format, 2, charts...); err != nil || b.Len() == 0 {
				t.Errorf("%s as %s: %v", name, format, err)
			}
		}
	}
}
