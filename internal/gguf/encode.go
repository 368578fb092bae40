package gguf

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// encodeValue turns a Go value into a metadata type and its bytes.
func encodeValue(value any) (ValueType, []byte, error) {
	switch v := value.(type) {
	case string:
		return String, appendString(nil, v), checkLen(v)
	case []string:
		return encodeStrings(v)
	}
	if t, ok := numberType(value); ok {
		return t, appendNumbers(nil, value), nil
	}
	elem, n, ok := sliceType(value)
	if !ok {
		return 0, nil, fmt.Errorf("a value of type %T cannot be stored", value)
	}
	if n > MaxArray {
		return 0, nil, fmt.Errorf("array of %d is over the limit of %d", n, MaxArray)
	}
	return Array, appendNumbers(arrayHead(elem, n), value), nil
}

func encodeStrings(v []string) (ValueType, []byte, error) {
	if len(v) > MaxArray {
		return 0, nil, fmt.Errorf("array of %d is over the limit of %d", len(v), MaxArray)
	}
	b := arrayHead(String, len(v))
	for _, s := range v {
		if err := checkLen(s); err != nil {
			return 0, nil, err
		}
		b = appendString(b, s)
	}
	return Array, b, nil
}

func checkLen(s string) error {
	if len(s) > MaxString {
		return fmt.Errorf("string of %d bytes is over the limit of %d", len(s), MaxString)
	}
	return nil
}

func numberType(value any) (ValueType, bool) {
	switch value.(type) {
	case uint8:
		return Uint8, true
	case int8:
		return Int8, true
	case uint16:
		return Uint16, true
	case int16:
		return Int16, true
	case uint32:
		return Uint32, true
	case int32:
		return Int32, true
	case uint64:
		return Uint64, true
	case int64:
		return Int64, true
	case float32:
		return Float32, true
	case float64:
		return Float64, true
	case bool:
		return Bool, true
	}
	return 0, false
}

func sliceType(value any) (ValueType, int, bool) {
	switch v := value.(type) {
	case []uint8:
		return Uint8, len(v), true
	case []int8:
		return Int8, len(v), true
	case []uint16:
		return Uint16, len(v), true
	case []int16:
		return Int16, len(v), true
	case []uint32:
		return Uint32, len(v), true
	case []int32:
		return Int32, len(v), true
	case []uint64:
		return Uint64, len(v), true
	case []int64:
		return Int64, len(v), true
	case []float32:
		return Float32, len(v), true
	case []float64:
		return Float64, len(v), true
	case []bool:
		return Bool, len(v), true
	}
	return 0, 0, false
}

// appendNumbers stores a fixed-size value or a slice of them, little endian.
// The type was checked before, so the encoder cannot refuse it.
func appendNumbers(b []byte, value any) []byte {
	var buf bytes.Buffer
	buf.Write(b)
	_ = binary.Write(&buf, binary.LittleEndian, value)
	return buf.Bytes()
}

func arrayHead(elem ValueType, n int) []byte {
	b := binary.LittleEndian.AppendUint32(nil, uint32(elem))
	return binary.LittleEndian.AppendUint64(b, uint64(n))
}

func appendString(b []byte, s string) []byte {
	b = binary.LittleEndian.AppendUint64(b, uint64(len(s)))
	return append(b, s...)
}

// header lays out everything before the tensor data and fixes the offsets.
func (w *Writer) header(alignment int64) []byte {
	b := append([]byte(nil), magic...)
	b = binary.LittleEndian.AppendUint32(b, maxVersion)
	b = binary.LittleEndian.AppendUint64(b, uint64(len(w.tensors)))
	b = binary.LittleEndian.AppendUint64(b, uint64(len(w.entries)))
	for _, e := range w.entries {
		b = appendString(b, e.key)
		b = binary.LittleEndian.AppendUint32(b, uint32(e.typ))
		b = append(b, e.payload...)
	}
	var next int64
	for i := range w.tensors {
		t := &w.tensors[i].Tensor
		t.Offset = next
		b = t.append(b)
		next = pad(next+t.Size, alignment)
	}
	return b
}

func (t *Tensor) append(b []byte) []byte {
	b = appendString(b, t.Name)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(t.Shape)))
	for _, d := range t.Shape {
		b = binary.LittleEndian.AppendUint64(b, uint64(d))
	}
	b = binary.LittleEndian.AppendUint32(b, uint32(t.Type))
	return binary.LittleEndian.AppendUint64(b, uint64(t.Offset))
}

// alignment is what general.alignment says, if it was set.
func (w *Writer) alignment() (int64, error) {
	i, ok := w.byKey[keyAlignment]
	if !ok {
		return DefaultAlignment, nil
	}
	e := w.entries[i]
	if e.typ != Uint32 {
		return 0, fmt.Errorf("%s: is %s, want u32", keyAlignment, e.typ)
	}
	return checkAlignment(uint64(binary.LittleEndian.Uint32(e.payload)))
}

func checkAlignment(a uint64) (int64, error) {
	if a == 0 || a&(a-1) != 0 || a > MaxAlignment {
		return 0, fmt.Errorf("%s: %d is not a power of two in 1..%d", keyAlignment, a, MaxAlignment)
	}
	return int64(a), nil
}
