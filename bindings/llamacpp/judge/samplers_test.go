//go:build linux || darwin

package judge

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/trimtab/trimtab/decode"
)

// makers make a pair with random dosages.
var makers = []struct {
	name string
	bans bool // whether rows with banned tokens make sense to llama.cpp
	make func(l *library, r *rand.Rand, vocab int) pair
}{
	{"top-k", true, func(l *library, r *rand.Rand, vocab int) pair {
		k := 1 + r.IntN(min(vocab, 1<<r.IntN(12)))
		return pair{ours: decode.NewTopK(k), ref: l.topK(int32(k))}
	}},
	{"top-p", true, func(l *library, r *rand.Rand, _ int) pair {
		p := dose(r, 0, 1)
		return pair{ours: must(decode.NewTopP(p)), ref: l.topP(p, 1), sums: p}
	}},
	{"min-p", true, func(l *library, r *rand.Rand, _ int) pair {
		p := dose(r, 0, 1)
		return pair{ours: must(decode.NewMinP(p)), ref: l.minP(p, 1)}
	}},
	// A banned token has probability 0, and 0 * log 0 makes llama.cpp's
	// entropy NaN; its order is then arbitrary. Ours takes 0 * log 0 as 0.
	{"typical", false, func(l *library, r *rand.Rand, _ int) pair {
		p := dose(r, 0, 1)
		return pair{ours: must(decode.NewTypical(p)), ref: l.typical(p, 1), sums: p}
	}},
	{"top-n-sigma", true, func(l *library, r *rand.Rand, _ int) pair {
		n := dose(r, -0.5, 4)
		return pair{ours: must(decode.NewTopNSigma(n)), ref: l.sigma(n)}
	}},
	{"temperature", true, func(l *library, r *rand.Rand, _ int) pair {
		t := dose(r, 0, 3)
		return pair{ours: must(decode.NewTemperature(t)), ref: l.temp(t)}
	}},
	// The generators differ, so the draw is fixed: 1 always acts.
	{"xtc", true, func(l *library, r *rand.Rand, _ int) pair {
		th := 0.55 * float32(math.Exp(-9*r.Float64()))
		return pair{ours: must(decode.NewXTC(1, th, r.Uint64())), ref: l.xtc(1, th, 1, r.Uint32())}
	}},
	{"bias", true, func(l *library, r *rand.Rand, vocab int) pair {
		bias := map[decode.Token]float32{}
		for range r.IntN(20) {
			bias[decode.Token(r.IntN(vocab))] = dose(r, -20, 20)
		}
		bias[0] = negInf
		var list []logitBias
		for t, b := range bias {
			list = append(list, logitBias{int32(t), b})
		}
		return pair{ours: must(decode.NewBias(bias)), ref: l.bias(int32(vocab), int32(len(list)), &list[0])}
	}},
}

// dose is a number of the range, at times its ends.
func dose(r *rand.Rand, lo, hi float32) float32 {
	switch r.IntN(12) {
	case 0:
		return lo
	case 1:
		return hi
	}
	return lo + (hi-lo)*r.Float32()
}

func TestProcessorsEqualLlamaCpp(t *testing.T) {
	l := llama(t)
	for _, m := range makers {
		t.Run(m.name, func(t *testing.T) {
			var n tally
			for _, size := range sizes {
				for seed := range uint64(size.rows) {
					r := decode.NewRand(seed)
					p := m.make(l, r, size.vocab)
					p.name = m.name
					compare(t, l, p, shape(r, size.vocab, m.bans), &n)
					l.free(p.ref)
					if t.Failed() {
						t.Fatalf("vocabulary %d, seed %d", size.vocab, seed)
					}
				}
			}
			n.report(t, m.name)
		})
	}
}

