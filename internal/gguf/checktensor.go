package gguf

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// want is what a tensor of a plain architecture must look like. A size of 0 is
// not known, because the key that gives it is absent or faulty.
type want struct {
	shape    []int64
	required bool
}

// tensors checks shapes and types against the sizes in the metadata.
func (c *checker) tensors() {
	if len(c.f.Tensors) == 0 {
		c.fault("tensor_count: is 0, want the weights of a model")
		return
	}
	for i := range c.f.Tensors {
		c.blockIndex(&c.f.Tensors[i])
	}
	c.tensor("token_embd.weight", want{[]int64{c.width, c.vocab}, true})
	c.tensor("output.weight", want{[]int64{c.width, c.vocab}, false})
	c.tensor("output_norm.weight", want{[]int64{c.width}, c.plain})
	if !c.plain || c.expertsThere() {
		return
	}
	for b := range c.blocks {
		wants := c.block(int(b))
		for _, suffix := range slices.Sorted(maps.Keys(wants)) {
			c.tensor(fmt.Sprintf("blk.%d.%s", b, suffix), wants[suffix])
		}
	}
}

func (c *checker) expertsThere() bool {
	n, err := c.f.Uint(c.arch + ".expert_count")
	return err == nil && n > 0
}

// blockIndex refuses tensors of blocks that do not exist.
func (c *checker) blockIndex(t *Tensor) {
	rest, ok := strings.CutPrefix(t.Name, "blk.")
	if !ok {
		return
	}
	index, _, _ := strings.Cut(rest, ".")
	n, err := strconv.ParseUint(index, 10, 32)
	if err != nil || c.blocks > 0 && int64(n) >= c.blocks {
		c.fault("tensor %q: block %q does not exist, block_count is %d", t.Name, index, c.blocks)
	}
}

// block lists the tensors of one block. Biases that llama.cpp loads when they
// are there are checked but not required.
func (c *checker) block(b int) map[string]want {
	at := func(list []int64) int64 {
		if b < len(list) {
			return list[b]
		}
		return 0
	}
	q, k, v := at(c.heads)*c.keyDim, at(c.kvHeads)*c.keyDim, at(c.kvHeads)*c.valueDim
	ff, w := at(c.ff), c.width
	_, fused := c.f.tensors[fmt.Sprintf("blk.%d.attn_qkv.weight", b)]
	normed := c.arch == "qwen3" || c.arch == "gemma3"
	post := c.arch == "gemma2" || c.arch == "gemma3"
	return map[string]want{
		"attn_norm.weight":           {[]int64{w}, true},
		"attn_q.weight":              {[]int64{w, q}, !fused},
		"attn_k.weight":              {[]int64{w, k}, !fused},
		"attn_v.weight":              {[]int64{w, v}, !fused},
		"attn_q.bias":                {[]int64{q}, false},
		"attn_k.bias":                {[]int64{k}, false},
		"attn_v.bias":                {[]int64{v}, false},
		"attn_output.weight":         {[]int64{q, w}, true},
		"attn_output.bias":           {[]int64{w}, false},
		"attn_q_norm.weight":         {[]int64{c.keyDim}, normed},
		"attn_k_norm.weight":         {[]int64{c.keyDim}, normed},
		"post_attention_norm.weight": {[]int64{w}, post},
		"ffn_norm.weight":            {[]int64{w}, true},
		"ffn_gate.weight":            {[]int64{w, ff}, true},
		"ffn_up.weight":              {[]int64{w, ff}, true},
		"ffn_down.weight":            {[]int64{ff, w}, true},
		"ffn_gate.bias":              {[]int64{ff}, false},
		"ffn_up.bias":                {[]int64{ff}, false},
		"ffn_down.bias":              {[]int64{w}, false},
		"post_ffw_norm.weight":       {[]int64{w}, post},
	}
}

func (c *checker) tensor(name string, w want) {
	i, ok := c.f.tensors[name]
	if !ok {
		if w.required {
			c.fault("tensor %q: %v", name, ErrMissing)
		}
		return
	}
	t := &c.f.Tensors[i]
	if !fits(t.Shape, w.shape) {
		c.fault("tensor %q: shape is %v, want %v", name, t.Shape, w.shape)
	}
	// ggml ends the process when an operation meets a type it cannot take.
	if len(w.shape) == 1 && t.Type != F32 {
		c.fault("tensor %q: type is %s, want F32 for a norm or bias", name, t.Type)
	}
	if len(w.shape) == 2 && notWeights[t.Type] {
		c.fault("tensor %q: type %s cannot hold weights", name, t.Type)
	}
}

// notWeights are the types of counters and of intermediate results.
var notWeights = map[TensorType]bool{Q8_1: true, Q8K: true, I8: true, I16: true, I32: true, I64: true, F64: true}

// fits compares shapes; sizes that are not known (0) fit anything and trailing
// ones do not count.
func fits(got, want []int64) bool {
	got = slices.Clone(got)
	for len(got) > len(want) && got[len(got)-1] == 1 {
		got = got[:len(got)-1]
	}
	if len(got) != len(want) {
		return false
	}
	for i := range want {
		if want[i] != 0 && got[i] != want[i] {
			return false
		}
	}
	return true
}
