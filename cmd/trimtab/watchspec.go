package main

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/trimtab/trimtab/internal/gguf"
	"github.com/trimtab/trimtab/monitors"
	"github.com/trimtab/trimtab/monitors/entropy"
	"github.com/trimtab/trimtab/monitors/lexicon"
	"github.com/trimtab/trimtab/monitors/probe"
	"github.com/trimtab/trimtab/monitors/reach"
	"github.com/trimtab/trimtab/monitors/repetition"
	"github.com/trimtab/trimtab/steer"
)

// sentry is a monitor with what the commands have to know of it besides.
type sentry struct {
	monitors.Monitor
	value     *reach.Model // nil unless it is a value function
	level     reach.Level  // of the value function
	probe     *probe.Probe // nil unless it is a probe
	run       int          // rows in a row that a flag takes
	threshold *float64     // on the scale of the scores; nil when nothing is ever flagged
	// heat maps a score to 0 (calm) up to 1 (flagged), for colours.
	heat func(score float64) float64
}

// sentrySpec is a --monitor as it was given.
type sentrySpec struct {
	text      string
	kind      string // "file", "lexicon", "repetition", "entropy"
	file      string
	threshold *float64
	entropy   entropy.Options
}

// parseSentry reads FILE[:threshold], lexicon:FILE, repetition or
// entropy[:options]. Files are not touched, but for a name with a colon in it.
func parseSentry(text string) (sentrySpec, error) {
	s := sentrySpec{text: text}
	kind, rest, more := strings.Cut(text, ":")
	switch {
	case text == "":
		return s, errors.New("is empty: want a file, lexicon:FILE, repetition or entropy")
	case kind == "repetition" && !more:
		s.kind = kind
		return s, nil
	case kind == "entropy":
		s.kind = kind
		return s, s.entropyOptions(rest, more)
	case kind == "lexicon":
		if s.kind, s.file = kind, rest; rest == "" {
			return s, errors.New("lexicon wants a file: lexicon:FILE")
		}
		return s, nil
	}
	s.kind, s.file = "file", text
	i := strings.LastIndexByte(text, ':')
	if i <= 0 {
		return s, nil
	}
	if _, err := os.Lstat(text); err == nil {
		return s, nil // a name with a colon
	}
	t, err := strconv.ParseFloat(text[i+1:], 64)
	if err == nil && t-t == 0 {
		s.file, s.threshold = text[:i], &t
		return s, nil
	}
	if i == 1 { // a drive's letter
		return s, nil
	}
	return s, fmt.Errorf("%q is no threshold: want FILE or FILE:NUMBER", text[i+1:])
}

// entropyOptions reads key=value pairs behind "entropy:".
func (s *sentrySpec) entropyOptions(text string, given bool) (err error) {
	o := &s.entropy
	o.Measure, o.Threshold = entropy.Entropy, entropy.MaxNats // nothing is above it
	if !given {
		return nil
	}
	for _, part := range strings.Split(text, ",") {
		key, value, _ := strings.Cut(part, "=")
		switch key {
		case "measure":
			o.Measure, err = measureNamed(value)
		case "above", "below":
			o.Below = key == "below"
			o.Threshold, err = strconv.ParseFloat(value, 64)
			s.threshold = &o.Threshold
		case "smooth":
			o.Smooth = value
		case "run":
			o.Run, err = strconv.Atoi(value)
		default:
			err = errors.New("want measure=, above=, below=, smooth= or run=, separated by commas")
		}
		if err != nil {
			return fmt.Errorf("entropy: %q: %w", part, err)
		}
	}
	_, err = entropy.New(*o)
	return err
}

func measureNamed(name string) (entropy.Measure, error) {
	for _, m := range []entropy.Measure{entropy.Surprise, entropy.Entropy, entropy.Margin} {
		if m.String() == name {
			return m, nil
		}
	}
	return 0, errors.New("want surprise, entropy or margin")
}

// open reads the file, if there is one, and holds it against the model.
func (s *sentrySpec) open(facts steer.Facts, anyModel bool) (*sentry, error) {
	var a *sentry
	var err error
	switch s.kind {
	case "repetition":
		a = &sentry{threshold: new(1.0), heat: clip}
		a.Monitor, err = repetition.New(repetition.Options{})
	case "entropy":
		a = s.openEntropy()
		a.Monitor, err = entropy.New(s.entropy)
	case "lexicon":
		a, err = openLexicon(s.file)
	default:
		a, err = s.openFile(facts, anyModel)
	}
	if err != nil {
		return nil, badInput("monitor %s: %w", s.text, err)
	}
	a.run = max(a.run, 1)
	return a, nil
}

