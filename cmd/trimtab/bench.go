package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/trimtab/trimtab/bindings/llamacpp"
	"github.com/trimtab/trimtab/cmd/trimtab/internal/bench"
	"github.com/trimtab/trimtab/internal/randmodel"
)

const benchDecodeLong = `Compares Trimtab with a bare llama_decode and argmax loop, in one process, on
one loaded model, in turn. A ratio of 1 means that Trimtab costs nothing; the
median of the rounds counts, with the smallest and largest beside it.

Without --model it makes a random-weight model of 315 M parameters (Q8_0, 335 MB,
kept in the user's cache) and measures the built-in model as well.`

const benchDecodeExample = `  trimtab bench decode
  trimtab bench decode --model model.gguf --rounds 9 --json`

// benchFlags are the flags of "bench decode".
type benchFlags struct {
	model, lib string
	threads    int
	rounds     int
	tokens     int
	json       bool
	markdown   string
}

func newBench(a *app) *cobra.Command {
	var f benchFlags
	decode := &cobra.Command{
		Use: "decode", Short: "What the step loop costs on top of llama.cpp",
		Long: benchDecodeLong, Example: benchDecodeExample, Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if f.rounds < 1 || f.rounds > 1000 || f.tokens < 2 || f.tokens > 1024 {
				return usagef(c, "--rounds must be between 1 and 1000, --tokens between 2 and 1024")
			}
			ctx, stop := a.interruptible(c.Context())
			defer stop()
			return a.benchDecode(ctx, &f)
		},
	}
	p := decode.Flags()
	p.StringVarP(&f.model, "model", "m", "", "GGUF `FILE`, or nano")
	p.StringVar(&f.lib, "lib", "", "`DIR` with the llama.cpp libraries")
	p.IntVar(&f.threads, "threads", 0, "processor threads (default: one a core, at most 16)")
	p.IntVar(&f.rounds, "rounds", 7, "paired rounds")
	p.IntVar(&f.tokens, "tokens", 48, "tokens per sequence and round")
	p.BoolVar(&f.json, "json", false, "print JSON")
	p.StringVar(&f.markdown, "markdown", "", "also write the tables to `FILE`, as in docs/results")
	return group(a, "bench", "Measure what Trimtab costs, as paired ratios", benchDecodeLong, decode, newBenchSteer(a), newBenchMonitors(a))
}

const benchDecodeHead = `# What the step loop costs

Written by "trimtab bench decode --markdown FILE". Both sides do the same work in turn, in one process, on one loaded model:
"bare" is llama_decode and an argmax, Trimtab is a greedy session or scheduler. 1 means no cost. Ratios are of neighbouring
runs; the absolute figures are those of this machine and day.
`

// benchDecode measures one model, or the two default ones.
func (a *app) benchDecode(ctx context.Context, f *benchFlags) error {
	type job struct {
		model string
		large bool
	}
	jobs := []job{{f.model, f.model != nanoModel}}
	if f.model == "" {
		large, err := a.presetFile("0.3b")
		if err != nil {
			return err
		}
		jobs = []job{{large, true}, {nanoModel, false}}
	}
	var table strings.Builder
	table.WriteString(benchDecodeHead)
	for _, j := range jobs {
		rep, err := a.benchModel(ctx, f, j.model, j.large)
		if err != nil {
			return err
		}
		if err := errors.Join(a.showBench(rep, f.json), rep.Markdown(&table)); err != nil {
			return err
		}
	}
	if f.markdown == "" {
		return nil
	}
	return writeWhole(f.markdown, func(w io.Writer) error {
		_, err := io.WriteString(w, table.String())
		return err
	})
}

func (a *app) showBench(rep *bench.Report, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(a.out).Encode(rep)
	}
	return rep.Print(a.out)
}

// presetFile makes a random model once and returns its path.
func (a *app) presetFile(preset string) (string, error) {
	spec, err := randmodel.Preset(preset)
	if err != nil {
		return "", badInput("%v", err)
	}
	dir := os.TempDir()
	if a.env.Cache != "" {
		dir = a.env.Cache
	}
	path := filepath.Join(dir, "trimtab", "models", "random-"+preset+".gguf")
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	fmt.Fprintln(a.err, "making a random model:", path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", err
	}
	return path, randmodel.Write(path, spec)
}

// benchModel measures one model. A large one is measured in batches and on a
// long prompt as well.
func (a *app) benchModel(ctx context.Context, f *benchFlags, model string, large bool) (*bench.Report, error) {
	o := openOptions{model: model, lib: f.lib, env: a.env, parallel: 1}
	o.llama = llamacpp.Options{Threads: f.threads, MaxSequences: 17}
	d := bench.Decode{Rounds: f.rounds, Tokens: f.tokens, Prompt: 8, Now: a.now,
		Note: func(s string) { fmt.Fprintln(a.err, s) }}
	if large {
		o.llama.Context = 4352 // the long prompt and what follows it
		d.Prefill, d.Batches = 4000, []int{4, 16}
	} else {
		d.Tokens *= 4 // a token takes far less than a millisecond
	}
	e, err := a.open(ctx, o)
	if err != nil {
		return nil, err
	}
	defer e.Close()
	var ok bool
	if d.Engine, ok = e.(*llamacpp.Engine); !ok {
		return nil, errors.New("bench: this engine is not llama.cpp in-process")
	}
	if most := (e.Info().Context - 64) / 2; d.Tokens > most {
		return nil, badInput("bench: %d tokens a run do not fit the model's context of %d: use --tokens %d or less", d.Tokens, e.Info().Context, f.tokens*most/d.Tokens)
	}
	return d.Run(ctx)
}
