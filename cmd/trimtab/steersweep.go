package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/trimtab/trimtab/cmd/trimtab/internal/checker"
	"github.com/trimtab/trimtab/cmd/trimtab/internal/plot"
	"github.com/trimtab/trimtab/cmd/trimtab/internal/sweep"
	"github.com/trimtab/trimtab/runtime/engine"
	"github.com/trimtab/trimtab/runtime/engine/chat"
	"github.com/trimtab/trimtab/steer/extract"
)

const steerSweepLong = `Measure what a vector does at each of several doses, and what it costs.

The vectors of --steer that name no dose get each of --doses in turn, and with
--layers at each block alone. The unsteered model is measured beside them:

  effect      on --pairs: how much likelier the chosen answers become, in nats a
              pair; what the rejected ones lose counts as far as that
  score       of sampled answers to --prompts, by --check
  KL          KL(unsteered || steered) on the unsteered model's own answers to
              neutral prompts: the mean, exact, in nats a token
  perplexity  of --text, or of those answers
  distinct-2  share of different token pairs in the answers; and how many
              answers end in a loop

Each comes with a 95 % bootstrap interval over pairs, texts or prompts. --pairs
are dealt as by "steer fit" with the same --seed, and only the split that the fit
has not seen is used.

--check is a command, run by the shell, that gets a JSON object a line
({"id", "prompt" or "messages", "text"}) and prints {"id", "score"} with a score
from 0 to 1, or a "label", for each. "nano" and "nano-right" judge the data sets
of "trimtab data": whether the behaviour shows, whether the sum is right.`

const steerSweepExample = `  trimtab data export arithmetic-careful
  trimtab steer sweep --vector careful=careful.gguf --pairs arithmetic-careful.jsonl --check nano --plot careful.svg
  trimtab steer sweep -m model.gguf --vector kind=kind.gguf --prompts p.jsonl --check "python3 judge.py" --doses 0.1,0.2,0.4 --out json`

// sweepFlags are the flags of `steer sweep` besides model and vectors.
type sweepFlags struct {
	pairs, split   string
	prompts, check string
	checkTime      time.Duration
	neutral, text  string
	doses          []float64
	layer          string
	answers, seeds int
	temp           float32
	maxTokens      int
	seed           uint64
	out, plot      string

	layers []int // of layer
}

func newSteerSweep(a *app) *cobra.Command {
	c := &cobra.Command{Use: "sweep", Short: "Measure effect and damage of a vector by dose", Long: steerSweepLong, Example: steerSweepExample, Args: noArgs}
	ef, st, sw := newEngineFlags(c), newSteering(c), &sweepFlags{}
	f := c.Flags()
	f.Float64SliceVar(&sw.doses, "doses", nil, "doses to measure (default: 0.25 to 3 times the vector's own)")
	f.StringVar(&sw.layer, "layers", "", "blocks to steer at, one at a time, such as 8-14 (default: all of the vector's together)")
	f.StringVar(&sw.pairs, "pairs", "", "`FILE` of preference pairs")
	f.StringVar(&sw.split, "split", string(extract.Test), "pairs to use: test, validation, train or all")
	f.StringVar(&sw.prompts, "prompts", "", "`FILE` of prompts to answer (default: those of --pairs)")
	f.StringVar(&sw.check, "check", "", "`COMMAND` that judges answers, or nano, or nano-right")
	f.DurationVar(&sw.checkTime, "check-timeout", checker.DefaultTimeout, "longest time for one run of the command")
	f.StringVar(&sw.neutral, "neutral", "", "`FILE` of prompts that have nothing to do with the behaviour (default: everyday questions)")
	f.StringVar(&sw.text, "text", "", "`FILE` of plain text to measure perplexity on")
	f.IntVar(&sw.answers, "answers", 16, "prompts that are answered for each dose and seed, 0 for none")
	f.IntVar(&sw.seeds, "seeds", 3, "answers to each prompt")
	f.Float32Var(&sw.temp, "temp", 0.8, "temperature of the answers")
	f.IntVar(&sw.maxTokens, "max-tokens", 128, "longest answer in tokens")
	f.Uint64Var(&sw.seed, "seed", 0, "seed of splits, answers and intervals")
	f.StringVar(&sw.out, "out", "table", "table, or json: one object")
	f.StringVar(&sw.plot, "plot", "", "`FILE` for the curves, .png or .svg")
	f.SortFlags = false
	c.RunE = func(c *cobra.Command, _ []string) error {
		if err := errors.Join(ef.check(), st.check(c), sw.verify(c, st)); err != nil {
			return err
		}
		return a.steerSweep(c, ef, st, sw)
	}
	return c
}

