package gguf

import (
	"errors"
	"fmt"
	"math"
	"strings"
)

// Bounds of a model's shape, beyond which llama.cpp v0.5.0 ends the process or
// no real model goes.
const (
	maxWidth   = 1 << 20 // residual and feed-forward widths; the widest in use is 2^17
	maxContext = 1 << 30 // positions are 32-bit signed
	maxHeads   = 1 << 14
	maxExperts = 1024 // LLAMA_MAX_EXPERTS in llama-hparams.h
	maxFaults  = 32   // reported at once; one broken number can spoil every tensor
)

// plain are the architectures whose tensors and sizes are checked in full: a
// stack of equal attention and feed-forward blocks. Others have the shared keys,
// the tokenizer and the embedding checked.
var plain = map[string]bool{"llama": true, "qwen2": true, "qwen3": true, "gemma": true, "gemma2": true, "gemma3": true}

// CheckModel says whether f is a language model that can be given to
// llama.cpp: architecture, sizes, tokenizer, and tensors that fit each other.
// All faults are reported at once, each with its field. The data of tensors is
// not looked at. A model split over several files is refused, since only the
// first of them was checked.
func CheckModel(f *File) error {
	c := &checker{f: f}
	c.model()
	if len(c.faults) == 0 {
		return nil
	}
	if extra := len(c.faults) - maxFaults; extra > 0 {
		c.faults = append(c.faults[:maxFaults:maxFaults], fmt.Errorf("and %d more faults", extra))
	}
	return fmt.Errorf("gguf: not a usable model: %w", errors.Join(c.faults...))
}

type checker struct {
	f      *File
	arch   string
	plain  bool
	faults []error

	blocks, width, vocab int64
	heads, kvHeads, ff   []int64 // one per block; nil when absent or faulty
	keyDim, valueDim     int64
}

func (c *checker) fault(format string, args ...any) {
	if len(c.faults) < maxFaults*100 { // no more than it takes to count them roughly
		c.faults = append(c.faults, fmt.Errorf(format, args...))
	}
}

func (c *checker) add(err error) {
	if err != nil {
		c.faults = append(c.faults, errors.New(strings.TrimPrefix(err.Error(), "gguf: ")))
	}
}

func (c *checker) model() {
	if !c.architecture() {
		return // every other key starts with the architecture
	}
	c.sizes()
	c.experts()
	c.rope()
	c.tokenizer()
	c.tensors()
}

func (c *checker) architecture() bool {
	v, ok := c.f.meta[keyArchitecture]
	if ok && v.Type == String && v.size > 8+64 {
		c.fault("%s: is %d bytes long, want at most 64", keyArchitecture, v.size-8)
		return false
	}
	arch, err := c.f.String(keyArchitecture)
	if err != nil {
		c.add(err)
		return false
	}
	if arch == "" || strings.Trim(arch, "abcdefghijklmnopqrstuvwxyz0123456789-_.") != "" {
		c.fault("%s: %q is not the name of an architecture", keyArchitecture, arch)
		return false
	}
	if arch == "controlvector" || arch == "clip" {
		c.fault("%s: %q is not a language model", keyArchitecture, arch)
		return false
	}
	c.arch, c.plain = arch, plain[arch]
	c.kind()
	return true
}

func (c *checker) kind() {
	if v, ok := c.f.meta["general.type"]; ok && v.Type == String && v.size < 64 {
		if s, err := c.f.String("general.type"); err == nil && s != "model" {
			c.fault("general.type: %q is not a language model", s)
		}
	}
	if _, ok := c.f.meta["split.count"]; ok {
		if n, err := c.f.Uint("split.count"); err != nil {
			c.add(err)
		} else if n > 1 {
			c.fault("split.count: the model is split over %d files; merge them into one", n)
		}
	}
}

