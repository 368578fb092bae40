package sharpness

import (
	"context"
	"errors"
	"fmt"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/runtime/engine"
)

// Bounds and defaults.
const (
	// DefaultLayers is how many of the last blocks are averaged, as in the paper.
	DefaultLayers = 4
	// MaxLast is the most tokens that are scored at once.
	MaxLast = 64
	// chunk is how many rows are read in one go. A text is always cut at its
	// multiples, so that a row is computed in the same company whatever was read
	// before: equal texts have equal scores, to the bit.
	chunk = 32
)

// Engine is an engine that shows attention, such as *llamacpp.Engine opened
// with Options.Attention.
type Engine interface {
	engine.Engine
	// CanAttend reports whether Attend works, as nil or an error wrapping
	// engine.ErrUnsupported.
	CanAttend() error
	// Attend is Forward, and calls see for every row, in order, with the
	// attention of that row over the places it may look at, averaged over the
	// heads and the last blocks. weights are valid during the call only.
	Attend(ctx context.Context, feeds []engine.Feed, layers int, see func(feed, row int, weights []float32)) error
}

// Options describe a [Scorer].
type Options struct {
	Layers int // blocks to average over, counted from the last; 0 for 4, or all of a smaller model
}

var errShut = errors.New("the scorer was closed")

// Scorer scores texts on an engine of its own. It is safe for concurrent use by
// any number of sessions, which take turns; the engine must have no other
// driver and stay open until Close. It keeps the text that it read last, and
// reads of the next one only what is not the same.
type Scorer struct {
	e      Engine
	layers int
	room   int           // rows of a text
	lock   chan struct{} // whoever has put something in drives the engine
	seq    engine.Sequence
	fed    []decode.Token
	closed bool
}

// New makes a scorer. The engine needs to show attention and to rewind, and one
// free sequence; the scorer takes it when it is first asked. Errors wrap
// engine.ErrUnsupported where the engine cannot.
func New(e Engine, o Options) (*Scorer, error) {
	if err := e.CanAttend(); err != nil {
		return nil, fmt.Errorf("sharpness: %w", err)
	}
	info := e.Info()
	if !info.Caps.Rewind {
		return nil, fmt.Errorf("sharpness: %w", engine.Unsupported("rewind", "the scorer keeps what texts have in common"))
	}
	if o.Layers < 0 || o.Layers > info.Layers {
		return nil, fmt.Errorf("sharpness: the last %d blocks of a model of %d", o.Layers, info.Layers)
	}
	if o.Layers == 0 {
		o.Layers = min(DefaultLayers, info.Layers)
	}
	return &Scorer{e: e, layers: o.Layers, room: min(info.Context, info.Cells), lock: make(chan struct{}, 1)}, nil
}

// Scores are the sharpness of the last tokens of a text, the latest last: for
// each the attention of the row that it was drawn from, which is the one before
// it. tokens are the whole text, prompt included; last is 1 to [MaxLast], and
// less than len(tokens). The answer depends on the arguments only. A text that
// is longer than the engine's context by more than its last token is an error
// wrapping engine.ErrContextFull.
func (s *Scorer) Scores(ctx context.Context, tokens []decode.Token, last int) ([]float64, error) {
	rows := len(tokens) - 1
	switch {
	case last < 1 || last > MaxLast:
		return nil, fmt.Errorf("sharpness: the last %d tokens, want 1 to %d", last, MaxLast)
	case last > rows:
		return nil, fmt.Errorf("sharpness: the last %d tokens of %d, the first has no row before it", last, len(tokens))
	case rows > s.room:
		return nil, fmt.Errorf("sharpness: %w: a text of %d rows, %d fit", engine.ErrContextFull, rows, s.room)
	}
	if err := s.take(ctx); err != nil {
		return nil, fmt.Errorf("sharpness: %w", err)
	}
	defer func() { <-s.lock }()
	scores := make([]float64, last)
	if err := s.read(ctx, tokens[:rows], scores); err != nil {
		return nil, fmt.Errorf("sharpness: %w", errors.Join(err, s.forget()))
	}
	for i, score := range scores {
		if score != score {
			return nil, fmt.Errorf("sharpness: the attention of row %d is not finite", rows-last+i)
		}
	}
	return scores, nil
}

// take waits for the engine.
func (s *Scorer) take(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case s.lock <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	if s.closed {
		<-s.lock
		return errShut
	}
	return nil
}

// read feeds the rows that are not there yet, and all that are to be scored.
func (s *Scorer) read(ctx context.Context, rows []decode.Token, scores []float64) error {
	first := len(rows) - len(scores)
	if err := s.keep(ctx, rows[:first]); err != nil {
		return err
	}
	for at := len(s.fed); at < len(rows); at = len(s.fed) {
		piece := rows[at:min(at+chunk, len(rows))]
		feed := []engine.Feed{{Seq: s.seq, Tokens: piece, Output: engine.OutputNone}}
		var err error
		if at+len(piece) <= first {
			err = s.e.Forward(ctx, feed)
		} else {
			err = s.e.Attend(ctx, feed, s.layers, func(_, row int, weights []float32) {
				if i := at + row - first; i >= 0 {
					scores[i] = Of(weights)
				}
			})
		}
		if err != nil {
			return err
		}
		s.fed = append(s.fed, piece...)
	}
	return nil
}

// keep takes back all but the whole chunks that the text has in common with
// what was read before.
func (s *Scorer) keep(ctx context.Context, rows []decode.Token) (err error) {
	if s.seq == nil {
		s.seq, err = s.e.NewSequence(ctx, engine.Origin{})
		return err
	}
	same := 0
	for same < min(len(rows), len(s.fed)) && rows[same] == s.fed[same] {
		same++
	}
	same -= same % chunk
	if err := s.seq.Rewind(len(s.fed) - same); err != nil {
		return err
	}
	s.fed = s.fed[:same]
	return nil
}

// forget closes the text, so that the next question starts afresh.
func (s *Scorer) forget() error {
	s.fed = s.fed[:0]
	if s.seq == nil {
		return nil
	}
	seq := s.seq
	s.seq = nil
	return seq.Close()
}

// Close frees the scorer's text, not its engine. It waits for a question that
// is being answered, and may be called twice.
func (s *Scorer) Close() error {
	s.lock <- struct{}{}
	defer func() { <-s.lock }()
	s.closed = true
	if err := s.forget(); err != nil {
		return fmt.Errorf("sharpness: %w", err)
	}
	return nil
}
