package enginetest

import (
	"fmt"
	"slices"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/runtime/engine"
	"github.com/trimtab/trimtab/steer"
)

// kept is one row that a sequence should hold: what was fed, under which plan.
type kept struct {
	token decode.Token
	embed []float32 // nil for a token
	plan  *steer.Plan
}

// walker is one sequence of the random walk beside the rows it should hold.
type walker struct {
	seq  engine.Sequence
	plan *steer.Plan
	rows []kept
}

const maxWalkRows = 40

// checkWalk feeds, rewinds, forks, saves, restores and steers at random, then
// checks that each sequence goes on like a fresh one given only the kept rows.
func checkWalk(s *suite) {
	w := &walk{suite: s, plans: []*steer.Plan{nil}}
	if layer := s.editable(steer.Add); layer >= 0 {
		for range 2 {
			w.plans = append(w.plans, s.plan(steer.Intervention{Site: steer.Site{Layer: layer}, Vector: s.noise(s.info.Width, 1), Scale: 1}))
		}
	}
	w.all = []*walker{{seq: s.sequence()}, {seq: s.sequence()}}
	for step := range s.o.Walk {
		w.step(s.rng.IntN(12))
		for i, one := range w.all {
			if got := one.seq.Len(); got != len(one.rows) {
				s.Fatalf("walk step %d: sequence %d has %d rows, want %d", step, i, got, len(one.rows))
			}
		}
		if step%10 == 9 {
			w.probe(step, s.rng.IntN(len(w.all)))
		}
	}
	for i := range w.all {
		w.probe(s.o.Walk, i)
	}
}

type walk struct {
	*suite
	plans []*steer.Plan
	all   []*walker
}

func (w *walk) step(kind int) {
	w.Helper()
	one := w.all[w.rng.IntN(len(w.all))]
	switch {
	case kind < 4 || len(one.rows) == 0:
		w.feed(one)
	case kind < 7 && w.info.Caps.Rewind:
		n := min(len(one.rows), w.rng.IntN(6)*w.rng.IntN(4))
		if err := one.seq.Rewind(n); err != nil {
			w.Fatalf("rewind %d of %d: %v", n, len(one.rows), err)
		}
		one.rows = one.rows[:len(one.rows)-n]
	case kind < 9 && w.info.Caps.Fork:
		n := len(one.rows)
		if w.info.Caps.Rewind {
			n = 1 + w.rng.IntN(n)
		}
		w.add(engine.Origin{Fork: one.seq, Len: n}, one.rows[:n])
	case kind < 11 && w.info.Caps.Save:
		saved, err := w.eng.Save(one.seq)
		if err != nil {
			w.Fatalf("save: %v", err)
		}
		w.add(engine.Origin{Saved: saved}, one.rows)
	default:
		one.plan = w.plans[w.rng.IntN(len(w.plans))]
		w.steer(one.seq, one.plan)
	}
}

// add opens one more walker, in place of the oldest when there are three.
func (w *walk) add(from engine.Origin, rows []kept) {
	w.Helper()
	one := &walker{rows: slices.Clone(rows), plan: w.plans[w.rng.IntN(len(w.plans))]}
	one.seq = w.from(from)
	w.steer(one.seq, one.plan) // whether a fork inherits the plan is not promised
	w.all = append(w.all, one)
	if len(w.all) > 3 {
		w.shut(w.all[0].seq)
		w.all = w.all[1:]
	}
}

// feed appends a few rows to one walker, and sometimes to another in the batch.
func (w *walk) feed(one *walker) {
	w.Helper()
	feeds := []engine.Feed{w.some(one)}
	if other := w.all[w.rng.IntN(len(w.all))]; other != one {
		feeds = append(feeds, w.some(other))
	}
	feeds = slices.DeleteFunc(feeds, func(fd engine.Feed) bool { return fd.Seq == nil })
	if len(feeds) > 0 {
		w.forward(feeds...)
	}
}

func (w *walk) some(one *walker) engine.Feed {
	n := min(1+w.rng.IntN(7), maxWalkRows-len(one.rows))
	if n <= 0 {
		return engine.Feed{}
	}
	fd := engine.Feed{Seq: one.seq, Output: engine.Output(w.rng.IntN(3))}
	embed := w.info.Caps.Embeddings && w.rng.IntN(4) == 0
	for range n {
		k := kept{token: w.token(), plan: one.plan}
		if embed {
			k.embed = w.noise(w.info.Width, 0.5)
			fd.Embeddings = append(fd.Embeddings, k.embed...)
		} else {
			fd.Tokens = append(fd.Tokens, k.token)
		}
		one.rows = append(one.rows, k)
	}
	return fd
}

// probe feeds one more token to walker i and to a fresh sequence with the kept
// rows, and compares.
func (w *walk) probe(step, i int) {
	w.Helper()
	one := w.all[i]
	fresh := w.sequence()
	w.replay(fresh, one.rows)
	w.steer(fresh, one.plan)
	token := w.token()
	w.forward(engine.Feed{Seq: fresh, Tokens: []decode.Token{token}})
	want := w.logits(fresh, 1)
	w.forward(engine.Feed{Seq: one.seq, Tokens: []decode.Token{token}})
	w.near(fmt.Sprintf("walk step %d: sequence %d with %d rows against a fresh one", step, i, len(one.rows)), w.logits(one.seq, 1), want)
	w.shut(fresh)
	one.rows = append(one.rows, kept{token: token, plan: one.plan})
}

// replay feeds rows to an empty sequence, as many at a time as share a kind
// and a plan.
func (s *suite) replay(seq engine.Sequence, rows []kept) {
	s.Helper()
	for len(rows) > 0 {
		n := 1
		for n < len(rows) && rows[n].plan == rows[0].plan && (rows[n].embed == nil) == (rows[0].embed == nil) {
			n++
		}
		fd := engine.Feed{Seq: seq, Output: engine.OutputNone}
		for _, k := range rows[:n] {
			if k.embed != nil {
				fd.Embeddings = append(fd.Embeddings, k.embed...)
			} else {
				fd.Tokens = append(fd.Tokens, k.token)
			}
		}
		s.steer(seq, rows[0].plan)
		s.forward(fd)
		rows = rows[n:]
	}
}
