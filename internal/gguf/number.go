package gguf

import "math"

// F16FromF32 converts to half precision, rounding to nearest, ties to even.
// Values beyond the range become infinite; NaN stays NaN.
func F16FromF32(x float32) uint16 {
	b := math.Float32bits(x)
	sign := uint16(b>>16) & 0x8000
	b &= 0x7fffffff
	switch {
	case b > 0x7f800000:
		return sign | 0x7e00
	case b >= 0x47800000: // 2^16 and more, infinity too
		return sign | 0x7c00
	case b < 0x38800000: // below 2^-14, the smallest normal half
		// Adding 1/2 leaves exactly the ten subnormal bits in the low end of
		// the sum's mantissa, rounded to nearest even by the addition.
		sum := math.Float32frombits(b) + 0.5
		return sign | uint16(math.Float32bits(sum)-0x3f000000)
	}
	// Re-bias the exponent (127 -> 15) and round at bit 13; a carry runs into
	// the exponent and, at the top, into infinity, as it should.
	b += 0xc8000000 + 0x0fff + (b>>13)&1
	return sign | uint16(b>>13)
}

// F32FromF16 converts from half precision, exactly.
func F32FromF16(h uint16) float32 {
	sign := uint32(h&0x8000) << 16
	exp, frac := uint32(h>>10)&0x1f, uint32(h)&0x3ff
	switch exp {
	case 0x1f:
		return math.Float32frombits(sign | 0x7f800000 | frac<<13)
	case 0:
		f := float32(frac) * (1.0 / (1 << 24))
		return math.Float32frombits(sign | math.Float32bits(f))
	}
	return math.Float32frombits(sign | (exp+112)<<23 | frac<<13)
}

// BF16FromF32 converts to bfloat16, rounding to nearest, ties to even.
func BF16FromF32(x float32) uint16 {
	b := math.Float32bits(x)
	if b&0x7fffffff > 0x7f800000 {
		return uint16(b>>16) | 0x40 // keep it a NaN when the low bits go
	}
	return uint16((b + 0x7fff + (b>>16)&1) >> 16)
}

// F32FromBF16 converts from bfloat16, exactly.
func F32FromBF16(h uint16) float32 { return math.Float32frombits(uint32(h) << 16) }
