package gguf

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestF16AllValues takes every half through the conversions and back.
func TestF16AllValues(t *testing.T) {
	for h := range 1 << 16 {
		h := uint16(h)
		x := F32FromF16(h)
		exp, frac := int(h>>10&0x1f), float64(h&0x3ff)
		want := math.Ldexp(1+frac/1024, exp-15) // IEEE 754 binary16
		switch {
		case exp == 0:
			want = math.Ldexp(frac, -24)
		case exp == 31 && frac == 0:
			want = math.Inf(1)
		case exp == 31:
			want = math.NaN()
		}
		if h&0x8000 != 0 {
			want = -want
		}
		if math.IsNaN(want) {
			if !math.IsNaN(float64(x)) || F16FromF32(x)&0x7c00 != 0x7c00 || F16FromF32(x)&0x3ff == 0 {
				t.Errorf("%04x: NaN became %v", h, x)
			}
			continue
		}
		if float64(x) != want || math.Signbit(float64(x)) != math.Signbit(want) {
			t.Errorf("%04x: got %v, want %v", h, x, want)
		}
		if back := F16FromF32(x); back != h {
			t.Errorf("%04x: came back as %04x", h, back)
		}
	}
}

// TestRoundToNearestEven checks conversions between every two neighbours: the
// midpoint goes to the even one, a hair off it to the nearer one.
func TestRoundToNearestEven(t *testing.T) {
	for _, c := range []struct {
		name string
		last uint16 // largest finite value
		to   func(float32) uint16
		from func(uint16) float32
	}{{"f16", 0x7bff, F16FromF32, F32FromF16}, {"bf16", 0x7f7f, BF16FromF32, F32FromBF16}} {
		for h := range c.last {
			// The midpoint is exact in float32 except among bfloat16's smallest
			// subnormals, where it still has 16 more bits.
			lo, hi := float64(c.from(h)), float64(c.from(h+1))
			mid := float32((lo + hi) / 2)
			even := h + h&1
			if got := c.to(mid); got != even {
				t.Fatalf("%s: midpoint of %04x and the next: %04x, want %04x", c.name, h, got, even)
			}
			if got := c.to(math.Nextafter32(mid, 0)); got != h {
				t.Fatalf("%s: below the midpoint over %04x: %04x", c.name, h, got)
			}
			if got := c.to(math.Nextafter32(mid, math.MaxFloat32)); got != h+1 {
				t.Fatalf("%s: above the midpoint over %04x: %04x", c.name, h, got)
			}
		}
	}
	for _, x := range []float32{65520, 1e10, float32(math.Inf(1))} {
		if got := F16FromF32(x); got != 0x7c00 {
			t.Errorf("F16FromF32(%v) = %04x, want infinity", x, got)
		}
	}
	if got := F32FromBF16(BF16FromF32(float32(math.NaN()))); got == got {
		t.Errorf("NaN became %v as bfloat16", got)
	}
}

// TestQ8_0Error checks the closed-form bound: half a step of max/127, plus
// what the half-precision scale (11 significant bits, or 2^-25 below its normal
// range) is off by, over at most 127 steps.
func TestQ8_0Error(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 2000 {
		x := make([]float32, 3*BlockQ8_0)
		for i := range x {
			x[i] = float32(rng.NormFloat64() * math.Pow(10, float64(rng.IntN(12)-6)))
		}
		data := make([]byte, 3*BytesQ8_0)
		if err := EncodeRow(Q8_0, data, x); err != nil {
			t.Fatal(err)
		}
		y := make([]float32, len(x))
		if err := DecodeRow(Q8_0, y, data); err != nil {
			t.Fatal(err)
		}
		for b := 0; b < len(x); b += BlockQ8_0 {
			var top float64
			for _, v := range x[b : b+BlockQ8_0] {
				top = max(top, math.Abs(float64(v)))
			}
			scaleOff := max(top/127*(1.0/2048), 1.0/(1<<25))
			bound := (top/254 + 127*scaleOff) * (1 + 1e-5)
			for i := b; i < b+BlockQ8_0; i++ {
				if off := math.Abs(float64(x[i]) - float64(y[i])); off > bound {
					t.Fatalf("seed %d: %v came back as %v: off by %g, bound %g", seed, x[i], y[i], off, bound)
				}
			}
		}
	}
}

