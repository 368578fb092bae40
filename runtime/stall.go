package runtime

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/monitors"
	"github.com/trimtab/trimtab/steer"
)

// ErrStalled is wrapped by the fault of a watcher that did not answer within
// [Config.ObserveTimeout].
var ErrStalled = errors.New("stalled")

// frozen is a step that nobody writes to again once a watcher was left behind
// with it: copies of what the engine and the session use again.
type frozen struct {
	raw, logits decode.Logits
	piece       []byte
	rows        [][]float32 // beside sensors.sites
	left        bool        // a watcher may still read it
}

// freeze copies the step at hand, over the copy of the step before where
// nobody was left behind with that.
func (s *Session) freeze() *frozen {
	if s.frozen == nil || s.frozen.left {
		s.frozen = &frozen{rows: make([][]float32, len(s.sensors.sites))}
	}
	f := s.frozen
	f.raw = append(f.raw[:0], s.raw...)
	f.logits = append(f.logits[:0], s.logits...)
	f.piece = append(f.piece[:0], s.event.Piece...)
	for i, row := range s.sensors.rows {
		f.rows[i] = append(f.rows[i][:0], row...)
	}
	return f
}

// observation is what one watcher is shown of a frozen step.
func (f *frozen) observation(o *monitors.Observation, sites, own []steer.Site) *monitors.Observation {
	c := *o
	c.Raw, c.Logits, c.Piece = f.raw, f.logits, f.piece
	c.Activation = func(site steer.Site) ([]float32, error) {
		if !slices.Contains(own, site) {
			return nil, unnamedSite(site)
		}
		return f.rows[slices.Index(sites, site)], nil
	}
	return &c
}

// answer is what a watcher says in its own goroutine.
type answer struct {
	verdict monitors.Verdict
	err     error
}

// within runs f, which does not panic, and leaves it behind when it takes
// longer than the limit or the session is cancelled. The context of f then ends.
func within(ctx context.Context, limit time.Duration, f func(context.Context) answer) (answer, bool) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	said := make(chan answer, 1) // one place: whoever is left behind can leave
	go func() { said <- f(ctx) }()
	clock := time.NewTimer(limit)
	defer clock.Stop()
	select {
	case a := <-said:
		return a, true
	case <-clock.C:
		return answer{err: fmt.Errorf("%w: no answer within %v", ErrStalled, limit)}, false
	case <-ctx.Done():
		return answer{err: ctx.Err()}, false
	}
}

// score asks a watcher for its verdict, within Config.ObserveTimeout.
func (s *Session) score(ctx context.Context, w *watch, o *monitors.Observation) (monitors.Verdict, error) {
	limit := s.cfg.ObserveTimeout
	if limit == 0 {
		o.Activation = w.activation
		return w.observe(ctx, o)
	}
	if s.stale {
		s.freeze()
		s.stale = false
	}
	f := s.frozen
	shown, watcher := f.observation(o, s.sensors.sites, w.sites), *w // the session changes its own
	a, back := within(ctx, limit, func(ctx context.Context) (a answer) {
		a.verdict, a.err = watcher.observe(ctx, shown)
		return a
	})
	f.left = f.left || !back
	return a.verdict, a.err
}

// forgets makes a watcher forget n candidates, within Config.ObserveTimeout.
func (s *Session) forgets(w *watch, n int) error {
	limit := s.cfg.ObserveTimeout
	if limit == 0 {
		return w.rewind(n)
	}
	watcher := *w
	a, _ := within(context.Background(), limit, func(context.Context) answer { return answer{err: watcher.rewind(n)} })
	return a.err
}
