package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/trimtab/trimtab/cmd/trimtab/internal/bench"
)

const benchMonitorsLong = `Measures what watching a model's state costs, as ratios of runs made in turn in
one process: reading one block's output or all of them, and a session with a
probe; and how long probes, a value function and a filter take on their own.

Without --model it makes a random-weight model of 315 M parameters (Q8_0, 335 MB,
kept in the user's cache).`

const benchMonitorsExample = `  trimtab bench monitors
  trimtab bench monitors --rounds 1 --tokens 4
  trimtab bench monitors --markdown docs/results/monitors-cost.md`

const benchMonitorsHead = `# What monitors cost

Written by "trimtab bench monitors --markdown FILE". Both sides of a ratio do the same work in turn, in one process, on one
model file; 1 means no cost. Ratios are of neighbouring runs; the absolute figures are those of this machine and day.

The output of any block but the last is recorded by llama.cpp itself as the input of the next, where the architecture allows it:
the graph runs through. The last block's output is no block's input, so the graph stops there.
`

func newBenchMonitors(a *app) *cobra.Command {
	var f benchFlags
	preset := "0.3b"
	c := &cobra.Command{
		Use: "monitors", Short: "What watching the model's state costs",
		Long: benchMonitorsLong, Example: benchMonitorsExample, Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := f.checkRun(); err != nil {
				return usagef(c, "%v", err)
			}
			ctx, stop := a.interruptible(c.Context())
			defer stop()
			return a.benchMonitors(ctx, &f, preset)
		},
	}
	f.add(c)
	c.Flags().StringVar(&preset, "preset", preset, "shape of the random model: tiny, 0.3b or 0.5b")
	return c
}

func (a *app) benchMonitors(ctx context.Context, f *benchFlags, preset string) error {
	first, err := a.benchEngine(ctx, f, preset, 1)
	if err != nil {
		return err
	}
	defer first.Close()
	twin, err := a.benchEngine(ctx, f, preset, 1)
	if err != nil {
		return err
	}
	defer twin.Close()
	d := bench.Monitors{Engine: first, Twin: twin, Rounds: f.rounds, Tokens: f.tokens,
		Now: a.now, Note: func(s string) { fmt.Fprintln(a.err, s) }}
	rep, err := d.Run(ctx)
	if err != nil {
		return err
	}
	return a.benchResult(rep, benchMonitorsHead, f)
}
