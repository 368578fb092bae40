package randmodel

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/trimtab/trimtab/internal/gguf"
)

// pinned are the hashes of the presets' bytes. They change only when the
// generator is changed on purpose: other packages' golden values hang on them.
var pinned = map[string]string{
	"tiny":        "105708d37ef29a1f",
	"tiny-spm":    "4421293d131c9600",
	"tiny-qwen3":  "b61ab006b3b81a8a",
	"tiny-gemma3": "d72cfb2a16a3757b",
	"tiny q8_0":   "157faf0d7bf589f9",
	"tiny bf16":   "fc0f11901a40df94",
}

func specs(t testing.TB) map[string]Spec {
	t.Helper()
	out := map[string]Spec{}
	for _, name := range []string{"tiny", "tiny-spm", "tiny-qwen3", "tiny-gemma3"} {
		s, err := Preset(name)
		if err != nil {
			t.Fatal(err)
		}
		out[name] = s
	}
	for name, typ := range map[string]gguf.TensorType{"tiny q8_0": gguf.Q8_0, "tiny bf16": gguf.BF16} {
		s := out["tiny"]
		s.Type, s.Untied = typ, true
		out[name] = s
	}
	return out
}

func make1(t testing.TB, s Spec) []byte {
	t.Helper()
	var buf bytes.Buffer
	if err := WriteTo(&buf, s); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func parse(t testing.TB, data []byte) *gguf.File {
	t.Helper()
	f, err := gguf.Read(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestSameSeedSameBytes(t *testing.T) {
	for name, s := range specs(t) {
		data := make1(t, s)
		if got := fmt.Sprintf("%016x", xxhash.Sum64(data)); got != pinned[name] {
			t.Errorf("%q: hash %q, pinned is %q", name, got, pinned[name])
		}
		s.Seed++
		if bytes.Equal(data, make1(t, s)) {
			t.Errorf("%s: another seed gave the same bytes", name)
		}
	}
}

func TestModelsPassTheCheck(t *testing.T) {
	for name, s := range specs(t) {
		f := parse(t, make1(t, s))
		if err := gguf.CheckModel(f); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestWeights checks that the noise has the mean and deviation that the
// residual stream is planned with, in every storage type.
func TestWeights(t *testing.T) {
	for name, s := range specs(t) {
		f := parse(t, make1(t, s))
		w, err := f.ReadTensorF32("blk.0.ffn_gate.weight")
		if err != nil {
			t.Fatal(err)
		}
		var sum, squares float64
		for _, x := range w {
			sum += float64(x)
			squares += float64(x) * float64(x)
		}
		n := float64(len(w))
		std, want := math.Sqrt(squares/n), 1/math.Sqrt(float64(s.Width))
		// Uniform noise: the mean varies by std/sqrt(n), the deviation by less.
		if off := math.Abs(sum / n); off > 5*want/math.Sqrt(n) {
			t.Errorf("%s: mean %g", name, off)
		}
		if math.Abs(std/want-1) > 0.03 {
			t.Errorf("%s: deviation %g, want %g", name, std, want)
		}
	}
}

func TestEveryByteHasAToken(t *testing.T) {
	for name, s := range specs(t) {
		f := parse(t, make1(t, s))
		tokens, err := f.Strings("tokenizer.ggml.tokens")
		if err != nil {
			t.Fatal(err)
		}
		have := map[string]bool{}
		for _, text := range tokens {
			have[text] = true
		}
		for b := range 256 {
			text := fmt.Sprintf("<0x%02X>", b)
			if s.Tokenizer == BPE {
				text = string(byteRune(byte(b)))
			}
			if !have[text] {
				t.Errorf("%s: no token for byte %d", name, b)
			}
		}
		for _, text := range []string{tokenStart, tokenEnd} {
			if !have[text] {
				t.Errorf("%s: no token %s", name, text)
			}
		}
	}
}

// TestMergesBuildUp checks that each merge joins what is already a token.
func TestMergesBuildUp(t *testing.T) {
	v := byteLevel(4096)
	have := map[string]bool{}
	for _, text := range v.tokens[:256] {
		have[text] = true
	}
	for i, m := range v.merges {
		left, right, _ := strings.Cut(m, " ")
		if !have[left] || !have[right] || have[left+right] {
			t.Fatalf("merge %d, %q: parts known: %v, %v; result known: %v", i, m, have[left], have[right], have[left+right])
		}
		have[left+right] = true
	}
}

// TestBigPreset walks the header of the big model without making its weights.
func TestBigPreset(t *testing.T) {
	s, err := Preset("0.5b")
	if err != nil {
		t.Fatal(err)
	}
	head := &prefix{limit: 16 << 20}
	if err := WriteTo(head, s); !errors.Is(err, errEnough) {
		t.Fatal(err)
	}
	const size = 528329856
	f, err := gguf.Read(bytes.NewReader(append(head.data, make([]byte, 1<<10)...)), size)
	if err != nil {
		t.Fatal(err)
	}
	if err := gguf.CheckModel(f); err != nil {
		t.Error(err)
	}
	var n int64
	for i := range f.Tensors {
		n += f.Tensors[i].Elements()
	}
	if n < 0.3e9 {
		t.Errorf("%d weights, want 0.3e9 or more", n)
	}
}

var errEnough = errors.New("enough")

// prefix keeps the first bytes and then stops the writer.
type prefix struct {
	data  []byte
	limit int
}

func (p *prefix) Write(b []byte) (int, error) {
	if len(p.data)+len(b) > p.limit {
		return 0, errEnough
	}
	p.data = append(p.data, b...)
	return len(b), nil
}

func TestBadSpecs(t *testing.T) {
	for want, change := range map[string]func(*Spec){
		`arch "gpt"`:      func(s *Spec) { s.Arch = "gpt" },
		`tokenizer ""`:    func(s *Spec) { s.Tokenizer = "" },
		"layers 0":        func(s *Spec) { s.Layers = 0 },
		"layers 513":      func(s *Spec) { s.Layers = 513 },
		"width -1":        func(s *Spec) { s.Width = -1 },
		"kv heads 0":      func(s *Spec) { s.KVHeads = 0 },
		"3 kv heads":      func(s *Spec) { s.KVHeads = 3 },
		"head dim 15":     func(s *Spec) { s.HeadDim = 15 },
		"vocab 300":       func(s *Spec) { s.Vocab = 300 },
		"window 5":        func(s *Spec) { s.Window = 5 },
		"type Q4_0":       func(s *Spec) { s.Type = gguf.Q4_0 },
		"multiple of 32":  func(s *Spec) { s.Type, s.FF = gguf.Q8_0, 33 },
		"width 100000000": func(s *Spec) { s.Width = 100000000 },
	} {
		s, err := Preset("tiny")
		if err != nil {
			t.Fatal(err)
		}
		change(&s)
		if err := WriteTo(io.Discard, s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	err := WriteTo(io.Discard, Spec{})
	if err == nil || strings.Count(err.Error(), "\n") < 5 {
		t.Errorf("faults of an empty spec: %v", err)
	}
	if _, err := Preset("huge"); err == nil {
		t.Error("preset huge exists")
	}
}

var keep = flag.String("keep", "", "a folder to write every model to, for a look with other tools")

func TestWrite(t *testing.T) {
	dir := *keep
	if dir == "" {
		dir = t.TempDir()
	}
	for name, s := range specs(t) {
		path := filepath.Join(dir, strings.ReplaceAll(name, " ", "-")+".gguf")
		if err := Write(path, s); err != nil {
			t.Fatal(err)
		}
		if data, err := os.ReadFile(path); err != nil || !bytes.Equal(data, make1(t, s)) {
			t.Errorf("%s: file differs from the stream (%v)", name, err)
		}
	}
}

func BenchmarkTiny(b *testing.B) { benchmark(b, "tiny") }
func BenchmarkBig(b *testing.B)  { benchmark(b, "0.5b") }

func benchmark(b *testing.B, name string) {
	s, err := Preset(name)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if err := WriteTo(io.Discard, s); err != nil {
			b.Fatal(err)
		}
	}
}
