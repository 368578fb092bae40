package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/trimtab/trimtab/cmd/trimtab/internal/checker"
	"github.com/trimtab/trimtab/cmd/trimtab/internal/eval"
	"github.com/trimtab/trimtab/runtime/engine"
	"github.com/trimtab/trimtab/runtime/engine/chat"
	"github.com/trimtab/trimtab/steer/extract"
)

const evalSteeringLong = `Fits every method to every behaviour and shows what each does to the answers,
beside the unsteered model, the best sentence that asks for it, and random,
shuffled and negated vectors.

Without --pairs, the model is expected to be nano: careful arithmetic and the
style attributes in both directions, judged by built-in checkers. With --pairs
(as for steer fit) and --check, any model. The checker reads one JSON object per
line, {"id":"0","prompt":"...","text":"..."}, and writes one for each of them,
{"id":"0","score":0.5}: how much the answer shows the behaviour, 0 to 1. A
"label" of broken, mixed or unknown counts as a broken answer.`

const evalSteeringExample = `  trimtab eval steering
  trimtab eval steering --quick
  trimtab eval steering -m model.gguf --pairs polite=pairs.jsonl --cue "polite=Be polite." --check "python3 judge.py" --out polite.md`

// evalSteeringFlags are the flags of `eval steering` besides the model.
type evalSteeringFlags struct {
	pairs, cues    []string
	neutral, check string
	methods        []string
	seeds, prompts int
	maxTokens      int
	temperature    float32
	maxKL          float64
	workers        int
	out            string
	quick, json    bool
}

func newEvalSteering(a *app) *cobra.Command {
	c := &cobra.Command{Use: "steering", Short: "Compare steering methods, with controls and damage", Long: evalSteeringLong, Example: evalSteeringExample, Args: noArgs}
	ef, f := newEngineFlags(c), &evalSteeringFlags{}
	p := c.Flags()
	p.StringArrayVar(&f.pairs, "pairs", nil, "`NAME=FILE` of preference pairs; may be given several times (default: the built-in behaviours of nano)")
	p.StringArrayVar(&f.cues, "cue", nil, "`NAME=TEXT` that asks for a behaviour; may be given several times, the best counts")
	p.StringVar(&f.neutral, "neutral", "", "`FILE` of prompts that have nothing to do with the behaviours (default: everyday questions)")
	p.StringVar(&f.check, "check", "", "`COMMAND` that judges answers to --pairs")
	p.StringSliceVar(&f.methods, "methods", nil, "methods to compare (default: all)")
	p.IntVar(&f.seeds, "seeds", 0, "seeds of answers, random and shuffled vectors (default 3; 1 with --quick)")
	p.IntVar(&f.prompts, "prompts", 0, "test prompts for each behaviour (default 100; 40 with --quick; with --pairs all)")
	p.IntVar(&f.maxTokens, "max-tokens", 128, "longest answer to --pairs, in tokens")
	p.Float32Var(&f.temperature, "temp", 0.8, "temperature of answers to --pairs")
	p.Float64Var(&f.maxKL, "max-kl", extract.DefaultMaxKL, "most divergence on neutral prompts, in nats per token")
	p.IntVar(&f.workers, "workers", 0, "behaviours measured at once, each on a copy of the model (default: 2 for nano, else 1)")
	p.BoolVar(&f.quick, "quick", false, "two behaviours, two methods, few answers: to see that it works")
	p.StringVar(&f.out, "out", "", "also write the tables to `FILE`, as in docs/results/steering.md")
	p.BoolVar(&f.json, "json", false, "print one JSON object with everything measured")
	p.SortFlags = false
	c.RunE = func(c *cobra.Command, _ []string) error {
		if err := errors.Join(ef.check(), f.valid(c)); err != nil {
			return err
		}
		ctx, stop := a.interruptible(c.Context())
		defer stop()
		return a.evalSteering(ctx, ef, f)
	}
	return c
}

func (f *evalSteeringFlags) valid(c *cobra.Command) error {
	for _, list := range [][]string{f.pairs, f.cues} {
		for _, s := range list {
			if name, value, ok := strings.Cut(s, "="); !ok || name == "" || value == "" {
				return usagef(c, "%q: want NAME=FILE for --pairs, NAME=TEXT for --cue", s)
			}
		}
	}
	for _, m := range f.methods {
		if _, err := extract.ParseMethod(m); err != nil {
			return usagef(c, "--methods: %w", err)
		}
	}
	switch {
	case len(f.pairs) > 0 != (f.check != ""):
		return usagef(c, "--pairs and --check belong together")
	case len(f.pairs) == 0 && len(f.cues) > 0:
		return usagef(c, "--cue needs --pairs: the built-in behaviours have their own")
	case f.seeds < 0 || f.seeds > 100 || f.prompts < 0 || f.prompts > 10000:
		return usagef(c, "--seeds must be 1 to 100, --prompts 1 to 10000")
	case f.workers < 0 || f.workers > 16:
		return usagef(c, "--workers is %d, must be 1 to 16", f.workers)
	case f.maxTokens < 1 || !(f.maxKL > 0) || !(f.temperature >= 0):
		return usagef(c, "--max-tokens, --max-kl and --temp must be above 0")
	}
	return nil
}

