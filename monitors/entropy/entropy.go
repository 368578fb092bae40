// Package entropy watches how unsure the model is: of the token it says, or of
// what to say at all.
package entropy

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/trimtab/trimtab/decode"
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
)

var measureNames = [...]string{Surprise: "surprise", Entropy: "entropy"}

func (m Measure) String() string {
	if int(m) < len(measureNames) {
		return measureNames[m]
	}
	return fmt.Sprintf("measure(%d)", uint8(m))
}

// MaxRun bounds Options.Run.
const MaxRun = 1024

// Options describe the monitor.
type Options struct {
	Name      string // default: the measure's name
	Measure   Measure
	Threshold float64 // nats; a higher score counts. At least 0
	// Run is how many tokens in a row must score higher before the flag is
	// raised; its Onset is then the first of them. Default 1.
	Run int
}

// New returns the monitor. It costs one pass over the vocabulary per token.
func New(o Options) (monitors.Monitor, error) {
	var faults []error
	if int(o.Measure) >= len(measureNames) {
		faults = append(faults, fmt.Errorf("entropy monitor: unknown %s", o.Measure))
	}
	if !(o.Threshold >= 0) || math.IsInf(o.Threshold, 0) {
		faults = append(faults, fmt.Errorf("entropy monitor: threshold %v, must be 0 or more nats", o.Threshold))
	}
	if o.Run < 0 || o.Run > MaxRun {
		faults = append(faults, fmt.Errorf("entropy monitor: run of %d tokens, must be 1 to %d", o.Run, MaxRun))
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
		Doc:   fmt.Sprintf("%s of the model in nats, flagged above %g over %d tokens", o.Measure, o.Threshold, o.Run),
		Start: func() monitors.Watcher { return &watcher{o: o} },
	}, nil
}

// watcher keeps one bit of every token it saw, so that Rewind is exact.
type watcher struct {
	o    Options
	high []bool
}

// Observe scores the candidate. A row without any mass is an error.
func (w *watcher) Observe(_ context.Context, o *monitors.Observation) (monitors.Verdict, error) {
	if o.Token < 0 || int(o.Token) >= len(o.Raw) {
		return monitors.Verdict{}, fmt.Errorf("token %d is outside the row of %d", o.Token, len(o.Raw))
	}
	peak, logMass, mean, err := moments(o.Raw)
	if err != nil {
		return monitors.Verdict{}, err
	}
	v := monitors.Verdict{Score: max(logMass-mean, 0)}
	if w.o.Measure == Surprise {
		v.Score = max(logMass-(float64(o.Raw[o.Token])-peak), 0)
	}
	w.high = append(w.high, v.Score > w.o.Threshold)
	if run := w.run(); run == w.o.Run {
		v.Flag, v.Onset = true, min(run-1, o.Step)
	}
	return v, nil
}

// run counts the high scores at the end, up to Options.Run.
func (w *watcher) run() int {
	n := 0
	for n < w.o.Run && n < len(w.high) && w.high[len(w.high)-1-n] {
		n++
	}
	return n
}

// Rewind forgets the last n tokens.
func (w *watcher) Rewind(n int) error {
	if n < 0 || n > len(w.high) {
		return fmt.Errorf("rewind by %d of %d tokens", n, len(w.high))
	}
	w.high = w.high[:len(w.high)-n]
	return nil
}

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
		return 0, 0, 0, errors.New("every token is banned")
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
