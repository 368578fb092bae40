package decode

import (
	"encoding/binary"
	"math"
	"testing"
)

// FuzzChain runs a whole chain over rows of arbitrary bits: no panic, no NaN
// out of numbers, and a sampled token that the row allowed.
func FuzzChain(f *testing.F) {
	f.Add([]byte{0, 0, 128, 63, 0, 0, 0, 64}, uint64(1), float32(0.8), float32(0.9), float32(0.05), 40)
	f.Add([]byte{255, 255, 127, 255, 255, 255, 127, 127}, uint64(2), float32(1e-30), float32(0), float32(1), 1)
	f.Add([]byte{0, 0, 192, 127}, uint64(3), float32(0), float32(0.5), float32(0.5), 0)
	f.Fuzz(func(t *testing.T, data []byte, seed uint64, temp, topP, minP float32, topK int) {
		row := rowOf(data)
		p := DefaultParams()
		p.Temperature, p.TopP, p.MinP, p.TopK, p.Seed = temp, topP, minP, topK, seed
		p.Typical, p.TopNSigma, p.XTCProbability, p.Repeat, p.DRYMultiplier, p.DRYBreakers = 0.9, 3, 0.5, 1.3, 2, nil
		c, err := p.Chain(Vocab{Size: len(row)}, nil)
		if err != nil {
			return // the ranges refuse it
		}
		r := NewRand(seed)
		before := append(Logits(nil), row...)
		for range 4 {
			copy(row, before)
			if err := c.Process(t.Context(), row); err != nil {
				wantBad(t, before, err)
				return
			}
			tok, err := p.Sampler().Sample(row, r)
			if err != nil {
				wantBad(t, before, err)
				return
			}
			if before[tok] == negInf {
				t.Fatalf("sampled the banned token %d", tok)
			}
			if err := c.Accept(tok); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.Rewind(4); err != nil {
			t.Fatal(err)
		}
	})
}

func rowOf(data []byte) Logits {
	row := make(Logits, min(len(data)/4, 4096))
	for i := range row {
		row[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
	}
	return row
}

// wantBad: an error is right only for NaN, +Inf or a row without a token.
func wantBad(t *testing.T, row Logits, err error) {
	none := true
	for _, x := range row {
		if x != x || x == inf {
			return
		}
		none = none && x == negInf
	}
	if !none {
		t.Fatalf("a row of numbers gave %v", err)
	}
}
