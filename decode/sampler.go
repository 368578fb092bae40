package decode

import (
	"errors"
	"math"
	"math/rand/v2"
)

// ErrNoToken is returned by samplers when every token of the row is banned.
var ErrNoToken = errors.New("no token is allowed")

// Greedy takes the token with the largest logit, the lowest among equals. It
// draws nothing.
type Greedy struct{}

// Sample returns the best token of l. It errs on NaN, +Inf and [ErrNoToken].
func (Greedy) Sample(l Logits, _ *rand.Rand) (Token, error) {
	best, m := Token(-1), negInf
	for j, x := range l {
		if x <= m { // false for NaN
			continue
		}
		if x-x != 0 {
			return 0, badEntry(Token(j), x)
		}
		best, m = Token(j), x
	}
	if best < 0 {
		return 0, ErrNoToken
	}
	return best, nil
}

// Categorical draws a token with the probabilities that the softmax of the row
// gives. Each call draws one number. Equal rows and generators give equal
// tokens. It allocates nothing.
type Categorical struct{}

// few is how many allowed tokens Sample notes while it looks for the largest,
// so that a thinned out row is scanned once. 4 bytes each on the stack.
const few = 512

// Sample draws from l. It errs on NaN, +Inf and [ErrNoToken].
func (Categorical) Sample(l Logits, r *rand.Rand) (Token, error) {
	var ids [few]uint32
	n, m := 0, negInf
	for j, x := range l {
		if x <= negInf { // false for NaN
			continue
		}
		if x-x != 0 {
			return 0, badEntry(Token(j), x)
		}
		if n < few {
			ids[n] = uint32(j)
		}
		n++
		m = max(m, x)
	}
	switch {
	case n == 0:
		return 0, ErrNoToken
	case n <= few:
		return drawListed(l, ids[:n], m, r.Float64()), nil
	}
	return drawAll(l, m, r.Float64()), nil
}

// drawListed walks the allowed tokens until the share u of the mass is passed.
func drawListed(l Logits, ids []uint32, m float32, u float64) Token {
	var sum float64
	for _, j := range ids {
		sum += weight(l[j], m)
	}
	run, last := 0.0, Token(0)
	for _, j := range ids {
		w := weight(l[j], m)
		if w == 0 {
			continue // too improbable to be drawn, also by rounding
		}
		run += w
		last = Token(j)
		if run > u*sum {
			break
		}
	}
	return last
}

// drawAll is drawListed over the whole row.
func drawAll(l Logits, m float32, u float64) Token {
	var sum float64
	for _, x := range l {
		sum += weight(x, m)
	}
	run, last := 0.0, Token(0)
	for j, x := range l {
		w := weight(x, m)
		if w == 0 {
			continue
		}
		run += w
		last = Token(j)
		if run > u*sum {
			break
		}
	}
	return last
}

// weight is the unnormalised probability of a logit next to the largest one.
func weight(x, m float32) float64 {
	d := float64(x) - float64(m)
	if d < -745 { // exp is 0 in float64; also banned tokens
		return 0
	}
	return math.Exp(d)
}

// NewRand returns the generator for a sampler: PCG-DXSM of math/rand/v2, whose
// output for a seed is fixed by the Go compatibility promise.
func NewRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, mix(seed))) }
