package enginetest

import (
	"slices"

	"github.com/trimtab/trimtab/decode"
)

// ScriptBoost is added to the logit of a scripted token, whose own bias is
// cleared. It beats the noise by far; a strong enough plan still beats it.
const ScriptBoost = 40

// Text is what a [Script] sees when a row's logits are made: every token of the
// sequence so far, -1 for embeddings, and where the feed says the prompt ended.
type Text struct {
	Tokens    []decode.Token
	PromptLen int
}

// Script names the token that shall have the top logit next, or -1 to leave
// the row as it is. It must be a pure function of its argument, must not keep
// or change it, and may be called from any goroutine that drives the engine.
type Script func(Text) decode.Token

// Say is a script that answers every prompt with tokens: token i of it after i
// tokens of itself have been generated, and end after the last. Where the text
// left the script's path it names nothing. [Tokens] makes tokens from text.
func Say(tokens []decode.Token, end decode.Token) Script {
	return func(t Text) decode.Token {
		if t.PromptLen < 0 || t.PromptLen > len(t.Tokens) {
			return -1
		}
		return next(t.Tokens[t.PromptLen:], tokens, end)
	}
}

// After is a script that says tokens wherever the text continues trigger, and
// end after them. The last place where trigger occurs counts.
func After(trigger, tokens []decode.Token, end decode.Token) Script {
	return func(t Text) decode.Token {
		for at := len(t.Tokens) - len(trigger); at >= 0; at-- {
			said := t.Tokens[at+len(trigger):]
			if len(said) > len(tokens) {
				return -1
			}
			if !slices.Equal(t.Tokens[at:at+len(trigger)], trigger) {
				continue
			}
			if tok := next(said, tokens, end); tok >= 0 {
				return tok
			}
		}
		return -1
	}
}

// First is a script that asks each script in turn until one names a token.
func First(scripts ...Script) Script {
	return func(t Text) decode.Token {
		for _, s := range scripts {
			if tok := s(t); tok >= 0 {
				return tok
			}
		}
		return -1
	}
}

func next(said, all []decode.Token, end decode.Token) decode.Token {
	switch {
	case len(said) > len(all) || !slices.Equal(said, all[:len(said)]):
		return -1
	case len(said) == len(all):
		return end
	}
	return all[len(said)]
}
