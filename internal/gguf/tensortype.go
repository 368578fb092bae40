package gguf

import "fmt"

// TensorType is the storage format of a tensor, with ggml's numbers.
type TensorType uint32

const (
	F32    TensorType = 0
	F16    TensorType = 1
	Q4_0   TensorType = 2
	Q4_1   TensorType = 3
	Q5_0   TensorType = 6
	Q5_1   TensorType = 7
	Q8_0   TensorType = 8
	Q8_1   TensorType = 9
	Q2K    TensorType = 10
	Q3K    TensorType = 11
	Q4K    TensorType = 12
	Q5K    TensorType = 13
	Q6K    TensorType = 14
	Q8K    TensorType = 15
	IQ2XXS TensorType = 16
	IQ2XS  TensorType = 17
	IQ3XXS TensorType = 18
	IQ1S   TensorType = 19
	IQ4NL  TensorType = 20
	IQ3S   TensorType = 21
	IQ2S   TensorType = 22
	IQ4XS  TensorType = 23
	I8     TensorType = 24
	I16    TensorType = 25
	I32    TensorType = 26
	I64    TensorType = 27
	F64    TensorType = 28
	IQ1M   TensorType = 29
	BF16   TensorType = 30
	TQ1_0  TensorType = 34
	TQ2_0  TensorType = 35
	MXFP4  TensorType = 39
	NVFP4  TensorType = 40
	Q1_0   TensorType = 41
	Q2_0   TensorType = 42
)

// tensorTypes gives, for each type of llama.cpp v0.5.0 (enum ggml_type in
// ggml.h, block structs in ggml-common.h), how many elements one block holds and
// how many bytes it takes. Numbers 4, 5, 31-33 and 36-38 were withdrawn and have
// a zero block.
var tensorTypes = [...]struct {
	name  string
	block int64 // elements
	bytes int64 // of one block
}{
	F32: {"F32", 1, 4}, F16: {"F16", 1, 2}, BF16: {"BF16", 1, 2}, F64: {"F64", 1, 8},
	I8: {"I8", 1, 1}, I16: {"I16", 1, 2}, I32: {"I32", 1, 4}, I64: {"I64", 1, 8},
	// A half-precision scale (Q*_1: and a half-precision minimum or sum), then quants.
	Q4_0: {"Q4_0", 32, 2 + 16}, Q4_1: {"Q4_1", 32, 4 + 16},
	Q5_0: {"Q5_0", 32, 2 + 4 + 16}, Q5_1: {"Q5_1", 32, 4 + 4 + 16},
	Q8_0: {"Q8_0", 32, 2 + 32}, Q8_1: {"Q8_1", 32, 4 + 32},
	Q1_0: {"Q1_0", 128, 2 + 16}, Q2_0: {"Q2_0", 64, 2 + 16},
	// Super-blocks of 256 elements.
	Q2K: {"Q2_K", 256, 16 + 64 + 4}, Q3K: {"Q3_K", 256, 32 + 64 + 12 + 2},
	Q4K: {"Q4_K", 256, 4 + 12 + 128}, Q5K: {"Q5_K", 256, 4 + 12 + 32 + 128},
	Q6K: {"Q6_K", 256, 128 + 64 + 16 + 2}, Q8K: {"Q8_K", 256, 4 + 256 + 32},
	IQ2XXS: {"IQ2_XXS", 256, 2 + 64}, IQ2XS: {"IQ2_XS", 256, 2 + 64 + 8},
	IQ2S: {"IQ2_S", 256, 2 + 64 + 16}, IQ3XXS: {"IQ3_XXS", 256, 2 + 96},
	IQ3S: {"IQ3_S", 256, 2 + 104 + 4}, IQ1S: {"IQ1_S", 256, 2 + 32 + 16},
	IQ1M: {"IQ1_M", 256, 32 + 16 + 8}, IQ4NL: {"IQ4_NL", 32, 2 + 16},
	IQ4XS: {"IQ4_XS", 256, 2 + 2 + 4 + 128},
	TQ1_0: {"TQ1_0", 256, 48 + 4 + 2}, TQ2_0: {"TQ2_0", 256, 64 + 2},
	// Four-bit floats with an eight-bit scale per 32 and per 16 elements.
	MXFP4: {"MXFP4", 32, 1 + 16}, NVFP4: {"NVFP4", 64, 4 + 32},
}

// Known says whether the type exists in this release.
func (t TensorType) Known() bool {
	return int64(t) < int64(len(tensorTypes)) && tensorTypes[t].block > 0
}

// String is the usual name, such as "Q8_0".
func (t TensorType) String() string {
	if !t.Known() {
		return fmt.Sprintf("type %d", uint32(t))
	}
	return tensorTypes[t].name
}

// Block is the number of elements that one storage block holds, 0 for an
// unknown type.
func (t TensorType) Block() int64 {
	if !t.Known() {
		return 0
	}
	return tensorTypes[t].block
}

// RowSize is the number of bytes of a row of n elements. It fails when the type
// is unknown, n is not positive or not a whole number of blocks, or the size
// does not fit an int64.
func (t TensorType) RowSize(n int64) (int64, error) {
	if !t.Known() {
		return 0, fmt.Errorf("tensor type %d does not exist", uint32(t))
	}
	tt := tensorTypes[t]
	if n <= 0 || n%tt.block != 0 {
		return 0, fmt.Errorf("row of %d elements is not a positive multiple of %d, the block of %s", n, tt.block, tt.name)
	}
	size, ok := mul(n/tt.block, tt.bytes)
	if !ok {
		return 0, fmt.Errorf("row of %d elements of %s overflows", n, tt.name)
	}
	return size, nil
}

// Tensor describes one tensor of a file. Shape is in ggml's order: Shape[0] is
// the row length (the input width of a weight matrix), Shape[1] the number of
// rows. Missing dimensions are 1.
type Tensor struct {
	Name   string
	Type   TensorType
	Shape  []int64
	Offset int64 // in bytes, from the start of the tensor data
	Size   int64 // in bytes
}

// Rows is the number of rows of Shape[0] elements.
func (t *Tensor) Rows() int64 {
	n := int64(1)
	for _, d := range t.Shape[1:] {
		n *= d
	}
	return n
}

// Elements is the number of values in the tensor.
func (t *Tensor) Elements() int64 { return t.Shape[0] * t.Rows() }

// dataSize checks shape and type together and returns the size in bytes. No
// product may overflow int64: a wrapped size would pass every later check.
func dataSize(typ TensorType, shape []int64) (int64, error) {
	if len(shape) < 1 || len(shape) > MaxDims {
		return 0, fmt.Errorf("has %d dimensions, want 1..%d", len(shape), MaxDims)
	}
	elements := int64(1)
	for i, d := range shape {
		if d <= 0 {
			return 0, fmt.Errorf("dimension %d is %d, want a positive number", i, d)
		}
		var ok bool
		if elements, ok = mul(elements, d); !ok {
			return 0, fmt.Errorf("shape %v has too many elements", shape)
		}
	}
	row, err := typ.RowSize(shape[0])
	if err != nil {
		return 0, err
	}
	size, ok := mul(row, elements/shape[0])
	if !ok {
		return 0, fmt.Errorf("shape %v of %s has too many bytes", shape, typ)
	}
	return size, nil
}

// mul multiplies two non-negative numbers and says whether the product fits.
func mul(a, b int64) (int64, bool) {
	if a == 0 || b == 0 {
		return 0, true
	}
	p := a * b
	return p, p > 0 && p/b == a
}
