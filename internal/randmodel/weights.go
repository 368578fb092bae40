package randmodel

import (
	"encoding/binary"
	"io"
	"math"
	"math/rand/v2"

	"github.com/cespare/xxhash/v2"
	"github.com/trimtab/trimtab/internal/gguf"
)

const (
	// chunk is how many values are made at a time.
	chunk = 1 << 16
	// quietGain scales the embedding rows of control tokens and unprintable
	// bytes: in a tied model their logits stay near zero, so that greedy text
	// neither ends early nor turns to binary.
	quietGain = 0.125
)

// source returns the generator of one tensor. Each tensor has its own, so the
// weights of one do not depend on the shape of another.
func (s *Spec) source(name string) *rand.PCG {
	return rand.NewPCG(s.Seed, xxhash.Sum64String(name))
}

// matrix is a weight matrix of uniform noise.
type matrix struct {
	typ  gguf.TensorType
	cols int
	rows int
	std  float64        // standard deviation of the values
	gain func(int) bool // rows to scale by quietGain; nil for none
}

// write streams the matrix row by row.
func (m *matrix) write(out io.Writer, rng *rand.PCG) error {
	size, err := m.typ.RowSize(int64(m.cols))
	if err != nil {
		return err
	}
	per := max(1, chunk/m.cols)
	buf := make([]byte, int64(per)*size)
	values := make([]float32, m.cols)
	for row := 0; row < m.rows; row += per {
		n := min(per, m.rows-row)
		for i := range n {
			if err := m.row(buf[int64(i)*size:int64(i+1)*size], values, row+i, rng); err != nil {
				return err
			}
		}
		if _, err := out.Write(buf[:int64(n)*size]); err != nil {
			return err
		}
	}
	return nil
}

func (m *matrix) row(dst []byte, values []float32, row int, rng *rand.PCG) error {
	std := m.std
	if m.gain != nil && m.gain(row) {
		std *= quietGain
	}
	if m.typ == gguf.Q8_0 {
		noiseQ8_0(dst, std, rng)
		return nil
	}
	noise(values, std, rng)
	return gguf.EncodeRow(m.typ, dst, values)
}

// noise fills values with odd multiples of a step in (-top, top), uniformly:
// integers times one float32, so that no platform rounds differently.
func noise(values []float32, std float64, rng *rand.PCG) {
	step := float32(std * math.Sqrt(3) / (1 << 15))
	var bits uint64
	for i := range values {
		if i%4 == 0 {
			bits = rng.Uint64()
		}
		values[i] = float32(float32(int16(bits)|1) * step) // rounded here: no fused multiply-add later
		bits >>= 16
	}
}

// noiseQ8_0 fills whole Q8_0 blocks with odd quants, uniformly from -127..127:
// forcing the lowest bit keeps the mean at zero and -128, which quantisers
// never make, out.
func noiseQ8_0(dst []byte, std float64, rng *rand.PCG) {
	const odd = 0x0101010101010101
	scale := gguf.F16FromF32(float32(std * math.Sqrt(3) / (1 << 7)))
	for ; len(dst) >= gguf.BytesQ8_0; dst = dst[gguf.BytesQ8_0:] {
		binary.LittleEndian.PutUint16(dst, scale)
		for i := 2; i < gguf.BytesQ8_0; i += 8 {
			binary.LittleEndian.PutUint64(dst[i:], rng.Uint64()|odd)
		}
	}
}

// gains are the weights of a norm: near level, not all equal.
func gains(n int, level float64, rng *rand.PCG) []float32 {
	g := make([]float32, n)
	noise(g, level*0.05, rng)
	for i := range g {
		g[i] += float32(level)
	}
	return g
}
