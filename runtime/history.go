package runtime

import (
	"math"
	"slices"

	"github.com/trimtab/trimtab/decode"
)

// history is every row of a sequence, cached or still to be fed: the prompt,
// the tokens that the reader sees, and hidden guidance between them.
type history struct {
	rows   []decode.Token
	prompt int            // rows of the prompt
	fed    int            // rows that the engine has
	tokens []decode.Token // the visible tokens
	marks  []mark         // beside tokens
	guides []guide
	clean  int // rows before this one were made under the first plan, without guidance
	plain  int // rows before this one were made without guidance
}

// mark places one visible token.
type mark struct {
	row   int // in rows
	start int // of its bytes in the transcript
}

// guide is a run of hidden rows.
type guide struct {
	at, n int // rows[at:at+n]
	until int // removed when so many visible tokens are committed
}

func newHistory(prompt []decode.Token, most int) history {
	h := history{prompt: len(prompt), clean: math.MaxInt, plain: math.MaxInt}
	h.rows = append(make([]decode.Token, 0, len(prompt)+most), prompt...)
	h.tokens = make([]decode.Token, 0, most)
	h.marks = make([]mark, 0, most)
	return h
}

// pending are the rows to feed next.
func (h *history) pending() []decode.Token { return h.rows[h.fed:] }

func (h *history) commit(t decode.Token, start int) {
	h.marks = append(h.marks, mark{len(h.rows), start})
	h.tokens = append(h.tokens, t)
	h.rows = append(h.rows, t)
}

// end is the number of rows up to and including visible token k-1, with any
// guidance before it and none after it.
func (h *history) end(k int) int {
	if k == 0 {
		return h.prompt
	}
	return h.marks[k-1].row + 1
}

// cut keeps the first k visible tokens and drops guidance spliced after them.
// It returns the rows that are left.
func (h *history) cut(k int) int {
	rows := h.end(k)
	h.rows, h.tokens, h.marks = h.rows[:rows], h.tokens[:k], h.marks[:k]
	h.guides = slices.DeleteFunc(h.guides, func(g guide) bool { return g.at >= rows })
	return rows
}

// splice puts hidden rows at the end.
func (h *history) splice(g []decode.Token, span int) {
	until := math.MaxInt
	if span > 0 {
		until = len(h.tokens) + span
	}
	h.guides = append(h.guides, guide{len(h.rows), len(g), until})
	h.soil(len(h.rows))
	h.plain = min(h.plain, len(h.rows))
	h.rows = append(h.rows, g...)
}

// soil notes that rows from this one on are not what the prompt and the visible
// tokens alone would give.
func (h *history) soil(row int) { h.clean = min(h.clean, row) }

// guided is the number of hidden rows before row end.
func (h *history) guided(end int) (n int) {
	for _, g := range h.guides {
		if g.at < end {
			n += g.n
		}
	}
	return n
}

// expire removes guidance whose time is over and returns the first row that
// moved, or len(rows) when there was none.
func (h *history) expire() int {
	first := len(h.rows)
	for i := 0; i < len(h.guides); {
		g := h.guides[i]
		if len(h.tokens) < g.until {
			i++
			continue
		}
		first = min(first, g.at)
		h.rows = slices.Delete(h.rows, g.at, g.at+g.n)
		h.guides = slices.Delete(h.guides, i, i+1)
		h.shift(g)
	}
	return first
}

func (h *history) shift(gone guide) {
	for i := range h.marks {
		if h.marks[i].row >= gone.at {
			h.marks[i].row -= gone.n
		}
	}
	for i := range h.guides {
		if h.guides[i].at > gone.at {
			h.guides[i].at -= gone.n
		}
	}
}
