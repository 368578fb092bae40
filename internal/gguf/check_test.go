package gguf

import (
	"fmt"
	"math"
	"strings"
	"testing"
)

// shape of the little model that the tests damage.
const (
	tWidth, tHeads, tKV, tDim, tFF, tVocab = 8, 2, 1, 4, 16, 8
)

// modelWriter is the smallest model that passes CheckModel: one llama block.
func modelWriter() *Writer {
	w := NewWriter()
	w.Set(keyArchitecture, "llama")
	w.Set("llama.block_count", uint32(1))
	w.Set("llama.embedding_length", uint32(tWidth))
	w.Set("llama.context_length", uint32(64))
	w.Set("llama.feed_forward_length", uint32(tFF))
	w.Set("llama.attention.head_count", uint32(tHeads))
	w.Set("llama.attention.head_count_kv", uint32(tKV))
	w.Set("llama.attention.layer_norm_rms_epsilon", float32(1e-5))
	w.Set("tokenizer.ggml.model", "gpt2")
	w.Set("tokenizer.ggml.tokens", []string{"a", "b", "ab", "", "c", "d", "e", "<end>"})
	w.Set("tokenizer.ggml.token_type", []int32{1, 1, 1, 1, 1, 1, 1, 3})
	w.Set("tokenizer.ggml.merges", []string{"a b"})
	w.Set("tokenizer.ggml.eos_token_id", uint32(7))
	zeros := func(name string, shape ...int64) {
		n := int64(1)
		for _, d := range shape {
			n *= d
		}
		w.AddF32(name, F32, shape, make([]float32, n))
	}
	zeros("token_embd.weight", tWidth, tVocab)
	zeros("output_norm.weight", tWidth)
	zeros("blk.0.attn_norm.weight", tWidth)
	zeros("blk.0.attn_q.weight", tWidth, tHeads*tDim)
	zeros("blk.0.attn_k.weight", tWidth, tKV*tDim)
	zeros("blk.0.attn_v.weight", tWidth, tKV*tDim)
	zeros("blk.0.attn_output.weight", tHeads*tDim, tWidth)
	zeros("blk.0.ffn_norm.weight", tWidth)
	zeros("blk.0.ffn_gate.weight", tWidth, tFF)
	zeros("blk.0.ffn_up.weight", tWidth, tFF)
	zeros("blk.0.ffn_down.weight", tFF, tWidth)
	return w
}

func (w *Writer) drop(key string) {
	i := w.byKey[key]
	w.entries = append(w.entries[:i:i], w.entries[i+1:]...)
	w.byKey = map[string]int{}
	for i, e := range w.entries {
		w.byKey[e.key] = i
	}
}

func (w *Writer) dropTensor(name string) {
	for i := range w.tensors {
		if w.tensors[i].Name == name {
			w.tensors = append(w.tensors[:i:i], w.tensors[i+1:]...)
			delete(w.byName, name)
			return
		}
	}
}

// set, unset, swap and their like are one damage each.
type damage func(*Writer)

func set(key string, v any) damage { return func(w *Writer) { w.Set(key, v) } }
func unset(key string) damage      { return func(w *Writer) { w.drop(key) } }
func without(name string) damage   { return func(w *Writer) { w.dropTensor(name) } }
func swap(name string, typ TensorType, shape ...int64) damage {
	return func(w *Writer) {
		w.dropTensor(name)
		size, _ := dataSize(typ, shape)
		w.AddBytes(name, typ, shape, make([]byte, size))
	}
}

