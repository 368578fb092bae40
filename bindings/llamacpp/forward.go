package llamacpp

import (
	"context"
	"errors"
	"fmt"
	"unsafe"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/runtime/engine"
)

// interruptRows is the size from which a Forward watches its context: below it
// the computation is about as short as the watching.
const interruptRows = 32

// Forward appends the feeds in one batch; see engine.Engine. A batch of more
// than Options.Batch rows is split over several llama_decode calls.
func (e *Engine) Forward(ctx context.Context, feeds []engine.Feed) error {
	e.epoch++
	total, err := e.plan(ctx, feeds)
	if err != nil {
		return fmt.Errorf("forward: %w", err)
	}
	done := e.watch(ctx, total)
	err = e.run(total)
	done()
	if err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return fmt.Errorf("forward %d rows in %d sequences: %w", total, len(feeds), errors.Join(err, e.undo()))
	}
	for i := range e.jobs {
		j := &e.jobs[i]
		if !e.canvas {
			j.seq.len += j.rows
		}
	}
	return nil
}

// plan checks every feed and lists the jobs. Nothing has been fed when it fails.
func (e *Engine) plan(ctx context.Context, feeds []engine.Feed) (total int, err error) {
	if e.closed {
		return 0, engine.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	e.jobs = e.jobs[:0]
	for i := range feeds {
		j, err := e.job(&feeds[i])
		if err != nil {
			return 0, fmt.Errorf("feed %d: %w", i, err)
		}
		for k := range e.jobs {
			if e.jobs[k].seq == j.seq {
				return 0, fmt.Errorf("feed %d: the sequence is in feed %d already", i, k)
			}
		}
		e.jobs = append(e.jobs, j)
		total += j.rows
	}
	if total == 0 {
		return 0, errors.New("no rows to feed")
	}
	if e.canvas && total > e.info.MaxBatch {
		return 0, fmt.Errorf("canvases of %d rows in one batch, the limit is %d (Options.Batch)", total, e.info.MaxBatch)
	}
	return total, nil
}

func (e *Engine) job(f *engine.Feed) (job, error) {
	s, err := e.own(f.Seq)
	if err != nil {
		return job{}, err
	}
	if s.lost {
		return job{}, errors.New("a failed forward destroyed this sequence's recurrent state: close it")
	}
	if (f.Tokens == nil) == (f.Embeddings == nil) {
		return job{}, errors.New("exactly one of Tokens and Embeddings must be set")
	}
	if err := e.checkRows(f); err != nil {
		return job{}, err
	}
	j := job{seq: s, feed: f, rows: f.Rows(e.info.Width), start: s.len, forced: e.canvas}
	if j.start+j.rows > e.info.Context {
		return job{}, fmt.Errorf("%d rows after %d, the context takes %d: %w", j.rows, j.start, e.info.Context, engine.ErrContextFull)
	}
	for _, site := range f.Capture {
		if err := e.info.Caps.CanCapture(site); err != nil {
			return job{}, err
		}
		j.forced = j.forced || site.Layer == e.info.Layers-1
	}
	return j, nil
}

func (e *Engine) checkRows(f *engine.Feed) error {
	if f.Output > engine.OutputAll {
		return fmt.Errorf("unknown output %d", f.Output)
	}
	if f.Embeddings != nil {
		if !e.info.Caps.Embeddings {
			return engine.Unsupported("embeddings", "the model's input is not one residual row a token")
		}
		if n := len(f.Embeddings); n == 0 || n%e.info.Width != 0 {
			return fmt.Errorf("%d embedding values, want a multiple of the width %d", n, e.info.Width)
		}
		return checkFinite(f.Embeddings)
	}
	if len(f.Tokens) == 0 {
		return errors.New("no tokens")
	}
	for i, t := range f.Tokens {
		if t < 0 || int(t) >= e.info.Vocab {
			return fmt.Errorf("token %d at row %d is outside the vocabulary of %d", t, i, e.info.Vocab)
		}
	}
	return nil
}

func checkFinite(x []float32) error {
	for i, v := range x {
		if v-v != 0 {
			return fmt.Errorf("embedding value %d is %v", i, v)
		}
	}
	return nil
}

// watch raises the stop byte when ctx ends; the returned function stops watching.
func (e *Engine) watch(ctx context.Context, rows int) (done func()) {
	if ctx.Done() == nil || rows < interruptRows {
		return func() {}
	}
	raised := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		e.stop[0] = 1
		close(raised)
	})
	return func() {
		if !stop() {
			<-raised
			e.stop[0] = 0
		}
	}
}

