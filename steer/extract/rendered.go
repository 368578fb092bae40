package extract

import (
	"context"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/runtime/engine"
)

// Answered is a conversation in tokens with its last answer, as pairs are
// scored: Tokens[From:To] are the answer and the token that ends it, where the
// template has one.
type Answered struct {
	Tokens   []decode.Token
	From, To int
}

// Renderer renders answers as [Fit] does. Make one with [NewRenderer]; it may be
// used concurrently if its Render may.
type Renderer struct{ layout *layout }

// NewRenderer measures the template behind render.
func NewRenderer(render Render) (*Renderer, error) {
	l, err := newLayout(render)
	if err != nil {
		return nil, err
	}
	return &Renderer{l}, nil
}

// Answer renders turns with an answer. An empty answer, or one that the
// template hides, is an error.
func (r *Renderer) Answer(turns []engine.Message, answer string) (Answered, error) {
	a, err := r.layout.answer(turns, answer)
	if err != nil {
		return Answered{}, err
	}
	if a.to < len(a.tokens) {
		a.to++
	}
	return Answered{a.tokens, a.from, a.to}, nil
}

// Speak continues every prompt with the likeliest tokens of the unsteered model,
// at most length of them, the one that ends the answer included. It is how [Fit]
// makes the neutral texts.
func Speak(ctx context.Context, e engine.Engine, prompts [][]decode.Token, length int) ([]Answered, error) {
	list, err := speak(ctx, e, prompts, length)
	if err != nil {
		return nil, err
	}
	out := make([]Answered, len(list))
	for i, a := range list {
		out[i] = Answered{a.tokens, a.from, a.to}
	}
	return out, nil
}

// GuardedEffect is how much better a pair fares than in the unsteered model, in
// nats: the gain of log p(chosen), with the loss of log p(rejected) as far as it
// is no larger. A margin that grows because a damaged model finds both answers
// unlikely is no effect.
func GuardedEffect(chosen, rejected, baseChosen, baseRejected float64) float64 {
	return logps{chosen, rejected}.effect(logps{baseChosen, baseRejected})
}
