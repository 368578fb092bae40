package decode

import (
	"errors"
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
		if n == few {
			return sampleAll(l, r)
		}
		ids[n] = uint32(j)
		n++
		if x > m {
			m = x
		}
	}
	if n == 0 {
		return 0, ErrNoToken
	}
	return drawListed(l, ids[:n], m, r.Float64()), nil
}

// sampleAll is Sample for a row with more than a few allowed tokens.
func sampleAll(l Logits, r *rand.Rand) (Token, error) {
	best, err := Greedy{}.Sample(l, nil)
	if err != nil {
		return 0, err
	}
	return drawAll(l, l[best], r.Float64()), nil
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

// drawAll is drawListed over the whole row, with the mass of each of some
// blocks noted, so that only one block is walked again.
func drawAll(l Logits, m float32, u float64) Token {
	const blocks = 256
	var masses [blocks]float64
	size := (len(l) + blocks - 1) / blocks
	sum := 0.0
	for b := range blocks {
		masses[b] = mass(l[min(b*size, len(l)):min((b+1)*size, len(l))], m)
		sum += masses[b]
	}
	run, last := 0.0, 0
	for b, w := range masses {
		if w == 0 {
			continue
		}
		last = b
		if run+w > u*sum {
			break
		}
		run += w
	}
	from := min(last*size, len(l))
	return Token(from) + walk(l[from:min(from+size, len(l))], m, u*sum-run)
}

// walk is the first token at which the running mass passes the target, or the
// last one with any mass when rounding keeps it below.
func walk(l Logits, m float32, target float64) Token {
	run, last := 0.0, Token(0)
	for j, x := range l {
		w := weight(x, m)
		if w == 0 {
			continue // too improbable to be drawn, also by rounding
		}
		run += w
		last = Token(j)
		if run > target {
			break
		}
	}
	return last
}

// weight is the unnormalised probability of a logit next to the largest one; 0
// for a banned token.
func weight(x, m float32) float64 { return exp(float64(x) - float64(m)) }

// NewRand returns the generator for a sampler: PCG-DXSM of math/rand/v2, whose
// output for a seed is fixed by the Go compatibility promise.
func NewRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, mix(seed))) }
