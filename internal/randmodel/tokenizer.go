package randmodel

import (
	"fmt"
	"strings"

	"github.com/trimtab/trimtab/internal/gguf"
)

// Token types, with llama.cpp's numbers (enum llama_token_type in llama.h).
const (
	typeNormal  = 1
	typeUnknown = 2
	typeControl = 3
	typeByte    = 6
)

const (
	tokenStart = "<|im_start|>"
	tokenEnd   = "<|im_end|>"
	tokenText  = "<|endoftext|>"
)

// chatTemplate is ChatML: each message between start and end tokens, its role
// on the first line.
const chatTemplate = `{% for message in messages %}` +
	`{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}` +
	`{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}`

// vocabulary is what a tokenizer puts into the file.
type vocabulary struct {
	tokens []string
	types  []int32
	scores []float32 // SPM only
	merges []string  // BPE only
	quiet  []bool    // tokens that should rarely be sampled, see weights
}

func (v *vocabulary) add(text string, typ int32, quiet bool) {
	v.tokens = append(v.tokens, text)
	v.types = append(v.types, typ)
	v.quiet = append(v.quiet, quiet)
}

// id of a token that is known to be there.
func (v *vocabulary) id(text string) uint32 {
	for i, t := range v.tokens {
		if t == text {
			return uint32(i)
		}
	}
	return 0
}

// fill adds words that text never tokenises to, up to the vocabulary size.
func (v *vocabulary) fill(blank string, size int) {
	for i := len(v.tokens); i < size; i++ {
		v.add(fmt.Sprintf("%sw%d", blank, i), typeNormal, false)
	}
}

// byteLevel builds the vocabulary of a byte-level pair tokenizer: 256 bytes,
// joins in rank order, control tokens, fillers.
func byteLevel(size int) *vocabulary {
	v := &vocabulary{}
	for b := range 256 {
		v.add(string(byteRune(byte(b))), typeNormal, b < ' ' || b > '~')
	}
	blank := string(byteRune(' '))
	for _, p := range pieces(min(size-256-8, maxMerges)) {
		left := strings.ReplaceAll(p.left, space, blank)
		right := strings.ReplaceAll(p.right, space, blank)
		v.merges = append(v.merges, left+" "+right)
		v.add(left+right, typeNormal, false)
	}
	for _, t := range []string{tokenText, tokenStart, tokenEnd} {
		v.add(t, typeControl, true)
	}
	v.fill(blank, size)
	return v
}

// byteRune is the printable character that stands for a byte in byte-level
// vocabularies: printable Latin-1 stands for itself, the other 68 bytes take the
// characters from U+0100 on, in order.
func byteRune(b byte) rune {
	printable := func(c int) bool { return c >= '!' && c <= '~' || c >= 0xa1 && c <= 0xff && c != 0xad }
	if printable(int(b)) {
		return rune(b)
	}
	n := rune(0)
	for c := range int(b) {
		if !printable(c) {
			n++
		}
	}
	return 0x100 + n
}

// scored builds the vocabulary of a scored-piece tokenizer with byte fallback:
// three specials, 256 bytes, control tokens, characters, joins, fillers. Later
// pieces score lower, so that earlier joins are made first.
func scored(size int) *vocabulary {
	const blank = "\u2581"
	v := &vocabulary{}
	v.add("<unk>", typeUnknown, true)
	v.add("<s>", typeControl, true)
	v.add("</s>", typeControl, true)
	for b := range 256 {
		v.add(fmt.Sprintf("<0x%02X>", b), typeByte, b < ' ' || b > '~')
	}
	v.add(tokenStart, typeControl, true)
	v.add(tokenEnd, typeControl, true)
	v.add(blank, typeNormal, false)
	for c := '!'; c <= '~'; c++ {
		v.add(string(c), typeNormal, false)
	}
	for _, p := range pieces(min(size-len(v.tokens)-8, maxMerges)) {
		v.add(strings.ReplaceAll(p.text(), space, blank), typeNormal, false)
	}
	v.fill(blank, size)
	v.scores = make([]float32, size)
	for i := range v.scores {
		v.scores[i] = -float32(i)
	}
	return v
}

// describe stores the tokenizer's metadata.
func (v *vocabulary) describe(w *gguf.Writer, s *Spec) {
	if s.Tokenizer == BPE {
		w.Set("tokenizer.ggml.model", "gpt2")
		w.Set("tokenizer.ggml.pre", "qwen2")
		w.Set("tokenizer.ggml.merges", v.merges)
		w.Set("tokenizer.ggml.bos_token_id", v.id(tokenText))
		w.Set("tokenizer.ggml.padding_token_id", v.id(tokenText))
		w.Set("tokenizer.ggml.eos_token_id", v.id(tokenEnd))
		w.Set("tokenizer.ggml.add_bos_token", false)
	} else {
		w.Set("tokenizer.ggml.model", "llama")
		w.Set("tokenizer.ggml.pre", "default")
		w.Set("tokenizer.ggml.scores", v.scores)
		w.Set("tokenizer.ggml.bos_token_id", uint32(1))
		w.Set("tokenizer.ggml.eos_token_id", uint32(2))
		w.Set("tokenizer.ggml.unknown_token_id", uint32(0))
		w.Set("tokenizer.ggml.eot_token_id", v.id(tokenEnd))
		w.Set("tokenizer.ggml.add_bos_token", true)
		w.Set("tokenizer.ggml.add_space_prefix", s.Arch != Gemma3)
	}
	w.Set("tokenizer.ggml.tokens", v.tokens)
	w.Set("tokenizer.ggml.token_type", v.types)
	w.Set("tokenizer.chat_template", chatTemplate)
}
