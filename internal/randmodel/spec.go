// Package randmodel writes GGUF model files with random weights, so that tests
// and benchmarks run the real engine on a real architecture without a download.
//
// A [Spec] is the shape of a model; [Preset] has ready ones and [Write] makes
// the file. The weights are noise, scaled so that activations stay finite, no
// token dominates and greedy continuations wander; the tokenizer is a valid one
// that covers every byte. The same spec gives the same bytes on every platform.
package randmodel

import (
	"errors"
	"fmt"

	"github.com/trimtab/trimtab/internal/gguf"
)

// Architectures that Write can make.
const (
	Llama  = "llama"
	Qwen3  = "qwen3"
	Gemma3 = "gemma3"
)

// Tokenizers that Write can make.
const (
	BPE = "bpe" // byte-level pairs, as in Qwen and Llama 3
	SPM = "spm" // scored pieces with byte fallback, as in Llama 2 and Gemma
)

// Spec is the shape of a random model. Every number counts what its name says;
// widths are in values.
type Spec struct {
	Arch      string
	Tokenizer string
	Layers    int // 1..512
	Width     int // residual width
	FF        int // feed-forward width
	Heads     int // query heads
	KVHeads   int // key and value heads; divides Heads
	HeadDim   int // width of one head; even
	Vocab     int // at least MinVocab
	Context   int // declared context length in tokens
	Window    int // gemma3 only: sliding window in tokens, 0 for none

	Untied bool            // a separate output matrix instead of the embedding
	Type   gguf.TensorType // of the matrices: F32, F16, BF16 or Q8_0
	Seed   uint64
}

// MinVocab has room for all bytes, the control tokens and some words.
const MinVocab = 384

// maxMerges bounds the word pieces of a large vocabulary; the rest is filled
// with words that text never tokenises to. A load costs about a microsecond
// per merge.
const maxMerges = 20000

// Preset returns a ready spec, with Seed 1:
//
//	tiny         llama, 4 layers, width 64, 512 tokens, F32: made in milliseconds
//	tiny-spm     the same with the SPM tokenizer
//	tiny-qwen3   5 layers, width 128, F16, heads wider than the residual
//	tiny-gemma3  6 layers (5 of them windowed), width 96, SPM tokenizer
//	0.5b         qwen3 in the size of Qwen2.5-0.5B: 494 M weights, Q8_0, 525 MB
//	0.3b         the same with half the layers: 315 M weights, Q8_0, 335 MB
func Preset(name string) (Spec, error) {
	tiny := Spec{Arch: Llama, Tokenizer: BPE, Layers: 4, Width: 64, FF: 192, Heads: 4, KVHeads: 2,
		HeadDim: 16, Vocab: 512, Context: 2048, Type: gguf.F32, Seed: 1}
	switch name {
	case "tiny":
		return tiny, nil
	case "tiny-spm":
		tiny.Tokenizer = SPM
		return tiny, nil
	case "tiny-qwen3":
		return Spec{Arch: Qwen3, Tokenizer: BPE, Layers: 5, Width: 128, FF: 256, Heads: 8, KVHeads: 2,
			HeadDim: 32, Vocab: 512, Context: 2048, Type: gguf.F16, Seed: 1}, nil
	case "tiny-gemma3":
		return Spec{Arch: Gemma3, Tokenizer: SPM, Layers: 6, Width: 96, FF: 192, Heads: 4, KVHeads: 1,
			HeadDim: 32, Vocab: 512, Context: 2048, Window: 64, Type: gguf.F32, Seed: 1}, nil
	case "0.5b", "0.3b":
		layers := map[string]int{"0.5b": 24, "0.3b": 12}
		return Spec{Arch: Qwen3, Tokenizer: BPE, Layers: layers[name], Width: 896, FF: 4864, Heads: 14, KVHeads: 2,
			HeadDim: 64, Vocab: 151936, Context: 32768, Type: gguf.Q8_0, Seed: 1}, nil
	}
	return Spec{}, fmt.Errorf("randmodel: no preset %q; there are tiny, tiny-spm, tiny-qwen3, tiny-gemma3, 0.5b and 0.3b", name)
}

// check reports every fault of the spec at once.
func (s *Spec) check() error {
	var faults []error
	want := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	want(s.Arch == Llama || s.Arch == Qwen3 || s.Arch == Gemma3, "arch %q is not llama, qwen3 or gemma3", s.Arch)
	want(s.Tokenizer == BPE || s.Tokenizer == SPM, "tokenizer %q is not bpe or spm", s.Tokenizer)
	want(s.Layers >= 1 && s.Layers <= gguf.MaxLayers, "layers %d is not in 1..%d", s.Layers, gguf.MaxLayers)
	for _, f := range []struct {
		name string
		n    int
	}{{"width", s.Width}, {"ff", s.FF}, {"heads", s.Heads}, {"kv heads", s.KVHeads}, {"head dim", s.HeadDim}, {"context", s.Context}} {
		want(f.n >= 1 && f.n <= 1<<24, "%s %d is not in 1..2^24", f.name, f.n)
	}
	want(s.KVHeads < 1 || s.Heads%s.KVHeads == 0, "%d kv heads do not divide %d heads", s.KVHeads, s.Heads)
	want(s.HeadDim%2 == 0, "head dim %d is odd", s.HeadDim)
	want(s.Vocab >= MinVocab && s.Vocab <= 1<<20, "vocab %d is not in %d..2^20", s.Vocab, MinVocab)
	want(s.Window >= 0 && (s.Window == 0 || s.Arch == Gemma3), "window %d: only gemma3 has one", s.Window)
	faults = append(faults, s.checkType()...)
	if len(faults) == 0 {
		return nil
	}
	return fmt.Errorf("randmodel: %w", errors.Join(faults...))
}

func (s *Spec) checkType() (faults []error) {
	switch s.Type {
	case gguf.F32, gguf.F16, gguf.BF16, gguf.Q8_0:
	default:
		return []error{fmt.Errorf("type %s is not F32, F16, BF16 or Q8_0", s.Type)}
	}
	for _, n := range []int{s.Width, s.FF, s.Heads * s.HeadDim} {
		if _, err := s.Type.RowSize(int64(n)); err != nil {
			faults = append(faults, err)
		}
	}
	return faults
}
