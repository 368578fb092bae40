package decode

import "math"

// Exponentials dominate the work on full rows, and math.Exp is three times
// slower than this one, which may leave out the range above 0.

const (
	expSteps = 128 // table entries per factor of 2
	log2Hi   = 0x1.62e42fefp-1 / expSteps
	log2Lo   = 0x1.473de6af278edp-34 / expSteps // log(2)/expSteps less log2Hi
	shifter  = 0x1.8p52                         // adding and subtracting it rounds to an integer
)

// roots is 2^(i/expSteps).
var roots = func() (t [expSteps]float64) {
	for i := range t {
		t[i] = math.Exp2(float64(i) / expSteps)
	}
	return t
}()

// exp is e^d for d <= 0, within 2 units in the last place. It splits d into
// k*log(2)/expSteps and a rest below 0.0028, whose series ends at the fifth
// power (Tang, ACM TOMS 15:2, 1989).
func exp(d float64) float64 {
	if !(d > -708) { // the result is below the normal numbers, or d is NaN
		if d < -746 {
			return 0 // as for every banned token of a row
		}
		return math.Exp(d)
	}
	n := float64(d*(expSteps/math.Ln2)) + shifter - shifter
	k := int64(n)
	r := (d - n*log2Hi) - n*log2Lo
	series := 1 + r*(1+r*(1.0/2+r*(1.0/6+r*(1.0/24+r*(1.0/120)))))
	scale := math.Float64frombits(uint64(k>>7+1023) << 52)
	return roots[k&(expSteps-1)] * series * scale
}

// chunk is how many values are converted to float64 before their exponentials
// are taken. In one loop the conversion would wait for the exponential before
// it, as both use the same register: that costs a factor of 3 on amd64.
const chunk = 64

// mass is the sum of e^(x-m) over l, where m is the largest entry.
func mass(l Logits, m float32) float64 {
	var d [chunk]float64
	sum, top := 0.0, float64(m)
	for len(l) > 0 {
		n := min(chunk, len(l))
		for j, x := range l[:n] {
			d[j] = float64(x) - top
		}
		for _, x := range d[:n] {
			sum += exp(x)
		}
		l = l[n:]
	}
	return sum
}

// expf (for x <= 0) and logf are the float32 functions that llama.cpp uses,
// rounded once.
func expf(x float32) float32 { return float32(exp(float64(x))) }
func logf(x float32) float32 { return float32(math.Log(float64(x))) }

// expSum is the softmax denominator over the values, relative to the peak m,
// added up in float32 in ascending order of token as llama.cpp does. Banned
// values add 0.
func expSum(vals []float32, m float32) float32 {
	var d [chunk]float64
	var sum float32
	for len(vals) > 0 {
		n := min(chunk, len(vals))
		for j, x := range vals[:n] {
			d[j] = float64(x - m)
		}
		for _, x := range d[:n] {
			sum += float32(exp(x))
		}
		vals = vals[n:]
	}
	return sum
}