// run feeds every job through as few llama_decode calls as possible.
func (e *Engine) run(total int) error {
	single := total <= e.batchRows
	for i := range e.jobs {
		e.prepare(&e.jobs[i])
		single = single && (e.jobs[i].feed.Embeddings == nil) == (e.jobs[0].feed.Embeddings == nil)
	}
	e.native.choose(e.jobs)
	e.rows.reset(e.jobs[0].feed.Embeddings != nil)
	for i := range e.jobs {
		j := &e.jobs[i]
		if embedded := j.feed.Embeddings != nil; embedded != e.rows.embedded {
			if err := e.flush(single); err != nil {
				return err
			}
			e.rows.reset(embedded)
		}
		for r := range j.rows {
			if e.rows.full() {
				if err := e.flush(single); err != nil {
					return err
				}
				e.rows.reset(e.rows.embedded)
			}
			e.rows.add(i, j, r, e.info.Width)
		}
	}
	return e.flush(single)
}

// prepare readies a sequence's result buffers for its job.
func (e *Engine) prepare(j *job) {
	s := j.seq
	s.epoch = e.epoch
	s.logits = nil
	for i := range s.captures {
		s.captures[i].on = false
	}
	for _, site := range j.feed.Capture {
		c := s.capture(site)
		c.on = true
		c.data = grow(c.data, j.rows*e.info.Width)
		e.keepInput(site.Layer)
	}
}

func grow(s []float32, n int) []float32 {
	if cap(s) < n {
		return make([]float32, n)
	}
	return s[:n]
}

// flush decodes the buffered rows and collects what came out. single says that
// no other call follows in this Forward, so llama.cpp's buffer stays valid.
func (e *Engine) flush(single bool) error {
	b := &e.rows
	if b.n == 0 {
		return nil
	}
	b.batch.nTokens = int32(b.n)
	e.hook.begin()
	rc := int32(e.frame.withStruct(e.lib.decode, e.ctx, unsafe.Pointer(&b.batch), batchWords))
	hookErr := e.hook.end()
	switch {
	case hookErr != nil:
		return hookErr
	case rc == 1:
		return fmt.Errorf("all %d cells are in use: %w", e.info.Cells, engine.ErrContextFull)
	case rc == 2:
		return context.Canceled
	case rc != 0:
		return fmt.Errorf("llama_decode returned %d: %s", rc, e.lib.log.take())
	}
	e.collectLogits(single)
	e.collectInputs()
	return nil
}

func (e *Engine) collectLogits(single bool) {
	var all []float32
	if e.rows.outs > 0 {
		base := e.frame.call(e.lib.getLogits, e.ctx)
		all = unsafe.Slice((*float32)(pointer(base)), e.rows.outs*e.info.Vocab)
	} else {
		e.frame.call(e.lib.synchronize, e.ctx)
	}
	for i := range e.jobs {
		j := &e.jobs[i]
		if j.wanted == 0 {
			continue
		}
		rows := decode.Logits(all[j.first*e.info.Vocab : (j.first+j.wanted)*e.info.Vocab])
		if !single {
			if j.seq.logits == nil {
				j.seq.copied = j.seq.copied[:0]
			}
			j.seq.copied = append(j.seq.copied, rows...)
			rows = j.seq.copied
		}
		j.seq.logits = rows
		j.wanted = 0
	}
}

// undo takes back what a failed Forward appended.
func (e *Engine) undo() error {
	if e.canvas {
		return nil
	}
	var faults []error
	for i := range e.jobs {
		j := &e.jobs[i]
		if err := j.seq.truncate(j.start); err != nil {
			j.seq.lost = true
			faults = append(faults, err)
		}
	}
	return errors.Join(faults...)
}
