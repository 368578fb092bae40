package monitortest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/monitors"
	"github.com/trimtab/trimtab/steer"
)

// maxNote is the longest note that the step loop takes, in bytes.
const maxNote = 1024

// loop plays the step loop for one watcher: it shows candidates in buffers that
// are overwritten as soon as the watcher has answered, as the real loop reuses
// its own.
type loop struct {
	m monitors.Monitor
	w monitors.Watcher
	n int // observed and not rewound

	o    monitors.Observation
	rows map[steer.Site][]float32
	open bool // an Observe is running
	ask  error
}

func newLoop(m monitors.Monitor) *loop {
	l := &loop{m: m, w: m.Start(), rows: map[steer.Site][]float32{}}
	l.o.Activation = l.activation
	return l
}

// activation answers as the real loop does, and remembers what it refused.
func (l *loop) activation(site steer.Site) ([]float32, error) {
	switch row, ok := l.rows[site]; {
	case !l.open:
		l.ask = fmt.Errorf("activation at %s was asked for after Observe had returned", site)
	case !slices.Contains(l.m.Sites, site):
		l.ask = fmt.Errorf("activation at %s was asked for, which Monitor.Sites does not name", site)
	case !ok:
		return nil, fmt.Errorf("activation at %s: there is none", site)
	default:
		return row, nil
	}
	return nil, l.ask
}

// observe shows one candidate. The second error is a broken promise, the first
// the watcher's own.
func (l *loop) observe(ctx context.Context, in Input) (v monitors.Verdict, err, broken error) {
	l.show(in)
	l.open = true
	v, err = l.w.Observe(ctx, &l.o)
	l.open = false
	broken = l.ask
	if broken == nil {
		broken = l.unchanged(in)
	}
	l.poison()
	if err != nil {
		return monitors.Verdict{}, err, broken
	}
	if broken == nil {
		broken = usable(v, l.n)
	}
	l.n++
	return v, nil, broken
}

// must is observe where no error is due.
func (l *loop) must(ctx context.Context, in Input) (monitors.Verdict, error) {
	v, err, broken := l.observe(ctx, in)
	return v, errors.Join(err, broken)
}

func (l *loop) rewind(n int) error {
	if err := l.w.Rewind(n); err != nil {
		return fmt.Errorf("rewind by %d of %d: %w", n, l.n, err)
	}
	l.n -= n
	return l.ask
}

func (l *loop) show(in Input) {
	o := &l.o
	o.Step, o.Token = l.n, in.Token
	o.Piece = append(o.Piece[:0], in.Piece...)
	o.Raw = append(o.Raw[:0], in.Raw...)
	o.Logits = append(o.Logits[:0], in.logits()...)
	clear(l.rows)
	for site, row := range in.Rows {
		l.rows[site] = slices.Clone(row)
	}
}

func (in *Input) logits() decode.Logits {
	if in.Logits == nil {
		return in.Raw
	}
	return in.Logits
}

// unchanged reports a slice that the watcher wrote to.
func (l *loop) unchanged(in Input) error {
	o := &l.o
	switch {
	case !bytes.Equal(o.Piece, in.Piece):
		return errors.New("the watcher wrote to Observation.Piece")
	case !sameBits(o.Raw, in.Raw):
		return errors.New("the watcher wrote to Observation.Raw")
	case !sameBits(o.Logits, in.logits()):
		return errors.New("the watcher wrote to Observation.Logits")
	}
	for site, row := range in.Rows {
		if !sameBits(l.rows[site], row) {
			return fmt.Errorf("the watcher wrote to the activation at %s", site)
		}
	}
	return nil
}

func sameBits[S ~[]float32](a, b S) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool { return math.Float32bits(x) == math.Float32bits(y) })
}

// poison overwrites everything that was shown.
func (l *loop) poison() {
	nan := float32(math.NaN())
	for i := range l.o.Piece {
		l.o.Piece[i] = 0xff
	}
	for _, row := range [][]float32{l.o.Raw, l.o.Logits} {
		for i := range row {
			row[i] = nan
		}
	}
	for _, row := range l.rows {
		for i := range row {
			row[i] = nan
		}
	}
	l.o.Token, l.o.Step = -1, -1
}

// usable reports why the step loop could not work with a verdict.
func usable(v monitors.Verdict, step int) error {
	switch {
	case math.IsNaN(v.Score) || math.IsInf(v.Score, 0):
		return fmt.Errorf("score is %v", v.Score)
	case v.Onset < 0 || v.Onset > step:
		return fmt.Errorf("onset %d of %d tokens", v.Onset, step)
	case len(v.Note) > maxNote:
		return fmt.Errorf("note of %d bytes, the limit is %d", len(v.Note), maxNote)
	}
	return nil
}

// fresh returns the verdicts of a new watcher over the inputs.
func fresh(ctx context.Context, m monitors.Monitor, ins []Input) ([]monitors.Verdict, error) {
	l := newLoop(m)
	out := make([]monitors.Verdict, len(ins))
	for i, in := range ins {
		v, err := l.must(ctx, in)
		if err != nil {
			return nil, fmt.Errorf("fresh watcher, candidate %d (%q): %w", i, in.Piece, err)
		}
		out[i] = v
	}
	return out, nil
}
