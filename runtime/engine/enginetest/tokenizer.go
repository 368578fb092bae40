package enginetest

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/runtime/engine"
)

// Tokens of the Fake. Tokens 0 to 255 are the raw bytes, then come the control
// tokens, then FakeConfig.Words.
const (
	BOS decode.Token = 256 + iota
	EOS
	EOT // ends a turn
	TurnStart
	Think
	EndThink
	Pad
	Unused
	FirstWord
)

var controlWords = [...]string{
	BOS - 256: "<|bos|>", EOS - 256: "<|eos|>", EOT - 256: "<|im_end|>", TurnStart - 256: "<|im_start|>",
	Think - 256: "<think>", EndThink - 256: "</think>", Pad - 256: "<|pad|>", Unused - 256: "<|unused|>",
}

// Template is the chat template of the Fake, in the ChatML form.
const Template = `{% for message in messages %}<|im_start|>{{ message.role }}
{{ message.content }}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}`

// Tokens encodes text with the Fake's byte tokens only, for scripts. Every byte
// is one token, so no character of more than one byte stays whole.
func Tokens(text string) []decode.Token {
	out := make([]decode.Token, len(text))
	for i := range len(text) {
		out[i] = decode.Token(text[i])
	}
	return out
}

type bytesTokenizer struct {
	words []string
	vocab int
}

func newBytesTokenizer(words []string, vocab int) *bytesTokenizer {
	b := &bytesTokenizer{words: words}
	b.vocab = max(vocab, b.size())
	return b
}

func (b *bytesTokenizer) size() int { return int(FirstWord) + len(b.words) }

// Encode takes the longest word that fits at each place, else one byte.
func (b *bytesTokenizer) Encode(text string, o engine.EncodeOptions) ([]decode.Token, error) {
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRuneInString(text[i:])
		if r == utf8.RuneError && n == 1 {
			return nil, fmt.Errorf("encode: invalid UTF-8 at byte %d", i)
		}
		i += n
	}
	out := make([]decode.Token, 0, len(text)+1)
	if o.Start {
		out = append(out, BOS)
	}
	for len(text) > 0 {
		t, n := b.match(text, o.Markup)
		out = append(out, t)
		text = text[n:]
	}
	return out, nil
}

func (b *bytesTokenizer) match(text string, markup bool) (decode.Token, int) {
	best, length := decode.Token(text[0]), 1
	for i, w := range b.words {
		if len(w) > length && strings.HasPrefix(text, w) {
			best, length = FirstWord+decode.Token(i), len(w)
		}
	}
	for i := 0; markup && i < len(controlWords); i++ {
		if strings.HasPrefix(text, controlWords[i]) {
			return 256 + decode.Token(i), len(controlWords[i])
		}
	}
	return best, length
}

func (b *bytesTokenizer) AppendPiece(dst []byte, t decode.Token) []byte {
	switch {
	case t >= 0 && t < 256:
		return append(dst, byte(t))
	case t >= FirstWord && int(t) < b.size():
		return append(dst, b.words[t-FirstWord]...)
	}
	return dst
}

func (b *bytesTokenizer) Text(t decode.Token) string {
	switch {
	case t < 0 || int(t) >= b.vocab:
		return ""
	case t < 256:
		return fmt.Sprintf("<0x%02X>", int(t))
	case t < FirstWord:
		return controlWords[t-256]
	case int(t) < b.size():
		return b.words[t-FirstWord]
	}
	return fmt.Sprintf("<unused_%d>", t)
}

func (b *bytesTokenizer) Kind(t decode.Token) engine.TokenKind {
	switch {
	case t < 0 || int(t) >= b.vocab:
		return engine.KindUnused
	case t < 256:
		return engine.KindByte
	case t == EOS || t == EOT:
		return engine.KindControl | engine.KindEnd
	case t == Unused || int(t) >= b.size():
		return engine.KindUnused
	case t < FirstWord:
		return engine.KindControl
	}
	return 0
}

func (b *bytesTokenizer) Specials() engine.Specials {
	return engine.Specials{BOS: BOS, EOS: EOS, EOT: EOT, Newline: '\n', Pad: Pad, Mask: -1, AddBOS: true}
}
