package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/trimtab/trimtab/cmd/trimtab/internal/alarm"
	"github.com/trimtab/trimtab/cmd/trimtab/internal/plot"
	corpus "github.com/trimtab/trimtab/internal/nano/chat"
)

const monitorEvalLong = `Measure how well and how early monitors find texts that become unsafe.

The model answers the prompts while the monitors watch, and nothing is stopped.
Tokens of unsafe texts up to the failure (the first unsafe token, by --label) are
held against all tokens of safe ones, and whole texts against each other. Warning
tokens lie between the first flag and the failure: 0 at the very token, negative
when it had left. A false stop is a flag in a safe text.

Use prompts that the monitor was neither fitted nor calibrated on.`

const monitorEvalExample = `  trimtab monitor eval --monitor unsafe.gguf --label nano
  trimtab monitor eval -m model.gguf --monitor rude.gguf --monitor lexicon:words.txt --prompts p.jsonl --label "cmd:python3 judge.py" --plot-roc roc.png
  trimtab monitor eval --monitor unsafe.gguf --label nano --plot-lead lead.svg --plot-text test-3=text.svg`

// maxCompared bounds the monitors of one evaluation: each is a panel of a chart.
const maxCompared = 8

// monitorEvalFlags are the flags of `monitor eval` besides model and texts.
type monitorEvalFlags struct {
	monitors  []string
	anyModel  bool
	roc, lead string
	texts     []string // id=FILE
	specs     []sentrySpec
}

func newMonitorEval(a *app) *cobra.Command {
	c := &cobra.Command{Use: "eval", Short: "Measure monitors on texts that the model writes", Long: monitorEvalLong, Example: monitorEvalExample, Args: noArgs}
	ef, tf, vf := newEngineFlags(c), newTextFlags(c), &monitorEvalFlags{}
	f := c.Flags()
	f.StringArrayVar(&vf.monitors, "monitor", nil, "`SPEC` as for trimtab run: FILE[:threshold], lexicon:FILE, repetition, entropy[:options]; may be given several times (required)")
	f.BoolVar(&vf.anyModel, "any-model", false, "use monitors that state another model")
	f.StringVar(&vf.roc, "plot-roc", "", "`FILE` (png, svg) for the curves of found against false alarms")
	f.StringVar(&vf.lead, "plot-lead", "", "`FILE` for how the warning tokens are spread")
	f.StringArrayVar(&vf.texts, "plot-text", nil, "`ID=FILE` for the scores along the text of that prompt; may be given several times")
	f.SortFlags = false
	c.RunE = func(c *cobra.Command, _ []string) error {
		if err := errors.Join(ef.check(), vf.check(c)); err != nil {
			return err
		}
		if err := tf.check(ef.model); err != nil {
			return err
		}
		return a.monitorEval(c, ef, tf, vf)
	}
	return c
}

func (vf *monitorEvalFlags) check(c *cobra.Command) (err error) {
	switch n := len(vf.monitors); {
	case n == 0:
		return usagef(c, "--monitor is missing: say what to measure")
	case n > maxCompared:
		return usagef(c, "%d monitors, the limit is %d", n, maxCompared)
	}
	if vf.specs, err = parseSentries(c, vf.monitors); err != nil {
		return err
	}
	for _, file := range []string{vf.roc, vf.lead} {
		if file == "" {
			continue
		}
		if _, err := plot.FormatOf(file); err != nil {
			return usagef(c, "%w", err)
		}
	}
	for _, t := range vf.texts {
		id, file, ok := cutLast(t)
		if !ok || id == "" {
			return usagef(c, "--plot-text %s: want ID=FILE", t)
		}
		if _, err := plot.FormatOf(file); err != nil {
			return usagef(c, "--plot-text: %w", err)
		}
	}
	return nil
}

// cutLast cuts at the last "=": an id may hold one.
func cutLast(s string) (id, file string, ok bool) {
	i := strings.LastIndexByte(s, '=')
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+1:], true
}

// evalTexts are the built-in prompts of `monitor eval`.
var evalTexts = builtIn{corpus.Test, 300}

