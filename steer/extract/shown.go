package extract

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/runtime/engine"
)

// couple is one text behind two contexts: the chosen answer shown, and the
// rejected one.
type couple struct {
	texts [2]*answered
	pair  int
	sums  [2][][]float64           // one row for every layer
	total float64                  // of the weights
	by    map[decode.Token]float64 // weights by the row's token
}

// shown reads the place Shown of a few pairs into states.
func (r *reader) shown(ctx context.Context, e engine.Engine, pairs []Pair, first int, states [][2][][]float64) error {
	at := slices.Index(r.places, Place{Kind: Shown})
	if at < 0 {
		return nil
	}
	list, err := r.couples(pairs, first)
	if err != nil {
		return err
	}
	d := newDriver(e, r.sites, engine.OutputAll)
	if d.lanes < 2 {
		return engine.Unsupported("place shown", "it needs two sequences at once")
	}
	for len(list) > 0 {
		n := fittingCouples(e.Info(), d.lanes, list)
		var jobs []job
		for _, c := range list[:n] {
			jobs = append(jobs, r.abreast(c)...)
		}
		if err := d.group(ctx, jobs); err != nil {
			return err
		}
		for _, c := range list[:n] {
			r.settle(c, at, states[c.pair])
		}
		list = list[n:]
	}
	return nil
}

// fittingCouples is how many couples run at once, at least one.
func fittingCouples(info *engine.Info, lanes int, list []*couple) int {
	n, rows := 0, 0
	for n < len(list) && 2*n+2 <= lanes {
		if rows += len(list[n].texts[0].tokens) + len(list[n].texts[1].tokens); n > 0 && rows > min(info.MaxBatch, info.Cells, groupRows) {
			break
		}
		n++
	}
	return n
}

// couples renders for every pair one of its answers behind both contexts: the
// chosen and the rejected one in turn, so that a direction holds for either.
func (r *reader) couples(pairs []Pair, first int) ([]*couple, error) {
	list := make([]*couple, len(pairs))
	for i := range pairs {
		sides := pairs[i].sides()
		c := &couple{pair: i, by: map[decode.Token]float64{}}
		for k, s := range sides {
			a, err := r.layout.answer(pairs[i].context(s), sides[(first+i)%2].answer)
			if err != nil {
				return nil, fmt.Errorf("pair %d, the %s answer shown: %w", first+i, s.name, err)
			}
			c.texts[k], c.sums[k] = a, zeros(len(r.sites), r.width)
		}
		if n, m := c.rows(0), c.rows(1); n != m {
			return nil, fmt.Errorf("pair %d: the template writes one answer with %d tokens, and with %d behind another", first+i, n, m)
		}
		list[i] = c
	}
	return list, nil
}

func (c *couple) rows(k int) int { return c.texts[k].to - c.texts[k].from }

// context is what stands before an answer: the side's answer with the question
// once more, or the side's own prompt where prompts differ.
func (p *Pair) context(s side) []engine.Message {
	if p.ReadChosen != nil || p.ReadRejected != nil {
		return s.turns
	}
	return append(slices.Clone(s.turns), engine.Message{Role: "assistant", Content: s.answer}, s.turns[len(s.turns)-1])
}

// abreast runs both texts of a couple in equal steps, from the row before the
// answer to its last one.
func (r *reader) abreast(c *couple) []job {
	var first engine.Sequence
	run := func(a *answered, see func(engine.Sequence, int, int) error) job {
		return job{tokens: a.tokens[:a.to], prompt: a.from, from: a.from - 1, see: see}
	}
	return []job{
		run(c.texts[0], func(seq engine.Sequence, _, _ int) error { first = seq; return nil }),
		run(c.texts[1], func(seq engine.Sequence, row, n int) error { return r.weigh(c, first, seq, row, n) }),
	}
}

// weigh adds n rows of both texts, each as much as the contexts' predictions
// differ there.
func (r *reader) weigh(c *couple, x, y engine.Sequence, row, n int) error {
	p, q := x.Logits(), y.Logits()
	if len(p) != len(q) || len(p) < n {
		return fmt.Errorf("%d and %d logits for %d rows", len(p), len(q), n)
	}
	weights := make([]float64, n)
	for v, k := len(p)/n, 0; k < n; k++ {
		weights[k] = distance(p[k*v:(k+1)*v], q[k*v:(k+1)*v])
		c.total += weights[k]
		c.by[c.texts[1].tokens[row+k]] += weights[k]
	}
	for i, site := range r.sites {
		for side, seq := range []engine.Sequence{x, y} {
			a, err := seq.Activation(site)
			if err != nil {
				return err
			}
			for k, w := range weights {
				for j, z := range a[k*r.width : (k+1)*r.width] {
					c.sums[side][i][j] += w * float64(z)
				}
			}
		}
	}
	return nil
}

// distance is the mean of both divergences, with a little beside it, so that
// rows count alike where the contexts change nothing.
func distance(p, q decode.Logits) float64 {
	return (decode.Divergence(p, q)+decode.Divergence(q, p))/2 + 1e-9
}

// settle puts the means of a couple into its pair's states, and notes in which
// tokens' rows they were gathered.
func (r *reader) settle(c *couple, place int, states [2][][]float64) {
	for side := range states {
		for i := range r.sites {
			dst := states[side][i*len(r.places)+place]
			for j, x := range c.sums[side][i] {
				dst[j] += x / c.total
			}
		}
	}
	for t, w := range c.by {
		r.m.occasions[t] += w / c.total
	}
}

// maxOccasions bounds the tokens of [Moments.Occasions].
const maxOccasions = 32

// Occasions are the tokens in whose rows the pairs' difference matters, as the
// place Shown saw it: the fewest that hold the given share of the weight, the
// heaviest first. Nil when Shown was not read or more than 32 are needed.
func (m *Moments) Occasions(share float64) []decode.Token {
	list := slices.SortedFunc(maps.Keys(m.occasions), func(a, b decode.Token) int {
		return cmp.Or(cmp.Compare(m.occasions[b], m.occasions[a]), cmp.Compare(a, b))
	})
	total, sum := 0.0, 0.0
	for _, t := range list {
		total += m.occasions[t]
	}
	for i, t := range list[:min(len(list), maxOccasions)] {
		if sum += m.occasions[t]; sum >= share*total {
			return list[:i+1]
		}
	}
	return nil
}
