//go:build linux || darwin

package judge

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/trimtab/trimtab/decode"
)

// vocabulary is a byte-level BPE vocabulary without a model.
type vocabulary struct {
	l     *library
	model uintptr
	vocab uintptr
}

// pieces of more than one byte, each joined from two entries before it.
var merges = [][2]string{
	{"\n", "\n"}, {"\n\n", "\n"}, {"E", "N"}, {"EN", "D"}, {"N", "D"}, {"a", "b"}, {"b", "\n"}, {":", "a"},
	{"\"", ":"}, {"x", "E"}, {"*", "*"}, {"**", "a"}, {"a", "a"}, {"aa", "b"}, {"D", "a"}, {" ", "E"}, {" E", "N"},
}

// letters spells bytes as byte-level BPE does: printable Latin-1 as itself, the
// rest as letters from 256 on.
func letters() (of [256]rune) {
	next := rune(256)
	for b := range of {
		if b >= '!' && b <= '~' || b >= 0xa1 && b <= 0xac || b >= 0xae {
			of[b] = rune(b)
			continue
		}
		of[b] = next
		next++
	}
	return of
}

func spelled(s string) (out string) {
	of := letters()
	for _, b := range []byte(s) {
		out += string(of[b])
	}
	return out
}

// gguf is the vocabulary as a GGUF file (version 3) without tensors.
func gguf() []byte {
	var tokens, joins []string
	for b := range 256 {
		tokens = append(tokens, spelled(string([]byte{byte(b)})))
	}
	for _, m := range merges {
		tokens = append(tokens, spelled(m[0]+m[1]))
		joins = append(joins, spelled(m[0])+" "+spelled(m[1]))
	}
	const kindString, kindArray = 8, 9
	var b bytes.Buffer
	num := func(v any) { _ = binary.Write(&b, binary.LittleEndian, v) }
	str := func(s string) { num(uint64(len(s))); b.WriteString(s) }
	b.WriteString("GGUF")
	num(uint32(3))
	num(uint64(0)) // tensors
	num(uint64(5))
	for _, kv := range [][2]string{{"general.architecture", "llama"}, {"tokenizer.ggml.model", "gpt2"}, {"tokenizer.ggml.pre", "gpt-2"}} {
		str(kv[0])
		num(uint32(kindString))
		str(kv[1])
	}
	for key, list := range map[string][]string{"tokenizer.ggml.tokens": tokens, "tokenizer.ggml.merges": joins} {
		str(key)
		num(uint32(kindArray))
		num(uint32(kindString))
		num(uint64(len(list)))
		for _, s := range list {
			str(s)
		}
	}
	return b.Bytes()
}

func newVocabulary(t *testing.T, l *library) *vocabulary {
	t.Helper()
	path := filepath.Join(t.TempDir(), "vocab.gguf")
	if err := os.WriteFile(path, gguf(), 0o600); err != nil {
		t.Fatal(err)
	}
	p := l.modelDefault()
	p.VocabOnly = true
	m := l.modelLoad(path, p)
	if m == 0 {
		t.Fatal("llama.cpp does not load the vocabulary")
	}
	t.Cleanup(func() { l.modelFree(m) })
	return &vocabulary{l: l, model: m, vocab: l.modelVocab(m)}
}

func (v *vocabulary) ours() decode.Vocab {
	return decode.Vocab{Size: int(v.l.vocabSize(v.vocab)), Piece: v.piece, Encode: v.encode}
}

func (v *vocabulary) piece(dst []byte, t decode.Token) []byte {
	buf, src := make([]byte, 64), []int32{int32(t)}
	n := v.l.detokenize(v.vocab, &src[0], 1, &buf[0], int32(len(buf)), false, true)
	return append(dst, buf[:max(n, 0)]...)
}

func (v *vocabulary) encode(text string) ([]decode.Token, error) {
	src, buf := []byte(text), make([]int32, 64)
	n := v.l.tokenize(v.vocab, &src[0], int32(len(src)), &buf[0], int32(len(buf)), false, false)
	if n < 0 {
		return nil, fmt.Errorf("%q has more than %d tokens", text, len(buf))
	}
	var out []decode.Token
	for _, t := range buf[:n] {
		out = append(out, decode.Token(t))
	}
	return out, nil
}

// TestTextBreakersEqualLlamaCpp compares DRY with breakers given as texts, over
// tokens that contain, begin and end these.
func TestTextBreakersEqualLlamaCpp(t *testing.T) {
	l := llama(t)
	v := newVocabulary(t, l)
	ours := v.ours()
	texts := []string{"\n", "END", "aab", "a", ":", "\n\n", "**", " END\n", "\":a"}
	var busy []decode.Token // those that have to do with the texts
	for tok := range decode.Token(ours.Size) {
		if p := ours.Piece(nil, tok); bytes.ContainsAny(p, "\nENDab:\"* ") {
			busy = append(busy, tok)
		}
	}
	var n tally
	for seed := range uint64(150) {
		r := decode.NewRand(seed)
		chosen := texts[r.IntN(len(texts)):]
		chosen = chosen[:1+r.IntN(min(3, len(chosen)))]
		o := randomDRY(r)
		o.Breakers = must(decode.NewBreakers(ours, chosen))
		ref := v.dry(o, chosen)
		r.Shuffle(len(busy), func(i, j int) { busy[i], busy[j] = busy[j], busy[i] })
		compareText(t, l, r, o, ref, ours.Size, busy[:4], &n)
		if t.Failed() {
			t.Fatalf("seed %d, breakers %q, %+v", seed, chosen, o)
		}
	}
	n.report(t, "dry by text")
}

// dry is llama.cpp's sampler with breakers as C strings.
func (v *vocabulary) dry(o decode.DRYOptions, texts []string) uintptr {
	var heads []*byte
	for _, s := range texts {
		heads = append(heads, &append([]byte(s), 0)[0])
	}
	defer runtime.KeepAlive(heads)
	return v.l.dry(v.vocab, o.Multiplier, o.Base, int32(o.AllowedLength), int32(o.LastN), &heads[0], uintptr(len(heads)))
}

func compareText(t *testing.T, l *library, r *rand.Rand, o decode.DRYOptions, ref uintptr, vocab int, from []decode.Token, n *tally) {
	t.Helper()
	defer l.free(ref)
	p := must(decode.NewDRY(o))
	w := walker{accept: p.Accept, rewind: p.Rewind, refs: []uintptr{ref}, l: l}
	unit := slices.Concat(from, from[:2])
	for range 12 {
		for range r.IntN(8) {
			w.commit(t, unit[r.IntN(len(unit))])
		}
		if len(w.kept) > 5 && r.IntN(4) == 0 {
			w.back(t, r.IntN(5))
		}
		compare(t, l, pair{name: "dry by text", ours: p, ref: ref, huge: true}, shape(r, vocab, false), n)
	}
}
