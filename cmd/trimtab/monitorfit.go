package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/trimtab/trimtab/cmd/trimtab/internal/alarm"
	corpus "github.com/trimtab/trimtab/internal/nano/chat"
	"github.com/trimtab/trimtab/monitors/probe"
	"github.com/trimtab/trimtab/monitors/reach"
	"github.com/trimtab/trimtab/steer"
)

const monitorFitLong = `Make a monitor that sees a text become unsafe before it is, on the very model
that it will watch.

The model answers the prompts, and its state is recorded while it writes. --label
says from which token on a text is unsafe: the first match of a lexicon, a command
that scores beginnings of texts (0 safe to 1 unsafe), or texts of yours that come
with labels. From six tenths of the prompts a value function is learnt (reach) or
a linear probe; two tenths set the threshold, so that at most --alpha of further
safe texts are flagged; on the last two tenths it is measured once.

With nano and --label nano, built-in prompts are used.`

const monitorFitExample = `  trimtab monitor fit --model nano --label nano --out unsafe.gguf
  trimtab monitor fit -m model.gguf --prompts p.jsonl --label lexicon:words.txt --samples 4 --out rude.gguf
  trimtab monitor fit -m model.gguf --prompts p.jsonl --label "cmd:python3 judge.py" --kind probe --site 14 --out rude.gguf`

// monitorFitFlags are the flags of `monitor fit` besides model and texts.
type monitorFitFlags struct {
	out, name   string
	kind, shape string
	site        string
	hidden      []int
	form, over  string
	gamma       float64
	epochs, run int
	alpha       float64
	force       bool
	aim         reach.Aim
}

func newMonitorFit(a *app) *cobra.Command {
	c := &cobra.Command{Use: "fit", Short: "Make a monitor from texts that the model writes", Long: monitorFitLong, Example: monitorFitExample, Args: noArgs}
	ef, tf, ff := newEngineFlags(c), newTextFlags(c), &monitorFitFlags{}
	f := c.Flags()
	f.StringVar(&ff.out, "out", "", "monitor `FILE` to write (required)")
	f.StringVar(&ff.name, "name", "", "name of the monitor (default: that of the file)")
	f.StringVar(&ff.kind, "kind", "reach", "reach (a value function) or probe (a linear probe)")
	f.StringVar(&ff.site, "site", "final", "block whose output is read, from 0, or final: there the filter touches the next token only")
	f.StringVar(&ff.shape, "shape", "mlp", "of a value function: mlp, linear, facets")
	f.IntSliceVar(&ff.hidden, "hidden", nil, "widths of an mlp's hidden layers (default 256,256)")
	f.StringVar(&ff.form, "form", "rl", "what a value means: rl (how near the failure is) or sample (how the text ends)")
	f.StringVar(&ff.over, "over", "mean", "of several texts that go on from one beginning: mean or min")
	f.Float64Var(&ff.gamma, "gamma", reach.DefaultGamma, "discount of a token for --form rl: the higher, the earlier the warning")
	f.IntVar(&ff.epochs, "epochs", 0, "most passes of the training (default 24; it ends when nothing is gained)")
	f.Float64Var(&ff.alpha, "alpha", 0.02, "most safe texts that may be flagged, as a share")
	f.IntVar(&ff.run, "run", 1, "tokens in a row that a flag takes, for reach")
	f.BoolVar(&ff.force, "force", false, "write over an existing file")
	f.SortFlags = false
	c.RunE = func(c *cobra.Command, _ []string) error {
		if err := errors.Join(ef.check(), ff.check(c)); err != nil {
			return err
		}
		if err := tf.check(ef.model); err != nil {
			return err
		}
		return a.monitorFit(c, ef, tf, ff)
	}
	return c
}

