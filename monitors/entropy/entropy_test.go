package entropy

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/monitors"
	"github.com/trimtab/trimtab/monitors/monitortest"
)

var inf = float32(math.Inf(1))

func start(t testing.TB, o Options) monitors.Watcher {
	t.Helper()
	m, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return m.Start()
}

func TestScores(t *testing.T) {
	for _, tt := range []struct {
		name                      string
		row                       decode.Logits
		token                     decode.Token
		surprise, entropy, margin float64
	}{
		{"uniform", decode.Logits{3, 3, 3, 3}, 2, math.Log(4), math.Log(4), 0},
		{"certain", decode.Logits{100, 0, 0}, 0, 0, 0, 100},
		{"unlikely", decode.Logits{100, 0, 0}, 1, 100, 0, 100},
		{"banned tokens", decode.Logits{-inf, 1, 1, -inf}, 1, math.Log(2), math.Log(2), 0},
		{"banned candidate", decode.Logits{-inf, 1, 1, -inf}, 0, MaxNats, math.Log(2), 0},
		{"one token left", decode.Logits{-inf, 1}, 1, 0, 0, MaxNats},
		{"two to one", decode.Logits{float32(math.Log(2)), 0}, 0, math.Log(1.5), math.Log(3) - 2*math.Log(2)/3, math.Log(2)},
		{"large", decode.Logits{1e30, 1e30}, 0, math.Log(2), math.Log(2), 0},
	} {
		for m, want := range map[Measure]float64{Surprise: tt.surprise, Entropy: tt.entropy, Margin: tt.margin} {
			for _, below := range []bool{false, true} {
				v, err := start(t, Options{Measure: m, Threshold: 1, Below: below}).Observe(t.Context(), &monitors.Observation{Token: tt.token, Raw: tt.row})
				x := v.Score
				if below {
					x = -x
				}
				if err != nil || math.Abs(x-want) > 1e-6 || v.Flag != (!below && x > 1 || below && x < 1) {
					t.Errorf("%s, %s, below %v: %+v, %v, want %v", tt.name, m, below, v, err, want)
				}
			}
		}
	}
}

// TestSmooth: the threshold applies to the smoothed score.
func TestSmooth(t *testing.T) {
	rows := []float64{4, 0, 2, 6}
	for smooth, want := range map[string][4]float64{
		"": {4, 0, 2, 6}, "mean:2": {4, 2, 1, 4}, "max:2": {4, 4, 2, 6}, "ewma:0.5": {4, 2, 2, 4},
	} {
		w := start(t, Options{Measure: Margin, Threshold: 3, Smooth: smooth})
		for i, x := range rows {
			v, err := w.Observe(t.Context(), &monitors.Observation{Step: i, Raw: decode.Logits{float32(x), 0}})
			if err != nil || math.Abs(v.Score-want[i]) > 1e-6 || v.Flag != (want[i] > 3) {
				t.Errorf("%q, token %d: %+v, %v, want %v", smooth, i, v, err, want[i])
			}
		}
	}
}

func TestConformance(t *testing.T) {
	bad := []monitortest.Input{
		{Token: 9, Raw: decode.Logits{1, 2}}, {Token: -1, Raw: decode.Logits{1}}, {},
		{Raw: decode.Logits{0, float32(math.NaN())}}, {Raw: decode.Logits{inf}}, {Raw: decode.Logits{-inf, -inf}},
	}
	for name, o := range map[string]Options{
		"surprise": {Threshold: 1, Run: 2}, "entropy": {Measure: Entropy, Threshold: 0.5, Smooth: "mean:4"},
		"margin": {Measure: Margin, Threshold: 1, Below: true, Smooth: "ewma:0.3"}, "max": {Threshold: 2, Smooth: "max:3", Run: 3},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := New(o)
			if err != nil {
				t.Fatal(err)
			}
			monitortest.Run(t, m, monitortest.Options{Bad: bad, Walks: 10, Next: func(r *rand.Rand) monitortest.Input {
				row := make(decode.Logits, 8)
				for i := range row {
					row[i] = float32(r.NormFloat64() * 3)
				}
				return monitortest.Input{Token: decode.Token(r.IntN(8)), Raw: row}
			}})
		})
	}
}

