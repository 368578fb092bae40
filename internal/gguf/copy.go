package gguf

import (
	"context"
	"fmt"
	"io"
	"slices"
)

// CopyOf returns a writer that holds the metadata and tensors of f in their
// order, except the tensors named in without, for writing a changed copy: Set
// replaces or appends metadata, Add appends tensors. The metadata is read now
// (at most MaxHeader bytes); tensor data is streamed from f when the copy is
// written, so f must stay open until then. A ctx that ends stops the writing
// with its cause. The alignment stays, a version 2 file becomes version 3.
func CopyOf(ctx context.Context, f *File, without ...string) (*Writer, error) {
	w := NewWriter()
	for _, key := range f.keys {
		e, err := f.entry(key)
		if err != nil {
			return nil, fmt.Errorf("gguf: copy: %s: %w", key, err)
		}
		w.put(e)
	}
	for i := range f.Tensors {
		t := &f.Tensors[i]
		if slices.Contains(without, t.Name) {
			continue
		}
		w.Add(t.Name, t.Type, t.Shape, func(out io.Writer) error {
			data := io.NewSectionReader(f.src, f.DataOffset+t.Offset, t.Size)
			_, err := io.CopyBuffer(out, &stoppable{ctx, data}, make([]byte, min(t.Size, 1<<20)))
			return err
		})
	}
	return w, nil
}

// entry reads a metadata entry as stored.
func (f *File) entry(key string) (entry, error) {
	v := f.meta[key]
	e := entry{key: key, typ: v.Type}
	if v.Type == Array {
		e.payload = arrayHead(v.Elem, v.Len)
	}
	head := len(e.payload)
	e.payload = append(e.payload, make([]byte, v.size)...)
	return e, readFull(f.src, e.payload[head:], v.off)
}

// stoppable ends reading when the context does.
type stoppable struct {
	ctx context.Context
	r   io.Reader
}

func (s *stoppable) Read(b []byte) (int, error) {
	if err := context.Cause(s.ctx); err != nil {
		return 0, err
	}
	return s.r.Read(b)
}