// Bounds of a sweep.
const (
	maxSweepAnswers = 10_000
	maxSweepSeeds   = 100
)

func (sw *sweepFlags) verify(c *cobra.Command, st *steering) (err error) {
	if sw.layers, err = layerRange(sw.layer); err != nil {
		return usagef(c, "--layers: %w", err)
	}
	for _, d := range sw.doses {
		if math.IsNaN(d) || math.Abs(d) > math.MaxFloat32 {
			return usagef(c, "--doses: %v is not a dose", d)
		}
	}
	if sw.plot != "" {
		if _, err := plot.FormatOf(sw.plot); err != nil {
			return usagef(c, "--plot: %w", err)
		}
	}
	switch {
	case st.expr == nil:
		return usagef(c, "--vector is missing: name the vector to measure, as in --vector kind=kind.gguf")
	case sw.pairs == "" && sw.prompts == "":
		return usagef(c, "give --pairs, or --prompts with --check, or both: without them no effect can be measured")
	case sw.check != "" && sw.answers == 0:
		return usagef(c, "--check has nothing to judge with --answers 0")
	case sw.split != "all" && sw.split != string(extract.Test) && sw.split != string(extract.Validation) && sw.split != string(extract.Train):
		return usagef(c, "--split is %q, must be test, validation, train or all", sw.split)
	case sw.answers < 0 || sw.answers > maxSweepAnswers:
		return usagef(c, "--answers is %d, must be between 0 and %d", sw.answers, maxSweepAnswers)
	case sw.seeds < 1 || sw.seeds > maxSweepSeeds:
		return usagef(c, "--seeds is %d, must be between 1 and %d", sw.seeds, maxSweepSeeds)
	case !(sw.temp >= 0 && sw.temp <= 100):
		return usagef(c, "--temp is %v, must be between 0 and 100", sw.temp)
	case sw.maxTokens < 1:
		return usagef(c, "--max-tokens is %d, must be at least 1", sw.maxTokens)
	case sw.checkTime <= 0:
		return usagef(c, "--check-timeout is %v, must be above 0", sw.checkTime)
	case sw.out != "table" && sw.out != "json":
		return usagef(c, "--out is %q, must be table or json", sw.out)
	}
	return nil
}

func (a *app) steerSweep(c *cobra.Command, ef *engineFlags, st *steering, sw *sweepFlags) error {
	in, err := sw.read()
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
	s, err := newSweeper(a, e, st, sw, in)
	if err != nil {
		return err
	}
	defer s.line.clear()
	r, err := s.run(ctx)
	s.line.clear()
	if err != nil {
		return causeOr(ctx, err)
	}
	if sw.out == "json" {
		err = json.NewEncoder(a.out).Encode(r)
	} else {
		r.print(a.out)
	}
	if err == nil && sw.plot != "" {
		err = plot.WriteFile(sw.plot, 2, sweep.Charts(r.Rows)...)
	}
	return err
}

// sweepInput is what the files hold.
type sweepInput struct {
	pairs     []extract.Pair
	questions []checker.Question
	neutral   [][]engine.Message
	text      string
}

