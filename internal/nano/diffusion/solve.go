package diffusion

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/runtime/engine"
)

// Solver fills puzzles with a model, for measuring what the weights can do and
// nothing else: of the blank cells it reveals the most confident ones, equally
// many in every pass, greedily and for good. It is not safe for concurrent use.
type Solver struct {
	engine engine.Engine
	seq    engine.Sequence
	tokens engine.Tokenizer
}

// NewSolver returns a solver on a canvas engine (see engine.Caps.Canvas) whose
// vocabulary has a mask token. Close frees its sequence, not the engine.
func NewSolver(ctx context.Context, e engine.Engine) (*Solver, error) {
	tok := e.Info().Tokenizer
	if !e.Info().Caps.Canvas || tok == nil || tok.Specials().Mask < 0 {
		return nil, fmt.Errorf("solver: %w", engine.Unsupported("canvas", "the model must be open for whole canvases and have a mask token"))
	}
	seq, err := e.NewSequence(ctx, engine.Origin{})
	if err != nil {
		return nil, fmt.Errorf("solver: %w", err)
	}
	return &Solver{e, seq, tok}, nil
}

// Close frees the solver's sequence. It may be called twice.
func (s *Solver) Close() error { return s.seq.Close() }

// Canvas returns a puzzle as nano-diffusion reads it: the task's token, one token
// for every byte of the text, blanks as masks, and the end token. It fails if the
// tokenizer is not that of nano-diffusion.
func Canvas(tok engine.Tokenizer, p Puzzle) ([]decode.Token, error) {
	canvas, err := tok.Encode("<|"+string(p.Task)+"|>", engine.EncodeOptions{Markup: true})
	if err != nil || len(canvas) != 1 {
		return nil, fmt.Errorf("canvas: task %s is %d tokens, want 1 (error %v)", p.Task, len(canvas), err)
	}
	for i, c := range []byte(p.Text) {
		cell := []decode.Token{tok.Specials().Mask}
		if c != Blank {
			if cell, err = tok.Encode(string(rune(c)), engine.EncodeOptions{}); err != nil || len(cell) != 1 {
				return nil, fmt.Errorf("canvas: cell %d, %q, is %d tokens, want 1 (error %v)", i, c, len(cell), err)
			}
		}
		canvas = append(canvas, cell...)
	}
	return append(canvas, tok.Specials().EOS), nil
}

// Text is the inverse of [Canvas]: the cells of a canvas, with [Blank] for masks.
func Text(tok engine.Tokenizer, canvas []decode.Token) string {
	var text []byte
	for _, t := range canvas[1 : len(canvas)-1] {
		if t == tok.Specials().Mask {
			text = append(text, Blank)
			continue
		}
		text = tok.AppendPiece(text, t)
	}
	return string(text)
}

// Solve fills a puzzle in at most the given number of passes, steps >= 1, and
// returns the filled text. It may be wrong: that is what [Puzzle.Check] is for.
func (s *Solver) Solve(ctx context.Context, p Puzzle, steps int) (string, error) {
	canvas, err := Canvas(s.tokens, p)
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
	return Text(s.tokens, canvas), nil
}

// Logits computes a whole canvas: one row of logits after the other, one for
// each token. They are valid until the solver's next call.
func (s *Solver) Logits(ctx context.Context, canvas []decode.Token) (decode.Logits, error) {
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
func (s *Solver) guess(ctx context.Context, canvas []decode.Token) ([]guess, error) {
	logits, err := s.Logits(ctx, canvas)
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
