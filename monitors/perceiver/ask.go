package perceiver

import (
	"context"
	"errors"
	"fmt"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/runtime/engine"
)

// ask lays out the text, reads the margin behind tail and read-out and, when it
// is over the threshold, the signs; state is nil otherwise. Nothing of the
// question stays.
func (p *Perceiver) ask(ctx context.Context, w *watcher, text []piece, tail []decode.Token) (margin float64, state State, err error) {
	d := &p.desk
	if err := d.take(ctx); err != nil {
		return 0, nil, fmt.Errorf("perceiver: %w", err)
	}
	defer d.leave()
	at, err := d.lay(ctx, w, text)
	if err != nil {
		return 0, nil, fmt.Errorf("perceiver: %w", err)
	}
	margin, err = p.margin(ctx, at, tail)
	if err == nil && margin > p.o.Threshold {
		state, err = p.state(ctx, at)
	}
	err = errors.Join(err, d.cut(at, len(at.pieces)))
	if err != nil {
		return 0, nil, fmt.Errorf("perceiver: %w", err)
	}
	return margin, state, nil
}

func (p *Perceiver) margin(ctx context.Context, at *place, tail []decode.Token) (float64, error) {
	question := append(tail[:len(tail):len(tail)], p.readout...)
	if err := p.desk.grow(ctx, at, question, engine.OutputLast); err != nil {
		return 0, err
	}
	row := at.seq.Logits()
	m := float64(row[p.v[0]]) - float64(row[p.r[0]])
	if m-m != 0 {
		return 0, fmt.Errorf("read-out: the margin is %v", m)
	}
	return max(m, Unread), nil
}

// state answers V and then asks for one sign after the other. Only the tokens
// of -1, 0 and 1 are allowed, so an answer that starts with the first token of
// one of them is that one.
func (p *Perceiver) state(ctx context.Context, at *place) (State, error) {
	next := p.v
	state := make(State, len(p.signs))
	for i := range p.signs {
		q := &p.signs[i]
		question := append(next[:len(next):len(next)], q.ask...)
		if err := p.desk.grow(ctx, at, question, engine.OutputLast); err != nil {
			return nil, err
		}
		best, row := 0, at.seq.Logits()
		for k, a := range q.answers {
			if row[a[0]] > row[q.answers[best][0]] {
				best = k
			}
		}
		state[i], next = Sign(best-1), q.answers[best]
	}
	return state.Nearest(), nil
}