func (ff *monitorFitFlags) check(c *cobra.Command) (err error) {
	if err := checkOut(c, ff.out, ff.force); err != nil {
		return err
	}
	changed := c.Flags().Changed
	for _, name := range []string{"shape", "hidden", "form", "over", "gamma", "epochs", "run"} {
		if changed(name) && ff.kind == "probe" {
			return usagef(c, "--%s is for --kind reach, not for a probe", name)
		}
	}
	if ff.aim.Form, err = reach.ParseForm(ff.form); err != nil {
		return usagef(c, "--form: %w", err)
	}
	if ff.aim.Over, err = reach.ParseOver(ff.over); err != nil {
		return usagef(c, "--over: %w", err)
	}
	if ff.aim.Form == reach.RL {
		ff.aim.Gamma = ff.gamma
	}
	switch {
	case ff.kind != "reach" && ff.kind != "probe":
		return usagef(c, "--kind is %q, must be reach or probe", ff.kind)
	case ff.shape != "mlp" && ff.shape != "linear" && ff.shape != "facets":
		return usagef(c, "--shape is %q, must be mlp, linear or facets", ff.shape)
	case ff.shape != "mlp" && ff.hidden != nil:
		return usagef(c, "--hidden is for --shape mlp")
	case slices.ContainsFunc(ff.hidden, func(n int) bool { return n < 1 || n > 4096 }):
		return usagef(c, "--hidden is %v, each must be between 1 and 4096", ff.hidden)
	case len(ff.hidden) >= steer.MaxValueLayers:
		return usagef(c, "--hidden has %d layers, the limit is %d", len(ff.hidden), steer.MaxValueLayers-1)
	case !(ff.gamma > 0 && ff.gamma < 1):
		return usagef(c, "--gamma is %v, must be above 0 and below 1", ff.gamma)
	case ff.aim.Form == reach.Sample && changed("gamma"):
		return usagef(c, "--gamma is for --form rl")
	case ff.epochs < 0:
		return usagef(c, "--epochs is %d, must be 1 or more", ff.epochs)
	}
	if _, err := ff.siteOf(steer.MaxVectorLayers); err != nil {
		return usagef(c, "--site: %w", err)
	}
	return checkLevel(c, ff.alpha, ff.run)
}

// checkOut reports that a file is missing, or in the way.
func checkOut(c *cobra.Command, out string, force bool) error {
	if out == "" {
		return usagef(c, "--out is missing: name the file to write")
	}
	if _, err := os.Lstat(out); err == nil && !force {
		return usagef(c, "%s exists; add --force to write over it", out)
	}
	return nil
}

func checkLevel(c *cobra.Command, alpha float64, run int) error {
	switch {
	case !(alpha > 0 && alpha < 1):
		return usagef(c, "--alpha is %v, must be above 0 and below 1", alpha)
	case run < 1 || run > reach.MaxRun:
		return usagef(c, "--run is %d, must be between 1 and %d", run, reach.MaxRun)
	}
	return nil
}

func (ff *monitorFitFlags) siteOf(layers int) (steer.Site, error) {
	if ff.site == "final" {
		return steer.Site{Layer: layers - 1}, nil
	}
	n, err := strconv.Atoi(ff.site)
	if err != nil || n < 0 || n >= layers {
		return steer.Site{}, fmt.Errorf("%q is neither final nor a block from 0 to %d", ff.site, layers-1)
	}
	return steer.Site{Layer: n}, nil
}

// fitTexts are the built-in prompts of `monitor fit`.
var fitTexts = builtIn{corpus.Train, 600}

func (a *app) monitorFit(c *cobra.Command, ef *engineFlags, tf *textFlags, ff *monitorFitFlags) error {
	ctx, stop := a.interruptible(c.Context())
	defer stop()
	list, err := tf.specimens(fitTexts)
	if err != nil {
		return err
	}
	g, err := a.openGathering(ctx, ef, tf, len(list))
	if err != nil {
		return err
	}
	defer g.close()
	site, err := ff.siteOf(g.info.Layers)
	if err != nil {
		return badInput("--site: %w", err)
	}
	if g.recorder, err = reach.NewRecorder(g.info, []steer.Site{site}, 0); err != nil {
		return err
	}
	line := newStatusLine(a)
	defer line.clear()
	g.progress = showTexts(line)
	got, err := g.run(ctx, list)
	if err != nil {
		return err
	}
	r, err := ff.make(ctx, line, factsOf(g.info), tf, got)
	if err != nil {
		return causeOr(ctx, err)
	}
	line.clear()
	if tf.asJSON {
		return json.NewEncoder(a.out).Encode(r)
	}
	r.print(a.out)
	return nil
}

func showTexts(line *statusLine) func(done, total int) {
	return func(done, total int) {
		line.set(fmt.Sprintf("%s writing texts", bar(float64(done)/float64(max(total, 1)), 20)), done == total)
	}
}

