package runtime

import (
	"context"
	"errors"
	"fmt"

	"github.com/trimtab/trimtab/runtime/engine"
)

// start gives every admitted submission its session.
func (d *driver) start() {
	d.mu.Lock()
	list := d.admitted
	d.admitted = nil
	d.mu.Unlock()
	for _, st := range list {
		if err := d.open(st); err != nil {
			d.mu.Lock()
			d.leave(st)
			d.mu.Unlock()
			d.never(st, err)
			d.poke() // leave may have admitted others
			continue
		}
		d.running = append(d.running, st)
	}
}

// open makes the session of a submission, on rows from the cache where some fit.
func (d *driver) open(st *Stream) error {
	if err := d.cancelCause(st); err != nil {
		return fmt.Errorf("queued: %w", err)
	}
	seq, err := d.sequence(st)
	if err != nil {
		return fmt.Errorf("sequence: %w", err)
	}
	st.wait = st.cfg.Now().Sub(st.submitted)
	st.session, err = openSession(st.ctx, st.cfg, seq)
	if err != nil {
		return errors.Join(err, seq.Close())
	}
	st.session.result.Timings.Queued = st.wait
	d.count.prompt.Add(int64(len(st.cfg.Prompt)))
	d.count.cached.Add(int64(st.session.fed))
	return nil
}

// sequence finds or makes the sequence for a session. At least the last token
// of the prompt is left to be fed, for its logits.
func (d *driver) sequence(st *Stream) (engine.Sequence, error) {
	most := len(st.cfg.Prompt) - 1
	e, n := d.cache.best(st.key.plan, st.blocks, st.cfg.Prompt)
	if n = min(n, most); e != nil && n >= blockTokens {
		d.cache.touch(e)
		fork := d.info.Caps.Fork && d.room(e.seq.Len())
		if d.info.Caps.Rewind && (!fork || e.seq.Len()-n < blockTokens) {
			return d.takeOver(e, n)
		}
		if fork {
			d.makeRoom(e)
			if seq, err := d.eng.NewSequence(d.hard, engine.Origin{Fork: e.seq, Len: n}); err == nil {
				return seq, nil
			}
		}
	}
	if from, n := d.neighbour(st, most); n >= blockTokens {
		d.makeRoom(nil)
		if seq, err := d.eng.NewSequence(d.hard, engine.Origin{Fork: from, Len: n}); err == nil {
			return seq, nil
		}
	}
	d.makeRoom(nil)
	return d.fresh()
}

// takeOver makes a kept sequence the session's own.
func (d *driver) takeOver(e *entry, n int) (engine.Sequence, error) {
	seq := d.cache.remove(e)
	d.note()
	if err := seq.Rewind(seq.Len() - n); err != nil {
		if err := seq.Close(); err != nil {
			return nil, err
		}
		d.makeRoom(nil)
		return d.fresh()
	}
	d.makeRoom(nil)
	return seq, nil
}

// fresh opens an empty sequence, and gives up kept ones for it where the
// engine has fewer than it said, because others use it too.
func (d *driver) fresh() (engine.Sequence, error) {
	for {
		seq, err := d.eng.NewSequence(d.hard, engine.Origin{})
		if err == nil || !errors.Is(err, engine.ErrNoSequence) || !d.evict(nil) {
			return seq, err
		}
	}
}

// neighbour is a running session whose rows can be copied for this one.
func (d *driver) neighbour(st *Stream, most int) (from engine.Sequence, n int) {
	if !d.info.Caps.Fork || d.opt.NoCache {
		return nil, 0
	}
	for _, other := range d.running {
		s := other.session
		if other.key.plan != st.key.plan || s.done || s.back > 0 {
			continue
		}
		m := agree(other.blocks, other.cfg.Prompt, st.blocks, st.cfg.Prompt)
		if m = min(m, most, s.fed, s.clean); m > n {
			from, n = s.seq, m
		}
	}
	return from, n
}

// room reports whether a sequence can be opened, and so many kept rows stay.
// The reservation of the session it is for is already counted.
func (d *driver) room(keep int) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.reserved+keep <= d.info.Cells && len(d.running)+2 <= d.info.MaxSequences
}

// makeRoom gives up kept sequences, the oldest first and never spare, until
// one more sequence with its reservation fits.
func (d *driver) makeRoom(spare *entry) {
	d.mu.Lock()
	reserved := d.reserved
	d.mu.Unlock()
	for reserved+d.cache.rows > d.info.Cells || len(d.running)+len(d.cache.entries) >= d.info.MaxSequences {
		if !d.evict(spare) {
			return
		}
	}
}

// evict closes the oldest kept sequence that is not spare.
func (d *driver) evict(spare *entry) bool {
	for _, e := range d.cache.entries {
		if e != spare {
			_ = d.cache.remove(e).Close() // nothing can be done about it, and nobody waits for it
			d.note()
			return true
		}
	}
	return false
}

// note updates the counters of the cache.
func (d *driver) note() {
	d.count.keptSequences.Store(int64(len(d.cache.entries)))
	d.count.keptRows.Store(int64(d.cache.rows))
}

// retire takes a finished session out: its slot is free before its reader
// hears of the end.
func (d *driver) retire(st *Stream) {
	s := st.session
	d.keepRows(st)
	d.mu.Lock()
	d.leave(st)
	d.mu.Unlock()
	d.poke()
	d.count.generated.Add(int64(len(s.tokens)))
	d.tally(s.result.FinishReason)
	st.publish()
	st.finish(&s.result, s.err)
}

// keepRows puts the sequence into the cache, or closes it.
func (d *driver) keepRows(st *Stream) {
	s := st.session
	if e := d.worth(st); e != nil {
		for _, seq := range d.cache.add(e) {
			_ = seq.Close()
		}
		d.note()
		return
	}
	_ = s.seq.Close()
}

// worth is the entry that the rows of a session make, or nil.
func (d *driver) worth(st *Stream) *entry {
	s := st.session
	caps := &d.info.Caps
	if d.opt.NoCache || s.broken || !caps.Rewind && !caps.Fork {
		return nil
	}
	n := min(s.fed, s.clean)
	if !st.key.answer {
		n = min(n, s.prompt)
	}
	if n < blockTokens {
		return nil
	}
	if extra := s.seq.Len() - n; extra > 0 && caps.Rewind {
		if err := s.seq.Rewind(extra); err != nil {
			return nil
		}
	}
	tokens := s.rows[:n:n]
	return &entry{seq: s.seq, key: st.key.plan, tokens: tokens, blocks: hashBlocks(st.key.plan, tokens)}
}

// empty closes everything that is kept.
func (d *driver) empty() {
	for d.evict(nil) {
	}
}

// reasonOf tells a cancellation from other errors.
func reasonOf(err error) FinishReason {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return FinishCancelled
	}
	return FinishError
}
