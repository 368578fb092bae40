package extract

import (
	"context"
	"errors"
	"fmt"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/runtime/engine"
)

// Trait describes a behaviour by instructions instead of answers.
type Trait struct {
	Instruction string // asks for the behaviour: "Answer like a pirate."
	Opposite    string // asks for the opposite; empty: nothing is asked
	Tokens      int    // longest answer, default 64, at most 1024
	Progress    func(Progress)
}

const (
	traitTokens    = 64
	maxTraitTokens = 1024
)

// Contrast makes pairs for a trait from bare prompts: the model itself answers
// each prompt with the instruction and without (or with the opposite), greedily.
// States are read with the instructions in the prompt; answers are scored
// without, so that a vector is judged by whether it does what the instruction
// did. Prompts whose two answers are equal or empty drop out; none left is an
// error. Pairs made so can also be read at the prompt's end.
func Contrast(ctx context.Context, e engine.Engine, render Render, prompts [][]engine.Message, t Trait) ([]Pair, error) {
	if t.Instruction == "" || t.Instruction == t.Opposite {
		return nil, errors.New("contrast: the instruction is empty or equal to its opposite")
	}
	if t.Tokens == 0 {
		t.Tokens = traitTokens
	}
	if t.Tokens < 1 || t.Tokens > maxTraitTokens {
		return nil, fmt.Errorf("contrast: answers of %d tokens, must be 1 to %d", t.Tokens, maxTraitTokens)
	}
	if e.Info().Tokenizer == nil || e.Info().Caps.Canvas {
		return nil, engine.Unsupported("contrast", "the model does not write text from left to right")
	}
	var pairs []Pair
	const step = maxLanes / 2
	for at := 0; at < len(prompts); at += step {
		part := prompts[at:min(at+step, len(prompts))]
		more, err := contrastPart(ctx, e, render, part, t)
		if err != nil {
			return nil, fmt.Errorf("contrast: prompts %d to %d: %w", at, at+len(part)-1, err)
		}
		pairs = append(pairs, more...)
		if t.Progress != nil {
			t.Progress(Progress{"answering with and without the instruction", at + len(part), len(prompts)})
		}
	}
	if len(pairs) == 0 {
		return nil, fmt.Errorf("%w: contrast: the instruction changes no answer", ErrPairs)
	}
	return pairs, nil
}

func contrastPart(ctx context.Context, e engine.Engine, render Render, prompts [][]engine.Message, t Trait) ([]Pair, error) {
	var tokens [][]decode.Token
	pairs := make([]Pair, len(prompts))
	for i, turns := range prompts {
		pairs[i] = Pair{Turns: turns, ReadChosen: asked(turns, t.Instruction), ReadRejected: turns}
		if t.Opposite != "" {
			pairs[i].ReadRejected = asked(turns, t.Opposite)
		}
		for _, turns := range [][]engine.Message{pairs[i].ReadChosen, pairs[i].ReadRejected} {
			ts, err := render(turns, true)
			if err != nil {
				return nil, err
			}
			tokens = append(tokens, ts)
		}
	}
	said, err := speak(ctx, e, tokens, t.Tokens)
	if err != nil {
		return nil, err
	}
	kept := pairs[:0]
	for i, p := range pairs {
		p.Chosen, p.Rejected = said[2*i].text(e.Info().Tokenizer), said[2*i+1].text(e.Info().Tokenizer)
		if p.Chosen != "" && p.Rejected != "" && p.Chosen != p.Rejected {
			kept = append(kept, p)
		}
	}
	return kept, nil
}

// text is the answer without the token that ended it. Bytes that are no UTF-8,
// as at a cut, are left out.
func (a *answered) text(tok engine.Tokenizer) string {
	var b []byte
	for _, t := range a.tokens[a.from:a.to] {
		if tok.Kind(t)&(engine.KindEnd|engine.KindControl) == 0 {
			b = tok.AppendPiece(b, t)
		}
	}
	return validText(b)
}