func TestQ8_0Edges(t *testing.T) {
	fill := func(v float32) []float32 {
		x := make([]float32, BlockQ8_0)
		for i := range x {
			x[i] = v
		}
		return x
	}
	dst := make([]byte, BytesQ8_0)
	for _, v := range []float32{float32(math.NaN()), float32(math.Inf(-1)), math.MaxFloat32, 8.4e6} {
		if err := QuantizeQ8_0(dst, fill(v)); err == nil {
			t.Errorf("%v was quantised", v)
		}
	}
	for _, v := range []float32{0, -1, 127, 8.2e6} {
		if err := QuantizeQ8_0(dst, fill(v)); err != nil {
			t.Errorf("%v: %v", v, err)
			continue
		}
		y := make([]float32, BlockQ8_0)
		if err := DecodeRow(Q8_0, y, dst); err != nil {
			t.Fatal(err)
		}
		if off := math.Abs(float64(y[5] - v)); off > math.Abs(float64(v))/2048 {
			t.Errorf("%v came back as %v", v, y[5])
		}
	}
	if QuantizeQ8_0(dst, make([]float32, 31)) == nil || QuantizeQ8_0(dst[:33], fill(1)) == nil {
		t.Error("part of a block was quantised")
	}
}

// TestTensorTypes checks the table against the bits per weight that the formats
// are known by.
func TestTensorTypes(t *testing.T) {
	for typ, bits := range map[TensorType]float64{
		F32: 32, F16: 16, BF16: 16, F64: 64, I8: 8, I16: 16, I32: 32, I64: 64,
		Q4_0: 4.5, Q4_1: 5, Q5_0: 5.5, Q5_1: 6, Q8_0: 8.5, Q8_1: 9, Q1_0: 1.125, Q2_0: 2.25,
		Q2K: 2.625, Q3K: 3.4375, Q4K: 4.5, Q5K: 5.5, Q6K: 6.5625, Q8K: 9.125,
		IQ2XXS: 2.0625, IQ2XS: 2.3125, IQ2S: 2.5625, IQ3XXS: 3.0625, IQ3S: 3.4375,
		IQ1S: 1.5625, IQ1M: 1.75, IQ4NL: 4.5, IQ4XS: 4.25, TQ1_0: 1.6875, TQ2_0: 2.0625,
		MXFP4: 4.25, NVFP4: 4.5,
	} {
		n := typ.Block() * 8
		if size, err := typ.RowSize(n); err != nil || float64(size)*8/float64(n) != bits {
			t.Errorf("%s: %d bytes for %d elements (%v), want %v bits each", typ, size, n, err, bits)
		}
	}
	known := 0
	for typ := range TensorType(len(tensorTypes) + 10) {
		if typ.Known() {
			known++
		} else if typ.Block() != 0 || second(typ.RowSize(256)) == nil {
			t.Errorf("unknown type %d has a size", typ)
		}
	}
	if known != 35 {
		t.Errorf("%d types, want 35: 43 numbers less 8 withdrawn", known)
	}
}

func TestFingerprint(t *testing.T) {
	print := func(do damage) string {
		w := modelWriter()
		do(w)
		f, err := parse(bytesOf(t, w))
		if err != nil {
			t.Fatal(err)
		}
		s, err := f.Fingerprint()
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	same := func(*Writer) {}
	if got := print(same); got != print(same) || len(got) != 16 {
		t.Errorf("fingerprint %q is not stable", got)
	}
	seen := map[string]string{print(same): "the model"}
	for name, do := range map[string]damage{
		"metadata": set("general.name", "other"),
		"shape":    swap("blk.0.ffn_down.bias", F32, 8),
		"weights": func(w *Writer) {
			w.dropTensor("blk.0.ffn_down.weight")
			w.AddF32("blk.0.ffn_down.weight", F32, []int64{tFF, tWidth}, ramp(tFF*tWidth))
		},
	} {
		got := print(do)
		if other, dup := seen[got]; dup {
			t.Errorf("%s changed, but the fingerprint is that of %s", name, other)
		}
		seen[got] = name
	}
}