// parts are the shares of the prompts that are learnt from, set the threshold
// and are measured on. They are dealt by another seed than reach.Fit deals by,
// which would else find the prompts that it keeps aside in one of the others.
var parts = []int{6, 2, 2}

const partsSeed = 0x9e3779b97f4a7c15

// make learns, calibrates, measures and writes.
func (ff *monitorFitFlags) make(ctx context.Context, line *statusLine, facts steer.Facts, tf *textFlags, got *gathered) (*monitorFitReport, error) {
	part := got.data.Deal(tf.seed^partsSeed, parts...)
	safe := len(part[1].Trajectories) - failures(part[1])
	if err := tooFew(safe, len(part[1].Trajectories), ff.alpha); err != nil {
		return nil, err
	}
	s, err := ff.learn(ctx, line, facts, tf, part[0])
	if err != nil {
		return nil, err
	}
	held, err := replayAll(ctx, s, part[1])
	if err != nil {
		return nil, err
	}
	if err := s.settle(safeScores(held), ff.alpha, ff.run, tf.label); err != nil {
		return nil, err
	}
	if s, err = newSentry(s.value, s.probe, facts); err != nil { // with its threshold
		return nil, err
	}
	fresh, err := replayAll(ctx, s, part[2])
	if err != nil {
		return nil, err
	}
	measured, err := alarm.Measure(fresh, tf.seed)
	if err != nil {
		return nil, err
	}
	if err := s.rate(part[2]); err != nil {
		return nil, err
	}
	return newMonitorFitReport(ff.out, s, part, &measured, tf.seed), s.write(ff.out)
}

// learn fits the monitor; it has no threshold yet.
func (ff *monitorFitFlags) learn(ctx context.Context, line *statusLine, facts steer.Facts, tf *textFlags, d *reach.Data) (*sentry, error) {
	name := nameOr(ff.name, ff.out)
	if ff.kind == "probe" {
		p, err := fitProbe(ctx, d, name)
		if err != nil {
			return nil, fitFault(err)
		}
		return newSentry(nil, p, facts)
	}
	o := reach.Options{Name: name, Shape: ff.shape, Hidden: ff.hidden, Site: d.Sites[0], Aim: ff.aim, Epochs: ff.epochs, Seed: tf.seed,
		Progress: func(p reach.Progress) {
			line.set(fmt.Sprintf("%s learning, loss %.4f", bar(float64(p.Epoch)/float64(max(p.Epochs, 1)), 20), p.Validation), p.Epoch == p.Epochs)
		}}
	m, err := reach.Fit(ctx, d, o)
	if err != nil {
		return nil, fitFault(err)
	}
	return newSentry(m, nil, facts)
}

// fitProbe learns to tell states that lead to a failure from others.
func fitProbe(ctx context.Context, d *reach.Data, name string) (*probe.Probe, error) {
	examples := examplesOf(d)
	for _, positive := range []bool{true, false} {
		if !hasClass(examples, positive) {
			return nil, fmt.Errorf("%w: there are only safe or only unsafe ones", reach.ErrData)
		}
	}
	p, err := probe.Train(ctx, examples, probe.TrainOptions{Name: name, Site: d.Sites[0], Labels: [2]string{"stays safe", "becomes unsafe"}})
	if err != nil {
		return nil, err
	}
	p.ModelHash, p.Arch, p.TemplateHash, p.DataHash = d.ModelHash, d.Arch, d.TemplateHash, d.Hash()
	return p, nil
}

// examplesOf are the states up to the failure of a text, all states of a safe one.
func examplesOf(d *reach.Data) (out []probe.Example) {
	for i := range d.Trajectories {
		t := &d.Trajectories[i]
		n := len(t.Tokens)
		if t.Unsafe() {
			n = min(t.Failure()+1, n)
		}
		for row := range n {
			out = append(out, probe.Example{Row: d.Row(t, row, 0), Positive: t.Unsafe()})
		}
	}
	return out
}

func hasClass(list []probe.Example, positive bool) bool {
	for i := range list {
		if list[i].Positive == positive {
			return true
		}
	}
	return false
}

// rate measures a probe row by row, for its file. A value function has measured
// itself when it was fitted.
func (s *sentry) rate(d *reach.Data) (err error) {
	examples := examplesOf(d)
	if s.probe == nil || !hasClass(examples, true) || !hasClass(examples, false) {
		return nil
	}
	s.probe.Metrics, err = s.probe.Evaluate(examples)
	return err
}