func (s *sentrySpec) openEntropy() *sentry {
	a := &sentry{run: s.entropy.Run, heat: func(x float64) float64 { return clip(x / 8) }}
	t := s.entropy.Threshold
	switch {
	case s.threshold == nil:
	case s.entropy.Below: // scores are negative
		a.threshold, a.heat = new(-t), func(x float64) float64 { return clip(t / max(-x, 1e-9)) }
	default:
		a.threshold, a.heat = new(t), func(x float64) float64 { return clip(x / max(t, 1e-9)) }
	}
	return a
}

func openLexicon(file string) (*sentry, error) {
	list, err := lexicon.ReadFile(file)
	if err != nil {
		return nil, err
	}
	m, err := list.Monitor("lexicon")
	return &sentry{Monitor: m, threshold: new(1.0), heat: clip}, err
}

func clip(x float64) float64 { return min(max(x, 0), 1) }

// kindOfMonitor tells what a monitor file holds, by its architecture.
func kindOfMonitor(file string) (string, error) {
	f, err := gguf.Open(file)
	if errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("%w; without a file there are lexicon:FILE, repetition and entropy", err)
	} else if err != nil {
		return "", err
	}
	defer f.Close()
	arch, err := f.String("general.architecture")
	if err != nil {
		return "", err
	}
	switch arch {
	case "trimtab-value":
		return "reach", nil
	case "probe":
		return "probe", nil
	}
	return "", fmt.Errorf("it holds %.40q and no monitor: want a value function or a probe, as `trimtab monitor fit` writes them", arch)
}

func (s *sentrySpec) openFile(facts steer.Facts, anyModel bool) (*sentry, error) {
	kind, err := kindOfMonitor(s.file)
	switch {
	case err != nil:
		return nil, err
	case kind == "reach":
		return s.openReach(facts, anyModel)
	}
	return s.openProbe(facts, anyModel)
}

const otherModel = "%w (use --any-model to watch all the same)"

var errNoThreshold = errors.New("it has no threshold: give one, as in FILE:0, or calibrate it with `trimtab monitor calibrate`")

func (s *sentrySpec) openReach(facts steer.Facts, anyModel bool) (*sentry, error) {
	m, err := reach.ReadModel(s.file)
	if err != nil {
		return nil, err
	}
	if err := m.Check(facts); errors.Is(err, reach.ErrWrongModel) && !anyModel {
		return nil, fmt.Errorf(otherModel, err)
	} else if err != nil && !errors.Is(err, reach.ErrWrongModel) {
		return nil, err
	}
	a := &sentry{value: m, level: reach.Level{Run: 1}}
	switch {
	case len(m.Levels) > 0:
		a.level = m.Levels[0]
	case s.threshold == nil:
		return nil, errNoThreshold
	}
	if s.threshold != nil {
		a.level.C = *s.threshold
	}
	a.run, a.threshold = a.level.Run, new(-a.level.C)
	a.heat = func(x float64) float64 { return clip((x + 1) / max(1-a.level.C, 1e-9)) }
	a.Monitor, err = reach.NewMonitor(m, reach.MonitorOptions{Name: nameOr(m.Name, s.file), Level: &a.level})
	return a, err
}

func (s *sentrySpec) openProbe(facts steer.Facts, anyModel bool) (*sentry, error) {
	p, err := probe.Read(s.file)
	if err != nil {
		return nil, err
	}
	if s.threshold != nil {
		if *s.threshold < 0 || *s.threshold > 1 {
			return nil, fmt.Errorf("the threshold of a probe is a probability, %v is not between 0 and 1", *s.threshold)
		}
		p.Threshold = *s.threshold
	}
	a := &sentry{probe: p, threshold: &p.Threshold, heat: func(x float64) float64 { return clip(x / max(p.Threshold, 1e-9)) }}
	a.Monitor, err = probe.New(probe.Options{Name: nameOr(p.Name, s.file), Probes: []*probe.Probe{p}, Model: facts, AnyModel: anyModel})
	if errors.Is(err, probe.ErrWrongModel) {
		return nil, fmt.Errorf(otherModel, err)
	}
	return a, err
}

// nameOr is the name a file states, else that of the file.
func nameOr(name, file string) string {
	if name != "" {
		return name
	}
	return strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
}

// openSentries opens all, under names that differ.
func openSentries(specs []sentrySpec, facts steer.Facts, anyModel bool) ([]*sentry, error) {
	var out []*sentry
	used := map[string]bool{}
	for i := range specs {
		a, err := specs[i].open(facts, anyModel)
		if err != nil {
			return nil, err
		}
		name := a.Name
		for n := 2; used[a.Name]; n++ {
			a.Name = fmt.Sprintf("%s-%d", name, n)
		}
		used[a.Name] = true
		out = append(out, a)
	}
	return out, nil
}

// heatOf is 1 for a flag, whatever the score says.
func (a *sentry) heatOf(v monitors.Verdict) float64 {
	if v.Flag {
		return 1
	}
	if math.IsNaN(v.Score) {
		return 0
	}
	return a.heat(v.Score)
}
