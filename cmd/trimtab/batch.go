package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/trimtab/trimtab/cmd/trimtab/internal/batch"
	"github.com/trimtab/trimtab/runtime"
	"github.com/trimtab/trimtab/runtime/engine"
)

const batchLong = `Answer a file of prompts, many at a time.

Each input line is a JSON object: {"id":"a","prompt":"raw text"} or
{"id":"b","messages":[{"role":"user","content":"hello"}]}. Each output line has
the id, text, tokens, finish_reason, usage and timings, in the input's order.

With --out on a file that exists, ids that it holds answers for are skipped, a
torn last line is cut off, and the run goes on where it ended. A faulty line
becomes a record with an error, and the exit code is then 4.`

const batchExample = `  trimtab batch -m model.gguf --in prompts.jsonl --out answers.jsonl
  trimtab batch -m model.gguf --temp 0 --parallel 16 < prompts.jsonl > answers.jsonl`

// batchFlags are the flags of `batch` besides model and sampling.
type batchFlags struct {
	in, out  string
	parallel int
	cells    int
	abort    bool
	stats    bool
}

func newBatch(a *app) *cobra.Command {
	c := &cobra.Command{Use: "batch", GroupID: "use", Short: "Answer a file of prompts, many at a time", Long: batchLong, Example: batchExample, Args: noArgs}
	ef, sf, kf, bf := newEngineFlags(c), newSampling(c), newRecording(c), &batchFlags{}
	f := c.Flags()
	f.StringVar(&bf.in, "in", "-", "`FILE` of requests, - for the standard input")
	f.StringVar(&bf.out, "out", "-", "`FILE` of answers, - for the standard output")
	f.IntVar(&bf.parallel, "parallel", 4, "requests answered at once; with 1, equal runs give equal bits")
	f.IntVar(&bf.cells, "cells", 0, "tokens kept for all requests together (default: --ctx times --parallel, at most times 4)")
	f.BoolVar(&bf.abort, "abort", false, "end at the first faulty line")
	f.BoolVar(&bf.stats, "stats", false, "print counts and speed at the end")
	f.SortFlags = false
	c.RunE = func(c *cobra.Command, _ []string) error {
		if err := errors.Join(ef.check(), sf.check(c), kf.check(c), bf.check(c)); err != nil {
			return err
		}
		return batchCommand(c, a, ef, sf, kf, bf)
	}
	return c
}

func (b *batchFlags) check(c *cobra.Command) error {
	switch {
	case b.in == "" || b.out == "":
		return usagef(c, "--in and --out must not be empty: - stands for the standard streams")
	case b.parallel < 1 || b.parallel > batch.MaxParallel-spareSequences:
		return usagef(c, "--parallel is %d, must be between 1 and %d", b.parallel, batch.MaxParallel-spareSequences)
	case b.cells < 0 || b.cells > 1<<24:
		return usagef(c, "--cells is %d, must be between 8 and %d", b.cells, 1<<24)
	}
	return nil
}

// schedule says how requests share the engine. One at a time they share
// nothing, not even cached prefixes: sums over other shapes of a batch differ in
// their last bits, and then equal runs would not give equal texts.
func (b *batchFlags) schedule() runtime.Options {
	return runtime.Options{Slots: b.parallel, Queue: b.parallel, NoCache: b.parallel == 1}
}

func batchCommand(c *cobra.Command, a *app, ef *engineFlags, sf *sampling, kf *recording, bf *batchFlags) (err error) {
	files, err := bf.files(c, a)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, files.close()) }()
	keep, err := kf.open(bf.parallel == 1)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, keep.close()) }() // after the sessions have ended
	ctx, stop := a.interruptible(c.Context())
	defer stop()
	ef.cells, ef.shadows = bf.cells, sf.shadowing.wanted()
	m, err := load(ctx, a, ef, bf.schedule())
	if err != nil {
		return err
	}
	defer m.close()
	if err := m.prepare(sf); err != nil {
		return err
	}
	m.guard.hints(a.err)
	if bf.in == "-" && a.inTTY {
		fmt.Fprintln(a.err, "reading requests from the terminal, one JSON object a line; Ctrl-D ends")
	}
	show := newBatchProgress(a, files.size)
	o := batch.Options{
		In: files.in, Out: files.out, Parallel: bf.parallel, Abort: bf.abort, Done: files.done, Progress: show.report,
		Generate: func(ctx context.Context, r *batch.Request) (*batch.Answer, error) {
			return m.generate(ctx, r, sf, keep)
		},
	}
	p, err := batch.Run(ctx, o)
	show.end(p, bf.stats)
	return batchError(p, err)
}