// TestClosedForm compares with the definitions, term by term.
func TestClosedForm(t *testing.T) {
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 1))
		row := make(decode.Logits, 1+r.IntN(2000))
		sum := 0.0
		for i := range row {
			row[i] = float32(r.NormFloat64() * 8)
			sum += math.Exp(float64(row[i]))
		}
		want := 0.0
		best := []float64{math.Inf(-1), math.Inf(-1)}
		for _, x := range row {
			p := math.Exp(float64(x)) / sum
			want -= p * math.Log(p)
			best = append(best, math.Log(p))
		}
		slices.Sort(best)
		if m, err := margin(row); len(row) > 1 && (err != nil || math.Abs(m-(best[len(best)-1]-best[len(best)-2])) > 1e-5) {
			t.Errorf("seed %d: margin %v, %v, want the difference of %v", seed, m, err, best[len(best)-2:])
		}
		peak, logMass, mean, err := moments(row)
		if err != nil || math.Abs(logMass-mean-want) > 1e-5 || math.Abs(peak+logMass-math.Log(sum)) > 1e-5 {
			t.Errorf("seed %d: entropy %v want %v, mass %v want %v, %v", seed, logMass-mean, want, peak+logMass, math.Log(sum), err)
		}
	}
}

func TestFaults(t *testing.T) {
	for _, o := range []Options{{Measure: 9}, {Threshold: -1}, {Threshold: math.NaN()}, {Threshold: math.Inf(1)}, {Run: -1}, {Run: MaxRun + 1}, {Smooth: "mean:0"}} {
		if _, err := New(o); err == nil {
			t.Errorf("%+v: no error", o)
		}
	}
	w := start(t, Options{})
	for _, o := range []monitors.Observation{
		{Token: 3, Raw: decode.Logits{1, 2}}, {Token: -1, Raw: decode.Logits{1}}, {},
		{Raw: decode.Logits{float32(math.NaN())}}, {Raw: decode.Logits{inf}}, {Raw: decode.Logits{-inf, -inf}},
	} {
		if _, err := w.Observe(t.Context(), &o); err == nil {
			t.Errorf("%+v: no error", o)
		}
	}
	if w.Rewind(1) == nil || w.Rewind(-1) == nil {
		t.Error("an impossible rewind was accepted")
	}
}

// TestRewind: after a random walk the watcher answers as a fresh one.
func TestRewind(t *testing.T) {
	row := decode.Logits{0, 5}
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 2))
		mon, err := New(Options{Threshold: 1, Run: 1 + r.IntN(4)})
		if err != nil {
			t.Fatal(err)
		}
		see := func(w monitors.Watcher, step int, tok decode.Token) monitors.Verdict {
			v, err := w.Observe(t.Context(), &monitors.Observation{Step: step, Token: tok, Raw: row})
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
		walk := mon.Start()
		var kept []decode.Token
		for range 40 {
			if n := r.IntN(len(kept) + 1); r.IntN(4) == 0 {
				if err := walk.Rewind(n); err != nil {
					t.Fatal(err)
				}
				kept = kept[:len(kept)-n]
			}
			tok := decode.Token(r.IntN(2))
			got := see(walk, len(kept), tok)
			kept = append(kept, tok)
			var want monitors.Verdict
			fresh := mon.Start()
			for i, k := range kept {
				want = see(fresh, i, k)
			}
			if got != want {
				t.Fatalf("seed %d: %+v after a walk, %+v fresh", seed, got, want)
			}
		}
	}
}

func BenchmarkObserve(b *testing.B) {
	row := make(decode.Logits, 768)
	for i := range row {
		row[i] = float32(i % 20)
	}
	w := start(b, Options{})
	o := &monitors.Observation{Raw: row}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := w.Observe(b.Context(), o); err != nil {
			b.Fatal(err)
		}
	}
}
