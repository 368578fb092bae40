// Package entropy watches how unsure the model is: of the token it says, of
// what to say at all, or between the two likeliest tokens.
package entropy

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/internal/window"
	"github.com/trimtab/trimtab/monitors"
)

// Measure is what is scored, in nats, under the raw logits.
type Measure uint8

const (
	// Surprise is -ln p of the candidate: 0 when the model was certain of it.
	Surprise Measure = iota
	// Entropy is -sum p ln p over the vocabulary: 0 when one token has all the
	// mass, ln of the vocabulary's size when all are equal.
	Entropy
	// Margin is ln p of the likeliest token less ln p of the second: 0 when two
	// are equally likely. Low margins are usually what is looked for: see
	// Options.Below.
	Margin
)

var measureNames = [...]string{Surprise: "surprise", Entropy: "entropy", Margin: "margin"}

func (m Measure) String() string {
	if int(m) < len(measureNames) {
		return measureNames[m]
	}
	return fmt.Sprintf("measure(%d)", uint8(m))
}

// MaxRun bounds Options.Run.
const MaxRun = 1024

// MaxNats is the largest score: of a candidate that the model gave no
// probability at all, or a row with one token left.
const MaxNats = 1000

// Options describe the monitor.
type Options struct {
	Name      string // default: the measure's name
	Measure   Measure
	Threshold float64 // nats, at least 0; a score above it counts
	// Below turns the threshold round: a score below it counts. Verdict.Score
	// is then negative, so that higher still means more of what is looked for.
	Below bool
	// Smooth makes one score of the last ones before the threshold is applied:
	// "mean:N" and "max:N" over N tokens (1 to 1024, fewer at the start),
	// "ewma:A" with the share A of the newest. Default: the score alone.
	Smooth string
	// Run is how many tokens in a row must count before the flag is raised; its
	// Onset is then the first of them. Default 1.
	Run int
}

// New returns the monitor. It costs one pass over the vocabulary per token and
// 9 bytes. The watchers' errors, a row that is no distribution, leave them as
// they were.
func New(o Options) (monitors.Monitor, error) {
	var faults []error
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("entropy monitor: "+format, args...))
	}
	if int(o.Measure) >= len(measureNames) {
		fault("unknown %s", o.Measure)
	}
	if !(o.Threshold >= 0) || math.IsInf(o.Threshold, 0) {
		fault("threshold %v, must be 0 or more nats", o.Threshold)
	}
	if o.Run < 0 || o.Run > MaxRun {
		fault("run of %d tokens, must be 1 to %d", o.Run, MaxRun)
	}
	smooth, err := window.Parse(o.Smooth)
	if err != nil {
		fault("%w", err)
	}
	if err := errors.Join(faults...); err != nil {
		return monitors.Monitor{}, err
	}
	if o.Name == "" {
		o.Name = o.Measure.String()
	}
	o.Run = max(o.Run, 1)
	return monitors.Monitor{
		Name:  o.Name,
		Doc:   o.doc(smooth),
		Start: func() monitors.Watcher { return &watcher{o: o, scores: window.NewSeries(smooth)} },
	}, nil
}

func (o *Options) doc(smooth window.Window) string {
	side := "above"
	if o.Below {
		side = "below"
	}
	of := ""
	if smooth.Kind != window.None {
		of = ", " + smooth.String() + ","
	}
	return fmt.Sprintf("%s of the model in nats%s flagged %s %g over %d tokens", o.Measure, of, side, o.Threshold, o.Run)
}

// watcher keeps what it made of every token it saw, so that Rewind is exact.
type watcher struct {
	o      Options
	scores *window.Series
	counts []bool // whether the token counted
}

// Observe scores the candidate. A row without any mass is an error.
func (w *watcher) Observe(_ context.Context, o *monitors.Observation) (monitors.Verdict, error) {
	if o.Token < 0 || int(o.Token) >= len(o.Raw) {
		return monitors.Verdict{}, fmt.Errorf("token %d is outside the row of %d", o.Token, len(o.Raw))
	}
	x, err := w.o.Measure.of(o.Raw, o.Token)
	if err != nil {
		return monitors.Verdict{}, err
	}
	v := monitors.Verdict{Score: w.scores.Push(min(max(x, 0), MaxNats))}
	if w.o.Below {
		w.counts = append(w.counts, v.Score < w.o.Threshold)
		v.Score = -v.Score
	} else {
		w.counts = append(w.counts, v.Score > w.o.Threshold)
	}
	if run := w.run(); run == w.o.Run {
		v.Flag, v.Onset = true, min(run-1, o.Step)
	}
	return v, nil
}

// of measures a row.
func (m Measure) of(row decode.Logits, t decode.Token) (float64, error) {
	if m == Margin {
		return margin(row)
	}
	peak, logMass, mean, err := moments(row)
	if m == Surprise {
		return logMass - (float64(row[t]) - peak), err
	}
	return logMass - mean, err
}

// margin is the difference of the two largest logits, which is that of their
// log-probabilities.
func margin(l decode.Logits) (float64, error) {
	first, second := float32(math.Inf(-1)), float32(math.Inf(-1))
	for i, x := range l {
		if x != x || x > math.MaxFloat32 {
			return 0, fmt.Errorf("logit %d is %v", i, x)
		}
		switch {
		case x > first:
			first, second = x, first
		case x > second:
			second = x
		}
	}
	if first < -math.MaxFloat32 {
		return 0, errAllBanned
	}
	return float64(first) - float64(second), nil
}

// run counts the tokens at the end that counted, up to Options.Run.
func (w *watcher) run() int {
	n := 0
	for n < w.o.Run && n < len(w.counts) && w.counts[len(w.counts)-1-n] {
		n++
	}
	return n
}

// Rewind forgets the last n tokens.
func (w *watcher) Rewind(n int) error {
	if err := w.scores.Rewind(n); err != nil {
		return err
	}
	w.counts = w.counts[:len(w.counts)-n]
	return nil
}

// errAllBanned: the row leaves no token.
var errAllBanned = errors.New("every token is banned")

// negligible is how far below the best a logit may lie before it is left out:
// a million such tokens hold less than 1e-7 of the mass.
const negligible = 30

// moments returns the largest logit and, relative to it, ln(sum exp(l)) and the
// mean of l under the softmax.
func moments(l decode.Logits) (peak, logMass, mean float64, err error) {
	m := float32(math.Inf(-1))
	for i, x := range l {
		if x != x || x > math.MaxFloat32 {
			return 0, 0, 0, fmt.Errorf("logit %d is %v", i, x)
		}
		m = max(m, x)
	}
	if m < -math.MaxFloat32 {
		return 0, 0, 0, errAllBanned
	}
	var sum, dot float64
	for _, x := range l {
		if x < m-negligible {
			continue
		}
		d := float64(x) - float64(m)
		e := math.Exp(d)
		sum += e
		dot += e * d
	}
	return float64(m), math.Log(sum), dot / sum, nil
}
