package stats

import (
	"math"
	"math/rand/v2"
	"testing"
	"testing/quick"
)

func TestClosedForms(t *testing.T) {
	for _, c := range []struct {
		name      string
		got, want float64
	}{
		{"mean", Mean([]float64{1, 2, 6}), 3},
		{"mean of none", Mean(nil), math.NaN()},
		{"median", Quantile([]float64{9, 1, 5}, 0.5), 5},
		{"quartile", Quantile([]float64{4, 1, 2, 3}, 0.25), 1.75},
		{"below", Quantile([]float64{4, 1}, -1), 1},
		{"above", Quantile([]float64{4, 1}, 2), 4},
		{"of one", Quantile([]float64{7}, 0.9), 7},
		{"of none", Quantile(nil, 0.5), math.NaN()},
		{"separated", AUROC([]float64{3, 4}, []float64{1, 2}), 1},
		{"inverted", AUROC([]float64{1}, []float64{2, 3}), 0},
		{"ties", AUROC([]float64{1, 2}, []float64{1, 2}), 0.5},
		{"mixed", AUROC([]float64{0, 3}, []float64{1, 2}), 0.5},
		{"no positives", AUROC(nil, []float64{1}), math.NaN()},
	} {
		if c.got != c.want && !(math.IsNaN(c.got) && math.IsNaN(c.want)) {
			t.Errorf("%s: %v, want %v", c.name, c.got, c.want)
		}
	}
}

// The area under ROC by trapezoids is AUROC.
func TestROCArea(t *testing.T) {
	err := quick.Check(func(pos, neg []int8) bool {
		if len(pos) == 0 || len(neg) == 0 {
			return true
		}
		p, n := floats(pos), floats(neg)
		area, curve := 0.0, ROC(p, n)
		for i := 1; i < len(curve); i++ {
			a, b := curve[i-1], curve[i]
			area += (b.FalsePositive - a.FalsePositive) * (a.TruePositive + b.TruePositive) / 2
		}
		last := curve[len(curve)-1]
		return math.Abs(area-AUROC(p, n)) < 1e-9 && last.FalsePositive == 1 && last.TruePositive == 1
	}, nil)
	if err != nil {
		t.Error(err)
	}
}

func floats(in []int8) (out []float64) {
	for _, x := range in {
		out = append(out, float64(x/16)) // few values, many ties
	}
	return out
}

// The interval holds the true mean about as often as it says.
func TestBootstrapCovers(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	hits := 0
	for trial := range 300 {
		values := make([]float64, 40)
		for i := range values {
			values[i] = r.NormFloat64()
		}
		if lo, hi := Bootstrap(values, Mean, uint64(trial), 300, 0.9); lo <= 0 && hi >= 0 {
			hits++
		}
	}
	if hits < 250 || hits > 290 { // 270 +- 4 sigma, a little below by theory
		t.Errorf("%d of 300 intervals of level 0.9 hold the mean", hits)
	}
}

func TestBootstrapSeed(t *testing.T) {
	values := []float64{1, 5, 2, 8, 3}
	lo, hi := Bootstrap(values, Mean, 7, 200, 0.95)
	if lo2, hi2 := Bootstrap(values, Mean, 7, 200, 0.95); lo != lo2 || hi != hi2 {
		t.Error("an equal seed gives another interval")
	}
	if !(lo < 3.8 && hi > 3.8) {
		t.Errorf("[%v, %v]", lo, hi)
	}
	if lo, hi := Bootstrap([]float64{4, 4}, Mean, 1, 50, 0.95); lo != 4 || hi != 4 {
		t.Errorf("of equal values: [%v, %v]", lo, hi)
	}
	if lo, _ := Bootstrap(nil, Mean, 1, 50, 0.95); !math.IsNaN(lo) {
		t.Error("of no values")
	}
}