// monitorEvalReport is what `monitor eval` says.
type monitorEvalReport struct {
	Model     string         `json:"model"`
	ModelHash string         `json:"model_hash"`
	Label     string         `json:"label"`
	Seed      uint64         `json:"seed"`
	Texts     int            `json:"texts"`
	Unsafe    int            `json:"unsafe"`
	Tokens    int            `json:"tokens"`
	Monitors  []*alarmReport `json:"monitors"`
	Files     []string       `json:"files,omitempty"`
}

func (a *app) monitorEval(c *cobra.Command, ef *engineFlags, tf *textFlags, vf *monitorEvalFlags) error {
	ctx, stop := a.interruptible(c.Context())
	defer stop()
	list, err := tf.specimens(evalTexts)
	if err != nil {
		return err
	}
	if err := vf.known(list); err != nil {
		return err
	}
	g, err := a.openGathering(ctx, ef, tf, len(list))
	if err != nil {
		return err
	}
	defer g.close()
	if g.watch, err = openSentries(vf.specs, factsOf(g.info), vf.anyModel); err != nil {
		return err
	}
	got, err := g.show(ctx, a, list)
	if err != nil {
		return err
	}
	r := &monitorEvalReport{Model: g.info.Name, ModelHash: g.info.Hash, Label: tf.label, Seed: tf.seed, Texts: len(list), Unsafe: failures(got.data)}
	detectors := got.detectors(g.watch)
	for _, d := range detectors {
		m, err := alarm.Measure(d.Texts, tf.seed)
		if err != nil {
			return err
		}
		r.Tokens, r.Monitors = m.Tokens, append(r.Monitors, newAlarmReport(d.Name, &m))
	}
	if r.Files, err = vf.draw(detectors, list); err != nil {
		return err
	}
	if tf.asJSON {
		return json.NewEncoder(a.out).Encode(r)
	}
	fmt.Fprintf(a.out, "%d texts of %s (%d unsafe, %d tokens), 95 %% intervals\n", r.Texts, r.Model, r.Unsafe, r.Tokens)
	printAlarms(a.out, r.Monitors)
	return nil
}

// show runs the gathering with a bar on the terminal.
func (g *gathering) show(ctx context.Context, a *app, list []specimen) (*gathered, error) {
	line := newStatusLine(a)
	defer line.clear()
	g.progress = showTexts(line)
	return g.run(ctx, list)
}

// known reports prompts to draw that are not there, before anything is written.
func (vf *monitorEvalFlags) known(list []specimen) error {
	for _, t := range vf.texts {
		if id, _, _ := cutLast(t); indexOf(list, id) < 0 {
			return badInput("--plot-text: no prompt has the id %q; the first is %q", id, list[0].question.ID)
		}
	}
	return nil
}

func indexOf(list []specimen, id string) int {
	return slices.IndexFunc(list, func(s specimen) bool { return s.question.ID == id })
}

// detectors are the monitors with what they said.
func (g *gathered) detectors(watch []*sentry) []alarm.Detector {
	out := make([]alarm.Detector, len(watch))
	for k, s := range watch {
		out[k] = alarm.Detector{Name: s.Name, Threshold: s.threshold}
		for i := range g.specimens {
			text := textOfVerdicts(g.specimens[i].question.ID, &g.data.Trajectories[i], nil)
			for n, row := range g.verdicts[i] {
				text.Scores = append(text.Scores, row[k].Score)
				if row[k].Flag && text.First < 0 {
					text.First = n
				}
			}
			out[k].Texts = append(out[k].Texts, text)
		}
	}
	return out
}

// draw writes the charts that were asked for and returns their files.
func (vf *monitorEvalFlags) draw(list []alarm.Detector, prompts []specimen) (files []string, err error) {
	write := func(file string, columns int, charts ...plot.Chart) error {
		err := plot.WriteFile(file, columns, charts...)
		if errors.Is(err, plot.ErrEmpty) {
			return badInput("%s: %w: there are only safe or only unsafe texts", file, err)
		}
		files = append(files, file)
		return err
	}
	if vf.roc != "" {
		if err := write(vf.roc, 2, alarm.Curves(list)...); err != nil {
			return nil, err
		}
	}
	if vf.lead != "" {
		if err := write(vf.lead, 1, alarm.Leads(list)); err != nil {
			return nil, err
		}
	}
	for _, t := range vf.texts {
		id, file, _ := cutLast(t)
		if err := write(file, 1, alarm.Timelines(list, indexOf(prompts, id))...); err != nil {
			return nil, err
		}
	}
	return files, nil
}
