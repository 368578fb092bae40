package window

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestParse(t *testing.T) {
	for in, want := range map[string]Window{
		"": {}, "none": {}, "mean:8": {Kind: Mean, Len: 8}, "max:1024": {Kind: Max, Len: 1024}, "ewma:0.25": {Kind: EWMA, Alpha: 0.25},
	} {
		got, err := Parse(in)
		if err != nil || got != want {
			t.Errorf("%q: %+v, %v", in, got, err)
		}
		if again, err := Parse(got.String()); err != nil || again != want {
			t.Errorf("%q spells %q, which reads as %+v, %v", in, got.String(), again, err)
		}
	}
	for _, in := range []string{"mean", "mean:0", "mean:1025", "max:-1", "max:x", "ewma", "ewma:0", "ewma:1.1", "ewma:NaN", "median:3", "none:3"} {
		if w, err := Parse(in); err == nil {
			t.Errorf("%q: no error but %+v", in, w)
		}
	}
}

// smooth is the definition, over the whole stream.
func smooth(w Window, xs []float64) float64 {
	last := xs[max(0, len(xs)-max(w.Len, 1)):]
	switch w.Kind {
	case EWMA:
		e := xs[0]
		for _, x := range xs[1:] {
			e = w.Alpha*x + (1-w.Alpha)*e
		}
		return e
	case Max:
		m := math.Inf(-1)
		for _, x := range last {
			m = max(m, x)
		}
		return m
	case Mean:
		s := 0.0
		for _, x := range last {
			s += x / float64(len(last))
		}
		return s
	}
	return xs[len(xs)-1]
}

// TestWalk: along random pushes and rewinds the answer is that of the
// definition over what was kept.
func TestWalk(t *testing.T) {
	for seed := range uint64(50) {
		for _, name := range []string{"none", "mean:1", "mean:5", "max:5", "ewma:0.3", "ewma:1"} {
			w, err := Parse(name)
			if err != nil {
				t.Fatal(err)
			}
			r := rand.New(rand.NewPCG(seed, 3))
			s := NewSeries(w)
			var kept []float64
			for range 100 {
				if r.IntN(4) == 0 {
					n := r.IntN(len(kept) + 1)
					if err := s.Rewind(n); err != nil {
						t.Fatal(err)
					}
					kept = kept[:len(kept)-n]
				}
				x := r.NormFloat64()
				kept = append(kept, x)
				if got, want := s.Push(x), smooth(w, kept); math.Abs(got-want) > 1e-12 || s.Len() != len(kept) {
					t.Fatalf("seed %d, %s: %v, want %v; %d values, want %d", seed, name, got, want, s.Len(), len(kept))
				}
			}
			if s.Rewind(-1) == nil || s.Rewind(s.Len()+1) == nil {
				t.Fatal("an impossible rewind was accepted")
			}
		}
	}
}
