package diffusion_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/trimtab/trimtab/bindings/llamacpp"
	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/internal/gguf"
	"github.com/trimtab/trimtab/internal/nano"
	"github.com/trimtab/trimtab/internal/nano/diffusion"
)

// stride is the distance of the rows whose logits the references hold.
const stride = 4

// reference is one line of testdata/reference.jsonl, written by
// train/diffusion_reference.py: what PyTorch computes with the shipped weights.
type reference struct {
	diffusion.Puzzle
	Canvas []decode.Token
	Answer string // after 16 steps
	Logits []byte // little-endian float32, every fourth row, for some canvases
}

func references(t *testing.T) []reference {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "reference.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	var out []reference
	for dec := json.NewDecoder(bytes.NewReader(data)); dec.More(); {
		var r reference
		if err := dec.Decode(&r); err != nil {
			t.Fatal(err)
		}
		out = append(out, r)
	}
	return out
}

// inFloat32 writes the shipped model with every weight as float32 and returns
// the file's path, so that nothing but rounding separates it from PyTorch.
func inFloat32(t *testing.T) string {
	t.Helper()
	f, err := gguf.Read(bytes.NewReader(nano.Diffusion()), int64(len(nano.Diffusion())))
	if err != nil {
		t.Fatal(err)
	}
	w := gguf.NewWriter()
	for _, key := range f.Keys() {
		v, err := value(f, key)
		if err != nil {
			t.Fatal(err)
		}
		w.Set(key, v)
	}
	for _, tensor := range f.Tensors {
		data, err := f.ReadTensorF32(tensor.Name)
		if err != nil {
			t.Fatal(err)
		}
		w.AddF32(tensor.Name, gguf.F32, tensor.Shape, data)
	}
	path := filepath.Join(t.TempDir(), "f32.gguf")
	if err := w.WriteFile(path); err != nil {
		t.Fatal(err)
	}
	return path
}

// value reads a metadata entry as the Go value that the writer stores alike.
func value(f *gguf.File, key string) (any, error) {
	m, _ := f.Meta(key)
	switch m.Type {
	case gguf.String:
		return f.String(key)
	case gguf.Bool:
		return f.Bool(key)
	case gguf.Float32:
		x, err := f.Float(key)
		return float32(x), err
	case gguf.Uint32:
		x, err := f.Uint(key)
		return uint32(x), err
	}
	if m.Elem == gguf.String {
		return f.Strings(key)
	}
	list, err := f.Ints(key)
	short := make([]int32, len(list))
	for i, x := range list {
		short[i] = int32(x)
	}
	return short, err
}

// TestExportEqualsPyTorch compares llama.cpp with PyTorch on the shipped weights,
// in float32: equal canvases, equal answers in 16 steps, logits within 1e-3.
func TestExportEqualsPyTorch(t *testing.T) {
	refs, ctx := references(t), context.Background()
	if len(refs) < 50 {
		t.Fatalf("%d references, want at least 50", len(refs))
	}
	e := open(t, inFloat32(t), llamacpp.Options{Flash: llamacpp.FlashOff})
	s := solverOn(t, e)
	rows, worst := 0, 0.0
	for i, r := range refs {
		canvas, err := s.canvas(r.Puzzle)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(canvas, r.Canvas) {
			t.Errorf("puzzle %d is encoded as %v, in training as %v", i, canvas, r.Canvas)
		}
		if got, err := s.solve(ctx, r.Puzzle, 16); err != nil || got != r.Answer {
			t.Errorf("puzzle %d: llama.cpp answers %q, PyTorch %q, error %v", i, got, r.Answer, err)
		}
		logits, err := s.logits(ctx, canvas)
		if err != nil {
			t.Fatal(err)
		}
		n, difference := compare(r.Logits, logits, e.Info().Vocab)
		rows, worst = rows+n, max(worst, difference)
	}
	t.Logf("largest difference of a logit over %d rows: %.2g", rows, worst)
	if rows < 50 || worst > 1e-3 {
		t.Errorf("%d rows compared, largest difference %v, want at least 50 and at most 1e-3", rows, worst)
	}
}

// compare returns how many rows a reference holds and the largest difference of a
// logit in them.
func compare(want []byte, got decode.Logits, vocab int) (rows int, worst float64) {
	rows = len(want) / 4 / vocab
	for i := range rows * vocab {
		w := math.Float32frombits(binary.LittleEndian.Uint32(want[4*i:]))
		g := got[i/vocab*stride*vocab+i%vocab]
		worst = max(worst, math.Abs(float64(g-w)))
	}
	return rows, worst
}
