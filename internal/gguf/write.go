package gguf

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Writer collects metadata and tensors and writes them as one GGUF version 3
// file. The same calls in the same order give the same bytes. It is not safe
// for concurrent use and may write any number of times.
type Writer struct {
	entries []entry
	byKey   map[string]int
	tensors []pending
	byName  map[string]bool
	faults  []error
}

type entry struct {
	key     string
	typ     ValueType
	payload []byte // element type and count (arrays), then values
}

type pending struct {
	Tensor
	fill func(io.Writer) error
}

// NewWriter returns an empty writer.
func NewWriter() *Writer {
	return &Writer{byKey: map[string]int{}, byName: map[string]bool{}}
}

// Set stores a metadata entry, replacing an earlier one under the same key in
// its place. value is a string, bool, fixed-width integer or float, or a slice
// of these. A fault is reported by WriteTo and WriteFile, together with all others.
func (w *Writer) Set(key string, value any) {
	typ, payload, err := encodeValue(value)
	if err == nil {
		err = checkName(key)
	}
	if err == nil && len(key) > MaxKeyLen {
		err = fmt.Errorf("key of %d bytes is over the limit of %d", len(key), MaxKeyLen)
	}
	if err != nil {
		w.fault("%s: %w", key, err)
		return
	}
	w.put(entry{key, typ, payload})
}

func (w *Writer) put(e entry) {
	if i, ok := w.byKey[e.key]; ok {
		w.entries[i] = e
		return
	}
	w.byKey[e.key] = len(w.entries)
	w.entries = append(w.entries, e)
}

func (w *Writer) fault(format string, args ...any) {
	w.faults = append(w.faults, fmt.Errorf(format, args...))
}

// Add appends a tensor. Shape is in ggml's order, row length first. fill is
// called once per write and must write exactly the tensor's size in bytes.
// Faults are reported as by Set.
func (w *Writer) Add(name string, typ TensorType, shape []int64, fill func(io.Writer) error) {
	size, err := dataSize(typ, shape)
	if err == nil {
		err = checkName(name)
	}
	switch {
	case err != nil:
	case len(name) > MaxTensorName:
		err = fmt.Errorf("name of %d bytes is over the limit of %d", len(name), MaxTensorName)
	case w.byName[name]:
		err = errors.New("was added before")
	case fill == nil:
		err = errors.New("has no data")
	}
	if err != nil {
		w.fault("tensor %q: %w", name, err)
		return
	}
	w.byName[name] = true
	t := Tensor{Name: name, Type: typ, Shape: append([]int64(nil), shape...), Size: size}
	w.tensors = append(w.tensors, pending{t, fill})
}

// AddBytes appends a tensor whose stored bytes are data.
func (w *Writer) AddBytes(name string, typ TensorType, shape []int64, data []byte) {
	w.Add(name, typ, shape, func(out io.Writer) error {
		_, err := out.Write(data)
		return err
	})
}

// AddF32 appends a tensor with the given values, stored as typ (see EncodeRow).
func (w *Writer) AddF32(name string, typ TensorType, shape []int64, values []float32) {
	if len(shape) == 0 {
		w.fault("tensor %q: has no shape", name)
		return
	}
	w.Add(name, typ, shape, func(out io.Writer) error {
		return encodeRows(out, typ, shape[0], values)
	})
}

func encodeRows(out io.Writer, typ TensorType, width int64, values []float32) error {
	size, err := typ.RowSize(width)
	if err != nil {
		return err
	}
	row := make([]byte, size)
	for len(values) > 0 {
		if int64(len(values)) < width {
			return fmt.Errorf("%d values are left over after the last whole row of %d", len(values), width)
		}
		if err := EncodeRow(typ, row, values[:width]); err != nil {
			return err
		}
		if _, err := out.Write(row); err != nil {
			return err
		}
		values = values[width:]
	}
	return nil
}

// WriteTo writes the file to out and returns the number of bytes written.
func (w *Writer) WriteTo(out io.Writer) (int64, error) {
	alignment, err := w.check()
	if err != nil {
		return 0, err
	}
	buf := bufio.NewWriterSize(out, 1<<20)
	c := &counter{out: buf}
	header := w.header(alignment)
	if len(header) > MaxHeader {
		return 0, fmt.Errorf("gguf: write: header of %d bytes is over the limit of %d", len(header), MaxHeader)
	}
	c.write(header)
	c.padTo(alignment)
	for i := range w.tensors {
		w.writeTensor(c, &w.tensors[i])
		c.padTo(alignment)
	}
	if c.err == nil {
		c.err = buf.Flush()
	}
	if c.err != nil {
		return c.n, fmt.Errorf("gguf: write: %w", c.err)
	}
	return c.n, nil
}

func (w *Writer) writeTensor(c *counter, p *pending) {
	if c.err != nil {
		return
	}
	from := c.n
	c.limit = from + p.Size
	err := p.fill(c)
	c.limit = 0
	if c.err == nil {
		c.err = err
	}
	if c.err == nil && c.n-from != p.Size {
		c.err = fmt.Errorf("wrote %d of %d bytes", c.n-from, p.Size)
	}
	if c.err != nil {
		c.err = fmt.Errorf("tensor %q: %w", p.Name, c.err)
	}
}

// check reports all faults found so far and returns the alignment.
func (w *Writer) check() (int64, error) {
	faults := w.faults
	if len(w.entries) > MaxKeys {
		faults = append(faults, fmt.Errorf("%d metadata entries are over the limit of %d", len(w.entries), MaxKeys))
	}
	if len(w.tensors) > MaxTensors {
		faults = append(faults, fmt.Errorf("%d tensors are over the limit of %d", len(w.tensors), MaxTensors))
	}
	alignment, err := w.alignment()
	if err != nil {
		faults = append(faults, err)
	}
	if len(faults) > 0 {
		return 0, fmt.Errorf("gguf: write: %w", errors.Join(faults...))
	}
	return alignment, nil
}

// counter is a writer that counts, remembers the first error and, when limit is
// set, refuses to go past it.
type counter struct {
	out   io.Writer
	n     int64
	limit int64
	err   error
}

func (c *counter) Write(b []byte) (int, error) {
	if c.err != nil {
		return 0, c.err
	}
	if c.limit > 0 && c.n+int64(len(b)) > c.limit {
		c.err = fmt.Errorf("data is longer than the %d bytes that shape and type make", c.limit)
		return 0, c.err
	}
	n, err := c.out.Write(b)
	c.n += int64(n)
	c.err = err
	return n, err
}

func (c *counter) write(b []byte) {
	if c.err == nil {
		c.Write(b)
	}
}

func (c *counter) padTo(alignment int64) {
	c.write(make([]byte, pad(c.n, alignment)-c.n))
}

// WriteFile writes the file at path all or nothing: into a new file beside it,
// flushed to disk, then renamed over path. On error path is as it was.
func (w *Writer) WriteFile(path string) (err error) {
	tmp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("gguf: write: %w", err)
	}
	defer func() {
		if err != nil {
			tmp.Close()
			os.Remove(tmp.Name())
		}
	}()
	if _, err = w.WriteTo(tmp); err != nil {
		return err
	}
	if err = settle(tmp, path); err != nil {
		return fmt.Errorf("gguf: write: %w", err)
	}
	return nil
}

func settle(tmp *os.File, path string) error {
	if err := tmp.Chmod(0o644); err != nil {
		return err
	}
	if err := tmp.Sync(); err != nil {
		return err
	}
	if err := tmp.Close(); err != nil {
		return err
	}
	if err := os.Rename(tmp.Name(), path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}
