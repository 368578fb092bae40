package llamacpp

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"unicode/utf8"
	"unsafe"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/runtime/engine"
)

// maxText bounds one Encode call: llama.cpp counts in int32, and a prompt this
// long fits no context.
const maxText = 64 << 20

// tokenizer wraps llama.cpp's vocabulary, which is read-only and therefore safe
// for concurrent use. After the engine is closed it knows no tokens.
type tokenizer struct {
	mu       sync.RWMutex // held for reading during every call into C
	closed   bool
	lib      *Library
	vocab    uintptr
	size     int
	specials engine.Specials
	frames   sync.Pool // of *frame
}

func newTokenizer(l *Library, vocab uintptr, size int) *tokenizer {
	t := func(fn uintptr) decode.Token { return decode.Token(callInt(fn, vocab)) }
	return &tokenizer{lib: l, vocab: vocab, size: size, specials: engine.Specials{
		BOS: t(l.vocabBOS), EOS: t(l.vocabEOS), EOT: t(l.vocabEOT), Newline: t(l.vocabNL),
		Pad: t(l.vocabPad), Mask: t(l.vocabMask), AddBOS: callBool(l.vocabAddBOS, vocab),
	}, frames: sync.Pool{New: func() any { return new(frame) }}}
}

func (t *tokenizer) Specials() engine.Specials { return t.specials }

func (t *tokenizer) Encode(text string, o engine.EncodeOptions) ([]decode.Token, error) {
	if !utf8.ValidString(text) {
		return nil, fmt.Errorf("encode: invalid UTF-8 at byte %d", invalidAt(text))
	}
	if len(text) > maxText {
		return nil, fmt.Errorf("encode: text of %d bytes, the limit is %d", len(text), maxText)
	}
	if text == "" && !o.Start {
		return nil, nil
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.closed {
		return nil, fmt.Errorf("encode: %w", engine.ErrClosed)
	}
	src := cString(text)
	out := make([]decode.Token, len(text)+2)
	for range 2 {
		n := callInt(t.lib.tokenize, t.vocab, uintptr(unsafe.Pointer(src)), uintptr(len(text)),
			uintptr(unsafe.Pointer(&out[0])), uintptr(len(out)), word(o.Start), word(o.Markup))
		if n >= 0 {
			return t.withoutEnd(out[:n], o), nil
		}
		out = make([]decode.Token, -n)
	}
	return nil, errors.New("encode: llama.cpp changed its mind about the number of tokens")
}

// withoutEnd drops the end token that some vocabularies add with the start
// token: an answer is to follow.
func (t *tokenizer) withoutEnd(tokens []decode.Token, o engine.EncodeOptions) []decode.Token {
	n := len(tokens)
	if o.Start && t.lib.addsEOS(t.vocab) && n > 0 && tokens[n-1] == t.specials.EOS {
		return tokens[:n-1]
	}
	return tokens
}

func (l *Library) addsEOS(vocab uintptr) bool { return callBool(l.vocabAddEOS, vocab) }

func word(b bool) uintptr {
	if b {
		return 1
	}
	return 0
}

func invalidAt(s string) int {
	for i, r := range s {
		if r == utf8.RuneError {
			if _, n := utf8.DecodeRuneInString(s[i:]); n == 1 {
				return i
			}
		}
	}
	return len(s)
}

// valid reports whether C may be asked about tok. The mutex is held.
func (t *tokenizer) valid(tok decode.Token) bool { return !t.closed && tok >= 0 && int(tok) < t.size }

func (t *tokenizer) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
}

func (t *tokenizer) AppendPiece(dst []byte, tok decode.Token) []byte {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if !t.valid(tok) {
		return dst
	}
	for need := 64; ; {
		dst = slices.Grow(dst, need)
		room := dst[len(dst):cap(dst)]
		f := t.frames.Get().(*frame)
		n := int(int32(f.call(t.lib.tokenToPiece, t.vocab, uintptr(tok), uintptr(unsafe.Pointer(&room[0])), uintptr(len(room)), 0, 0)))
		t.frames.Put(f)
		if n >= 0 {
			return dst[:len(dst)+n]
		}
		if -n <= need {
			return dst
		}
		need = -n
	}
}

func (t *tokenizer) Text(tok decode.Token) string {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if !t.valid(tok) {
		return ""
	}
	return goString(call(t.lib.vocabGetText, t.vocab, uintptr(tok)))
}

// Attribute bits of enum llama_token_attr (llama.h).
const (
	attrUnused = 1 << 1
	attrByte   = 1 << 5
)

func (t *tokenizer) Kind(tok decode.Token) engine.TokenKind {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if !t.valid(tok) {
		return engine.KindUnused
	}
	var k engine.TokenKind
	if callBool(t.lib.vocabIsControl, t.vocab, uintptr(tok)) {
		k |= engine.KindControl
	}
	if callBool(t.lib.vocabIsEOG, t.vocab, uintptr(tok)) {
		k |= engine.KindEnd
	}
	attr := call(t.lib.vocabGetAttr, t.vocab, uintptr(tok))
	if attr&attrUnused != 0 {
		k |= engine.KindUnused
	}
	if attr&attrByte != 0 {
		k |= engine.KindByte
	}
	return k
}
