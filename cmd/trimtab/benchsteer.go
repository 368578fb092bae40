package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/trimtab/trimtab/bindings/llamacpp"
	"github.com/trimtab/trimtab/cmd/trimtab/internal/bench"
)

const benchSteerLong = `Measures what steering costs, as ratios of runs made in turn in one process on
one loaded model: at rest, one vector for a whole batch, a plan for each
sequence, every block hooked, several plans, every operation, conditions and
gates, and how long it takes to switch plans.

Without --model it makes a random-weight model of 315 M parameters (Q8_0, 335 MB,
kept in the user's cache). The figures of docs/results/steer-cost.md take some
six minutes on two idle cores.`

const benchSteerExample = `  trimtab bench steer
  trimtab bench steer --rounds 1 --tokens 4 --batch 1
  trimtab bench steer --markdown docs/results/steer-cost.md`

// benchSteerFlags are the flags of "bench steer".
type benchSteerFlags struct {
	benchFlags
	preset   string
	batches  []int
	switches int
}

func newBenchSteer(a *app) *cobra.Command {
	var f benchSteerFlags
	c := &cobra.Command{
		Use: "steer", Short: "What steering costs",
		Long: benchSteerLong, Example: benchSteerExample, Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := f.check(); err != nil {
				return usagef(c, "%v", err)
			}
			ctx, stop := a.interruptible(c.Context())
			defer stop()
			return a.benchSteer(ctx, &f)
		},
	}
	f.add(c)
	p := c.Flags()
	p.StringVar(&f.preset, "preset", "0.3b", "shape of the random model: tiny, 0.3b or 0.5b")
	p.IntSliceVar(&f.batches, "batch", []int{1, 4, 16}, "`SIZES` of the batches, in growing order")
	p.IntVar(&f.switches, "switches", 60, "plan switches timed for each case")
	return c
}

// add defines the flags that the comparisons share.
func (f *benchFlags) add(c *cobra.Command) {
	p := c.Flags()
	p.StringVarP(&f.model, "model", "m", "", "GGUF `FILE`, or nano")
	p.StringVar(&f.lib, "lib", "", "`DIR` with the llama.cpp libraries")
	p.IntVar(&f.threads, "threads", 0, "processor threads (default: one a core, at most 16)")
	p.IntVar(&f.rounds, "rounds", 7, "paired rounds")
	p.IntVar(&f.tokens, "tokens", 16, "steps of a run")
	p.BoolVar(&f.json, "json", false, "print JSON")
	p.StringVar(&f.markdown, "markdown", "", "also write the tables to `FILE`, as in docs/results")
}

// maxBenchTokens keeps a run within the context that the comparisons open.
const maxBenchTokens = 256

func (f *benchFlags) checkRun() error {
	if f.rounds < 1 || f.rounds > 1000 || f.tokens < 1 || f.tokens > maxBenchTokens {
		return fmt.Errorf("--rounds must be between 1 and 1000, --tokens between 1 and %d", maxBenchTokens)
	}
	return nil
}

func (f *benchSteerFlags) check() error {
	if err := f.checkRun(); err != nil {
		return err
	}
	if f.switches < 2 || f.switches > 10000 {
		return errors.New("--switches must be between 2 and 10000")
	}
	if len(f.batches) == 0 {
		return errors.New("--batch names no size")
	}
	for i, n := range f.batches {
		if n < 1 || n > 64 || i > 0 && n <= f.batches[i-1] {
			return errors.New("--batch must be growing sizes between 1 and 64")
		}
	}
	return nil
}

const benchSteerHead = `# What steering costs

Written by "trimtab bench steer --markdown FILE". Both sides of a ratio do the same work in turn, in one process, on one loaded
model: the same tokens, the same positions, one step for all sequences at a time. 1 means no cost. Ratios are of neighbouring
runs; the absolute figures are those of this machine and day. Random weights compute what trained ones do.

A plan that a whole batch shares and that only adds becomes llama.cpp's own control vector after 32 steps. Everything else stops
the graph at the hooked block, edits the rows of its sequences in place, and goes on.
`

func (a *app) benchSteer(ctx context.Context, f *benchSteerFlags) error {
	first, err := a.benchEngine(ctx, &f.benchFlags, f.preset, f.batches[len(f.batches)-1])
	if err != nil {
		return err
	}
	defer first.Close()
	twin, err := a.benchEngine(ctx, &f.benchFlags, f.preset, f.batches[len(f.batches)-1])
	if err != nil {
		return err
	}
	defer twin.Close()
	d := bench.Steer{Engine: first, Twin: twin, Rounds: f.rounds, Tokens: f.tokens, Batches: f.batches, Switches: f.switches,
		Now: a.now, Note: func(s string) { fmt.Fprintln(a.err, s) }}
	rep, err := d.Run(ctx)
	if err != nil {
		return err
	}
	return a.benchResult(rep, benchSteerHead, &f.benchFlags)
}

// benchEngine opens a model for comparisons of up to n sequences: the named one,
// or a random one of the preset's shape.
func (a *app) benchEngine(ctx context.Context, f *benchFlags, preset string, n int) (*llamacpp.Engine, error) {
	model := f.model
	if model == "" {
		var err error
		if model, err = a.presetFile(preset); err != nil {
			return nil, err
		}
	}
	o := openOptions{model: model, lib: f.lib, env: a.env, parallel: 1}
	const rows = 64 + maxBenchTokens // a prompt, the warm-up under a plan, and a run
	o.llama = llamacpp.Options{Threads: f.threads, MaxSequences: n, Context: rows, Cells: n * rows}
	e, err := a.open(ctx, o)
	if err != nil {
		return nil, err
	}
	llama, ok := e.(*llamacpp.Engine)
	if !ok {
		return nil, errors.Join(errors.New("bench: this engine is not llama.cpp in-process"), e.Close())
	}
	return llama, nil
}

// benchReport is a report that can be shown in three forms.
type benchReport interface {
	Print(io.Writer) error
	Markdown(io.Writer) error
}

// benchResult prints a report and writes it to the file that was asked for.
func (a *app) benchResult(rep benchReport, head string, f *benchFlags) error {
	show := rep.Print
	if f.json {
		show = func(w io.Writer) error { return json.NewEncoder(w).Encode(rep) }
	}
	if err := show(a.out); err != nil || f.markdown == "" {
		return err
	}
	var text strings.Builder
	text.WriteString(head)
	fmt.Fprintf(&text, "\n%s/%s, %d cores, --rounds %d --tokens %d.\n", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), f.rounds, f.tokens)
	if err := rep.Markdown(&text); err != nil {
		return err
	}
	return writeWhole(f.markdown, func(w io.Writer) error {
		_, err := io.WriteString(w, text.String())
		return err
	})
}
