package safety

import (
	"context"
	"fmt"
	"math"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/runtime/engine"
	"github.com/trimtab/trimtab/steer"
)

// Divergence is the mean KL(base || arm) in nats per token over given answers,
// token by token, with the arm's system message and plan. What policies do does
// not show here: they change texts and no distributions. It is NaN without answers.
func (b *Bench) Divergence(ctx context.Context, arm *Arm, answers []Answer) (float64, error) {
	switch {
	case len(answers) == 0:
		return math.NaN(), nil
	case arm.Plan.Fingerprint() == 0 && arm.Cue == "":
		return 0, nil
	}
	sum, n := 0.0, 0
	for i := range answers {
		a := &answers[i]
		if len(a.Tokens) == 0 {
			continue
		}
		base, err := b.rows(ctx, a, "", nil)
		if err != nil {
			return 0, err
		}
		other, err := b.rows(ctx, a, arm.Cue, arm.Plan)
		if err != nil {
			return 0, err
		}
		vocab := b.Engine.Info().Vocab
		for r := range len(a.Tokens) + 1 {
			sum += decode.Divergence(base[r*vocab:(r+1)*vocab], other[r*vocab:(r+1)*vocab])
			n++
		}
	}
	if n == 0 {
		return 0, nil
	}
	return sum / float64(n), nil
}

// rows are the logits before each token of an answer and behind it.
func (b *Bench) rows(ctx context.Context, a *Answer, cue string, plan *steer.Plan) ([]float32, error) {
	prompt, err := b.encode(a.Prompt, cue)
	if err != nil {
		return nil, err
	}
	seq, err := b.Engine.NewSequence(ctx, engine.Origin{})
	if err != nil {
		return nil, err
	}
	defer seq.Close()
	if err := seq.Steer(plan); err != nil {
		return nil, err
	}
	var out []float32
	for _, f := range []engine.Feed{
		{Tokens: prompt, Output: engine.OutputLast, Phase: steer.PhasePrompt},
		{Tokens: a.Tokens, Output: engine.OutputAll, Phase: steer.PhaseAnswer},
	} {
		f.Seq, f.PromptLen = seq, len(prompt)
		if err := b.Engine.Forward(ctx, []engine.Feed{f}); err != nil {
			return nil, fmt.Errorf("divergence: %w", err)
		}
		out = append(out, seq.Logits()...)
	}
	if want := (len(a.Tokens) + 1) * b.Engine.Info().Vocab; len(out) != want {
		return nil, fmt.Errorf("divergence: the engine gave %d logits, want %d", len(out), want)
	}
	return out, nil
}
