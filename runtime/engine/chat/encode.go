package chat

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/runtime/engine"
)

// ControlWords lists the texts of the vocabulary entries that the tokenizer
// reads as control tokens when Markup is set; vocab is the vocabulary's size.
// Keep the answer: it is the same for every prompt of a model.
func ControlWords(tok engine.Tokenizer, vocab int) []string {
	var words []string
	for t := range decode.Token(vocab) {
		const control = engine.KindControl | engine.KindEnd | engine.KindUnused
		if tok.Kind(t)&control == 0 {
			continue
		}
		if w := tok.Text(t); w != "" {
			words = append(words, w)
		}
	}
	return words
}

// Encode turns a prompt's parts into tokens. With start, the model's start
// token comes first if its vocabulary asks for one and the template did not
// write it already. Errors name the part.
func Encode(tok engine.Tokenizer, parts []Part, start bool) ([]decode.Token, error) {
	var tokens []decode.Token
	for i, p := range parts {
		first := i == 0
		o := engine.EncodeOptions{Start: start && first && !writesBOS(tok, p), Markup: p.Markup}
		ts, err := encodePart(tok, p.Text, o, first)
		if err != nil {
			return nil, fmt.Errorf("encode prompt part %d of %d: %w", i+1, len(parts), err)
		}
		tokens = append(tokens, ts...)
	}
	return tokens, nil
}

// writesBOS reports whether a template's text starts with the start token.
func writesBOS(tok engine.Tokenizer, p Part) bool {
	bos := tok.Specials().BOS
	if bos < 0 || !p.Markup {
		return false
	}
	word := tok.Text(bos)
	return word != "" && strings.HasPrefix(p.Text, word)
}

// encodePart encodes one part. Vocabularies of the SentencePiece kind put a
// space before every text that they encode; inside a prompt that space would
// be new, so it is taken away again.
func encodePart(tok engine.Tokenizer, text string, o engine.EncodeOptions, first bool) ([]decode.Token, error) {
	ts, err := tok.Encode(text, o)
	if err != nil || first || !addedSpace(tok, ts, text) {
		return ts, err
	}
	if string(tok.AppendPiece(nil, ts[0])) == " " {
		return ts[1:], nil
	}
	return behindNewline(tok, text, o, ts)
}

func addedSpace(tok engine.Tokenizer, ts []decode.Token, text string) bool {
	if len(ts) == 0 || strings.HasPrefix(text, " ") {
		return false
	}
	return bytes.HasPrefix(tok.AppendPiece(nil, ts[0]), []byte(" "))
}

// behindNewline encodes text after a newline, which such vocabularies merge
// with nothing, and drops the tokens up to it. Where that fails, the tokens
// with the space have to do.
func behindNewline(tok engine.Tokenizer, text string, o engine.EncodeOptions, ts []decode.Token) ([]decode.Token, error) {
	long, err := tok.Encode("\n"+text, o)
	if err != nil {
		return nil, err
	}
	var head []byte
	for i, t := range long {
		head = tok.AppendPiece(head, t)
		if string(head) == " \n" || string(head) == "\n" {
			return long[i+1:], nil
		}
		if len(head) > 1 {
			break
		}
	}
	return ts, nil
}
