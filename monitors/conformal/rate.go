package conformal

import (
	"fmt"
	"math"
)

// Rate is a measured share with its exact interval.
type Rate struct {
	Count, Of int
	Low, High float64 // Clopper-Pearson interval of the true rate
	Level     float64 // its confidence, such as 0.95
}

// Share is Count/Of, 0 when nothing was counted.
func (r Rate) Share() float64 {
	if r.Of == 0 {
		return 0
	}
	return float64(r.Count) / float64(r.Of)
}

// Exceeds reports whether the measurement contradicts a bound: even the low end
// of the interval lies above it.
func (r Rate) Exceeds(bound float64) bool { return r.Low > bound }

func (r Rate) String() string {
	return fmt.Sprintf("%.3f (%d of %d, %.0f %% interval %.3f to %.3f)", r.Share(), r.Count, r.Of, 100*r.Level, r.Low, r.High)
}

// Measure is the rate of count alarms in n texts with the exact binomial
// interval of the given confidence (Clopper and Pearson 1934): whatever the true
// rate, it lies outside with a probability of at most 1-level.
func Measure(count, n int, level float64) (Rate, error) {
	if n < 1 || count < 0 || count > n {
		return Rate{}, fmt.Errorf("conformal: %d of %d texts is no rate", count, n)
	}
	if !(level > 0 && level < 1) {
		return Rate{}, fmt.Errorf("conformal: confidence %v, must be above 0 and below 1", level)
	}
	r := Rate{Count: count, Of: n, High: 1, Level: level}
	tail := (1 - level) / 2
	if count > 0 { // P(X >= count) = tail
		r.Low = bisect(func(p float64) bool { return 1-atMost(count-1, n, p) < tail })
	}
	if count < n { // P(X <= count) = tail
		r.High = bisect(func(p float64) bool { return atMost(count, n, p) > tail })
	}
	return r, nil
}

// bisect finds where below turns from true to false on [0,1].
func bisect(below func(p float64) bool) float64 {
	lo, hi := 0.0, 1.0
	for range 60 {
		if mid := (lo + hi) / 2; below(mid) {
			lo = mid
		} else {
			hi = mid
		}
	}
	return (lo + hi) / 2
}

// atMost is the probability of at most k successes in n trials of probability p.
func atMost(k, n int, p float64) float64 {
	if p <= 0 || k >= n {
		return 1
	}
	if p >= 1 {
		return 0
	}
	total, _ := math.Lgamma(float64(n + 1))
	sum := 0.0
	for i := range k + 1 {
		a, _ := math.Lgamma(float64(i + 1))
		b, _ := math.Lgamma(float64(n - i + 1))
		sum += math.Exp(total - a - b + float64(i)*math.Log(p) + float64(n-i)*math.Log1p(-p))
	}
	return min(sum, 1)
}
