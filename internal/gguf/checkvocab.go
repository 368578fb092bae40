package gguf

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/cespare/xxhash/v2"
)

// maxVocab bounds the memory of the duplicate check (8 bytes a token); the
// largest vocabularies in use have 262,144 tokens.
const maxVocab = 1 << 21

// maxTokenLen is the length of one token's text in bytes; the longest in use
// are runs of some hundred blanks.
const maxTokenLen = 4096

// keyTokenizer starts the keys of a tokenizer.
const keyTokenizer = "tokenizer.ggml."

// tokenizers are the models that llama.cpp v0.5.0 knows; the value says whether
// pairs are merged by rank, which needs the merges.
var tokenizers = map[string]bool{"llama": false, "gpt2": true, "gemma4": true, "hybriddna": true, "whitespace": true,
	"bert": false, "t5": false, "rwkv": false, "plamo2": false}

// Token types, with llama.cpp's numbers (enum llama_token_type in llama.h).
const (
	tokenNormal = 1
	tokenByte   = 6
)

func (c *checker) tokenizer() {
	model, err := c.f.shortString(keyTokenizer + "model")
	if err != nil {
		c.add(err)
		return
	}
	if model == "none" || model == "no_vocab" {
		c.vocab = c.number("vocab_size", true, 1, maxVocab)
		return
	}
	ranked, known := tokenizers[model]
	if !known {
		c.fault("%smodel: %q is not a known tokenizer", keyTokenizer, model)
		return
	}
	if !c.tokenArrays(model, ranked) {
		return
	}
	c.tokens(model, ranked)
	if ranked {
		c.merges()
	}
	c.specials()
}

// shortString reads a string that names something, so that a huge one costs nothing.
func (f *File) shortString(key string) (string, error) {
	if v, ok := f.meta[key]; ok && v.Type == String && v.size > 8+256 {
		return "", fmt.Errorf("gguf: %s: is %d bytes long, want at most 256", key, v.size-8)
	}
	return f.String(key)
}

// tokenArrays checks that the arrays are there, of the right type, and of one length.
func (c *checker) tokenArrays(model string, ranked bool) bool {
	tokens, ok := c.array("tokens", true, String, String)
	if !ok {
		return false
	}
	if tokens.Len < 1 || tokens.Len > maxVocab {
		c.fault("%stokens: length %d is not in 1..%d", keyTokenizer, tokens.Len, maxVocab)
		return false
	}
	c.vocab = int64(tokens.Len)
	types, ok := c.array("token_type", true, Int32, Int32)
	ok = c.sameLength("token_type", types, ok)
	scores, found := c.array("scores", model == "llama", Float32, Int32)
	if found {
		ok = c.sameLength("scores", scores, found) && ok
	}
	if ranked {
		_, found := c.array("merges", true, String, String)
		ok = ok && found
	}
	return ok
}

func (c *checker) sameLength(key string, v Value, found bool) bool {
	if found && int64(v.Len) != c.vocab {
		c.fault("%s%s: length %d is not that of tokens, %d", keyTokenizer, key, v.Len, c.vocab)
		return false
	}
	return found
}

func (c *checker) array(key string, required bool, elem, or ValueType) (Value, bool) {
	key = keyTokenizer + key
	v, ok := c.f.meta[key]
	switch {
	case !ok && required:
		c.fault("%s: %v, want an array of %s", key, ErrMissing, elem)
	case ok && (v.Type != Array || v.Elem != elem && v.Elem != or):
		c.fault("%s: is %s, want an array of %s", key, v.describe(), elem)
		ok = false
	}
	return v, ok
}

// tokens checks the texts. llama.cpp ends the process when two tokens have the
// same text, and throws through its C interface when a byte has no token.
func (c *checker) tokens(model string, ranked bool) {
	var bytesSeen [256]bool
	hashes := make([]uint64, 0, c.vocab)
	types := c.scan("token_type")
	err := c.eachToken(func(i int, text []byte) error {
		typ, err := types.u32()
		if err != nil {
			return err
		}
		c.token(i, text, typ, ranked, &bytesSeen)
		hashes = append(hashes, hashAsC(text, i))
		return nil
	})
	if err != nil {
		c.fault("%stokens: %w", keyTokenizer, err)
		return
	}
	slices.Sort(hashes)
	for i := 1; i < len(hashes); i++ {
		if hashes[i] == hashes[i-1] {
			c.twice(hashes[i])
			break
		}
	}
	if model == "llama" {
		c.bytes(&bytesSeen)
	}
}

// scan walks the values of an array that is known to be there.
func (c *checker) scan(key string) *scanner {
	v := c.f.meta[keyTokenizer+key]
	return newScanner(c.f.src, v.off, v.off+v.size)
}

