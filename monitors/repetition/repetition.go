// Package repetition watches for a model that goes in circles.
//
// It looks at tokens alone, at two signs. A loop is an end of the text that
// consists of one stretch over and over, the way small models get stuck. A
// worn phrase is an n-gram that came up too often of late, in whatever
// surroundings. Both follow from one table: for each distance d up to the
// window, how many of the last tokens equal the one d before them.
package repetition

import (
	"context"
	"errors"
	"fmt"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/monitors"
)

// Bounds of Options.
const (
	MaxWindow  = 4096
	MaxRepeats = 1024
	MaxGram    = 256
	MaxLimit   = 1024
)

// maxRun is as far as a table entry counts. It bounds what a rewind has to read
// again, and the onset of a loop.
const maxRun = 4096

// Options describe the monitor. Zeros stand for the defaults.
type Options struct {
	Name string // default "repetition"
	// Window is how far back a token is compared, in tokens: the longest period
	// of a loop, and the text that n-grams are counted in. Default 256.
	Window int
	// A loop is a stretch of 1 to Window tokens that stands at the end Repeats
	// times in a row, and is MinTokens long with all its copies, so that "ha ha
	// ha" or a rule of dashes is none yet. Defaults 4 and 24. The copies are
	// followed for 4096 tokens: a loop of longer ones is not seen.
	Repeats, MinTokens int
	// Gram tokens in a row that stand more than Limit times in the window, one
	// copy not overlapping the next, are worn out. Defaults 8 and 5. A Limit
	// below 0 counts no n-grams.
	Gram, Limit int
}

func (o Options) filled() Options {
	set := func(to *int, value int) {
		if *to == 0 {
			*to = value
		}
	}
	if o.Name == "" {
		o.Name = "repetition"
	}
	set(&o.Window, 256)
	set(&o.Repeats, 4)
	set(&o.MinTokens, 24)
	set(&o.Gram, 8)
	set(&o.Limit, 5)
	return o
}

func (o Options) check() error {
	var faults []error
	for _, f := range []struct {
		name       string
		n, lo, max int
	}{
		{"window", o.Window, 1, MaxWindow}, {"repeats", o.Repeats, 2, MaxRepeats}, {"min tokens", o.MinTokens, 1, maxRun},
		{"gram", o.Gram, 1, MaxGram}, {"limit", max(o.Limit, 1), 1, MaxLimit},
	} {
		if f.n < f.lo || f.n > f.max {
			faults = append(faults, fmt.Errorf("repetition monitor: %s of %d, must be %d to %d", f.name, f.n, f.lo, f.max))
		}
	}
	return errors.Join(faults...)
}

// New returns the monitor. A token costs one comparison for each token of the
// window (about a microsecond for 256) and 4 bytes.
//
// The score of a verdict says how near the worse of the two signs is to its
// bound, which is 1: copies that are there over copies that make a loop, or
// copies of an n-gram over Limit+1. It is flagged from 1 on. The onset leads to
// the first token that was a repetition, so that a rewind to it leaves one copy.
func New(o Options) (monitors.Monitor, error) {
	o = o.filled()
	if err := o.check(); err != nil {
		return monitors.Monitor{}, err
	}
	return monitors.Monitor{
		Name:  o.Name,
		Doc:   fmt.Sprintf("finds loops of %d copies and %d-grams that stand more than %d times in %d tokens", o.Repeats, o.Gram, o.Limit, o.Window),
		Start: func() monitors.Watcher { return &watcher{o: o, run: make([]int32, o.Window+1)} },
	}, nil
}

// watcher follows one text.
type watcher struct {
	o    Options
	said []decode.Token
	// run[d] is how many tokens at the end equal the one d before, at most
	// maxRun. It depends on said alone.
	run []int32
}

// sign is one of the two: how far it is, and where it began.
type sign struct {
	score float64
	onset int
	note  string
}

// Observe scores the candidate. A negative token is an error.
func (w *watcher) Observe(_ context.Context, o *monitors.Observation) (monitors.Verdict, error) {
	if o.Token < 0 {
		return monitors.Verdict{}, fmt.Errorf("token %d is negative", o.Token)
	}
	w.push(o.Token)
	period, loop := w.loop()
	copies, worn := w.worn()
	v := monitors.Verdict{Score: max(loop.score, worn.score)}
	if v.Score < 1 {
		return v, nil
	}
	v.Flag = true
	if loop.score >= 1 { // the more certain of the two, and it starts earlier
		v.Onset, v.Note = loop.onset, fmt.Sprintf("a loop of %d tokens", period)
	} else {
		v.Onset, v.Note = worn.onset, fmt.Sprintf("%d tokens said %d times", w.o.Gram, copies)
	}
	v.Onset = min(v.Onset, o.Step)
	return v, nil
}

func (w *watcher) push(t decode.Token) {
	n := min(len(w.said), len(w.run)-1)
	back := w.said[len(w.said)-n:]
	run := w.run[1 : n+1]
	for i := range run {
		switch {
		case back[n-1-i] != t:
			run[i] = 0
		case run[i] < maxRun:
			run[i]++
		}
	}
	w.said = append(w.said, t)
}

// loop finds the period whose copies come nearest to a loop, the shortest of
// equals.
func (w *watcher) loop() (period int, s sign) {
	for d, r := range w.run {
		copied := int(r)
		if copied < d || copied == 0 {
			continue
		}
		need := max(d*w.o.Repeats, w.o.MinTokens)
		if score := float64(copied+d) / float64(need); score > s.score {
			period, s = d, sign{score: score, onset: copied - 1}
		}
	}
	return period, s
}

// worn counts the copies of the n-gram at the end.
func (w *watcher) worn() (copies int, s sign) {
	gram := w.o.Gram
	if w.o.Limit < 0 || len(w.said) < gram {
		return 0, s
	}
	copies = 1
	last, before := 0, 0 // distances of the two oldest copies
	for d := gram; d < len(w.run) && d+gram <= len(w.said); d++ {
		if int(w.run[d]) >= gram && d-last >= gram {
			copies++
			last, before = d, last
		}
	}
	if copies == 1 {
		return copies, s
	}
	return copies, sign{score: float64(copies) / float64(w.o.Limit+1), onset: before + gram - 1}
}

// Rewind forgets the last n tokens. It costs as much as n tokens, and more
// where a long run is broken: at most maxRun comparisons for each distance.
func (w *watcher) Rewind(n int) error {
	if n < 0 || n > len(w.said) {
		return fmt.Errorf("rewind by %d of %d tokens", n, len(w.said))
	}
	w.said = w.said[:len(w.said)-n]
	for d := 1; n > 0 && d < len(w.run); d++ {
		if r := int(w.run[d]); r >= n && r < maxRun {
			w.run[d] -= int32(n)
		} else {
			w.run[d] = w.count(d)
		}
	}
	return nil
}

// count is run[d] from the tokens.
func (w *watcher) count(d int) int32 {
	r := int32(0)
	for i := len(w.said) - 1; i >= d && r < maxRun && w.said[i] == w.said[i-d]; i-- {
		r++
	}
	return r
}
