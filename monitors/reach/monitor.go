package reach

import (
	"context"
	"errors"
	"fmt"

	"github.com/trimtab/trimtab/monitors"
	"github.com/trimtab/trimtab/steer"
)

// MonitorOptions are the choices of [NewMonitor].
type MonitorOptions struct {
	Name string // default "reach"
	// Level says when to flag: V < C in Run rows in a row. Nil for the first of
	// the model's levels; an error when it has none.
	Level *Level
}

// NewMonitor watches a text with a value function. The score of a candidate is
// -V of the row that produced it: higher is worse, and above 0 is inside the
// backward reachable tube. It flags when V < C has held in Run rows in a row;
// the onset is then the token before the first of these rows, whose commitment
// brought the state there. A row with values that are not finite is a fault.
//
// It costs one evaluation of the function a token and two bits of memory.
func NewMonitor(m *Model, o MonitorOptions) (monitors.Monitor, error) {
	if err := m.Validate(); err != nil {
		return monitors.Monitor{}, fmt.Errorf("reach monitor: %w", err)
	}
	if o.Name == "" {
		o.Name = "reach"
	}
	if o.Level == nil {
		if len(m.Levels) == 0 {
			return monitors.Monitor{}, errors.New("reach monitor: the value function is not calibrated: give a threshold")
		}
		o.Level = &m.Levels[0]
	}
	l := *o.Level
	l.Run = max(l.Run, 1)
	if l.C-l.C != 0 || l.Run > MaxRun {
		return monitors.Monitor{}, fmt.Errorf("reach monitor: threshold %v over %d rows: want a number and at most %d rows", l.C, l.Run, MaxRun)
	}
	return monitors.Monitor{
		Name: o.Name, Doc: fmt.Sprintf("how near the text is to a failure (-V at %s), flagged above %.3g over %d tokens", m.Site, -l.C, l.Run),
		Sites: []steer.Site{m.Site},
		Start: func() monitors.Watcher { return &watcher{m: m, level: l, work: m.Value.NewWork()} },
	}, nil
}

// watcher keeps for each token whether its row was low, so that Rewind is exact.
type watcher struct {
	m     *Model
	level Level
	work  *steer.ValueWork
	low   []bool
}

// Observe scores the row that produced the candidate.
func (w *watcher) Observe(_ context.Context, o *monitors.Observation) (monitors.Verdict, error) {
	row, err := o.Activation(w.m.Site)
	if err != nil {
		return monitors.Verdict{}, err
	}
	if len(row) != w.m.Value.Width() {
		return monitors.Verdict{}, fmt.Errorf("the function takes rows of %d, the model has %d", w.m.Value.Width(), len(row))
	}
	v := w.m.Value.At(row, w.work)
	if v-v != 0 {
		return monitors.Verdict{}, fmt.Errorf("the value is %v: the state at %s is not finite", v, w.m.Site)
	}
	w.low = append(w.low, v < w.level.C)
	out := monitors.Verdict{Score: -v}
	if n := w.run(); n == w.level.Run {
		out.Flag, out.Onset = true, min(n, o.Step)
	}
	return out, nil
}

// run counts the low rows at the end, up to the level's run.
func (w *watcher) run() int {
	n := 0
	for n < w.level.Run && n < len(w.low) && w.low[len(w.low)-1-n] {
		n++
	}
	return n
}

// Rewind forgets the last n tokens.
func (w *watcher) Rewind(n int) error {
	if n < 0 || n > len(w.low) {
		return fmt.Errorf("rewind by %d of %d tokens", n, len(w.low))
	}
	w.low = w.low[:len(w.low)-n]
	return nil
}