// eachToken passes the texts through a window, so that a vocabulary of any
// size is checked in little memory.
func (c *checker) eachToken(do func(i int, text []byte) error) error {
	s := c.scan("tokens")
	for i := range int(c.vocab) {
		n, err := s.stringLen(maxTokenLen)
		if err != nil {
			return fmt.Errorf("token %d: %w", i, err)
		}
		text, err := s.take(n)
		if err != nil {
			return fmt.Errorf("token %d: %w", i, err)
		}
		if err := do(i, text); err != nil {
			return fmt.Errorf("token %d: %w", i, err)
		}
	}
	return nil
}

// hashAsC hashes the text as C code takes it: up to the first zero byte, and
// with a stand-in when empty.
func hashAsC(text []byte, i int) uint64 {
	if end := bytes.IndexByte(text, 0); end >= 0 {
		text = text[:end]
	}
	if len(text) > 0 {
		return xxhash.Sum64(text)
	}
	var buf [32]byte
	return xxhash.Sum64(fmt.Appendf(buf[:0], "[EMPTY_%d]", i))
}

// twice names the second token with the hash.
func (c *checker) twice(hash uint64) {
	found := 0
	err := c.eachToken(func(i int, text []byte) error {
		if hashAsC(text, i) != hash {
			return nil
		}
		if found++; found == 2 {
			return fmt.Errorf("%.64q is there twice", text)
		}
		return nil
	})
	if err == nil {
		err = errors.New("two texts are equal; the file is changing")
	}
	c.fault("%stokens: %w", keyTokenizer, err)
}

func (c *checker) token(i int, text []byte, typ uint32, ranked bool, bytesSeen *[256]bool) {
	b, isByte := byteOf(text)
	if isByte {
		bytesSeen[b] = true
	} else if len(text) == 1 {
		bytesSeen[text[0]] = true
	}
	if typ == tokenByte && !isByte {
		c.fault("%stokens: token %d: %.64q is of type byte, want <0x00>..<0xFF>", keyTokenizer, i, text)
	}
	if ranked && typ == tokenNormal && !utf8.Valid(text) {
		c.fault("%stokens: token %d: %.64q is not valid UTF-8", keyTokenizer, i, text)
	}
}

// byteOf reads "<0x41>" as 0x41.
func byteOf(text []byte) (byte, bool) {
	if len(text) != 6 || string(text[:3]) != "<0x" || text[5] != '>' {
		return 0, false
	}
	const hex = "0123456789ABCDEF"
	hi, lo := strings.IndexByte(hex, text[3]), strings.IndexByte(hex, text[4])
	return byte(hi<<4 | lo), hi >= 0 && lo >= 0
}

func (c *checker) bytes(seen *[256]bool) {
	for b, ok := range seen {
		if !ok {
			c.fault("%stokens: no token for byte <0x%02X>", keyTokenizer, b)
			return
		}
	}
}

func (c *checker) merges() {
	i := 0
	for pair, err := range c.f.EachString(keyTokenizer + "merges") {
		if err != nil {
			c.add(err)
			return
		}
		if len(pair) < 3 || strings.IndexByte(pair[1:], ' ') < 0 {
			c.fault("%smerges: element %d: %.64q is not two pieces with a blank between", keyTokenizer, i, pair)
			return
		}
		i++
	}
}

// specials checks that special tokens exist, and that a token to be added to
// every text is there: llama.cpp asserts it.
func (c *checker) specials() {
	for _, name := range []string{"bos", "eos", "eot", "eom", "unknown", "seperator", "padding", "mask", "cls"} {
		key := keyTokenizer + name + "_token_id"
		v, ok := c.f.meta[key]
		if !ok {
			continue
		}
		if v.Type != Uint32 {
			c.fault("%s: is %s, want u32", key, v.describe())
			continue
		}
		if id, err := c.f.Uint(key); err != nil {
			c.add(err)
		} else if id >= uint64(c.vocab) {
			c.fault("%s: token %d is not in the vocabulary of %d", key, id, c.vocab)
		}
	}
	for _, name := range []string{"bos", "eos"} {
		key := keyTokenizer + "add_" + name + "_token"
		if _, ok := c.f.meta[key]; !ok {
			continue
		}
		add, err := c.f.Bool(key)
		if err != nil {
			c.add(err)
			continue
		}
		if _, given := c.f.meta[keyTokenizer+name+"_token_id"]; add && !given {
			c.fault("%s%s_token_id: is missing, but %s is true", keyTokenizer, name, key)
		}
	}
}