// number reads an optional or required u32 and checks its range. It returns 0
// when the key is absent or faulty.
func (c *checker) number(key string, required bool, lo, hi int64) int64 {
	key = c.arch + "." + key
	v, ok := c.f.meta[key]
	if !ok && !required {
		return 0
	}
	if ok && v.Type != Uint32 {
		c.fault("%s: is %s, want u32", key, v.describe())
		return 0
	}
	n, err := c.f.Int(key)
	if err != nil {
		c.add(err)
		return 0
	}
	if n < lo || n > hi {
		c.fault("%s: %d is not in %d..%d", key, n, lo, hi)
		return 0
	}
	return n
}

// perBlock reads a u32, or an array with one integer per block.
func (c *checker) perBlock(key string, required bool, lo, hi int64) []int64 {
	full := c.arch + "." + key
	v, ok := c.f.meta[full]
	if !ok && !required {
		return nil
	}
	if v.Type != Array {
		n := c.number(key, required, lo, hi)
		if n == 0 && lo > 0 || c.blocks == 0 {
			return nil
		}
		return repeat(n, c.blocks)
	}
	if int64(v.Len) != c.blocks || v.Elem != Uint32 && v.Elem != Int32 {
		c.fault("%s: is %s of length %d, want one u32 for each of %d blocks", full, v.describe(), v.Len, c.blocks)
		return nil
	}
	list, err := c.f.Ints(full)
	if err != nil {
		c.add(err)
		return nil
	}
	for i, n := range list {
		// Hybrid architectures mark blocks without attention by 0.
		if n < lo && (c.plain || n != 0) || n > hi {
			c.fault("%s: element %d: %d is not in %d..%d", full, i, n, lo, hi)
			return nil
		}
	}
	return list
}

func repeat(n, times int64) []int64 {
	out := make([]int64, times)
	for i := range out {
		out[i] = n
	}
	return out
}

func (c *checker) sizes() {
	c.blocks = c.number("block_count", true, 1, MaxLayers)
	c.width = c.number("embedding_length", true, 1, maxWidth)
	c.number("context_length", true, 1, maxContext)
	if c.blocks > 0 {
		c.number("nextn_predict_layers", false, 0, c.blocks)
	}
	c.heads = c.perBlock("attention.head_count", c.plain, 1, maxHeads)
	c.kvHeads = c.perBlock("attention.head_count_kv", false, 1, maxHeads)
	if _, given := c.f.meta[c.arch+".attention.head_count_kv"]; !given {
		c.kvHeads = c.heads
	}
	c.ff = c.perBlock("feed_forward_length", c.plain, 1, maxWidth)
	for i := range min(len(c.heads), len(c.kvHeads)) {
		if c.kvHeads[i] > 0 && c.heads[i]%c.kvHeads[i] != 0 {
			c.fault("%s.attention.head_count_kv: %d does not divide the %d heads of block %d", c.arch, c.kvHeads[i], c.heads[i], i)
			break
		}
	}
	c.keyDim = c.headDim("attention.key_length")
	c.valueDim = c.headDim("attention.value_length")
	c.number("attention.sliding_window", false, 0, math.MaxInt32)
	c.real("attention.layer_norm_rms_epsilon", c.plain, 0, 1)
	c.real("attention.layer_norm_epsilon", false, 0, 1)
}

// headDim is the width of one head: given, or the residual split evenly.
func (c *checker) headDim(key string) int64 {
	if _, given := c.f.meta[c.arch+"."+key]; given {
		return c.number(key, false, 1, maxWidth)
	}
	if len(c.heads) == 0 || c.heads[0] == 0 || c.width == 0 {
		return 0
	}
	if c.plain && c.width%c.heads[0] != 0 {
		c.fault("%s.%s: is missing and %d heads do not divide embedding_length %d", c.arch, key, c.heads[0], c.width)
		return 0
	}
	return c.width / c.heads[0]
}

