package decode

import (
	"context"
	"fmt"
	"math"
	"slices"
)

var negInf = float32(math.Inf(-1))

// stage is a processor of this package. Inside a [Chain] its edit runs on the
// chain's view; alone, Process runs edit on a view of its own, over the same
// numbers in the same order, so both give the same bits.
type stage interface {
	Processor
	name() string
	edit(ctx context.Context, v *view) error
}

// run is Process for a stage that stands alone.
func run(ctx context.Context, s stage, v *view, l Logits) error {
	v.reset(l)
	err := s.edit(ctx, v)
	v.reset(nil) // the row must not be kept
	if err != nil {
		return fmt.Errorf("%s: %w", s.name(), err)
	}
	return nil
}

// view is a row on its way through the stages. The row itself always holds
// the truth; once a stage has thinned it out, ids lists the tokens that later
// stages have to look at, so that they need not scan the row again.
type view struct {
	row    Logits
	listed bool
	ids    []Token // when listed: ascending, every allowed token is in it

	// Scratch, grown once and reused: at most as long as the row.
	vals  []float32
	saved []float32
	pos   []uint32
	keys  []uint64
	order []uint64
}

func (v *view) reset(l Logits) {
	v.row = l
	v.listed = false
}

// values returns the logits to look at, in ascending order of token: the row
// itself or a copy of its listed entries. It must only be read.
func (v *view) values() []float32 {
	if !v.listed {
		return v.row
	}
	v.vals = v.vals[:0]
	for _, t := range v.ids {
		v.vals = append(v.vals, v.row[t])
	}
	return v.vals
}

// token is the token that position j of values stands for.
func (v *view) token(j uint32) Token {
	if v.listed {
		return v.ids[j]
	}
	return Token(j)
}

// bad is the error for an entry that is NaN or +Inf.
func (v *view) bad(j int, x float32) error {
	return badEntry(v.token(uint32(j)), x)
}

func badEntry(t Token, x float32) error {
	return fmt.Errorf("logit of token %d is %v: the forward pass or a processor before this one is broken", t, x)
}

// peak returns the largest value, -Inf when no token is allowed, and refuses
// NaN and +Inf.
func (v *view) peak(vals []float32) (float32, error) {
	m := negInf
	for j, x := range vals {
		if x <= m { // false for NaN, which so costs no second comparison
			continue
		}
		if x-x != 0 {
			return 0, v.bad(j, x)
		}
		m = x
	}
	return m, nil
}

// keepKeys bans every token but those of the ranked keys.
func (v *view) keepKeys(keys []uint64) {
	v.pos = v.pos[:0]
	for _, k := range keys {
		v.pos = append(v.pos, uint32(k))
	}
	slices.Sort(v.pos)
	v.keep(v.pos)
}

// keep bans every token but those at the given ascending positions of values.
func (v *view) keep(pos []uint32) {
	v.saved = v.saved[:0]
	for _, j := range pos {
		v.saved = append(v.saved, v.row[v.token(j)])
	}
	if v.listed {
		for _, t := range v.ids {
			v.row[t] = negInf
		}
		for i, j := range pos { // j >= i: ascending positions only move down
			v.ids[i] = v.ids[j]
		}
		v.ids = v.ids[:len(pos)]
	} else {
		banAll(v.row)
		v.ids = slices.Grow(v.ids[:0], len(pos))
		for _, j := range pos {
			v.ids = append(v.ids, Token(j))
		}
		v.listed = true
	}
	for i, t := range v.ids {
		v.row[t] = v.saved[i]
	}
}

// keepAtLeast bans every token whose value is below the threshold.
func (v *view) keepAtLeast(vals []float32, threshold float32) {
	v.pos = v.pos[:0]
	for j, x := range vals {
		if x < threshold || x == negInf {
			continue
		}
		v.pos = append(v.pos, uint32(j))
	}
	v.keep(v.pos)
}

// banAll fills l with -Inf, by doubling copies: they run at memory speed.
func banAll(l Logits) {
	if len(l) == 0 {
		return
	}
	l[0] = negInf
	for n := 1; n < len(l); n *= 2 {
		copy(l[n:], l[:n])
	}
}

// stateless is the Accept and Rewind of processors that ignore the past.
type stateless struct{}

// Accept checks t and forgets it.
func (stateless) Accept(t Token) error { return checkToken(t) }

// Rewind has nothing to take back.
func (stateless) Rewind(n int) error { return checkRewind(n) }

func checkToken(t Token) error {
	if t < 0 {
		return fmt.Errorf("accept token %d: tokens start at 0", t)
	}
	return nil
}

func checkRewind(n int) error {
	if n < 0 {
		return fmt.Errorf("rewind %d tokens: the number is negative", n)
	}
	return nil
}
