package gguf

import (
	"encoding/binary"
	"fmt"
	"math"
)

// BlockQ8_0 is the number of elements of a Q8_0 block, BytesQ8_0 its size: a
// half-precision scale and one signed byte per element.
const (
	BlockQ8_0 = 32
	BytesQ8_0 = 34
)

// EncodeRow stores src in dst as the given type: F32, F16, BF16 or Q8_0. dst
// must have exactly typ.RowSize(len(src)) bytes.
func EncodeRow(typ TensorType, dst []byte, src []float32) error {
	size, err := typ.RowSize(int64(len(src)))
	if err != nil {
		return fmt.Errorf("gguf: encode: %w", err)
	}
	if int64(len(dst)) != size {
		return fmt.Errorf("gguf: encode: destination has %d bytes, want %d", len(dst), size)
	}
	switch typ {
	case F32:
		for i, x := range src {
			binary.LittleEndian.PutUint32(dst[4*i:], math.Float32bits(x))
		}
	case F16:
		for i, x := range src {
			binary.LittleEndian.PutUint16(dst[2*i:], F16FromF32(x))
		}
	case BF16:
		for i, x := range src {
			binary.LittleEndian.PutUint16(dst[2*i:], BF16FromF32(x))
		}
	case Q8_0:
		return QuantizeQ8_0(dst, src)
	default:
		return fmt.Errorf("gguf: encode: %s is not supported, use F32, F16, BF16 or Q8_0", typ)
	}
	return nil
}

// DecodeRow reads len(dst) elements of the given type (F32, F16, BF16 or Q8_0)
// from src, which must have exactly typ.RowSize(len(dst)) bytes.
func DecodeRow(typ TensorType, dst []float32, src []byte) error {
	size, err := typ.RowSize(int64(len(dst)))
	if err != nil {
		return fmt.Errorf("gguf: decode: %w", err)
	}
	if int64(len(src)) != size {
		return fmt.Errorf("gguf: decode: source has %d bytes, want %d", len(src), size)
	}
	switch typ {
	case F32:
		for i := range dst {
			dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(src[4*i:]))
		}
	case F16:
		for i := range dst {
			dst[i] = F32FromF16(binary.LittleEndian.Uint16(src[2*i:]))
		}
	case BF16:
		for i := range dst {
			dst[i] = F32FromBF16(binary.LittleEndian.Uint16(src[2*i:]))
		}
	case Q8_0:
		dequantizeQ8_0(dst, src)
	default:
		return fmt.Errorf("gguf: decode: %s is not supported, use a file with F32, F16, BF16 or Q8_0 weights", typ)
	}
	return nil
}

// QuantizeQ8_0 stores src, whose length must be a multiple of BlockQ8_0, as
// Q8_0 blocks: the scale is the largest magnitude of the block over 127. An
// element is off by at most max*(1/254 + 2^-11) where the scale is a normal half
// (max >= 0.0078). Values that are not finite, or too large for the scale
// (8.3e6), are refused.
func QuantizeQ8_0(dst []byte, src []float32) error {
	if len(src)%BlockQ8_0 != 0 || len(dst) != len(src)/BlockQ8_0*BytesQ8_0 {
		return fmt.Errorf("gguf: Q8_0: %d elements and %d bytes do not make whole blocks", len(src), len(dst))
	}
	for b := 0; b*BlockQ8_0 < len(src); b++ {
		x := src[b*BlockQ8_0:][:BlockQ8_0]
		out := dst[b*BytesQ8_0:][:BytesQ8_0]
		if err := quantizeBlock(out, x); err != nil {
			return fmt.Errorf("gguf: Q8_0: block %d: %w", b, err)
		}
	}
	return nil
}

func quantizeBlock(out []byte, x []float32) error {
	var top float32
	for i, v := range x {
		a := float32(math.Abs(float64(v)))
		if !(a <= math.MaxFloat32) {
			return fmt.Errorf("element %d is %v, want a finite number", i, v)
		}
		top = max(top, a)
	}
	scale := top / 127
	half := F16FromF32(scale)
	if half == 0x7c00 {
		return fmt.Errorf("magnitude %v is too large", top)
	}
	binary.LittleEndian.PutUint16(out, half)
	for i, v := range x {
		var q int8
		if scale > 0 {
			q = int8(math.Round(float64(v) / float64(scale)))
		}
		out[2+i] = byte(q)
	}
	return nil
}

func dequantizeQ8_0(dst []float32, src []byte) {
	for b := 0; b*BlockQ8_0 < len(dst); b++ {
		in := src[b*BytesQ8_0:][:BytesQ8_0]
		scale := F32FromF16(binary.LittleEndian.Uint16(in))
		for i := range BlockQ8_0 {
			dst[b*BlockQ8_0+i] = scale * float32(int8(in[2+i]))
		}
	}
}
