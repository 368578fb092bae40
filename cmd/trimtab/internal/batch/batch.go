// Package batch answers a file of prompts, many at a time, in the order of the
// file.
//
// The model for the reader's head is a conveyor belt of fixed length. A reader
// puts lines on it, workers answer them in any order, and a writer takes
// finished records off its front, so the output has the input's order and the
// memory in use does not depend on the length of the file. [Run] moves the
// belt; [Resume] reads an earlier, perhaps torn output and says what is done.
package batch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/trimtab/trimtab/internal/jsonl"
)

// MaxParallel bounds Options.Parallel.
const MaxParallel = 256

// Options say what to answer and how. In, Out and Generate are required.
type Options struct {
	In  io.Reader // one [Request] a line
	Out io.Writer // one [Record] a line, each in one Write
	// Generate answers one request. It is called by Parallel goroutines. An
	// error that is a *RequestError concerns that request only; any other
	// ends the run.
	Generate func(ctx context.Context, r *Request) (*Answer, error)
	Parallel int  // requests answered at once, 1 to MaxParallel; 0 means 1
	Ahead    int  // lines read ahead of the oldest unanswered one; 0 means 4 x Parallel
	Abort    bool // end at the first faulty line instead of writing an error record
	Done     *Done
	Limits   jsonl.Limits
	// Progress, if set, is called after every line, on Run's goroutine.
	Progress func(Progress)
}

// Progress counts lines so far.
type Progress struct {
	Answered int   // records with an answer
	Failed   int   // faulty lines
	Skipped  int   // done by an earlier run
	Tokens   int   // generated
	Offset   int64 // in the input, behind the last line counted
}

// RequestError is a fault of one request: bad JSON, a prompt that does not fit.
type RequestError struct {
	Line int // filled in by Run
	Err  error
}

func (e *RequestError) Error() string { return fmt.Sprintf("line %d: %v", e.Line, e.Err) }

// Unwrap gives the fault.
func (e *RequestError) Unwrap() error { return e.Err }

// slot is one place on the belt. done is closed when the rest is final.
type slot struct {
	line   int
	end    int64
	req    *Request
	key    key // of the id, or of the line when it has none
	answer *Answer
	fault  error // of this line
	fatal  error // of the run
	skip   bool
	done   chan struct{}
}

// Run answers every line of the input and returns the counts. When ctx ends it
// writes what is finished at the front of the belt and returns the cause; a Read
// of Options.In that blocks then outlives Run. With Options.Abort the error is
// a *RequestError.
func Run(ctx context.Context, o Options) (Progress, error) {
	if o.Parallel < 0 || o.Parallel > MaxParallel {
		return Progress{}, fmt.Errorf("batch: parallel is %d, must be between 1 and %d", o.Parallel, MaxParallel)
	}
	o.Parallel = max(o.Parallel, 1)
	if o.Ahead <= 0 {
		o.Ahead = 4 * o.Parallel
	}
	if o.Done == nil {
		o.Done = &Done{}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	b := &belt{Options: o, order: make(chan *slot, o.Ahead), jobs: make(chan *slot), cancel: cancel}
	var workers sync.WaitGroup
	for range o.Parallel {
		workers.Go(func() { b.work(ctx) })
	}
	go b.read(ctx)
	p, err := b.write(ctx)
	cancel(err)
	workers.Wait()
	return p, err
}

type belt struct {
	Options
	order  chan *slot // in input order; closed by read
	jobs   chan *slot // those to answer; closed by read
	cancel context.CancelCauseFunc
}

// read puts lines on the belt until the input or ctx ends.
func (b *belt) read(ctx context.Context) {
	defer close(b.jobs)
	defer close(b.order)
	in := newInput(b.In, b.Limits, b.Done)
	for {
		s := in.next()
		if s == nil {
			return
		}
		select {
		case b.order <- s:
		case <-ctx.Done():
			return
		}
		if s.final() {
			close(s.done)
			if s.fatal != nil {
				return
			}
			continue
		}
		select {
		case b.jobs <- s:
		case <-ctx.Done():
			return
		}
	}
}

// final reports whether nothing is left to be worked on.
func (s *slot) final() bool { return s.skip || s.fault != nil || s.fatal != nil }

// work answers jobs until there are no more or ctx ends.
func (b *belt) work(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case s, ok := <-b.jobs:
			if !ok {
				return
			}
			b.answer(ctx, s)
		}
	}
}

func (b *belt) answer(ctx context.Context, s *slot) {
	defer close(s.done)
	a, err := b.Generate(ctx, s.req)
	var fault *RequestError
	switch {
	case ctx.Err() != nil:
		s.fatal = context.Cause(ctx)
	case errors.As(err, &fault):
		s.fault = fault.Err
	case err != nil:
		s.fatal = fmt.Errorf("line %d: %w", s.line, err)
		b.cancel(s.fatal)
	default:
		s.answer = a
	}
}

// write takes slots off the belt in order.
func (b *belt) write(ctx context.Context) (p Progress, err error) {
	for {
		s, err := b.front(ctx)
		if s == nil || err != nil {
			return p, err
		}
		if s.fatal != nil {
			return p, s.fatal
		}
		if err := b.take(s, &p); err != nil {
			return p, err
		}
		if b.Progress != nil {
			b.Progress(p)
		}
	}
}

// front waits for the oldest slot to be final; nil at the end. After ctx has
// ended it only takes what is final already.
func (b *belt) front(ctx context.Context) (*slot, error) {
	s, ok := b.oldest(ctx)
	if !ok {
		return nil, context.Cause(ctx)
	}
	select {
	case <-s.done:
		return s, nil
	default:
	}
	select {
	case <-s.done:
		return s, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// oldest takes the next slot off the belt, one that is there already first.
func (b *belt) oldest(ctx context.Context) (s *slot, ok bool) {
	select {
	case s, ok = <-b.order:
		return s, ok
	default:
	}
	select {
	case s, ok = <-b.order:
		return s, ok
	case <-ctx.Done():
		return nil, false
	}
}

// take writes the slot's record and counts it.
func (b *belt) take(s *slot, p *Progress) error {
	p.Offset = s.end
	switch {
	case s.skip:
		p.Skipped++
		return nil
	case s.fault != nil && b.Abort:
		return &RequestError{Line: s.line, Err: s.fault}
	case s.fault != nil:
		p.Failed++
		if b.Done.sameFault(s.key, s.fault) {
			return nil
		}
		return b.emit(Record{ID: s.id(), Error: &Fault{Line: s.line, Message: s.fault.Error()}})
	}
	p.Answered++
	p.Tokens += len(s.answer.Tokens)
	return b.emit(Record{ID: s.id(), Answer: s.answer})
}

func (b *belt) emit(r Record) error {
	line, err := r.encode()
	if err != nil {
		return err
	}
	if _, err := b.Out.Write(line); err != nil {
		return fmt.Errorf("write the output: %w", err)
	}
	return nil
}

func (s *slot) id() ID {
	if s.req == nil {
		return nil
	}
	return s.req.ID
}
