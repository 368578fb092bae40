package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/runtime/engine"
	"github.com/trimtab/trimtab/runtime/engine/chat"
	"github.com/trimtab/trimtab/steer/extract"
)

const steerFitLong = `Make a steering vector from examples, on the very model that will use it.

Each line of --pairs is a JSON object: {"prompt":"...","chosen":"...",
"rejected":"..."}, or with "messages" instead of the prompt; 100 lines are a
good start. Without pairs, --prompts and --instruction let the model answer with
and without an instruction.

Half of the pairs give directions. A quarter chooses layer, place, rows and dose
by the log-probability of the answers, with the mean KL(unsteered || steered) on
neutral prompts within --max-kl. The last quarter is measured once, beside the negated
vector, a random one, one from shuffled labels, and --cue as a prompt.`

const steerFitExample = `  trimtab data export arithmetic-careful
  trimtab steer fit --model nano --pairs arithmetic-careful.jsonl --out careful.gguf --cue "be careful."
  trimtab steer fit -m model.gguf --prompts p.jsonl --instruction "Answer briefly." --out brief.gguf`

// fitFlags are the flags of `steer fit` besides the model.
type fitFlags struct {
	pairs, prompts, neutral  string
	instruction, opposite    string
	out, name, method, layer string
	cue                      string
	doses                    []float64
	maxKL                    float64
	seed                     uint64
	force, json              bool
}

func newSteerFit(a *app) *cobra.Command {
	c := &cobra.Command{Use: "fit", Short: "Make a steering vector from examples", Long: steerFitLong, Example: steerFitExample, Args: noArgs}
	ef, ff := newEngineFlags(c), &fitFlags{}
	var methods []string
	for _, m := range extract.Methods() {
		methods = append(methods, string(m))
	}
	f := c.Flags()
	f.StringVar(&ff.pairs, "pairs", "", "`FILE` of preference pairs")
	f.StringVar(&ff.prompts, "prompts", "", "`FILE` of prompts for --instruction")
	f.StringVar(&ff.instruction, "instruction", "", "`TEXT` that asks for the behaviour")
	f.StringVar(&ff.opposite, "opposite", "", "`TEXT` that asks for the opposite (default: nothing is asked)")
	f.StringVar(&ff.out, "out", "", "vector `FILE` to write (required)")
	f.StringVar(&ff.name, "name", "", "name of the vector (default: that of the file)")
	f.StringVar(&ff.method, "method", string(extract.Mean), strings.Join(methods, ", "))
	f.StringVar(&ff.layer, "layers", "", "blocks to consider, such as 8-14 (default: 20 to 80 % of the depth)")
	f.Float64SliceVar(&ff.doses, "doses", nil, "doses to try, as shares of the activation's norm (default: 0.05 to 0.8, and more while it helps)")
	f.StringVar(&ff.neutral, "neutral", "", "`FILE` of prompts that have nothing to do with the behaviour (default: everyday questions)")
	f.Float64Var(&ff.maxKL, "max-kl", extract.DefaultMaxKL, "most KL(unsteered || steered) on neutral prompts, in nats per token")
	f.StringVar(&ff.cue, "cue", "", "`TEXT` that asks for the behaviour, measured beside the vector")
	f.Uint64Var(&ff.seed, "seed", 0, "seed of the splits and of the random controls")
	f.BoolVar(&ff.force, "force", false, "write over an existing file")
	f.BoolVar(&ff.json, "json", false, "print one JSON object with every trial")
	f.SortFlags = false
	c.RunE = func(c *cobra.Command, _ []string) error {
		if err := errors.Join(ef.check(), ff.check(c)); err != nil {
			return err
		}
		return a.steerFit(c, ef, ff)
	}
	return c
}

func (ff *fitFlags) check(c *cobra.Command) error {
	if ff.out == "" {
		return usagef(c, "--out is missing: name the file to write")
	}
	if _, err := os.Lstat(ff.out); err == nil && !ff.force {
		return usagef(c, "%s exists; add --force to write over it", ff.out)
	}
	byPairs, byTrait := ff.pairs != "", ff.prompts != "" || ff.instruction != "" || ff.opposite != ""
	switch {
	case byPairs == byTrait:
		return usagef(c, "give either --pairs, or --prompts with --instruction")
	case byTrait && (ff.prompts == "" || ff.instruction == ""):
		return usagef(c, "--prompts and --instruction belong together")
	case !(ff.maxKL > 0):
		return usagef(c, "--max-kl is %v, must be above 0", ff.maxKL)
	}
	if _, err := extract.ParseMethod(ff.method); err != nil {
		return usagef(c, "--method: %w", err)
	}
	if _, err := layerRange(ff.layer); err != nil {
		return usagef(c, "--layers: %w", err)
	}
	return nil
}

