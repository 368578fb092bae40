package runtime

import (
	"context"
	"errors"
	"fmt"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/runtime/engine"
)

// start gives every admitted submission its session.
func (d *driver) start() {
	d.mu.Lock()
	list := d.admitted
	d.admitted = nil
	d.mu.Unlock()
	for _, st := range list {
		if err := d.begin(st); err != nil {
			d.mu.Lock()
			d.leave(st)
			d.mu.Unlock()
			d.never(st, err)
			d.poke() // leave may have admitted others
			continue
		}
		d.running = append(d.running, st)
		d.open += st.sequences
	}
}

// begin makes the session of a submission, on rows from the cache where some fit.
func (d *driver) begin(st *Stream) error {
	if err := d.cancelCause(st); err != nil {
		return fmt.Errorf("queued: %w", err)
	}
	if err := d.prove(st); err != nil {
		return err
	}
	l, err := d.lanes(st)
	if err != nil {
		return errors.Join(fmt.Errorf("sequence: %w", err), l.close())
	}
	st.wait = st.cfg.Now().Sub(st.submitted)
	st.session, err = openSession(st.ctx, st.cfg, l)
	if err != nil {
		return errors.Join(err, l.close())
	}
	st.session.result.Timings.Queued = st.wait
	d.count.prompt.Add(int64(len(st.cfg.Prompt)))
	d.count.cached.Add(int64(st.session.fed))
	return nil
}

// lanes finds or makes the sequences of a session. What it returns is to be
// closed when there is an error.
func (d *driver) lanes(st *Stream) (l lanes, err error) {
	l.open = d.openSequence
	w := want{key: st.key, prompt: st.cfg.Prompt, blocks: st.blocks, sequences: st.sequences}
	if l.seq, err = d.sequence(&w); err != nil {
		return l, err
	}
	if st.cfg.Shadow == nil || st.cfg.share(d.info) > 0 {
		return l, nil
	}
	w.key = unsteered
	if l.twin, err = d.sequence(&w); err != nil {
		return l, fmt.Errorf("shadow: %w", err)
	}
	return l, nil
}

// want is what a sequence is looked for for.
type want struct {
	key       cacheKey
	prompt    []decode.Token
	blocks    []uint64 // of the prompt
	sequences int      // that the session may open, this one included
}

// sequence finds or makes one sequence for a session. At least the last token
// of the prompt is left to be fed, for its logits.
func (d *driver) sequence(w *want) (engine.Sequence, error) {
	most := len(w.prompt) - 1
	e, n := d.cache.best(w)
	if n = min(n, most); e != nil && n >= blockTokens {
		d.cache.touch(e)
		fork := d.info.Caps.Fork && d.room(e.seq.Len(), w.sequences)
		if d.info.Caps.Rewind && (!fork || e.seq.Len()-n < blockTokens) {
			return d.takeOver(e, n, w.sequences)
		}
		if fork {
			d.makeRoom(e, w.sequences)
			if seq, err := d.eng.NewSequence(d.hard, engine.Origin{Fork: e.seq, Len: n}); err == nil {
				return seq, nil
			}
		}
	}
	if from, n := d.neighbour(w, most); n >= blockTokens {
		d.makeRoom(nil, w.sequences)
		if seq, err := d.eng.NewSequence(d.hard, engine.Origin{Fork: from, Len: n}); err == nil {
			return seq, nil
		}
	}
	d.makeRoom(nil, w.sequences)
	return d.openSequence(d.hard, engine.Origin{})
}

// takeOver makes a kept sequence the session's own.
func (d *driver) takeOver(e *entry, n, sequences int) (engine.Sequence, error) {
	seq := d.cache.remove(e)
	d.note()
	if err := seq.Rewind(seq.Len() - n); err != nil {
		if err := seq.Close(); err != nil {
			return nil, err
		}
		d.makeRoom(nil, sequences)
		return d.openSequence(d.hard, engine.Origin{})
	}
	d.makeRoom(nil, sequences)
	return seq, nil
}

// openSequence opens a sequence, and gives up kept ones for it where the engine
// has fewer than it said, because others use it too.
func (d *driver) openSequence(ctx context.Context, from engine.Origin) (engine.Sequence, error) {
	for {
		seq, err := d.eng.NewSequence(ctx, from)
		if err == nil || !errors.Is(err, engine.ErrNoSequence) || !d.evict(nil) {
			return seq, err
		}
	}
}

// neighbour is a sequence of a running session whose rows can be copied.
func (d *driver) neighbour(w *want, most int) (from engine.Sequence, n int) {
	if !d.info.Caps.Fork || d.opt.NoCache {
		return nil, 0
	}
	for _, other := range d.running {
		s := other.session
		if s.done {
			continue
		}
		same := min(agree(other.blocks, other.cfg.Prompt, w.blocks, w.prompt), most)
		if m := min(other.key.serves(w.key, same), s.fed, s.clean); m > n && s.back == 0 {
			from, n = s.seq, m
		}
		t := s.twin
		if t == nil || t.seq == nil || t.back > 0 {
			continue
		}
		if m := min(unsteered.serves(w.key, same), t.fed, s.plain); m > n {
			from, n = t.seq, m
		}
	}
	return from, n
}

// room reports whether a session's sequences can be opened, and so many kept
// rows stay. The cells of that session are already counted.
func (d *driver) room(keep, sequences int) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.reserved+keep <= d.info.Cells && d.open+sequences+1 <= d.info.MaxSequences
}

// makeRoom gives up kept sequences, the oldest first and never spare, until
// the session's fit, with the cells reserved for them.
func (d *driver) makeRoom(spare *entry, sequences int) {
	d.mu.Lock()
	reserved := d.reserved
	d.mu.Unlock()
	for reserved+d.cache.rows > d.info.Cells || d.open+sequences+len(d.cache.entries) > d.info.MaxSequences {
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

// keepRows puts the sequences into the cache, or closes them.
func (d *driver) keepRows(st *Stream) {
	s := st.session
	n := min(s.fed, s.clean)
	if !st.key.answer {
		n = min(n, s.prompt)
	}
	d.keep(s, s.seq, st.key, n)
	if t := s.twin; t != nil && t.seq != nil {
		d.keep(s, t.seq, unsteered, min(t.fed, s.plain))
	}
}

// keep puts the first n rows of a sequence into the cache, or closes it.
func (d *driver) keep(s *Session, seq engine.Sequence, key cacheKey, n int) {
	if !d.worth(s, seq, n) {
		_ = seq.Close()
		return
	}
	tokens := s.rows[:n:n]
	for _, old := range d.cache.add(&entry{seq: seq, key: key, tokens: tokens, blocks: hashBlocks(tokens)}) {
		_ = old.Close()
	}
	d.note()
}

// worth reports whether n rows of a sequence, which it then is cut to, can
// serve later prompts.
func (d *driver) worth(s *Session, seq engine.Sequence, n int) bool {
	caps := &d.info.Caps
	if d.opt.NoCache || s.broken || n < blockTokens || !caps.Rewind && !caps.Fork {
		return false
	}
	extra := seq.Len() - n
	return extra <= 0 || !caps.Rewind || seq.Rewind(extra) == nil
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
