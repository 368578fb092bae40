package runtime

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/trimtab/trimtab/monitors"
	"github.com/trimtab/trimtab/runtime/engine"
	"github.com/trimtab/trimtab/steer"
)

// watch is one monitor at work. A nil watcher was switched off after a fault.
type watch struct {
	name       string
	sites      []steer.Site
	watcher    monitors.Watcher
	activation func(steer.Site) ([]float32, error)
}

// sensors are the activations that the monitors of a session want, as the last
// Forward left them.
type sensors struct {
	sites []steer.Site
	rows  [][]float32 // beside sites; one row each
}

// read fetches the rows. It talks to the engine.
func (s *sensors) read(seq engine.Sequence, width int) error {
	for i, site := range s.sites {
		a, err := seq.Activation(site)
		if err != nil {
			return fmt.Errorf("activation at %s: %w", site, err)
		}
		if len(a) < width {
			return fmt.Errorf("activation at %s: %d values, a row has %d", site, len(a), width)
		}
		s.rows[i] = a[len(a)-width:]
	}
	return nil
}

func (s *sensors) add(sites []steer.Site) {
	for _, site := range sites {
		if !slices.Contains(s.sites, site) {
			s.sites, s.rows = append(s.sites, site), append(s.rows, nil)
		}
	}
}

// show returns the reader for whoever named the sites.
func (s *sensors) show(sites []steer.Site) func(steer.Site) ([]float32, error) {
	return func(site steer.Site) ([]float32, error) {
		if !slices.Contains(sites, site) {
			return nil, unnamedSite(site)
		}
		return s.rows[slices.Index(s.sites, site)], nil
	}
}

func unnamedSite(site steer.Site) error {
	return fmt.Errorf("activation at %s: the site is not named in Monitor.Sites", site)
}

// start makes the watchers of a session.
func (s *Session) start(list []monitors.Monitor) error {
	for _, m := range list {
		s.sensors.add(m.Sites)
	}
	for _, m := range list {
		w, err := startWatcher(m)
		if err != nil {
			if err := s.fault("monitor", m.Name, err); err != nil {
				return err
			}
			continue
		}
		s.watches = append(s.watches, watch{m.Name, m.Sites, w, s.sensors.show(m.Sites)})
	}
	return nil
}

func startWatcher(m monitors.Monitor) (w monitors.Watcher, err error) {
	defer recovered(&err)
	if w = m.Start(); w == nil {
		return nil, errors.New("start returned no watcher")
	}
	return w, nil
}

// observe collects the verdicts on the candidate.
func (s *Session) observe(ctx context.Context) error {
	if len(s.watches) == 0 {
		return nil
	}
	o := &s.observation
	o.Step, o.Token, o.Piece, o.Raw, o.Logits = len(s.tokens), s.event.Token, s.event.Piece, s.raw, s.logits
	s.stale = true
	for i := range s.watches {
		w := &s.watches[i]
		if w.watcher == nil {
			continue
		}
		v, err := s.score(ctx, w, o)
		if err == nil {
			s.event.Verdicts = append(s.event.Verdicts, Verdict{w.name, v})
			continue
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		w.watcher = nil
		if err := s.fault("monitor", w.name, err); err != nil {
			return err
		}
	}
	return nil
}

// maxNote bounds, in bytes, the words of a verdict and of an action.
const maxNote = 1024

// observe returns a verdict that can be worked with, or an error.
func (w *watch) observe(ctx context.Context, o *monitors.Observation) (v monitors.Verdict, err error) {
	defer recovered(&err)
	v, err = w.watcher.Observe(ctx, o)
	switch {
	case err != nil:
		return v, err
	case math.IsNaN(v.Score) || math.IsInf(v.Score, 0):
		return v, fmt.Errorf("score is %v", v.Score)
	case v.Onset < 0 || v.Onset > o.Step:
		return v, fmt.Errorf("onset %d of %d tokens", v.Onset, o.Step)
	case len(v.Note) > maxNote:
		return v, fmt.Errorf("note of %d bytes, the limit is %d", len(v.Note), maxNote)
	}
	return v, nil
}

// unwatch makes every watcher forget the last n candidates.
func (s *Session) unwatch(n int) error {
	for i := range s.watches {
		w := &s.watches[i]
		if w.watcher == nil {
			continue
		}
		if err := s.forgets(w, n); err != nil {
			w.watcher = nil
			if err := s.fault("monitor", w.name, fmt.Errorf("rewind %d: %w", n, err)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *watch) rewind(n int) (err error) {
	defer recovered(&err)
	return w.watcher.Rewind(n)
}

// fault says what follows from a failure: nil to go on without the part.
func (s *Session) fault(part, name string, err error) error {
	f := &FaultError{Part: part, Name: name, Err: err}
	if s.cfg.OnFault == FailClosed {
		s.result.Faults = append(s.result.Faults, f)
		return f
	}
	s.event.Faults = append(s.event.Faults, f)
	return nil
}