// layerRange reads "8-14" or "9"; empty is nil.
func layerRange(s string) ([]int, error) {
	if s == "" {
		return nil, nil
	}
	from, to, ranged := strings.Cut(s, "-")
	if !ranged {
		to = from
	}
	lo, err := strconv.Atoi(from)
	hi, err2 := strconv.Atoi(to)
	if err != nil || err2 != nil || lo < 0 || hi < lo || hi >= 1024 {
		return nil, fmt.Errorf("%q is not a block or a range such as 8-14", s)
	}
	var out []int
	for l := lo; l <= hi; l++ {
		out = append(out, l)
	}
	return out, nil
}

// fitLanes is how many texts are run at once.
const fitLanes = 32

func (a *app) steerFit(c *cobra.Command, ef *engineFlags, ff *fitFlags) error {
	in, err := ff.read()
	if err != nil {
		return err
	}
	ctx, stop := a.interruptible(c.Context())
	defer stop()
	e, err := a.open(ctx, ef.options(a, fitLanes))
	if err != nil {
		return err
	}
	defer e.Close()
	p, err := chat.NewPrompter(e.Info(), chat.Options{})
	if err != nil {
		return badInput("%w", err)
	}
	line := newStatusLine(a)
	r, err := ff.fit(ctx, e, renderWith(p), in, func(p extract.Progress) {
		line.set(fmt.Sprintf("%s %s", bar(float64(p.Done)/float64(max(p.Total, 1)), 20), p.Stage), p.Done == p.Total)
	})
	line.clear()
	if errors.Is(err, extract.ErrPairs) {
		return badInput("%w", err)
	}
	if err != nil {
		return causeOr(ctx, err)
	}
	v := r.Vector(ff.vectorName())
	if err := v.WriteFile(ff.out); err != nil {
		return err
	}
	report := newFitReport(ff.out, v.Name, r)
	if ff.json {
		return json.NewEncoder(a.out).Encode(report)
	}
	report.print(a.out)
	return nil
}

func (ff *fitFlags) vectorName() string {
	if ff.name != "" {
		return ff.name
	}
	return strings.TrimSuffix(filepath.Base(ff.out), filepath.Ext(ff.out))
}

// fitInput is what the files hold.
type fitInput struct {
	pairs            []extract.Pair
	prompts, neutral [][]engine.Message
}

func (ff *fitFlags) read() (in fitInput, err error) {
	for _, x := range []struct {
		path string
		read func(*os.File) error
	}{
		{ff.pairs, func(f *os.File) (err error) { in.pairs, err = extract.ReadPairs(f); return err }},
		{ff.prompts, func(f *os.File) (err error) { in.prompts, err = extract.ReadPrompts(f); return err }},
		{ff.neutral, func(f *os.File) (err error) { in.neutral, err = extract.ReadPrompts(f); return err }},
	} {
		if x.path == "" {
			continue
		}
		f, err := os.Open(x.path)
		if err != nil {
			return in, badInput("%w", err)
		}
		err = x.read(f)
		f.Close()
		if err != nil {
			return in, badInput("%s: %w", x.path, err)
		}
	}
	return in, nil
}

func (ff *fitFlags) fit(ctx context.Context, e engine.Engine, render extract.Render, in fitInput, progress func(extract.Progress)) (*extract.Result, error) {
	var err error
	if in.pairs == nil {
		t := extract.Trait{Instruction: ff.instruction, Opposite: ff.opposite, Progress: progress}
		if in.pairs, err = extract.Contrast(ctx, e, render, in.prompts, t); err != nil {
			return nil, err
		}
	}
	layers, err := layerRange(ff.layer)
	if err != nil {
		return nil, err
	}
	return extract.Fit(ctx, e, render, in.pairs, extract.Options{Method: extract.Method(ff.method), Layers: layers, Doses: ff.doses,
		Neutral: in.neutral, MaxKL: ff.maxKL, Cue: ff.cue, Seed: ff.seed, Progress: progress})
}

// renderWith is how extraction sees a model's chat template.
func renderWith(p *chat.Prompter) extract.Render {
	return func(turns []engine.Message, header bool) ([]decode.Token, error) {
		in := chat.Input{AddGenerationPrompt: header}
		for _, m := range turns {
			in.Messages = append(in.Messages, chat.Message{Role: m.Role, Content: m.Content})
		}
		return p.Prompt(in)
	}
}
