package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"
	"unicode/utf8"

	"github.com/trimtab/trimtab/cmd/trimtab/internal/batch"
	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/runtime"
)

// board notes what the monitors say of one answer while it is written, and what
// the policy does about it. One goroutine writes it, another may read.
type board struct {
	guard *guard

	mu            sync.Mutex
	rows          []scored // of the committed tokens
	seen          []tallied
	interventions int
	notes         []string // what happened, for people
	left          int      // notes that did not fit
	painted       int      // tokens that were painted
}

// scored is a committed token.
type scored struct {
	piece  []byte
	scores []float64 // beside guard.sentries, NaN for a monitor that is off
	heat   float64
	flag   bool
}

// tallied is what one monitor said so far, of rejected candidates too.
type tallied struct {
	highest float64
	flags   int
	first   int
}

// maxNotes bounds what is printed about one answer.
const maxNotes = 100

// watch starts the board of one answer. Nil when nothing is watched; a nil
// board does nothing.
func (g *guard) watch() *board {
	if g == nil {
		return nil
	}
	b := &board{guard: g, seen: make([]tallied, len(g.sentries))}
	for i := range b.seen {
		b.seen[i] = tallied{highest: math.Inf(-1), first: -1}
	}
	return b
}

// listener is how the board learns of the answer.
func (b *board) listener() runtime.Listener {
	if b == nil {
		return runtime.Listener{}
	}
	return runtime.Listener{Step: func(_ context.Context, e *runtime.Event) error {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.step(e)
		return nil
	}}
}

func (b *board) step(e *runtime.Event) {
	row := scored{piece: bytes.Clone(e.Piece), scores: make([]float64, len(b.guard.sentries))}
	for i, a := range b.guard.sentries {
		row.scores[i] = math.NaN()
		k := slices.IndexFunc(e.Verdicts, func(v runtime.Verdict) bool { return v.Monitor == a.Name })
		if k < 0 {
			continue
		}
		v, t := e.Verdicts[k].Verdict, &b.seen[i]
		row.scores[i], row.heat, row.flag = v.Score, max(row.heat, a.heatOf(v)), row.flag || v.Flag
		if t.highest = max(t.highest, v.Score); v.Flag {
			if t.flags++; t.first < 0 {
				t.first = e.Index
			}
		}
	}
	b.remark(e)
	switch {
	case e.Action.Kind == runtime.Rewind:
		b.rows = b.rows[:min(e.Index-e.Rewound, len(b.rows))]
	case e.Action.Kind == runtime.Commit && !e.End:
		b.rows = append(b.rows[:min(e.Index, len(b.rows))], row)
	}
}

// remark notes what the policy did, and what failed.
func (b *board) remark(e *runtime.Event) {
	switch reason := plain(e.Action.Reason); {
	case e.Action.Kind == runtime.Stop:
		b.interventions++
		b.note("token %d %q: stopped: %s", e.Index, e.Piece, reason)
	case e.Action.Kind == runtime.Rewind:
		b.interventions++
		b.note("token %d %q: %d taken back: %s", e.Index, e.Piece, e.Rewound, reason)
	case reason != "":
		b.note("token %d %q: %s", e.Index, e.Piece, reason)
	}
	for _, err := range e.Faults {
		b.note("token %d: switched off: %s", e.Index, plain(err.Error()))
	}
}

func (b *board) note(format string, args ...any) {
	if len(b.notes) == maxNotes {
		b.left++
		return
	}
	b.notes = append(b.notes, "monitor: "+fmt.Sprintf(format, args...))
}

// print writes the notes, and with --scores the scores.
func (b *board) print(w io.Writer) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, n := range b.notes {
		fmt.Fprintln(w, n)
	}
	if b.left > 0 {
		fmt.Fprintf(w, "monitor: %d further remarks are left out; --audit FILE keeps all\n", b.left)
	}
	if !b.guard.flags.scores {
		return
	}
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintf(t, "token\t\t%s\n", strings.Join(b.guard.names(), "\t"))
	for i, r := range b.rows {
		cells := make([]string, len(r.scores))
		for k, s := range r.scores {
			cells[k] = strconv.FormatFloat(s, 'g', 3, 64)
		}
		mark := ""
		if r.flag {
			mark = "\t!"
		}
		fmt.Fprintf(t, "%d\t%s\t%s%s\n", i, strconv.Quote(string(r.piece)), strings.Join(cells, "\t"), mark)
	}
	t.Flush()
}

// report adds what was seen to an answer.
func (b *board) report(a *batch.Answer) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	a.Interventions = &b.interventions
	for i, s := range b.guard.sentries {
		t := b.seen[i]
		m := batch.Monitor{Name: s.Name, Highest: finite(t.highest), Flags: t.flags}
		if t.first >= 0 {
			m.First = &t.first
		}
		if b.guard.flags.scores {
			m.Scores = make([]*float64, len(b.rows))
			for k := range b.rows {
				m.Scores[k] = finite(b.rows[k].scores[i])
			}
		}
		a.Monitors = append(a.Monitors, m)
	}
}

// finite is x for JSON, nil when there is no such number.
func finite(x float64) *float64 {
	if x-x != 0 {
		return nil
	}
	return &x
}

// heatColours are backgrounds of the 256-colour palette, from green to red, dark
// enough for white letters.
var heatColours = [...]int{22, 28, 64, 100, 136, 130, 124, 160}

// paint is a part of the answer with a background for each token.
func (b *board) paint(text []byte, tokens []decode.Token) []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []byte
	for range tokens {
		if b.painted >= len(b.rows) {
			break
		}
		r := b.rows[b.painted]
		b.painted++
		n := min(len(r.piece), len(text))
		for n < len(text) && !utf8.RuneStart(text[n]) { // never within a character
			n++
		}
		out = heated(out, text[:n], r.heat)
		text = text[n:]
	}
	return append(out, text...)
}

// heated puts a background behind text, and none behind line breaks, which
// would colour the rest of the line.
func heated(out, text []byte, heat float64) []byte {
	colour := heatColours[min(int(heat*float64(len(heatColours))), len(heatColours)-1)]
	for i, line := range bytes.Split(text, []byte("\n")) {
		if i > 0 {
			out = append(out, '\n')
		}
		if len(line) > 0 {
			out = fmt.Appendf(out, "\x1b[48;5;%d;38;5;15m%s\x1b[0m", colour, line)
		}
	}
	return out
}
