package sharpness

import "math"

// Of is the sharpness of one row of attention: max(a) + 1 - H(a)/log(n), for
// weights a over n visible places with the entropy H. It lies between 1/n, all
// places alike, and 2, one place alone; a single visible place makes it 2. The
// weights are taken relative to their sum, so that models whose attention may
// go to a sink beside the places are measured by what the places got. NaN when
// there are no weights, or negative ones, or ones that are not finite.
func Of(weights []float32) float64 {
	var top, sum float64
	for _, w := range weights {
		if !(w >= 0) {
			return math.NaN()
		}
		top, sum = max(top, float64(w)), sum+float64(w)
	}
	if !(sum > 0) || math.IsInf(sum, 0) {
		return math.NaN()
	}
	if len(weights) == 1 {
		return 2
	}
	entropy := 0.0
	for _, w := range weights {
		if w > 0 {
			p := float64(w) / sum
			entropy -= p * math.Log(p)
		}
	}
	return top/sum + 1 - entropy/math.Log(float64(len(weights)))
}
