package diffusion_test

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/internal/nano/diffusion"
	"github.com/trimtab/trimtab/runtime/engine"
)

// solver fills puzzles with a model, for measuring what the weights can do and
// nothing else: of the blank cells it reveals the most confident ones, equally
// many in every pass, greedily and for good.
type solver struct {
	engine engine.Engine
	seq    engine.Sequence
	tokens engine.Tokenizer
}

// newSolver returns a solver on a canvas engine whose vocabulary has a mask
// token. Its sequence ends with the engine.
func newSolver(e engine.Engine) (*solver, error) {
	tok := e.Info().Tokenizer
	if !e.Info().Caps.Canvas || tok == nil || tok.Specials().Mask < 0 {
		return nil, fmt.Errorf("solver: %w", engine.Unsupported("canvas", "the model must be open for whole canvases and have a mask token"))
	}
	seq, err := e.NewSequence(context.Background(), engine.Origin{})
	if err != nil {
		return nil, fmt.Errorf("solver: %w", err)
	}
	return &solver{e, seq, tok}, nil
}

// canvas encodes a puzzle and insists on one token for every cell.
func (s *solver) canvas(p diffusion.Puzzle) ([]decode.Token, error) {
	canvas, err := s.tokens.Encode(p.Canvas(), engine.EncodeOptions{Markup: true})
	if err != nil {
		return nil, err
	}
	if len(canvas) != len(p.Text)+2 {
		return nil, fmt.Errorf("%d tokens, want %d", len(canvas), len(p.Text)+2)
	}
	return canvas, nil
}

// text is the filled part of a canvas; masks and other control tokens are none.
func (s *solver) text(canvas []decode.Token) string {
	var text []byte
	for _, t := range canvas {
		text = s.tokens.AppendPiece(text, t)
	}
	return string(text)
}

// solve fills a puzzle in at most the given number of passes and returns the
// filled text.
func (s *solver) solve(ctx context.Context, p diffusion.Puzzle, steps int) (string, error) {
	canvas, err := s.canvas(p)
	if err != nil {
		return "", err
	}
	for left := steps; left > 0; left-- {
		guesses, err := s.guess(ctx, canvas)
		if err != nil {
			return "", fmt.Errorf("solve, step %d of %d: %w", steps-left+1, steps, err)
		}
		if len(guesses) == 0 {
			break
		}
		for _, g := range guesses[:(len(guesses)+left-1)/left] {
			canvas[g.at] = g.token
		}
	}
	return s.text(canvas), nil
}

// logits computes a whole canvas: one row of logits after the other, one for
// each token. They are valid until the solver's next call.
func (s *solver) logits(ctx context.Context, canvas []decode.Token) (decode.Logits, error) {
	err := s.engine.Forward(ctx, []engine.Feed{{Seq: s.seq, Tokens: canvas, Output: engine.OutputAll}})
	if err != nil {
		return nil, err
	}
	return s.seq.Logits(), nil
}

// guess is the most probable token for one masked cell.
type guess struct {
	at    int
	token decode.Token
	p     float64
}

// guess lists a guess for every masked cell, the most confident first.
func (s *solver) guess(ctx context.Context, canvas []decode.Token) ([]guess, error) {
	logits, err := s.logits(ctx, canvas)
	if err != nil {
		return nil, err
	}
	mask, vocab := s.tokens.Specials().Mask, s.engine.Info().Vocab
	var out []guess
	for i, t := range canvas {
		if t == mask {
			token, p := best(logits[i*vocab:(i+1)*vocab], mask)
			out = append(out, guess{i, token, p})
		}
	}
	slices.SortStableFunc(out, func(a, b guess) int {
		switch {
		case a.p > b.p:
			return -1
		case a.p < b.p:
			return 1
		}
		return 0
	})
	return out, nil
}

// best returns the most probable token other than the mask, and its probability.
func best(row decode.Logits, mask decode.Token) (decode.Token, float64) {
	top := -1
	for i, x := range row {
		if decode.Token(i) != mask && (top < 0 || x > row[top]) {
			top = i
		}
	}
	sum := 0.0
	for i, x := range row {
		if decode.Token(i) != mask {
			sum += math.Exp(float64(x - row[top]))
		}
	}
	return decode.Token(top), 1 / sum
}
