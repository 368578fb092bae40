package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/trimtab/trimtab/cmd/trimtab/internal/alarm"
	"github.com/trimtab/trimtab/monitors"
	"github.com/trimtab/trimtab/monitors/conformal"
	"github.com/trimtab/trimtab/monitors/probe"
	"github.com/trimtab/trimtab/monitors/reach"
	"github.com/trimtab/trimtab/steer"
)

// newSentry seats a value function or a probe in a monitor with the threshold
// that it states. One without any never flags.
func newSentry(value *reach.Model, p *probe.Probe, facts steer.Facts) (*sentry, error) {
	s := &sentry{value: value, probe: p, run: 1}
	var err error
	if value == nil {
		s.threshold = &p.Threshold
		s.Monitor, err = probe.New(probe.Options{Probes: []*probe.Probe{p}, Model: facts, AnyModel: true})
		return s, err
	}
	if s.level = (reach.Level{C: -math.MaxFloat64, Run: 1}); len(value.Levels) > 0 {
		s.level, s.run = value.Levels[0], value.Levels[0].Run
	}
	s.threshold = new(-s.level.C)
	s.Monitor, err = reach.NewMonitor(value, reach.MonitorOptions{Name: value.Name, Level: &s.level})
	return s, err
}

// kind is that of the file.
func (s *sentry) kind() string {
	if s.value != nil {
		return "reach"
	}
	return "probe"
}

// settle gives the monitor the threshold that at most a share alpha of further
// safe texts passes, from the scores of safe texts that it was not fitted on.
func (s *sentry) settle(safe [][]float64, alpha float64, run int, on string) error {
	worst := make([]float64, len(safe))
	for i := range safe {
		worst[i] = alarm.Worst(safe[i], run)
	}
	q, err := conformal.Threshold(worst, alpha)
	if err != nil {
		return badInput("%w: give more prompts or --samples, or a larger --alpha", err)
	}
	if math.IsInf(q, 0) {
		return badInput("the safe texts are too short for --run %d", run)
	}
	if s.value == nil {
		if q >= 1 {
			return badInput("the probe is certain (1) of safe texts too, so no threshold keeps false alarms below %v: fit it anew on more prompts, or use --kind reach", alpha)
		}
		s.probe.Threshold = math.Nextafter(q, 2) // flagged is what reaches it
		s.probe.Calibration = &probe.Calibration{Method: "conformal", Rate: alpha, Texts: len(safe)}
		return nil
	}
	s.level = reach.Level{C: -q, Alpha: alpha, Run: run, Texts: len(safe), On: on}
	same := func(l reach.Level) bool { return l.Alpha == alpha && l.Run == run }
	others := slices.DeleteFunc(slices.Clone(s.value.Levels), same)
	s.value.Levels = append([]reach.Level{s.level}, others[:min(len(others), reach.MaxLevels-1)]...)
	return nil
}

// write keeps the monitor in a file.
func (s *sentry) write(path string) error {
	if s.value != nil {
		return s.value.WriteFile(path)
	}
	return s.probe.WriteFile(path)
}

// tooFew says that there are not enough safe texts for a threshold, before any
// time is spent on training.
func tooFew(safe, texts int, alpha float64) error {
	need := conformal.Needed(alpha)
	if safe >= need {
		return nil
	}
	return badInput("%w: %d of the %d texts kept for the threshold are safe, and --alpha %v needs %d: give more prompts or --samples, or a larger --alpha",
		conformal.ErrTooFew, safe, texts, alpha, need)
}

// replay has a monitor of states judge a recorded text.
func replay(ctx context.Context, m *monitors.Monitor, d *reach.Data, t *reach.Trajectory) ([]monitors.Verdict, error) {
	w := m.Start()
	out := make([]monitors.Verdict, len(t.Tokens))
	for i := range t.Tokens {
		o := &monitors.Observation{Step: i, Token: t.Tokens[i], Activation: func(site steer.Site) ([]float32, error) {
			k := slices.Index(d.Sites, site)
			if k < 0 {
				return nil, fmt.Errorf("site %s was not recorded", site)
			}
			return d.Row(t, i, k), nil
		}}
		var err error
		if out[i], err = w.Observe(ctx, o); err != nil {
			return nil, fmt.Errorf("monitor %s: token %d: %w", m.Name, i, err)
		}
	}
	return out, nil
}

// replayAll judges every text of the data.
func replayAll(ctx context.Context, s *sentry, d *reach.Data) ([]alarm.Text, error) {
	out := make([]alarm.Text, len(d.Trajectories))
	for i := range out {
		t := &d.Trajectories[i]
		verdicts, err := replay(ctx, &s.Monitor, d, t)
		if err != nil {
			return nil, err
		}
		out[i] = textOfVerdicts("", t, verdicts)
	}
	return out, nil
}

// textOfVerdicts is a text as it is measured.
func textOfVerdicts(id string, t *reach.Trajectory, verdicts []monitors.Verdict) alarm.Text {
	out := alarm.Text{ID: id, First: -1, Failure: t.Failure()}
	for i, v := range verdicts {
		out.Scores = append(out.Scores, v.Score)
		if v.Flag && out.First < 0 {
			out.First = i
		}
	}
	return out
}

// safeScores are the scores of the safe texts.
func safeScores(list []alarm.Text) (out [][]float64) {
	for i := range list {
		if list[i].Failure < 0 {
			out = append(out, list[i].Scores)
		}
	}
	return out
}

// fitFault tells data that will not do from other errors.
func fitFault(err error) error {
	if errors.Is(err, reach.ErrData) {
		return badInput("%w: give more prompts, or such that some texts become unsafe and others do not", err)
	}
	return err
}
