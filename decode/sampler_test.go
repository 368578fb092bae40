package decode

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestGreedy(t *testing.T) {
	for _, tt := range []struct {
		l    Logits
		want Token
	}{{Logits{1, 3, 2}, 1}, {Logits{3, 3}, 0}, {Logits{negInf, -9}, 1}, {Logits{negInf, -math.MaxFloat32}, 1}} {
		if got, err := (Greedy{}).Sample(tt.l, nil); err != nil || got != tt.want {
			t.Errorf("%v: %d, %v", tt.l, got, err)
		}
	}
}

func TestSamplersRefuse(t *testing.T) {
	for _, s := range []Sampler{Greedy{}, Categorical{}} {
		for _, l := range []Logits{{nan, 1}, {1, nan}, {1, inf}, {}, nil, {negInf, negInf}} {
			before := slices.Clone(l)
			_, err := s.Sample(l, NewRand(1))
			if err == nil {
				t.Errorf("%T accepted %v", s, l)
			}
			if empty := len(allowed(l)) == 0; empty != errors.Is(err, ErrNoToken) {
				t.Errorf("%T on %v: %v", s, l, err)
			}
			if !sameBits(before, l) {
				t.Errorf("%T changed its row", s)
			}
		}
	}
}

// TestCategoricalFrequencies: the chi-square statistic of the draws stays below
// a bound that chance passes once in a million.
func TestCategoricalFrequencies(t *testing.T) {
	seeds(t, 4, func(t *testing.T, r *rand.Rand) {
		p := []float64{0.4, 0.3, 0.15, 0.1, 0.04, 0.01}
		row := ofProbs(p...)
		if r.IntN(2) == 0 { // the path for rows with many allowed tokens
			for range 2 * few {
				row = append(row, -50)
			}
		}
		const draws = 15000
		counts := make([]float64, len(row))
		for range draws {
			counts[must(Categorical{}.Sample(row, r))]++
		}
		chi := 0.0
		for i, q := range p {
			d := counts[i] - q*draws
			chi += d * d / (q * draws)
		}
		if chi > 35.9 { // 5 degrees of freedom, 1e-6
			t.Errorf("chi-square %v, counts %v", chi, counts[:len(p)])
		}
	})
}

func TestCategoricalIsReproducible(t *testing.T) {
	row := randomRow(NewRand(5), 3000)
	a, b := NewRand(9), NewRand(9)
	for range 100 {
		if x, y := must(Categorical{}.Sample(row, a)), must(Categorical{}.Sample(row, b)); x != y {
			t.Fatalf("equal seeds drew %d and %d", x, y)
		}
	}
}

// TestCategoricalPathsAgree: noting the allowed tokens or scanning gives the
// same token for the same number.
func TestCategoricalPathsAgree(t *testing.T) {
	seeds(t, 200, func(t *testing.T, r *rand.Rand) {
		row := randomRow(r, 1+r.IntN(few))
		var ids []uint32
		m := negInf
		for _, tok := range allowed(row) {
			ids = append(ids, uint32(tok))
			m = max(m, row[tok])
		}
		if len(ids) == 0 {
			return
		}
		for _, u := range []float64{0, r.Float64(), math.Nextafter(1, 0)} {
			a, b := drawListed(row, ids, m, u), drawAll(row, m, u)
			if a != b || row[a] == negInf {
				t.Errorf("at %v: %d and %d", u, a, b)
			}
		}
	})
}

func TestImpossibleTokensAreNotDrawn(t *testing.T) {
	row := Logits{-2000, negInf, 0, -2000}
	for _, u := range []float64{0, 0.5, math.Nextafter(1, 0)} {
		if got := drawAll(row, 0, u); got != 2 {
			t.Errorf("at %v: token %d", u, got)
		}
	}
}

func TestXTCRate(t *testing.T) {
	p := must(NewXTC(0.3, 0.1, 42))
	hits := 0
	for range 10000 {
		l := Logits{0, 0, 0}
		must(0, p.Process(t.Context(), l))
		if len(allowed(l)) == 1 {
			hits++
		}
		must(0, p.Accept(0))
	}
	if hits < 2750 || hits > 3250 { // 5 deviations of 46
		t.Errorf("acted %d times in 10000, want about 3000", hits)
	}
}
