// Package stats has the few statistics that the tables of the command line
// show. Functions of no values return NaN.
package stats

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
)

// Mean is the arithmetic mean.
func Mean(values []float64) float64 {
	sum := 0.0
	for _, x := range values {
		sum += x
	}
	return sum / float64(len(values))
}

// Quantile is the value below which the share q of the values lies, between
// two values by linear interpolation (type 7 of Hyndman and Fan, 1996).
func Quantile(values []float64, q float64) float64 {
	return sortedQuantile(slices.Sorted(slices.Values(values)), q)
}

func sortedQuantile(s []float64, q float64) float64 {
	if len(s) == 0 || math.IsNaN(q) {
		return math.NaN()
	}
	at := min(max(q, 0), 1) * float64(len(s)-1)
	low := int(at)
	high := min(low+1, len(s)-1)
	return s[low] + (at-float64(low))*(s[high]-s[low])
}

// Bootstrap is a percentile interval for a statistic of the values: it is
// computed for n draws of as many values, with replacement (Efron, 1979), and
// the middle share level of the results lies within lo and hi. Equal seeds give
// equal intervals. The statistic must not keep its argument.
func Bootstrap(values []float64, statistic func([]float64) float64, seed uint64, n int, level float64) (lo, hi float64) {
	drawn := make([]float64, len(values))
	return Resample(len(values), func(index []int) float64 {
		for i, j := range index {
			drawn[i] = values[j]
		}
		return statistic(drawn)
	}, seed, n, level)
}

// Resample is [Bootstrap] for statistics of units that are no single numbers,
// such as ratios of sums or several texts to a prompt: the statistic gets the
// indices of the units drawn, each within [0,units).
func Resample(units int, statistic func(index []int) float64, seed uint64, n int, level float64) (lo, hi float64) {
	if units <= 0 || n <= 0 {
		return math.NaN(), math.NaN()
	}
	r := rand.New(rand.NewPCG(seed, 0))
	index, results := make([]int, units), make([]float64, n)
	for k := range results {
		for i := range index {
			index[i] = r.IntN(units)
		}
		results[k] = statistic(index)
	}
	slices.Sort(results)
	return sortedQuantile(results, (1-level)/2), sortedQuantile(results, (1+level)/2)
}

// AUROC is the chance that a positive score is above a negative one, ties
// counting half: the area under the curve of [ROC].
func AUROC(positive, negative []float64) float64 {
	neg := slices.Sorted(slices.Values(negative))
	sum := 0.0
	for _, x := range positive {
		below, _ := slices.BinarySearch(neg, x)
		upTo, _ := slices.BinarySearch(neg, math.Nextafter(x, math.Inf(1)))
		sum += float64(below) + float64(upTo-below)/2
	}
	return sum / float64(len(positive)) / float64(len(negative))
}

// Operating is a point of a receiver operating characteristic: the shares of
// negatives and of positives that score at least Threshold.
type Operating struct{ Threshold, FalsePositive, TruePositive float64 }

// ROC is the curve over all thresholds, from (0,0) at +Inf to (1,1).
func ROC(positive, negative []float64) []Operating {
	type scored struct {
		score    float64
		positive bool
	}
	all := make([]scored, 0, len(positive)+len(negative))
	for _, x := range positive {
		all = append(all, scored{x, true})
	}
	for _, x := range negative {
		all = append(all, scored{x, false})
	}
	slices.SortStableFunc(all, func(a, b scored) int { return cmp.Compare(b.score, a.score) })
	curve := []Operating{{Threshold: math.Inf(1)}}
	tp, fp := 0, 0
	for i, s := range all {
		if s.positive {
			tp++
		} else {
			fp++
		}
		if i+1 == len(all) || all[i+1].score != s.score {
			curve = append(curve, Operating{s.score, float64(fp) / float64(len(negative)), float64(tp) / float64(len(positive))})
		}
	}
	return curve
}
