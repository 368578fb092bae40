package perceiver

import (
	"context"
	"errors"
	"fmt"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/monitors"
	"github.com/trimtab/trimtab/runtime/engine"
)

// watcher remembers one text, its read-outs and where they stand, so that any
// suffix of tokens can be forgotten.
type watcher struct {
	p       *Perceiver
	opening []decode.Token

	text   []byte
	ends   []int // length of the text after each token
	checks []check
	serial uint64
}

// check is one read-out.
type check struct {
	tokens int   // observed, this one included
	cut    int   // bytes of the text that were read for good
	piece  piece // what was read since the check before
	from   int   // the first check whose piece the perceiver still sees
	score  float64
}

// Observe notes the candidate and reads out when it is time.
func (w *watcher) Observe(ctx context.Context, o *monitors.Observation) (monitors.Verdict, error) {
	w.text = append(w.text, o.Piece...)
	w.ends = append(w.ends, len(w.text))
	if !w.due(len(o.Piece) == 0) {
		return monitors.Verdict{Score: w.score()}, nil
	}
	v, err := w.read(ctx, o.Step)
	if err != nil {
		return monitors.Verdict{}, errors.Join(err, w.Rewind(1))
	}
	return v, nil
}

// Rewind forgets the last n tokens and the read-outs among them.
func (w *watcher) Rewind(n int) error {
	if n < 0 || n > len(w.ends) {
		return fmt.Errorf("rewind by %d of %d tokens", n, len(w.ends))
	}
	w.ends = w.ends[:len(w.ends)-n]
	size := 0
	if len(w.ends) > 0 {
		size = w.ends[len(w.ends)-1]
	}
	w.text = w.text[:size]
	for len(w.checks) > 0 && w.checks[len(w.checks)-1].tokens > len(w.ends) {
		w.checks = w.checks[:len(w.checks)-1]
	}
	return nil
}

func (w *watcher) score() float64 {
	if len(w.checks) == 0 {
		return Unread
	}
	return w.checks[len(w.checks)-1].score
}

// last is the read-out before, all zero for none.
func (w *watcher) last() check {
	if len(w.checks) == 0 {
		return check{}
	}
	return w.checks[len(w.checks)-1]
}

// due reports whether to read out: after so many tokens, at the end of a
// sentence, or where a silent token may be the end of the answer. Without new
// text there is nothing to read.
func (w *watcher) due(silent bool) bool {
	last := w.last().tokens
	before := 0
	if last > 0 {
		before = w.ends[last-1]
	}
	gap := len(w.ends) - last
	switch {
	case len(w.text) == before:
		return false
	case gap >= w.p.o.Every, silent:
		return true
	}
	return !w.p.o.NoSentences && gap >= minGap && endsSentence(w.text)
}

// read feeds what is new and asks.
func (w *watcher) read(ctx context.Context, step int) (monitors.Verdict, error) {
	last := w.last()
	c := check{tokens: len(w.ends), from: last.from}
	c.cut = last.cut + wordEnd(w.text[last.cut:])
	fresh, err := w.encode(last.cut, c.cut)
	if err != nil {
		return monitors.Verdict{}, err
	}
	tail, err := w.encode(c.cut, c.cut+whole(w.text[c.cut:]))
	if err != nil {
		return monitors.Verdict{}, err
	}
	w.serial++
	c.piece = piece{w.serial, fresh}
	if err := w.slide(&c, len(tail)); err != nil {
		return monitors.Verdict{}, err
	}
	margin, state, err := w.p.ask(ctx, w, w.pieces(&c), tail)
	if err != nil {
		return monitors.Verdict{}, err
	}
	c.score = margin
	w.checks = append(w.checks, c)
	return w.verdict(margin, state, min(c.tokens-last.tokens-1, step)), nil
}

func (w *watcher) encode(from, to int) ([]decode.Token, error) {
	if from == to {
		return nil, nil
	}
	return w.p.tok.Encode(readable(w.text[from:to]), engine.EncodeOptions{})
}

// pieces is what the perceiver sees at a read-out: the opening and what was read
// for good since the text last outgrew its context.
func (w *watcher) pieces(c *check) []piece {
	// The opening has the serial number 0 until the text slides. Then it stands
	// before other pieces, which have numbers of their own.
	list := []piece{{0, w.opening}}
	for i := c.from; i < len(w.checks); i++ {
		list = append(list, w.checks[i].piece)
	}
	return append(list, c.piece)
}

// slide makes room when the text has outgrown the perceiver's context: it starts
// again from the last pieces that fit into Options.Keep.
func (w *watcher) slide(c *check, tail int) error {
	room := w.p.desk.room - len(w.p.desk.prompt) - len(w.opening) - w.p.longest - tail
	if len(c.piece.tokens) > room {
		return fmt.Errorf("%w: %d new tokens, %d fit", engine.ErrContextFull, len(c.piece.tokens), room)
	}
	total := len(c.piece.tokens)
	for i := c.from; i < len(w.checks); i++ {
		total += len(w.checks[i].piece.tokens)
	}
	if total <= room {
		return nil
	}
	keep := w.p.o.Keep
	if keep == 0 || keep > room {
		keep = room / 2
	}
	kept, i := len(c.piece.tokens), len(w.checks)
	for i > c.from && kept+len(w.checks[i-1].piece.tokens) <= keep {
		i--
		kept += len(w.checks[i].piece.tokens)
	}
	c.from = i
	return nil
}

// verdict puts a read-out into words. A nil state was not asked for.
func (w *watcher) verdict(margin float64, state State, onset int) monitors.Verdict {
	v := monitors.Verdict{Score: margin}
	if state == nil {
		return v
	}
	i := state.Violated()
	if i < 0 {
		v.Note = fmt.Sprintf("no violation; signs %s, margin %.4g", state, margin)
		return v
	}
	v.Flag, v.Onset = true, max(onset, 0)
	v.Note = fmt.Sprintf("%s%s; signs %s, margin %.4g", violates, w.p.o.Hierarchy.Principles[i].Name, state, margin)
	return v
}
