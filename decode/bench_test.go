package decode

import (
	"math/rand/v2"
	"testing"
)

const wide = 151936 // the widest vocabulary of the models we serve (Qwen3)

// peaked is a row like a model's: a broad bulk and a few tokens far above it.
func peaked(r *rand.Rand, n int) Logits {
	l := make(Logits, n)
	for i := range l {
		l[i] = float32(r.NormFloat64() * 2)
	}
	for range min(n, 30) {
		l[r.IntN(n)] = float32(8 + 6*r.Float64())
	}
	return l
}

func BenchmarkDefaultChain(b *testing.B) {
	p := DefaultParams()
	benchmarkParams(b, p)
}

func BenchmarkPenaltiesAndDRY(b *testing.B) {
	p := DefaultParams()
	p.Repeat, p.Presence, p.DRYMultiplier, p.DRYBreakers = 1.1, 0.5, 0.8, nil
	benchmarkParams(b, p)
}

func BenchmarkTemperatureOnly(b *testing.B) {
	p := DefaultParams()
	p.TopK, p.TopP, p.MinP = 0, 1, 0
	benchmarkParams(b, p)
}

func BenchmarkTopPWithoutTopK(b *testing.B) {
	p := DefaultParams()
	p.TopK, p.MinP = 0, 0
	benchmarkParams(b, p)
}

func benchmarkParams(b *testing.B, p Params) {
	r := NewRand(1)
	row := peaked(r, wide)
	c, err := p.Chain(Vocab{Size: wide}, nil)
	if err != nil {
		b.Fatal(err)
	}
	s := p.Sampler()
	work := make(Logits, wide)
	b.ReportAllocs()
	b.SetBytes(4 * wide)
	for b.Loop() {
		copy(work, row)
		if err := c.Process(b.Context(), work); err != nil {
			b.Fatal(err)
		}
		t, err := s.Sample(work, r)
		if err != nil {
			b.Fatal(err)
		}
		if err := c.Accept(t); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkLogprobs(b *testing.B) {
	row := peaked(NewRand(1), wide)
	buf := make([]Logprob, 0, 20)
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := Logprobs(buf, row, 5, 20); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRestrict(b *testing.B) {
	set, err := NewTokenSet(wide)
	if err != nil {
		b.Fatal(err)
	}
	for t := range Token(wide) {
		if t%7 == 0 {
			_ = set.Add(t)
		}
	}
	row := peaked(NewRand(1), wide)
	for b.Loop() {
		if err := set.Restrict(row); err != nil {
			b.Fatal(err)
		}
	}
}