// batchError maps what Run says to what the user is told.
func batchError(p batch.Progress, err error) error {
	var fault *batch.RequestError
	switch {
	case errors.As(err, &fault):
		return badInput("%w", err)
	case err == nil && p.Failed > 0:
		return badInput("%d of %d lines are faulty: their records say why", p.Failed, p.Failed+p.Answered+p.Skipped)
	}
	return err
}

// generate answers one request of a batch. Faults of the request are told from
// faults of the engine.
func (m *loaded) generate(ctx context.Context, r *batch.Request, s *sampling, keep *recorder) (*batch.Answer, error) {
	encode := func() (tokens, error) { return m.rawPrompt(r.Prompt) }
	if r.Messages != nil {
		encode = func() (tokens, error) { return m.chatPrompt(r.Messages) }
	}
	prompt, err := encode()
	if err != nil {
		return nil, &batch.RequestError{Err: err}
	}
	cfg, err := s.config(m, prompt)
	if err != nil {
		return nil, err
	}
	b := m.guard.watch()
	cfg.Listener = runtime.Listeners(cfg.Listener, b.listener(), keep.listener(string(r.ID), s))
	st, err := m.sched.Submit(ctx, cfg)
	if errors.Is(err, engine.ErrContextFull) {
		return nil, &batch.RequestError{Err: err}
	}
	if err != nil {
		return nil, err
	}
	res, err := st.Wait(context.WithoutCancel(ctx)) // Submit's context ends it
	if err != nil {
		return nil, causeOr(ctx, err)
	}
	a := answerOf(res)
	b.report(a)
	return a, nil
}

// batchFiles are the open ends of a batch.
type batchFiles struct {
	in    io.Reader
	out   io.Writer
	size  int64 // of the input in bytes; 0 when unknown
	done  *batch.Done
	input *os.File
	file  *os.File // the output, when it is a file
}

func (b *batchFlags) files(c *cobra.Command, a *app) (f *batchFiles, err error) {
	f = &batchFiles{in: a.in, out: a.out}
	defer func() {
		if err != nil {
			f.close()
		}
	}()
	if b.in != "-" {
		if f.input, err = os.Open(b.in); err != nil {
			return f, badInput("--in: %w", err)
		}
		st, err := f.input.Stat()
		if err == nil && st.IsDir() {
			return f, badInput("--in: %s is a folder", b.in)
		}
		if err == nil && st.Mode().IsRegular() {
			f.size = st.Size()
		}
		f.in = f.input
	}
	if b.out == "-" {
		return f, nil
	}
	return f, b.openOutput(c, a, f)
}

// openOutput opens the output file and finds out what is done already.
func (b *batchFlags) openOutput(c *cobra.Command, a *app, f *batchFiles) (err error) {
	if sameFile(b.in, b.out) {
		return usagef(c, "--in and --out are the same file")
	}
	if f.file, err = os.OpenFile(b.out, os.O_RDWR|os.O_CREATE, 0o644); err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	if st, err := f.file.Stat(); err == nil && !st.Mode().IsRegular() {
		f.out = f.file // a device or pipe: nothing to resume
		return nil
	}
	if f.done, err = batch.Resume(f.file); err != nil {
		return badInput("--out %s: %w; name another file", b.out, err)
	}
	if f.done.Answered > 0 {
		fmt.Fprintf(a.err, "%s holds %d answers, going on behind them\n", b.out, f.done.Answered)
	}
	f.out = f.file
	return nil
}

func sameFile(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	return errX == nil && errY == nil && os.SameFile(x, y)
}

// close syncs the output to disk: an answer that was counted is then kept.
func (f *batchFiles) close() (err error) {
	if f.file != nil {
		if st, e := f.file.Stat(); e == nil && st.Mode().IsRegular() {
			err = f.file.Sync()
		}
		err = errors.Join(err, f.file.Close())
	}
	if f.input != nil {
		f.input.Close()
	}
	if err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	return nil
}
