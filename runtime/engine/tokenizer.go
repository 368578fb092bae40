package engine

import "github.com/trimtab/trimtab/decode"

// Tokenizer maps between text and tokens of one model. It is safe for
// concurrent use.
type Tokenizer interface {
	// Encode turns text into tokens. Text of users must be encoded with
	// Markup false: then control words such as "<|im_end|>" in it are plain
	// letters. Invalid UTF-8 is an error that names the offset.
	Encode(text string, o EncodeOptions) ([]decode.Token, error)

	// AppendPiece appends the bytes that t stands for. A piece may be part of
	// a UTF-8 character; control tokens stand for nothing.
	AppendPiece(dst []byte, t decode.Token) []byte

	// Text is the vocabulary entry as the model file spells it, also for
	// control tokens, for display and templates.
	Text(t decode.Token) string

	// Kind tells what sort of entry t is.
	Kind(t decode.Token) TokenKind

	// Specials are the vocabulary's well-known tokens, -1 where it has none.
	Specials() Specials
}

// EncodeOptions are the two choices of Tokenizer.Encode.
type EncodeOptions struct {
	Start  bool // add the model's start token if its vocabulary asks for one
	Markup bool // read control words as control tokens: templates, never user text
}

// TokenKind is a set of flags on a vocabulary entry.
type TokenKind uint8

const (
	KindControl TokenKind = 1 << iota // steers the model, prints nothing
	KindEnd                           // ends the answer: end of text, end of turn
	KindByte                          // stands for one raw byte
	KindUnused                        // must never be sampled
)

// Specials are well-known tokens; -1 means that the vocabulary has none.
type Specials struct {
	BOS, EOS, EOT, Newline, Pad, Mask decode.Token
	AddBOS                            bool // Encode with Start adds BOS
}