func TestCheckModel(t *testing.T) {
	nan := float32(math.NaN())
	for _, c := range []struct {
		name string
		do   damage
		want string // "" for a model that must pass
	}{
		{"as it is", func(*Writer) {}, ""},
		{"no architecture", unset(keyArchitecture), "general.architecture: not in the file, want a string"},
		{"architecture a number", set(keyArchitecture, uint32(1)), "general.architecture: is u32, want a string"},
		{"architecture odd", set(keyArchitecture, "llama\x00"), "general.architecture:"},
		{"architecture long", set(keyArchitecture, strings.Repeat("a", 65)), "general.architecture: is 65 bytes long"},
		{"control vector", set(keyArchitecture, "controlvector"), "is not a language model"},
		{"adapter", set("general.type", "adapter"), "general.type:"},
		{"split", set("split.count", uint16(2)), "split.count: the model is split over 2 files"},
		{"one split", set("split.count", uint16(1)), ""},
		{"no blocks key", unset("llama.block_count"), "llama.block_count: not in the file"},
		{"0 blocks", set("llama.block_count", uint32(0)), "llama.block_count: 0 is not in 1..512"},
		{"513 blocks", set("llama.block_count", uint32(513)), "llama.block_count: 513 is not in 1..512"},
		{"blocks u64", set("llama.block_count", uint64(1)), "llama.block_count: is u64, want u32"},
		{"blocks string", set("llama.block_count", "1"), "llama.block_count: is string, want u32"},
		{"2 blocks, tensors of 1", set("llama.block_count", uint32(2)), `tensor "blk.1.attn_norm.weight": not in the file`},
		{"width 0", set("llama.embedding_length", uint32(0)), "llama.embedding_length: 0 is not in"},
		{"no width", unset("llama.embedding_length"), "llama.embedding_length: not in the file"},
		{"other width", set("llama.embedding_length", uint32(16)), `tensor "token_embd.weight": shape is [8 8], want [16 8]`},
		{"no context", unset("llama.context_length"), "llama.context_length: not in the file"},
		{"context 0", set("llama.context_length", uint32(0)), "llama.context_length: 0 is not in"},
		{"context 2^32-1", set("llama.context_length", uint32(math.MaxUint32)), "llama.context_length: 4294967295 is not in"},
		{"no heads", unset("llama.attention.head_count"), "llama.attention.head_count: not in the file"},
		{"0 heads", set("llama.attention.head_count", uint32(0)), "llama.attention.head_count: 0 is not in"},
		{"3 heads", set("llama.attention.head_count", uint32(3)), "3 heads do not divide embedding_length 8"},
		{"0 kv heads", set("llama.attention.head_count_kv", uint32(0)), "llama.attention.head_count_kv: 0 is not in"},
		{"kv heads do not divide", set("llama.attention.head_count_kv", uint32(3)), "llama.attention.head_count_kv: 3 does not divide the 2 heads"},
		{"kv heads per block", set("llama.attention.head_count_kv", []int32{1}), ""},
		{"kv heads for two blocks", set("llama.attention.head_count_kv", []int32{1, 1}), "llama.attention.head_count_kv: is array of i32 of length 2"},
		{"kv heads negative", set("llama.attention.head_count_kv", []int32{-1}), "llama.attention.head_count_kv: element 0: -1"},
		{"no ff", unset("llama.feed_forward_length"), "llama.feed_forward_length: not in the file"},
		{"other ff", set("llama.feed_forward_length", uint32(32)), `tensor "blk.0.ffn_gate.weight": shape is [8 16], want [8 32]`},
		{"no epsilon", unset("llama.attention.layer_norm_rms_epsilon"), "layer_norm_rms_epsilon: not in the file"},
		{"epsilon negative", set("llama.attention.layer_norm_rms_epsilon", float32(-1)), "layer_norm_rms_epsilon: -1 is not in"},
		{"epsilon NaN", set("llama.attention.layer_norm_rms_epsilon", nan), "layer_norm_rms_epsilon: NaN is not in"},
		{"epsilon f64", set("llama.attention.layer_norm_rms_epsilon", 1e-5), "layer_norm_rms_epsilon: is f64, want f32"},
		{"rope base 0", set("llama.rope.freq_base", float32(0)), "llama.rope.freq_base: 0 is not in"},
		{"rope base Inf", set("llama.rope.freq_base", float32(math.Inf(1))), "llama.rope.freq_base: +Inf is not in"},
		{"rope scaling unknown", set("llama.rope.scaling.type", "cubic"), `llama.rope.scaling.type: "cubic"`},
		{"rope dimensions odd", set("llama.rope.dimension_count", uint32(3)), "llama.rope.dimension_count: 3 is odd"},
		{"rope sections 0", set("llama.rope.dimension_sections", []int32{0, 0, 0, 4}), "llama.rope.dimension_sections: none of the first three"},
		{"rope sections", set("llama.rope.dimension_sections", []int32{1, 1, 0, 0}), ""},
		{"sections missing", set(keyArchitecture, "paddleocr"), "paddleocr.rope.dimension_sections"},
		{"experts missing", set(keyArchitecture, "smallthinker"), "smallthinker.expert_count: is missing or 0"},
		{"rope dimensions 0", set("llama.rope.dimension_count", uint32(0)), "llama.rope.dimension_count: 0 is not the head width 4"},
		{"rope dimensions other", set("llama.rope.dimension_count", uint32(2)), "llama.rope.dimension_count: 2 is not the head width 4"},
		{"key length other", set("llama.attention.key_length", uint32(8)), "llama.attention.value_length: 4 is not key_length 8"},
		{"nextn", set("llama.nextn_predict_layers", uint32(2)), "llama.nextn_predict_layers: 2 is not in 0..1"},
		{"experts 2000", set("llama.expert_count", uint32(2000)), "llama.expert_count: 2000 is not in"},
		{"experts unused", set("llama.expert_count", uint32(4)), "llama.expert_used_count: is missing"},
		{"experts used but none", set("llama.expert_used_count", uint32(2)), "llama.expert_used_count: 2 is not in"},
		{"expert groups", set("llama.expert_group_count", uint32(2)), "llama.expert_group_count: 2 is not below"},
		{"no tokenizer model", unset("tokenizer.ggml.model"), "tokenizer.ggml.model: not in the file"},
		{"tokenizer unknown", set("tokenizer.ggml.model", "mystery"), `tokenizer.ggml.model: "mystery" is not a known tokenizer`},
		{"no tokens", unset("tokenizer.ggml.tokens"), "tokenizer.ggml.tokens: not in the file"},
		{"tokens are numbers", set("tokenizer.ggml.tokens", []int32{1}), "tokenizer.ggml.tokens: is array of i32, want an array of string"},
		{"tokens empty", set("tokenizer.ggml.tokens", []string{}), "tokenizer.ggml.tokens: length 0"},
		{"no token types", unset("tokenizer.ggml.token_type"), "tokenizer.ggml.token_type: not in the file"},
		{"token types short", set("tokenizer.ggml.token_type", []int32{1}), "tokenizer.ggml.token_type: length 1 is not that of tokens, 8"},
		{"token types u32", set("tokenizer.ggml.token_type", make([]uint32, 8)), "tokenizer.ggml.token_type: is array of u32"},
		{"scores short", set("tokenizer.ggml.scores", []float32{1}), "tokenizer.ggml.scores: length 1 is not that of tokens, 8"},
		{"no merges", unset("tokenizer.ggml.merges"), "tokenizer.ggml.merges: not in the file"},
		{"merge of one", set("tokenizer.ggml.merges", []string{"a b", "ab"}), "tokenizer.ggml.merges: element 1:"},
		{"token twice", set("tokenizer.ggml.tokens", []string{"a", "b", "ab", "", "c", "d", "e", "a"}), `token 7: "a" is there twice`},
		{"token twice as C reads it", set("tokenizer.ggml.tokens", []string{"a", "b", "ab", "", "c", "d", "e", "a\x00x"}), `token 7: "a\x00x" is there twice`},
		{"stand-in for an empty token", set("tokenizer.ggml.tokens", []string{"a", "b", "ab", "", "c", "d", "e", "[EMPTY_3]"}), `"[EMPTY_3]" is there twice`},
		{"token not UTF-8", set("tokenizer.ggml.tokens", []string{"a", "b", "ab", "", "c", "d", "\xff", "<end>"}), "token 6: \"\\xff\" is not valid UTF-8"},
		{"byte token", set("tokenizer.ggml.token_type", []int32{6, 1, 1, 1, 1, 1, 1, 3}), `token 0: "a" is of type byte`},
		{"eos out of range", set("tokenizer.ggml.eos_token_id", uint32(8)), "tokenizer.ggml.eos_token_id: token 8 is not in the vocabulary of 8"},
		{"eos i32", set("tokenizer.ggml.eos_token_id", int32(1)), "tokenizer.ggml.eos_token_id: is i32, want u32"},
		{"bos added but none", set("tokenizer.ggml.add_bos_token", true), "tokenizer.ggml.bos_token_id: is missing"},
		{"add bos a number", set("tokenizer.ggml.add_bos_token", uint32(1)), "tokenizer.ggml.add_bos_token: is u32, want a bool"},
		{"pieces without bytes", func(w *Writer) {
			w.Set("tokenizer.ggml.model", "llama")
			w.Set("tokenizer.ggml.scores", make([]float32, 8))
		}, "tokenizer.ggml.tokens: no token for byte <0x00>"},
		{"pieces without scores", set("tokenizer.ggml.model", "llama"), "tokenizer.ggml.scores: not in the file"},
		{"no embedding", without("token_embd.weight"), `tensor "token_embd.weight": not in the file`},
		{"embedding too few rows", swap("token_embd.weight", F32, 8, 7), `tensor "token_embd.weight": shape is [8 7], want [8 8]`},
		{"embedding of counters", swap("token_embd.weight", I32, 8, 8), `tensor "token_embd.weight": type I32 cannot hold weights`},
		{"norm in F16", swap("output_norm.weight", F16, 8), `tensor "output_norm.weight": type is F16, want F32`},
		{"norm as matrix", swap("output_norm.weight", F32, 8, 2), `tensor "output_norm.weight": shape is [8 2], want [8]`},
		{"norm with ones", swap("output_norm.weight", F32, 8, 1), ""},
		{"no query", without("blk.0.attn_q.weight"), `tensor "blk.0.attn_q.weight": not in the file`},
		{"key transposed", swap("blk.0.attn_k.weight", F32, 4, 8), `tensor "blk.0.attn_k.weight": shape is [4 8], want [8 4]`},
		{"bias", swap("blk.0.ffn_down.bias", F32, 8), ""},
		{"bias too wide", swap("blk.0.ffn_down.bias", F32, 9), `tensor "blk.0.ffn_down.bias": shape is [9], want [8]`},
		{"block that does not exist", swap("blk.1.attn_norm.weight", F32, 8), `tensor "blk.1.attn_norm.weight": block "1" does not exist`},
		{"block without number", swap("blk.x.y", F32, 8), `tensor "blk.x.y": block "x" does not exist`},
		{"qwen3 needs its norms", func(w *Writer) { rename(w, "qwen3") }, `tensor "blk.0.attn_q_norm.weight": not in the file`},
		{"other architectures", func(w *Writer) { rename(w, "starcoder2") }, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := modelWriter()
			c.do(w)
			f, err := parse(bytesOf(t, w))
			if err != nil {
				t.Fatal(err)
			}
			if c.want != "" {
				refused(t, c.want, func() error { return CheckModel(f) })
			} else if err := CheckModel(f); err != nil {
				t.Errorf("refused: %v", err)
			}
		})
	}
}

