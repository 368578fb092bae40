package conformal

import (
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

func TestNeeded(t *testing.T) {
	for _, c := range []struct {
		alpha float64
		want  int
	}{{0.02, 49}, {0.05, 19}, {0.1, 9}, {0.01, 99}, {0.5, 1}, {0.9, 1}, {0.03, 33}, {0, 0}, {1, 0}, {math.NaN(), 0}} {
		if got := Needed(c.alpha); got != c.want {
			t.Errorf("%v needs %d, want %d", c.alpha, got, c.want)
		}
	}
}

func TestThreshold(t *testing.T) {
	upTo := func(n int) []float64 {
		s := make([]float64, n)
		for i := range s {
			s[i] = float64((i*5)%n + 1) // 1 to n, not in order
		}
		return s
	}
	for _, c := range []struct {
		name   string
		scores []float64
		alpha  float64
		want   float64
	}{
		{"just enough: the largest", upTo(49), 0.02, 49},
		{"twice as many", upTo(99), 0.02, 98},
		{"not quite twice", upTo(97), 0.02, 97},
		{"half", upTo(9), 0.5, 5},
		{"all equal", []float64{3, 3, 3, 3, 3, 3, 3, 3, 3}, 0.1, 3},
		{"infinite scores sort", append(upTo(48), math.Inf(1)), 0.02, math.Inf(1)},
	} {
		got, err := Threshold(c.scores, c.alpha)
		if err != nil || got != c.want {
			t.Errorf("%s: %v, %v; want %v", c.name, got, err, c.want)
		}
	}
}

func TestThresholdFaults(t *testing.T) {
	for _, c := range []struct {
		scores []float64
		alpha  float64
		want   string
	}{
		{make([]float64, 48), 0.02, "too few safe scores: 48, a bound of 0.02 false alarms needs 49 or more"},
		{nil, 0.5, "needs 1 or more"},
		{make([]float64, 99), 0, "must be above 0"},
		{make([]float64, 99), 1, "below 1"},
		{make([]float64, 99), math.NaN(), "must be above 0"},
		{[]float64{1, math.NaN(), 2, 3}, 0.4, "score 1 is NaN"},
	} {
		_, err := Threshold(c.scores, c.alpha)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%d scores, %v: %v, want %q", len(c.scores), c.alpha, err, c.want)
		}
		if few := strings.HasPrefix(c.want, "too few"); few && !errors.Is(err, ErrTooFew) {
			t.Errorf("%v does not wrap ErrTooFew", err)
		}
	}
}

// The guarantee, over many calibration sets: exchangeable scores of any
// distribution, many of them tied, raise no more false alarms than promised.
func TestGuarantee(t *testing.T) {
	const draws = 8_000
	distributions := map[string]func(*rand.Rand) float64{
		"uniform":     (*rand.Rand).Float64,
		"normal":      (*rand.Rand).NormFloat64,
		"heavy tail":  func(r *rand.Rand) float64 { return 1 / r.Float64() },
		"three ties":  func(r *rand.Rand) float64 { return float64(r.IntN(3)) },
		"mostly tied": func(r *rand.Rand) float64 { return float64(r.IntN(40) / 39) },
		"constant":    func(*rand.Rand) float64 { return 1 },
	}
	for name, draw := range distributions {
		for _, c := range []struct {
			n     int
			alpha float64
		}{{49, 0.02}, {80, 0.02}, {19, 0.05}, {33, 0.1}, {9, 0.5}} {
			seed := uint64(len(name)*1000 + c.n)
			r := rand.New(rand.NewPCG(seed, 1))
			scores, alarms := make([]float64, c.n), 0
			for range draws {
				for i := range scores {
					scores[i] = draw(r)
				}
				q, err := Threshold(scores, c.alpha)
				if err != nil {
					t.Fatal(err)
				}
				if draw(r) > q {
					alarms++
				}
			}
			m, err := Measure(alarms, draws, 0.9999)
			if err != nil || m.Exceeds(c.alpha) {
				t.Errorf("%s, n %d, alpha %v, seed %d: alarms %s, %v", name, c.n, c.alpha, seed, m, err)
			}
			if tied := strings.Contains(name, "tie") || name == "constant"; !tied && m.High < c.alpha-1/float64(c.n+1) {
				t.Errorf("%s, n %d, alpha %v, seed %d: alarms %s, more careful than need be", name, c.n, c.alpha, seed, m)
			}
		}
	}
}

// A threshold taken one place too low breaks the bound: the test above can fail.
func TestGuaranteeCanFail(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 1))
	alarms := 0
	for range 8_000 {
		scores := make([]float64, 50) // the 49 that a = 0.02 needs, less the largest one
		for i := range scores {
			scores[i] = r.Float64()
		}
		q, _ := Threshold(scores, 0.06)
		if r.Float64() > q {
			alarms++
		}
	}
	if m, _ := Measure(alarms, 8_000, 0.9999); !m.Exceeds(0.02) {
		t.Errorf("seed 5: alarms %s do not contradict 0.02", m)
	}
}

// Known intervals: the rule of three, and tables of the beta distribution.
func TestMeasure(t *testing.T) {
	for _, c := range []struct {
		k, n      int
		level     float64
		low, high float64
	}{
		{0, 100, 0.95, 0, 0.0362}, {100, 100, 0.95, 0.9638, 1}, {5, 10, 0.95, 0.1871, 0.8129},
		{1, 50, 0.95, 0.0005, 0.1065}, {2, 20, 0.9, 0.0181, 0.2826}, {0, 1, 0.95, 0, 0.975},
	} {
		r, err := Measure(c.k, c.n, c.level)
		if err != nil || math.Abs(r.Low-c.low) > 6e-5 || math.Abs(r.High-c.high) > 6e-5 {
			t.Errorf("%s, %v; want %v to %v", r, err, c.low, c.high)
		}
	}
	for _, bad := range [][2]int{{1, 0}, {-1, 5}, {6, 5}} {
		if _, err := Measure(bad[0], bad[1], 0.95); err == nil {
			t.Errorf("%d of %d is no rate", bad[0], bad[1])
		}
	}
	if _, err := Measure(1, 2, 1); err == nil {
		t.Error("a confidence of 1 was taken")
	}
}

// The interval covers the true rate as often as it says.
func TestMeasureCovers(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 3))
	missed := 0
	for range 4000 {
		p, n := r.Float64(), 1+r.IntN(60)
		k := 0
		for range n {
			if r.Float64() < p {
				k++
			}
		}
		if m, err := Measure(k, n, 0.9); err != nil || p < m.Low || p > m.High {
			missed++
		}
	}
	if missed > 400 {
		t.Errorf("seed 11: missed %d of 4000, want at most 400", missed)
	}
}
