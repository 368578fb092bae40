package runtime

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/trimtab/trimtab/runtime/engine"
)

// driver is the goroutine of a [Scheduler] that owns the engine.
type driver struct {
	*Scheduler
	cache prefixCache
	crew  *crew

	sentinel Sentinel
	running  []*Stream // with a session, in the order they came
	open     int       // sequences that those may have open
	cursor   int       // whose turn it is to be served first

	batch []*Stream // of this Forward
	feeds []engine.Feed
	due   []*Stream // of those, with logits to decide on
}

func newDriver(s *Scheduler) *driver { return &driver{Scheduler: s, crew: newCrew(s.opt.Workers)} }

// run is the loop. It ends when the scheduler closes and nothing is left.
func (d *driver) run() {
	defer close(d.done)
	defer d.halt()
	defer d.crew.close()
	defer d.empty()
	for {
		d.start()
		d.reap()
		d.build()
		if len(d.batch) > 0 {
			d.step()
			continue
		}
		if d.over() {
			return
		}
		select {
		case <-d.wake:
		case <-d.hard.Done():
			d.stopAll()
		}
	}
}

// over reports whether the driver may leave.
func (d *driver) over() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.closing && d.active == 0 && len(d.waiting) == 0
}

// stopAll cancels what waits and what runs, after Close.
func (d *driver) stopAll() {
	d.mu.Lock()
	d.closing = true
	waiting := d.waiting
	d.waiting = nil
	d.mu.Unlock()
	for _, st := range waiting {
		d.never(st, fmt.Errorf("queued: %w: %w", ErrClosed, context.Canceled))
	}
	d.start()
	d.reap()
}

// cancelCause is why a session must not go on, or nil.
func (d *driver) cancelCause(st *Stream) error {
	if d.hard.Err() != nil {
		return fmt.Errorf("scheduler: %w: %w", ErrClosed, context.Canceled)
	}
	if st.ctx.Err() != nil {
		return context.Cause(st.ctx)
	}
	return nil
}

// reap ends the sessions that were cancelled and lets go of those that ended.
func (d *driver) reap() {
	d.running = slices.DeleteFunc(d.running, func(st *Stream) bool {
		if err := d.cancelCause(st); err != nil && !st.session.done {
			st.session.fail(st.ctx, st.session.at(err))
		}
		if st.session.done {
			d.open -= st.sequences
			d.retire(st)
		}
		return st.session.done
	})
}

// step computes one batch and advances its sessions.
func (d *driver) step() {
	err := d.forward()
	d.count.forwards.Add(1)
	if err != nil {
		d.failBatch(err)
		return
	}
	d.due = d.due[:0]
	for _, st := range d.batch {
		ready, err := st.session.landed()
		if err != nil {
			st.session.fail(st.ctx, st.session.at(err))
			continue
		}
		if ready && d.cancelCause(st) == nil {
			d.due = append(d.due, st)
		}
	}
	d.crew.advance(d.due)
	for _, st := range d.due {
		if !st.session.retry {
			d.count.steps.Add(1)
		}
	}
}

// forward runs the batch. The engine is interrupted, where it can be, when
// every session of the batch is cancelled.
func (d *driver) forward() (err error) {
	ctx, cancel := context.WithCancel(d.hard)
	defer cancel()
	d.mu.Lock()
	d.live, d.abandon = 0, cancel
	for _, st := range d.batch {
		if st.batched = st.ctx.Err() == nil; st.batched {
			d.live++
		}
	}
	d.mu.Unlock()
	defer d.landed()
	defer recovered(&err)
	return d.eng.Forward(ctx, d.feeds)
}

func (d *driver) landed() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, st := range d.batch {
		st.batched = false
	}
}

// failBatch ends the sessions of a batch that the engine could not compute.
// The others go on, unless the engine is closed.
func (d *driver) failBatch(err error) {
	for _, st := range d.batch {
		cause := d.cancelCause(st)
		if cause == nil {
			cause = fmt.Errorf("batch of %d sequences: %w", len(d.batch), err)
		}
		st.session.broken = true
		st.session.fail(st.ctx, st.session.at(cause))
	}
	if errors.Is(err, engine.ErrClosed) {
		d.halt()
	}
}