func (a *app) evalSteering(ctx context.Context, ef *engineFlags, f *evalSteeringFlags) error {
	o, err := f.options()
	if err != nil {
		return err
	}
	var mu sync.Mutex
	o.Now = a.now
	o.Say = func(line string) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintf(a.err, "%s %s\n", a.now().Format("15:04:05"), line)
	}
	o.Render = func(info *engine.Info) (extract.Render, error) {
		p, err := chat.NewPrompter(info, chat.Options{})
		if err != nil {
			return nil, badInput("%w", err)
		}
		return renderWith(p), nil
	}
	o.Open = func(ctx context.Context) (engine.Engine, error) { return a.open(ctx, ef.options(a, fitLanes)) }
	if o.Workers = f.workers; o.Workers == 0 {
		if o.Workers = 1; ef.model == nanoModel {
			o.Workers, o.Slots = min(2, runtime.NumCPU()), nanoSlots
		}
	}
	r, err := eval.Run(ctx, *o)
	if errors.Is(err, extract.ErrPairs) {
		return badInput("%w", err)
	}
	if err != nil {
		return causeOr(ctx, err)
	}
	if f.out != "" {
		if err := writeWhole(f.out, r.Markdown); err != nil {
			return err
		}
	}
	if f.json {
		return json.NewEncoder(a.out).Encode(r)
	}
	return r.Markdown(a.out)
}

// nanoSlots is how many answers of a tiny model are worth batching: attention
// over the others' cells soon costs more than its weights.
const nanoSlots = 8

// options are what is to be measured.
func (f *evalSteeringFlags) options() (*eval.Options, error) {
	o := &eval.Options{Seeds: f.seeds, MaxKL: f.maxKL, Temperature: f.temperature, MaxTokens: f.maxTokens, Counts: []int{25, 50}}
	for _, m := range f.methods {
		o.Methods = append(o.Methods, extract.Method(m))
	}
	if f.quick {
		o.Counts = nil
		if o.Seeds == 0 {
			o.Seeds = 1
		}
		if len(o.Methods) == 0 {
			o.Methods = []extract.Method{extract.PaLRS, extract.Guarded}
		}
	}
	if len(f.pairs) > 0 {
		return o, f.given(o)
	}
	n := eval.Nano{Train: 100, Choose: 64, Test: 100, Quick: f.quick}
	if f.quick {
		n = eval.Nano{Train: 40, Choose: 24, Test: 40, Quick: true}
	}
	if f.prompts > 0 {
		n.Test = f.prompts
	}
	return o, n.Fill(o)
}

// given reads the user's own behaviours.
func (f *evalSteeringFlags) given(o *eval.Options) error {
	c := &checker.Checker{Command: f.check}
	for _, s := range f.pairs {
		name, path, _ := strings.Cut(s, "=")
		g := eval.Given{Name: name, Checker: c, Prompts: f.prompts}
		err := reading(path, func(file *os.File) (err error) { g.Pairs, err = extract.ReadPairs(file); return err })
		if err != nil {
			return err
		}
		for _, cue := range f.cues {
			if of, text, _ := strings.Cut(cue, "="); of == name {
				g.Cues = append(g.Cues, text)
			}
		}
		axis, err := g.Axis(1)
		if err != nil {
			return badInput("%w", err)
		}
		o.Axes = append(o.Axes, axis)
	}
	all := extract.Everyday()
	if f.neutral != "" {
		if err := reading(f.neutral, func(file *os.File) (err error) { all, err = extract.ReadPrompts(file); return err }); err != nil {
			return err
		}
	}
	if len(all) < 2 {
		return badInput("%s: one prompt cannot be split in two: give at least two", f.neutral)
	}
	for i, turns := range all { // every other one, since files are often sorted
		if i%2 == 0 {
			o.Neutral.Choose = append(o.Neutral.Choose, turns)
		} else {
			o.Neutral.Test = append(o.Neutral.Test, turns)
		}
	}
	return nil
}

// reading opens a file and names it in what goes wrong.
func reading(path string, read func(*os.File) error) error {
	f, err := os.Open(path)
	if err != nil {
		return badInput("%w", err)
	}
	defer f.Close()
	if err := read(f); err != nil {
		return badInput("%s: %w", path, err)
	}
	return nil
}
