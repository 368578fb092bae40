package gguf

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"
)

// sample has one entry of every kind, an unusual alignment and odd sizes.
func sample(edit func(w *Writer)) *Writer {
	w := NewWriter()
	w.Set("general.architecture", "llama")
	w.Set("general.alignment", uint32(128))
	w.Set("n.u8", uint8(7))
	w.Set("n.f64", 1.5)
	w.Set("b", true)
	w.Set("list.f32", []float32{1, 2, 3})
	w.Set("list.text", []string{"a", "", "longer text"})
	w.Set("list.empty", []int32{})
	w.AddF32("a", F32, []int64{3}, []float32{1, 2, 3})
	if edit != nil {
		edit(w)
	}
	w.AddF32("c", Q8_0, []int64{32, 2}, make([]float32, 64))
	return w
}

// TestCopyOf: a copy without changes is the file itself; a changed one is the
// file that would have been written so in the first place.
func TestCopyOf(t *testing.T) {
	with := func(w *Writer) { w.AddF32("b", F16, []int64{2}, []float32{1, 2}) }
	data := bytesOf(t, sample(with))
	f, err := Read(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	same, err := CopyOf(t.Context(), f)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(bytesOf(t, same), data) {
		t.Error("the copy differs from the file")
	}
	edit := func(w *Writer) *Writer {
		w.Set("n.u8", "now text")
		w.Set("new", int32(-1))
		w.AddF32("d", F32, []int64{1}, []float32{9})
		return w
	}
	changed, err := CopyOf(t.Context(), f, "b")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(bytesOf(t, edit(changed)), bytesOf(t, edit(sample(nil)))) {
		t.Error("the changed copy differs from a file written so")
	}
}

func TestCopyOfStops(t *testing.T) {
	data := bytesOf(t, sample(nil))
	f, err := Read(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	stop := errors.New("stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	w, err := CopyOf(ctx, f)
	if err != nil {
		t.Fatal(err)
	}
	cancel(stop)
	if _, err := w.WriteTo(io.Discard); !errors.Is(err, stop) {
		t.Errorf("error is %v", err)
	}
	f.src = bytes.NewReader(data[:40])
	if _, err := CopyOf(t.Context(), f); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a file that shrank: %v", err)
	}
}
