package decode

import (
	"flag"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

var seedFlag = flag.Uint64("seed", 0, "seed of the property tests; 0 takes a fixed set")

// seeds runs f for each seed and names it, so that a failure can be repeated
// with -seed.
func seeds(t *testing.T, n int, f func(t *testing.T, r *rand.Rand)) {
	t.Helper()
	from, to := uint64(1), uint64(n)
	if *seedFlag != 0 {
		from, to = *seedFlag, *seedFlag
	}
	for seed := from; seed <= to; seed++ {
		failed := t.Failed()
		f(t, NewRand(seed))
		if t.Failed() && !failed {
			t.Fatalf("with -seed %d", seed)
		}
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

var inf = float32(math.Inf(1))
var nan = float32(math.NaN())

// randomRow has ties, bans and both flat and peaked shapes.
func randomRow(r *rand.Rand, n int) Logits {
	l := make(Logits, n)
	width := math.Exp(4*r.Float64() - 2)
	step := 0.0
	if r.IntN(2) == 0 {
		step = 0.5
	}
	bans := r.Float64() * float64(r.IntN(2))
	for i := range l {
		x := r.NormFloat64() * width
		if step > 0 {
			x = math.Round(x/step) * step
		}
		l[i] = float32(x)
		if r.Float64() < bans {
			l[i] = negInf
		}
	}
	return l
}

func allowed(l Logits) []Token {
	var ts []Token
	for i, x := range l {
		if x != negInf {
			ts = append(ts, Token(i))
		}
	}
	return ts
}

// sameBits compares rows bit by bit.
func sameBits(a, b Logits) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool { return math.Float32bits(x) == math.Float32bits(y) })
}

// ofProbs is a row whose softmax is p.
func ofProbs(p ...float64) Logits {
	l := make(Logits, len(p))
	for i, q := range p {
		l[i] = float32(math.Log(q))
	}
	return l
}

// softmax64 is the plain definition.
func softmax64(l Logits) []float64 {
	m := math.Inf(-1)
	for _, x := range l {
		m = max(m, float64(x))
	}
	p := make([]float64, len(l))
	sum := 0.0
	for i, x := range l {
		p[i] = math.Exp(float64(x) - m)
		sum += p[i]
	}
	for i := range p {
		p[i] /= sum
	}
	return p
}

// truncations are all stages that ban by rank, with random dosages.
func truncations(r *rand.Rand) []Processor {
	f := r.Float32
	return []Processor{
		must(NewTopNSigma(3 * f())),
		NewTopK(1 + r.IntN(60)),
		must(NewTypical(f())),
		must(NewTopP(f())),
		must(NewMinP(f())),
		must(NewXTC(f(), f()/2, r.Uint64())),
		must(NewTemperature(float32(r.IntN(3)) * f())),
	}
}

// everything is truncations and the stages that edit single tokens.
func everything(r *rand.Rand, vocab int) []Processor {
	set := must(NewTokenSet(vocab))
	for range vocab / 2 {
		_ = set.Add(Token(r.IntN(vocab)))
	}
	bias := map[Token]float32{}
	for range 5 {
		bias[Token(r.IntN(vocab))] = r.Float32()*10 - 5
	}
	bias[Token(r.IntN(vocab))] = negInf
	breakers := must(TokenBreakers([]Token{0}, []Token{1, 2}))
	return append([]Processor{
		NewAllow(set),
		NewBan(must(NewTokenSet(vocab, Token(r.IntN(vocab))))),
		must(NewMinTokens(r.IntN(40), []Token{3, 4})),
		must(NewBias(bias)),
		must(NewPenalties(PenaltyOptions{LastN: r.IntN(20), Repeat: 0.5 + r.Float32(), Frequency: r.Float32(), Presence: r.Float32()})),
		must(NewDRY(DRYOptions{Multiplier: r.Float32(), Base: 1 + r.Float32(), AllowedLength: r.IntN(4), LastN: r.IntN(60), Breakers: breakers})),
	}, truncations(r)...)
}
