package main

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	corpus "github.com/trimtab/trimtab/internal/nano/chat"
	"github.com/trimtab/trimtab/monitors/conformal"
	"github.com/trimtab/trimtab/monitors/reach"
	"github.com/trimtab/trimtab/steer"
)

const monitorCalibrateLong = `Give a value function or a probe another threshold, from fresh texts.

The model answers the prompts while the monitor watches; from the worst score of
each safe text follows the threshold that at most --alpha of further safe texts
pass (split conformal prediction). That holds on average, for the same kind of
prompts and sampling, and if the monitor was not fitted on these texts. It takes
1/alpha - 1 safe texts: 49 for 0.02.`

const monitorCalibrateExample = `  trimtab monitor calibrate --monitor unsafe.gguf --label nano --alpha 0.01 --limit 600 --out strict.gguf
  trimtab monitor calibrate -m model.gguf --monitor rude.gguf --prompts fresh.jsonl --label lexicon:words.txt --out rude2.gguf`

// calibrateFlags are the flags of `monitor calibrate` besides model and texts.
type calibrateFlags struct {
	monitor, out string
	alpha        float64
	run          int
	force        bool
	anyModel     bool
	runGiven     bool
}

func newMonitorCalibrate(a *app) *cobra.Command {
	c := &cobra.Command{Use: "calibrate", Short: "Give a monitor another threshold, from fresh texts", Long: monitorCalibrateLong, Example: monitorCalibrateExample, Args: noArgs}
	ef, tf, cf := newEngineFlags(c), newTextFlags(c), &calibrateFlags{}
	f := c.Flags()
	f.StringVar(&cf.monitor, "monitor", "", "monitor `FILE` (required)")
	f.StringVar(&cf.out, "out", "", "monitor `FILE` to write (required)")
	f.Float64Var(&cf.alpha, "alpha", 0.02, "most safe texts that may be flagged, as a share")
	f.IntVar(&cf.run, "run", 1, "tokens in a row that a flag takes, for value functions (default: as before)")
	f.BoolVar(&cf.anyModel, "any-model", false, "use a monitor that states another model")
	f.BoolVar(&cf.force, "force", false, "write over an existing file")
	f.SortFlags = false
	c.RunE = func(c *cobra.Command, _ []string) error {
		if cf.monitor == "" {
			return usagef(c, "--monitor is missing: name the file of a monitor")
		}
		if err := errors.Join(ef.check(), checkOut(c, cf.out, cf.force), checkLevel(c, cf.alpha, cf.run)); err != nil {
			return err
		}
		if err := tf.check(ef.model); err != nil {
			return err
		}
		cf.runGiven = c.Flags().Changed("run")
		return a.monitorCalibrate(c, ef, tf, cf)
	}
	return c
}

// calibrateTexts are the built-in prompts of `monitor calibrate`.
var calibrateTexts = builtIn{corpus.Validation, 300}

// calibrateReport is what `monitor calibrate` says.
type calibrateReport struct {
	File      string     `json:"file"`
	Kind      string     `json:"kind"`
	Texts     int        `json:"texts"`
	SafeTexts int        `json:"safe_texts"`
	Alpha     float64    `json:"alpha"`
	Run       int        `json:"run"`
	Threshold float64    `json:"threshold"`
	Before    *float64   `json:"before"`      // the threshold so far
	Rate      rateReport `json:"before_rate"` // how many of the safe texts it flagged
}

func (a *app) monitorCalibrate(c *cobra.Command, ef *engineFlags, tf *textFlags, cf *calibrateFlags) error {
	ctx, stop := a.interruptible(c.Context())
	defer stop()
	list, err := tf.specimens(calibrateTexts)
	if err != nil {
		return err
	}
	g, err := a.openGathering(ctx, ef, tf, len(list))
	if err != nil {
		return err
	}
	defer g.close()
	facts := factsOf(g.info)
	s, err := cf.open(&sentrySpec{text: cf.monitor, file: cf.monitor, kind: "file"}, g)
	if err != nil {
		return err
	}
	g.watch = []*sentry{s}
	got, err := g.show(ctx, a, list)
	if err != nil {
		return err
	}
	texts := got.detectors(g.watch)[0].Texts
	safe, flagged := safeScores(texts), 0
	for i := range texts {
		if texts[i].Failure < 0 && texts[i].First >= 0 {
			flagged++
		}
	}
	if err := tooFew(len(safe), len(texts), cf.alpha); err != nil {
		return err
	}
	r := &calibrateReport{File: cf.out, Kind: s.kind(), Texts: len(texts), SafeTexts: len(safe), Alpha: cf.alpha, Run: cf.run}
	if s.threshold != nil {
		rate, err := conformal.Measure(flagged, len(safe), 0.95)
		if err != nil {
			return err
		}
		r.Before, r.Rate = new(s.stated()), newRateReport(rate)
	}
	if err := s.settle(safe, cf.alpha, cf.run, tf.label); err != nil {
		return err
	}
	if s, err = newSentry(s.value, s.probe, facts); err != nil {
		return err
	}
	r.Threshold = s.stated()
	if err := s.write(cf.out); err != nil {
		return err
	}
	if tf.asJSON {
		return json.NewEncoder(a.out).Encode(r)
	}
	r.print(a)
	return nil
}

// open reads the monitor; a threshold is not needed.
func (cf *calibrateFlags) open(spec *sentrySpec, g *gathering) (*sentry, error) {
	s, err := spec.openAny(factsOf(g.info), cf.anyModel)
	if err != nil {
		return nil, err
	}
	switch {
	case s.value == nil && cf.runGiven:
		return nil, badInput("monitor %s is a probe: --run is for value functions", cf.monitor)
	case s.value == nil:
	case !cf.runGiven && len(s.value.Levels) > 0:
		cf.run = s.value.Levels[0].Run
	}
	return s, nil
}

// openAny opens a file that may have no threshold yet.
func (s *sentrySpec) openAny(facts steer.Facts, anyModel bool) (*sentry, error) {
	out, err := s.open(facts, anyModel)
	if !errors.Is(err, errNoThreshold) {
		return out, err
	}
	m, err := reach.ReadModel(s.file)
	if err != nil {
		return nil, badInput("%w", err)
	}
	out, err = newSentry(m, nil, facts)
	if out != nil {
		out.threshold = nil
	}
	return out, err
}

// stated is the threshold as the file has it: of a value, or a probability.
func (s *sentry) stated() float64 {
	if s.value != nil {
		return s.level.C
	}
	return s.probe.Threshold
}

func (r *calibrateReport) print(a *app) {
	fmt.Fprintf(a.out, "%s: %s, threshold %s flags at most %.3g %% of safe texts, from %d of them\n",
		r.File, kindNames[r.Kind], thresholdText(r.Kind, r.Threshold), 100*r.Alpha, r.SafeTexts)
	if r.Before != nil {
		fmt.Fprintf(a.out, "the threshold before, %s, flagged %s\n", thresholdText(r.Kind, *r.Before), r.Rate)
	}
}