// rename gives the model another architecture.
func rename(w *Writer, arch string) {
	for i, e := range w.entries {
		if rest, ok := strings.CutPrefix(e.key, "llama."); ok {
			w.entries[i].key = arch + "." + rest
		}
	}
	w.byKey = map[string]int{}
	for i, e := range w.entries {
		w.byKey[e.key] = i
	}
	w.Set(keyArchitecture, arch)
}

func TestCheckModelReportsAll(t *testing.T) {
	w := modelWriter()
	w.Set("llama.block_count", uint32(0))
	w.Set("llama.context_length", uint32(0))
	w.drop("tokenizer.ggml.merges")
	w.dropTensor("token_embd.weight")
	f, err := parse(bytesOf(t, w))
	if err != nil {
		t.Fatal(err)
	}
	err = CheckModel(f)
	for _, want := range []string{"block_count", "context_length", "merges", "token_embd"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s is missing in: %v", want, err)
		}
	}
}

func TestCheckModelBoundsItsReport(t *testing.T) {
	w := modelWriter()
	for i := range 100 {
		w.AddF32(fmt.Sprintf("blk.%d.x", i+1), F32, []int64{1}, []float32{0})
	}
	f, err := parse(bytesOf(t, w))
	if err != nil {
		t.Fatal(err)
	}
	if err := CheckModel(f); err == nil || !strings.Contains(err.Error(), "and 68 more faults") {
		t.Errorf("report: %v", err)
	}
}