func (sw *sweepFlags) read() (in sweepInput, err error) {
	in.neutral = extract.Everyday()
	questions := sw.prompts
	if questions == "" && sw.answers > 0 {
		questions = sw.pairs
	}
	for _, x := range []struct {
		path string
		read func(io.Reader) error
	}{
		{sw.pairs, func(f io.Reader) (err error) { in.pairs, err = extract.ReadPairs(f); return err }},
		{questions, func(f io.Reader) (err error) { in.questions, err = checker.ReadQuestions(f); return err }},
		{sw.neutral, func(f io.Reader) (err error) { in.neutral, err = extract.ReadPrompts(f); return err }},
		{sw.text, func(f io.Reader) (err error) { in.text, err = readHeld(f); return err }},
	} {
		if x.path == "" {
			continue
		}
		if err := readWith(x.path, x.read); err != nil {
			return in, err
		}
	}
	if in.pairs, err = sw.deal(in.pairs); err != nil {
		return in, badInput("%s: %w", sw.pairs, err)
	}
	if sw.prompts == "" {
		in.questions = asked(in.questions, in.pairs)
	}
	in.questions = in.questions[:min(len(in.questions), sw.answers)]
	return in, nil
}

func readWith(path string, read func(io.Reader) error) error {
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

// deal keeps the split that is asked for.
func (sw *sweepFlags) deal(pairs []extract.Pair) ([]extract.Pair, error) {
	if sw.split == "all" || pairs == nil {
		return pairs, nil
	}
	s, err := extract.Deal(pairs, sw.seed)
	if err != nil {
		return nil, fmt.Errorf("%w; or measure on every pair with --split all", err)
	}
	return map[string][]extract.Pair{"test": s.Test, "validation": s.Validation, "train": s.Train}[sw.split], nil
}

// asked are the questions that the pairs are about.
func asked(list []checker.Question, pairs []extract.Pair) (out []checker.Question) {
	about := map[string]bool{}
	for _, p := range pairs {
		about[fmt.Sprintf("%q", p.Turns)] = true
	}
	for _, q := range list {
		if about[fmt.Sprintf("%q", turnsOfQuestion(q))] {
			out = append(out, q)
		}
	}
	return out
}

func turnsOfQuestion(q checker.Question) (out []engine.Message) {
	for _, m := range q.Turns {
		out = append(out, engine.Message{Role: m.Role, Content: m.Content})
	}
	return out
}

// maxHeld bounds the file of --text, in bytes.
const maxHeld = 4 << 20

func readHeld(r io.Reader) (string, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxHeld+1))
	switch {
	case err != nil:
		return "", err
	case len(b) > maxHeld:
		return "", fmt.Errorf("the text is over %s", size(maxHeld))
	case !utf8.Valid(b):
		return "", errors.New("the text is not valid UTF-8")
	case len(b) == 0:
		return "", errors.New("the text is empty")
	}
	return string(b), nil
}

// newSweeper makes everything ready that needs the model.
func newSweeper(a *app, e engine.Engine, st *steering, sw *sweepFlags, in sweepInput) (*sweeper, error) {
	p, err := chat.NewPrompter(e.Info(), chat.Options{})
	if err != nil {
		return nil, badInput("%w", err)
	}
	vectors, err := st.read(e.Info())
	if err != nil {
		return nil, err
	}
	s := &sweeper{app: a, engine: e, flags: sw, input: in, render: renderWith(p), line: newStatusLine(a)}
	if s.arms, err = sweep.Arms(st.expr, vectors, sw.doses, sw.layers); err != nil {
		return nil, badInput("--steer: %w", err)
	}
	for _, arm := range s.arms {
		if err := arm.Plan.Check(e.Info().Layers, e.Info().Width); err != nil {
			return nil, badInput("%s does not fit %s: %w", arm.Expression, e.Info().Name, err)
		}
	}
	s.judge = (&checker.Checker{Command: sw.check, Timeout: sw.checkTime}).JudgeOf()
	s.seen = make([]sweep.Observations, len(s.arms))
	s.report = &sweepReport{Model: e.Info().Name, ModelHash: e.Info().Hash, Expression: st.expr.String(), Seed: sw.seed, Level: sweepLevel, Draws: sweepDraws}
	return s, nil
}