// TestWholeChainEqualsLlamaCpp runs random parameters through Params.Chain and
// through llama.cpp's samplers in its own default order, over many steps with
// accepts and rewinds. Probabilities are those that llama.cpp's dist computes.
func TestWholeChainEqualsLlamaCpp(t *testing.T) {
	l := llama(t)
	var n tally
	for _, size := range sizes {
		for seed := range uint64(max(size.rows/3, 2)) {
			r := decode.NewRand(100 + seed)
			p := randomParams(r)
			c := must(p.Chain(decode.Vocab{Size: size.vocab}, nil))
			refs := reference(l, &p, size.vocab)
			w := walker{accept: c.Accept, rewind: c.Rewind, refs: refs, l: l}
			for range 12 {
				w.step(t, r, size.vocab)
				row := shape(r, size.vocab, false)
				ours := append(decode.Logits(nil), row...)
				if err := c.Process(t.Context(), ours); err != nil {
					t.Fatal(err)
				}
				ref, left, _ := l.run(row, refs...)
				judgeChain(t, &p, row, ours, ref, left, &n)
				if t.Failed() {
					t.Fatalf("vocabulary %d, seed %d, %+v", size.vocab, seed, p)
				}
			}
			for _, s := range refs {
				l.free(s)
			}
		}
	}
	n.report(t, "chain")
}

func randomParams(r *rand.Rand) decode.Params {
	p := decode.DefaultParams()
	maybe := func(x *float32, lo, hi float32) {
		if r.IntN(2) == 0 {
			*x = dose(r, lo, hi)
		}
	}
	maybe(&p.Temperature, 0.3, 2)
	maybe(&p.TopP, 0.1, 1)
	maybe(&p.MinP, 0, 0.3)
	maybe(&p.Typical, 0.2, 1)
	maybe(&p.TopNSigma, 0.5, 3)
	maybe(&p.Repeat, 0.8, 1.5)
	maybe(&p.Frequency, -0.5, 1)
	maybe(&p.Presence, -0.5, 1)
	maybe(&p.XTCThreshold, 0.05, 0.4)
	p.XTCProbability = float32(r.IntN(2))
	p.TopK = r.IntN(100)
	p.LastN = r.IntN(80)
	return p
}

// reference is llama.cpp's default order (common/sampling.cpp).
func reference(l *library, p *decode.Params, vocab int) []uintptr {
	return []uintptr{
		l.penalties(int32(vocab), int32(p.LastN), p.Repeat, p.Frequency, p.Presence),
		l.sigma(p.TopNSigma),
		l.topK(int32(p.TopK)),
		l.typical(p.Typical, 1),
		l.topP(p.TopP, 1),
		l.minP(p.MinP, 1),
		l.xtc(p.XTCProbability, p.XTCThreshold, 1, 1),
		l.temp(p.Temperature),
		l.dist(1),
	}
}

func judgeChain(t *testing.T, p *decode.Params, row, ours, ref decode.Logits, left []tokenData, n *tally) {
	t.Helper()
	// Behind top-n-sigma llama.cpp hands banned tokens on, and typical then
	// meets 0 * log 0, as in the pair above.
	if p.TopNSigma > 0 && p.Typical < 1 {
		return
	}
	judge(t, pair{name: "chain"}, row, ours, ref, n)
	probs, want := softmax(ours), make([]float64, len(ours))
	for _, d := range left {
		want[d.ID] = float64(d.P)
	}
	if sameSet(ours, ref) {
		n.probs(t, "dist", probs, want)
	}
}

func sameSet(a, b decode.Logits) bool {
	for j := range a {
		if (a[j] == negInf) != (b[j] == negInf) {
			return false
		}
	}
	return true
}

func TestGreedyEqualsLlamaCpp(t *testing.T) {
	l := llama(t)
	ref := l.greedy()
	defer l.free(ref)
	for _, size := range sizes {
		for seed := range uint64(size.rows) {
			row := shape(decode.NewRand(seed), size.vocab, true)
			_, _, want := l.run(row, ref)
			got, err := decode.Greedy{}.Sample(row, nil)
			if err != nil || int64(got) != want {
				t.Fatalf("vocabulary %d, seed %d: token %d, in llama.cpp %d, %v", size.vocab, seed, got, want, err)
			}
		}
	}
}
