package gguf

import (
	"encoding/binary"
	"fmt"
	"iter"
	"math"
	"slices"
)

// Keys are the metadata keys in file order.
func (f *File) Keys() []string { return slices.Clone(f.keys) }

// Meta describes the entry under key and says whether there is one.
func (f *File) Meta(key string) (Value, bool) {
	v, ok := f.meta[key]
	return v, ok
}

// find returns the entry if it is there and want accepts it.
func (f *File) find(key, want string, accept func(Value) bool) (Value, error) {
	v, ok := f.meta[key]
	if !ok {
		return Value{}, fmt.Errorf("gguf: %s: %w, want %s", key, ErrMissing, want)
	}
	if !accept(v) {
		return Value{}, fmt.Errorf("gguf: %s: is %s, want %s", key, v.describe(), want)
	}
	return v, nil
}

func isInteger(t ValueType) bool {
	return t <= Int32 || t == Uint64 || t == Int64
}

func isFloat(t ValueType) bool { return t == Float32 || t == Float64 }

// scalar reads the bytes of a number or bool.
func (f *File) scalar(key, want string, accept func(ValueType) bool) (Value, []byte, error) {
	v, err := f.find(key, want, func(v Value) bool { return accept(v.Type) })
	if err != nil {
		return v, nil, err
	}
	b := make([]byte, v.size)
	if err := readFull(f.src, b, v.off); err != nil {
		return v, nil, fmt.Errorf("gguf: %s: %w", key, err)
	}
	return v, b, nil
}

// Uint reads a non-negative integer of any width.
func (f *File) Uint(key string) (uint64, error) {
	v, b, err := f.scalar(key, "a non-negative integer", isInteger)
	if err != nil {
		return 0, err
	}
	n := integer(v.Type, b)
	if n < 0 && v.Type != Uint64 {
		return 0, fmt.Errorf("gguf: %s: is %d, want a non-negative integer", key, n)
	}
	return uint64(n), nil
}

// Int reads an integer of any width that fits an int64.
func (f *File) Int(key string) (int64, error) {
	v, b, err := f.scalar(key, "an integer", isInteger)
	if err != nil {
		return 0, err
	}
	n := integer(v.Type, b)
	if n < 0 && v.Type == Uint64 {
		return 0, fmt.Errorf("gguf: %s: is %d, want at most %d", key, uint64(n), int64(math.MaxInt64))
	}
	return n, nil
}

// Float reads a floating-point number of either width.
func (f *File) Float(key string) (float64, error) {
	v, b, err := f.scalar(key, "a floating-point number", isFloat)
	if err != nil {
		return 0, err
	}
	return float(v.Type, b), nil
}

// Bool reads a truth value; bytes other than 0 and 1 are refused.
func (f *File) Bool(key string) (bool, error) {
	_, b, err := f.scalar(key, "a bool", func(t ValueType) bool { return t == Bool })
	if err != nil {
		return false, err
	}
	if b[0] > 1 {
		return false, fmt.Errorf("gguf: %s: bool is %d, want 0 or 1", key, b[0])
	}
	return b[0] == 1, nil
}

// String reads a string, at most MaxString bytes. Its encoding is not checked.
func (f *File) String(key string) (string, error) {
	v, err := f.find(key, "a string", func(v Value) bool { return v.Type == String })
	if err != nil {
		return "", err
	}
	s, err := newScanner(f.src, v.off, v.off+v.size).text(MaxString)
	if err != nil {
		return "", fmt.Errorf("gguf: %s: %w", key, err)
	}
	return s, nil
}

// Strings reads an array of strings.
func (f *File) Strings(key string) ([]string, error) {
	var out []string
	for s, err := range f.EachString(key) {
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

// EachString reads an array of strings one by one, for arrays that one does not
// want in memory. An error is the last pair.
func (f *File) EachString(key string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		v, err := f.find(key, "an array of strings", func(v Value) bool { return v.Type == Array && v.Elem == String })
		if err != nil {
			yield("", err)
			return
		}
		s := newScanner(f.src, v.off, v.off+v.size)
		for i := range v.Len {
			text, err := s.text(MaxString)
			if err != nil {
				err = fmt.Errorf("gguf: %s: string %d: %w", key, i, err)
			}
			if !yield(text, err) || err != nil {
				return
			}
		}
	}
}

// Ints reads an array of integers of any width.
func (f *File) Ints(key string) ([]int64, error) {
	v, b, err := f.array(key, "an array of integers", isInteger)
	if err != nil {
		return nil, err
	}
	out := make([]int64, v.Len)
	for i := range out {
		out[i] = integer(v.Elem, b[int64(i)*v.Elem.size():])
		if out[i] < 0 && v.Elem == Uint64 {
			return nil, fmt.Errorf("gguf: %s: element %d is %d, want at most %d", key, i, uint64(out[i]), int64(math.MaxInt64))
		}
	}
	return out, nil
}

// Floats reads an array of floating-point numbers of either width.
func (f *File) Floats(key string) ([]float64, error) {
	v, b, err := f.array(key, "an array of floating-point numbers", isFloat)
	if err != nil {
		return nil, err
	}
	out := make([]float64, v.Len)
	for i := range out {
		out[i] = float(v.Elem, b[int64(i)*v.Elem.size():])
	}
	return out, nil
}

// Bools reads an array of truth values; bytes other than 0 and 1 are refused.
func (f *File) Bools(key string) ([]bool, error) {
	v, b, err := f.array(key, "an array of bools", func(t ValueType) bool { return t == Bool })
	if err != nil {
		return nil, err
	}
	out := make([]bool, v.Len)
	for i := range out {
		if b[i] > 1 {
			return nil, fmt.Errorf("gguf: %s: element %d is %d, want 0 or 1", key, i, b[i])
		}
		out[i] = b[i] == 1
	}
	return out, nil
}

func (f *File) array(key, want string, accept func(ValueType) bool) (Value, []byte, error) {
	v, err := f.find(key, want, func(v Value) bool { return v.Type == Array && accept(v.Elem) })
	if err != nil {
		return v, nil, err
	}
	b := make([]byte, v.size)
	if err := readFull(f.src, b, v.off); err != nil {
		return v, nil, fmt.Errorf("gguf: %s: %w", key, err)
	}
	return v, b, nil
}

// integer decodes one integer; a u64 above the int64 range comes out negative.
func integer(t ValueType, b []byte) int64 {
	switch t {
	case Uint8:
		return int64(b[0])
	case Int8:
		return int64(int8(b[0]))
	case Uint16:
		return int64(binary.LittleEndian.Uint16(b))
	case Int16:
		return int64(int16(binary.LittleEndian.Uint16(b)))
	case Uint32:
		return int64(binary.LittleEndian.Uint32(b))
	case Int32:
		return int64(int32(binary.LittleEndian.Uint32(b)))
	}
	return int64(binary.LittleEndian.Uint64(b))
}

func float(t ValueType, b []byte) float64 {
	if t == Float32 {
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(b)))
	}
	return math.Float64frombits(binary.LittleEndian.Uint64(b))
}
