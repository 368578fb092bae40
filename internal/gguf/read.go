package gguf

import (
	"fmt"
	"io"
	"math/bits"
	"strings"
	"unicode"
	"unicode/utf8"
)

// File is an open GGUF file whose header has been checked. It never changes
// and is safe for concurrent use until Close. The file must not change on disk
// meanwhile; if it does, reads return errors or wrong values but never panic.
type File struct {
	Version    uint32
	Alignment  int64    // of tensor data, in bytes
	DataOffset int64    // where tensor data starts in the file
	Size       int64    // of the file, in bytes
	Tensors    []Tensor // in file order; read only

	keys    []string
	meta    map[string]Value
	tensors map[string]int
	src     io.ReaderAt
	closer  io.Closer
}

// Read checks the header of a GGUF file of the given size and returns it. The
// source is read again by the getters and must stay usable. Errors name the
// field, the byte and what was expected.
func Read(src io.ReaderAt, size int64) (*File, error) {
	f := &File{Size: size, src: src, Alignment: DefaultAlignment,
		meta: map[string]Value{}, tensors: map[string]int{}}
	if err := f.read(); err != nil {
		return nil, fmt.Errorf("gguf: %w", err)
	}
	return f, nil
}

func (f *File) read() error {
	s := newScanner(f.src, 0, min(f.Size, MaxHeader))
	nTensors, nKeys, err := f.readPreamble(s)
	if err != nil {
		return err
	}
	for i := range nKeys {
		if err := f.readEntry(s, i); err != nil {
			return f.headerError(s, err)
		}
	}
	if err := f.readAlignment(); err != nil {
		return err
	}
	f.Tensors = make([]Tensor, 0, min(nTensors, 4096))
	for i := range nTensors {
		if err := f.readTensor(s, i); err != nil {
			return f.headerError(s, err)
		}
	}
	return f.placeData(s.off)
}

// headerError says that the limit, not the file, ended the header.
func (f *File) headerError(s *scanner, err error) error {
	if f.Size > MaxHeader && s.left() < MaxString {
		return fmt.Errorf("%w (a header may take %d bytes)", err, MaxHeader)
	}
	return err
}

func (f *File) readPreamble(s *scanner) (nTensors, nKeys int, err error) {
	b, err := s.take(4)
	if err != nil {
		return 0, 0, fmt.Errorf("magic: %w", err)
	}
	if string(b) != magic {
		return 0, 0, fmt.Errorf("magic: found %q, want %q: not a GGUF file", b, magic)
	}
	if f.Version, err = s.u32(); err != nil {
		return 0, 0, fmt.Errorf("version: %w", err)
	}
	if f.Version < minVersion || f.Version > maxVersion {
		return 0, 0, fmt.Errorf("version: %w", versionError(f.Version))
	}
	if nTensors, err = count(s, MaxTensors); err != nil {
		return 0, 0, fmt.Errorf("tensor_count: %w", err)
	}
	if nKeys, err = count(s, MaxKeys); err != nil {
		return 0, 0, fmt.Errorf("metadata_kv_count: %w", err)
	}
	return nTensors, nKeys, nil
}

func versionError(v uint32) error {
	if swapped := bits.ReverseBytes32(v); swapped >= minVersion && swapped <= maxVersion {
		return fmt.Errorf("the file is big endian; convert it to little endian")
	}
	return fmt.Errorf("%d is not supported, want %d or %d", v, minVersion, maxVersion)
}

func count(s *scanner, limit uint64) (int, error) {
	n, err := s.u64()
	if err != nil {
		return 0, err
	}
	if n > limit {
		return 0, fmt.Errorf("%d is over the limit of %d", n, limit)
	}
	return int(n), nil
}

func (f *File) readEntry(s *scanner, i int) error {
	key, err := s.text(MaxKeyLen)
	if err != nil {
		return fmt.Errorf("metadata key %d: %w", i, err)
	}
	if err := checkName(key); err != nil {
		return fmt.Errorf("metadata key %d: %w", i, err)
	}
	if _, twice := f.meta[key]; twice {
		return fmt.Errorf("metadata key %.80q is there twice", key)
	}
	v, err := readValue(s)
	if err != nil {
		return fmt.Errorf("%.80s: %w", key, err)
	}
	f.meta[key] = v
	f.keys = append(f.keys, key)
	return nil
}

// checkName refuses what C code would read as another name (a zero byte ends a
// C string) and what cannot be shown in a message.
func checkName(s string) error {
	switch {
	case s == "":
		return fmt.Errorf("is empty")
	case strings.IndexByte(s, 0) >= 0:
		return fmt.Errorf("%.80q contains a zero byte", s)
	case !utf8.ValidString(s):
		return fmt.Errorf("%.80q is not valid UTF-8", s)
	case strings.ContainsFunc(s, unicode.IsControl):
		return fmt.Errorf("%.80q contains a control character", s)
	}
	return nil
}

