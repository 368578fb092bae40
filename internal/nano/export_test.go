package nano_test

import (
	"bytes"
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
	corpus "github.com/trimtab/trimtab/internal/nano/chat"
)

// reference is one line of testdata/reference.jsonl, written by
// train/reference.py: what PyTorch computes with the shipped weights.
type reference struct {
	Messages []corpus.Message
	Prompt   []decode.Token
	Answer   []decode.Token
	Logits   []byte // little-endian float32, for some prompts
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
	f, err := gguf.Read(bytes.NewReader(nano.Chat()), int64(len(nano.Chat())))
	if err != nil {
		t.Fatal(err)
	}
	w := gguf.NewWriter()
	for _, key := range f.Keys() {
		w.Set(key, value(t, f, key))
	}
	for _, tensor := range f.Tensors {
		data, err := f.ReadTensorF32(tensor.Name)
		if err != nil {
			t.Fatal(err)
		}
		w.AddF32(tensor.Name, gguf.F32, tensor.Shape, data)
	}
	path := filepath.Join(t.TempDir(), "nano-f32.gguf")
	if err := w.WriteFile(path); err != nil {
		t.Fatal(err)
	}
	return path
}

// value reads a metadata entry as the Go value that the writer stores alike.
func value(t *testing.T, f *gguf.File, key string) any {
	t.Helper()
	m, _ := f.Meta(key)
	var v any
	var err error
	switch {
	case m.Type == gguf.String:
		v, err = f.String(key)
	case m.Type == gguf.Bool:
		v, err = f.Bool(key)
	case m.Type == gguf.Float32:
		var x float64
		x, err = f.Float(key)
		v = float32(x)
	case m.Type == gguf.Uint32:
		var x uint64
		x, err = f.Uint(key)
		v = uint32(x)
	case m.Type == gguf.Array && m.Elem == gguf.String:
		v, err = f.Strings(key)
	case m.Type == gguf.Array && m.Elem == gguf.Int32:
		var list []int64
		list, err = f.Ints(key)
		short := make([]int32, len(list))
		for i, x := range list {
			short[i] = int32(x)
		}
		v = short
	default:
		t.Fatalf("metadata %s has the unexpected type %s", key, m.Type)
	}
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestExportEqualsPyTorch compares llama.cpp with PyTorch on the shipped
// weights, in float32: equal prompt tokens, equal greedy answers, logits within 1e-3.
func TestExportEqualsPyTorch(t *testing.T) {
	refs := references(t)
	if len(refs) < 50 {
		t.Fatalf("%d references, want at least 50", len(refs))
	}
	e := open(t, inFloat32(t), llamacpp.Options{KV: llamacpp.KVF32, Flash: llamacpp.FlashOff})
	s := newSpeaker(t, e, 0, 1)
	prompts := make([][]corpus.Message, len(refs))
	for i, r := range refs {
		prompts[i] = r.Messages
		if got := s.prompt(r.Messages); !slices.Equal(got, r.Prompt) {
			t.Errorf("prompt %d is encoded as %v, in training as %v", i, got, r.Prompt)
		}
	}
	for i, got := range s.answers(prompts) {
		if !slices.Equal(got, refs[i].Answer) {
			_, a := s.pieces(got)
			_, b := s.pieces(refs[i].Answer)
			t.Errorf("prompt %d: llama.cpp answers %q, PyTorch %q", i, a, b)
		}
	}
	compareLogits(t, s, refs)
}

// compareLogits compares the logits behind the prompts that have some.
func compareLogits(t *testing.T, s *speaker, refs []reference) {
	compared, worst := 0, 0.0
	for _, r := range refs {
		if r.Logits == nil {
			continue
		}
		compared++
		for i, got := range s.logits(r.Prompt) {
			want := math.Float32frombits(binary.LittleEndian.Uint32(r.Logits[4*i:]))
			worst = max(worst, math.Abs(float64(got-want)))
		}
	}
	t.Logf("largest difference of a logit over %d prompts: %.2g", compared, worst)
	if compared < 10 || worst > 1e-3 {
		t.Errorf("%d prompts compared, largest difference %v, want at least 10 and at most 1e-3", compared, worst)
	}
}
