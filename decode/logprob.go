package decode

import (
	"fmt"
	"math"
	"slices"
)

// Logprob is a token with the natural logarithm of its probability, at most 0
// and -Inf when it is banned.
type Logprob struct {
	Token   Token
	Logprob float64
}

// Logprobs returns the log-probability of the token chosen from l, and the n
// best tokens of l, best first and the lowest token first among equals; fewer
// when fewer are allowed. The best are appended to dst[:0], which makes the
// call free of allocations when cap(dst) >= n.
//
// Sums run in float64 relative to the largest logit, so nothing overflows and
// the error is far below 1e-9. Cost: an exponential per allowed token. NaN,
// +Inf, a row without an allowed token ([ErrNoToken]), a chosen token outside
// the row and n < 0 are errors.
func Logprobs(dst []Logprob, l Logits, chosen Token, n int) (Logprob, []Logprob, error) {
	dst = dst[:0]
	if chosen < 0 || int(chosen) >= len(l) || n < 0 {
		return Logprob{}, dst, fmt.Errorf("log-probability of token %d and %d best: the row has %d tokens", chosen, n, len(l))
	}
	m, err := top(&dst, l, min(n, len(l)))
	if err != nil {
		return Logprob{}, dst, err
	}
	lse := float64(m) + math.Log(mass(l, m))
	for i := range dst {
		dst[i].Logprob = min(dst[i].Logprob-lse, 0)
	}
	return Logprob{chosen, min(float64(l[chosen])-lse, 0)}, dst, nil
}

// top fills dst with the n best tokens and their logits, and returns the
// largest logit.
func top(dst *[]Logprob, l Logits, n int) (float32, error) {
	best := slices.Grow(*dst, n)
	m, floor := negInf, negInf
	for j, x := range l {
		if x <= floor {
			continue
		}
		if x-x != 0 {
			return 0, badEntry(Token(j), x)
		}
		m = max(m, x)
		if n == 0 {
			floor = m
			continue
		}
		if len(best) == n {
			best = best[:n-1]
		}
		best = insertBelow(best, Logprob{Token(j), float64(x)})
		if len(best) == n {
			floor = float32(best[n-1].Logprob)
		}
	}
	*dst = best
	if m == negInf {
		return 0, ErrNoToken
	}
	return m, nil
}

// insertBelow puts p behind all entries that are at least as good.
func insertBelow(best []Logprob, p Logprob) []Logprob {
	i := len(best)
	for i > 0 && best[i-1].Logprob < p.Logprob {
		i--
	}
	return slices.Insert(best, i, p)
}