func readType(s *scanner) (ValueType, error) {
	n, err := s.u32()
	if err != nil {
		return 0, fmt.Errorf("value type: %w", err)
	}
	t := ValueType(n)
	if !t.known() {
		return 0, fmt.Errorf("value type %d does not exist, want 0..%d", n, len(valueTypes)-1)
	}
	return t, nil
}

func readValue(s *scanner) (Value, error) {
	t, err := readType(s)
	if err != nil {
		return Value{}, err
	}
	v := Value{Type: t, Elem: t, Len: 1}
	if t == Array {
		if v.Elem, err = readType(s); err != nil {
			return Value{}, err
		}
		if v.Elem == Array {
			return Value{}, fmt.Errorf("is an array of arrays, which is not supported")
		}
		if v.Len, err = count(s, MaxArray); err != nil {
			return Value{}, fmt.Errorf("array length: %w", err)
		}
	}
	v.off = s.off
	if v.Elem == String {
		err = skipStrings(s, v.Len)
	} else {
		err = s.skip(int64(v.Len) * v.Elem.size())
	}
	v.size = s.off - v.off
	return v, err
}

func skipStrings(s *scanner, n int) error {
	if int64(n)*8 > s.left() {
		return fmt.Errorf("%d strings do not fit the %d bytes left", n, s.left())
	}
	for i := range n {
		size, err := s.stringLen(MaxString)
		if err == nil {
			err = s.skip(size)
		}
		if err != nil {
			return fmt.Errorf("string %d: %w", i, err)
		}
	}
	return nil
}

func (f *File) readAlignment() error {
	v, ok := f.meta[keyAlignment]
	if !ok {
		return nil
	}
	if v.Type != Uint32 {
		return fmt.Errorf("%s: is %s, want u32", keyAlignment, v.describe())
	}
	a, err := f.Uint(keyAlignment)
	if err != nil {
		return err
	}
	f.Alignment, err = checkAlignment(a)
	return err
}

func (f *File) readTensor(s *scanner, i int) error {
	name, err := s.text(MaxTensorName)
	if err != nil {
		return fmt.Errorf("tensor %d: name: %w", i, err)
	}
	if err := checkName(name); err != nil {
		return fmt.Errorf("tensor %d: name: %w", i, err)
	}
	if _, twice := f.tensors[name]; twice {
		return fmt.Errorf("tensor %q is there twice", name)
	}
	t := Tensor{Name: name}
	if err := t.read(s); err != nil {
		return fmt.Errorf("tensor %q: %w", name, err)
	}
	f.tensors[name] = i
	f.Tensors = append(f.Tensors, t)
	return nil
}

func (t *Tensor) read(s *scanner) error {
	dims, err := s.u32()
	if err != nil {
		return fmt.Errorf("dimensions: %w", err)
	}
	if dims < 1 || dims > MaxDims {
		return fmt.Errorf("has %d dimensions, want 1..%d", dims, MaxDims)
	}
	t.Shape = make([]int64, dims)
	for i := range t.Shape {
		d, err := s.u64()
		if err != nil {
			return fmt.Errorf("dimension %d: %w", i, err)
		}
		if d == 0 || d > 1<<62 {
			return fmt.Errorf("dimension %d is %d, want a positive number", i, d)
		}
		t.Shape[i] = int64(d)
	}
	typ, err := s.u32()
	if err != nil {
		return fmt.Errorf("type: %w", err)
	}
	t.Type = TensorType(typ)
	if t.Size, err = dataSize(t.Type, t.Shape); err != nil {
		return err
	}
	off, err := s.u64()
	if err != nil {
		return fmt.Errorf("offset: %w", err)
	}
	if off > 1<<62 {
		return fmt.Errorf("offset %d is past the end of the file", off)
	}
	t.Offset = int64(off)
	return nil
}

// placeData checks that tensors follow each other, each padded to the
// alignment, and end inside the file. llama.cpp requires exactly this order;
// it also rules out overlaps.
func (f *File) placeData(headerEnd int64) error {
	f.DataOffset = pad(headerEnd, f.Alignment)
	if len(f.Tensors) == 0 {
		return nil
	}
	if f.DataOffset > f.Size {
		return fmt.Errorf("tensor data: starts at byte %d, the file ends at %d", f.DataOffset, f.Size)
	}
	var next int64
	for i := range f.Tensors {
		t := &f.Tensors[i]
		if t.Offset != next {
			return fmt.Errorf("tensor %q: offset is %d, want %d: right after the tensor before it", t.Name, t.Offset, next)
		}
		if room := f.Size - f.DataOffset - t.Offset; t.Size > room {
			return fmt.Errorf("tensor %q: offset %d + size %d is past the end of the file, %d bytes are left", t.Name, t.Offset, t.Size, max(room, 0))
		}
		next = pad(t.Offset+t.Size, f.Alignment)
	}
	return nil
}

func pad(n, alignment int64) int64 { return (n + alignment - 1) &^ (alignment - 1) }
