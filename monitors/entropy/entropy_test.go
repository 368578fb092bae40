package entropy

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/monitors"
)

var inf = float32(math.Inf(1))

func TestScores(t *testing.T) {
	for _, tt := range []struct {
		name              string
		row               decode.Logits
		token             decode.Token
		surprise, entropy float64
	}{
		{"uniform", decode.Logits{3, 3, 3, 3}, 2, math.Log(4), math.Log(4)},
		{"certain", decode.Logits{100, 0, 0}, 0, 0, 0},
		{"unlikely", decode.Logits{100, 0, 0}, 1, 100, 0},
		{"banned tokens", decode.Logits{-inf, 1, 1, -inf}, 1, math.Log(2), math.Log(2)},
		{"two to one", decode.Logits{float32(math.Log(2)), 0}, 0, math.Log(1.5), math.Log(3) - 2*math.Log(2)/3},
		{"large", decode.Logits{1e30, 1e30}, 0, math.Log(2), math.Log(2)},
	} {
		for m, want := range map[Measure]float64{Surprise: tt.surprise, Entropy: tt.entropy} {
			mon, err := New(Options{Measure: m, Threshold: 1})
			if err != nil {
				t.Fatal(err)
			}
			v, err := mon.Start().Observe(t.Context(), &monitors.Observation{Token: tt.token, Raw: tt.row})
			if err != nil || math.Abs(v.Score-want) > 1e-6 || v.Flag != (v.Score > 1) {
				t.Errorf("%s, %s: %+v, %v, want %v", tt.name, m, v, err, want)
			}
		}
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
		for _, x := range row {
			p := math.Exp(float64(x)) / sum
			want -= p * math.Log(p)
		}
		peak, logMass, mean, err := moments(row)
		if err != nil || math.Abs(logMass-mean-want) > 1e-5 || math.Abs(peak+logMass-math.Log(sum)) > 1e-5 {
			t.Errorf("seed %d: entropy %v want %v, mass %v want %v, %v", seed, logMass-mean, want, peak+logMass, math.Log(sum), err)
		}
	}
}

func TestFaults(t *testing.T) {
	for _, o := range []Options{{Measure: 9}, {Threshold: -1}, {Threshold: math.NaN()}, {Threshold: math.Inf(1)}, {Run: -1}, {Run: MaxRun + 1}} {
		if _, err := New(o); err == nil {
			t.Errorf("%+v: no error", o)
		}
	}
	w := &watcher{o: Options{Run: 1}}
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
	w := &watcher{o: Options{Run: 1}}
	o := &monitors.Observation{Raw: row}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := w.Observe(b.Context(), o); err != nil {
			b.Fatal(err)
		}
	}
}
