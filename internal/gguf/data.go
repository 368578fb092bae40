package gguf

import (
	"fmt"
	"io"
	"math"
)

// Tensor returns the tensor of that name; the error wraps ErrMissing.
func (f *File) Tensor(name string) (*Tensor, error) {
	i, ok := f.tensors[name]
	if !ok {
		return nil, fmt.Errorf("gguf: tensor %q: %w", name, ErrMissing)
	}
	return &f.Tensors[i], nil
}

// TensorData returns a reader over the stored bytes of a tensor.
func (f *File) TensorData(name string) (*io.SectionReader, error) {
	t, err := f.Tensor(name)
	if err != nil {
		return nil, err
	}
	return io.NewSectionReader(f.src, f.DataOffset+t.Offset, t.Size), nil
}

// ReadRows decodes rows first, first+1, ... of a tensor until dst is full.
// len(dst) must be a multiple of the row length. Supported types: F32, F16,
// BF16, Q8_0; the error names any other.
func (f *File) ReadRows(name string, dst []float32, first int64) error {
	t, err := f.Tensor(name)
	if err != nil {
		return err
	}
	width := t.Shape[0]
	rows := int64(len(dst)) / width
	if rows*width != int64(len(dst)) || first < 0 || first > t.Rows() || rows > t.Rows()-first {
		return fmt.Errorf("gguf: tensor %q: %d values from row %d are not whole rows of %v", name, len(dst), first, t.Shape)
	}
	size, err := t.Type.RowSize(width)
	if err != nil {
		return fmt.Errorf("gguf: tensor %q: %w", name, err)
	}
	buf := make([]byte, size)
	for r := range rows {
		if err := readFull(f.src, buf, f.DataOffset+t.Offset+(first+r)*size); err != nil {
			return fmt.Errorf("gguf: tensor %q: row %d: %w", name, first+r, err)
		}
		if err := DecodeRow(t.Type, dst[r*width:(r+1)*width], buf); err != nil {
			return fmt.Errorf("tensor %q: %w", name, err)
		}
	}
	return nil
}

// ReadTensorF32 decodes a whole tensor, row after row. It takes four bytes of
// memory per element; use ReadRows for large matrices.
func (f *File) ReadTensorF32(name string) ([]float32, error) {
	t, err := f.Tensor(name)
	if err != nil {
		return nil, err
	}
	if t.Elements() > math.MaxInt32 {
		return nil, fmt.Errorf("gguf: tensor %q: %d elements are too many to read at once, use rows", name, t.Elements())
	}
	dst := make([]float32, t.Elements())
	return dst, f.ReadRows(name, dst, 0)
}