// experts repeats the conditions that llama.cpp asserts.
func (c *checker) experts() {
	n := c.number("expert_count", false, 0, maxExperts)
	used := c.perBlock("expert_used_count", false, 0, maxExperts)
	for _, u := range used {
		if u > n || n > 0 && u == 0 {
			c.fault("%s.expert_used_count: %d is not in 1..expert_count %d", c.arch, u, n)
			break
		}
	}
	if n > 0 && len(used) == 0 {
		c.fault("%s.expert_used_count: is missing, but expert_count is %d", c.arch, n)
	}
	if n == 0 && c.arch == "smallthinker" { // asserted while the file is loaded
		c.fault("%s.expert_count: is missing or 0, the architecture is made of experts", c.arch)
	}
	groups := c.number("expert_group_count", false, 0, maxExperts)
	inUse := c.number("expert_group_used_count", false, 0, maxExperts)
	if groups > 0 && groups >= n {
		c.fault("%s.expert_group_count: %d is not below expert_count %d", c.arch, groups, n)
	} else if groups > 1 && (n%groups != 0 || inUse < 1 || inUse >= groups) {
		c.fault("%s.expert_group_count: %d groups, %d of them used, do not fit %d experts", c.arch, groups, inUse, n)
	}
}

func (c *checker) rope() {
	rot := c.number("rope.dimension_count", false, 0, maxWidth)
	if rot%2 != 0 {
		c.fault("%s.rope.dimension_count: %d is odd", c.arch, rot)
	}
	_, given := c.f.meta[c.arch+".rope.dimension_count"]
	if c.plain && c.keyDim > 0 {
		if given && rot != c.keyDim { // 0 too: llama.cpp asserts on it or never returns
			c.fault("%s.rope.dimension_count: %d is not the head width %d", c.arch, rot, c.keyDim)
		}
		if c.keyDim != c.valueDim && c.valueDim > 0 {
			c.fault("%s.attention.value_length: %d is not key_length %d", c.arch, c.valueDim, c.keyDim)
		}
		if c.keyDim%2 != 0 {
			c.fault("%s.attention.key_length: %d is odd", c.arch, c.keyDim)
		}
	}
	c.sections()
	c.real("rope.freq_base", false, math.SmallestNonzeroFloat32, math.MaxFloat32)
	c.real("rope.freq_base_swa", false, math.SmallestNonzeroFloat32, math.MaxFloat32)
	c.real("rope.scaling.factor", false, 0, math.MaxFloat32)
	c.real("rope.scale_linear", false, 0, math.MaxFloat32)
	c.real("rope.scaling.attn_factor", false, 0, math.MaxFloat32)
	key := c.arch + ".rope.scaling.type"
	if v, ok := c.f.meta[key]; ok {
		s := ""
		if v.size < 64 {
			s, _ = c.f.String(key)
		}
		if s != "none" && s != "linear" && s != "yarn" && s != "longrope" {
			c.fault("%s: %q is not none, linear, yarn or longrope", key, s)
		}
	}
}

// real checks an f32; NaN fails every comparison and so the range.
func (c *checker) real(key string, required bool, lo, hi float64) {
	key = c.arch + "." + key
	v, ok := c.f.meta[key]
	if !ok && !required {
		return
	}
	if ok && v.Type != Float32 {
		c.fault("%s: is %s, want f32", key, v.describe())
		return
	}
	x, err := c.f.Float(key)
	if err != nil {
		c.add(err)
	} else if !(x >= lo && x <= hi) {
		c.fault("%s: %v is not in %g..%g", key, x, lo, hi)
	}
}

// sections checks how positions of several axes share a head: ggml asserts that
// one of the first three has a part. paddleocr is loaded without the key.
func (c *checker) sections() {
	key := c.arch + ".rope.dimension_sections"
	_, given := c.f.meta[key]
	if !given && c.arch != "paddleocr" {
		return
	}
	list, err := c.f.Ints(key)
	if err != nil {
		c.add(err)
		return
	}
	for _, n := range list[:min(len(list), 3)] {
		if n > 0 {
			return
		}
	}
	c.fault("%s: none of the first three of %v is positive", key, list)
}
