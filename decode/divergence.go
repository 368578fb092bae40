package decode

import "math"

// Divergence is KL(p || q) in nats of the distributions that two rows of logits
// stand for, in float64: how surprising p's tokens are to one who expects q. It
// is 0 for equal rows and never negative; +Inf where q excludes what p allows;
// NaN where a row has no distribution. The rows must be equally long. It
// allocates nothing. Cost: two exponentials per token.
func Divergence(p, q Logits) float64 {
	mp, mq := highest(p), highest(q)
	sumP, sumQ, cross := 0.0, 0.0, 0.0
	for i := range p {
		a, b := float64(p[i])-mp, float64(q[i])-mq
		e := math.Exp(a)
		sumP += e
		sumQ += math.Exp(b)
		if e > 0 {
			cross += e * (a - b)
		}
	}
	kl := cross/sumP - math.Log(sumP) + math.Log(sumQ)
	if kl < 0 {
		return 0 // rounding
	}
	return kl
}

// highest is the largest logit, or NaN when there is one.
func highest(row Logits) float64 {
	m := negInf
	for _, x := range row {
		if x > m || x != x {
			m = x
		}
	}
	return float64(m)
}
