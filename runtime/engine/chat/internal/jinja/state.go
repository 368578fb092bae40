package jinja

import (
	"strings"
	"time"
)

// Limits bound one render. Zero fields take the defaults.
type Limits struct {
	Work   int // nodes evaluated + bytes/4 made or scanned; default 30 million: at worst 6 s and 140 MB were measured
	Output int // bytes; default 4 MiB
	Depth  int // nested evaluations; default 2000
}

func (l Limits) withDefaults() Limits {
	if l.Work <= 0 {
		l.Work = 30_000_000
	}
	if l.Output <= 0 {
		l.Output = 4 << 20
	}
	if l.Depth <= 0 {
		l.Depth = 2000
	}
	return l
}

// maxRange is the longest range(), as in Jinja2's sandbox.
const maxRange = 100000

// state is one render: its budget, marks and clock.
type state struct {
	limits Limits
	work   int
	depth  int
	marks  *Marks
	now    func() time.Time
}

func (st *state) spend(units int) error {
	if units < 0 || units > st.limits.Work-st.work {
		st.work = st.limits.Work
		return &LimitError{What: "units of work", Max: st.limits.Work}
	}
	st.work += units
	return nil
}

// bytes pays for making or scanning n bytes. It comes before the allocation.
func (st *state) bytes(n int) error { return st.spend(1 + n/4) }

// slots pays for a list of n values.
func (st *state) slots(n int) error { return st.spend(1 + 4*n) }

func (st *state) enter(line int) error {
	st.depth++
	if st.depth > st.limits.Depth {
		return &LimitError{Line: line, What: "nested evaluations", Max: st.limits.Depth}
	}
	return st.spend(1)
}

func (st *state) leave() { st.depth-- }

// plain is the text as comparisons see it.
func (st *state) plain(s string) string { return st.marks.Plain(s) }

// scope is one level of names. Lookups go outwards, sets stay.
type scope struct {
	vars   map[string]any
	parent *scope
}

func (s *scope) child() *scope { return &scope{vars: map[string]any{}, parent: s} }

func (s *scope) get(name string) (any, bool) {
	for ; s != nil; s = s.parent {
		if v, ok := s.vars[name]; ok {
			return v, true
		}
	}
	return nil, false
}

// output collects text under the render's size limit.
type output struct{ strings.Builder }

func (o *output) write(st *state, s string) error {
	if err := st.bytes(len(s)); err != nil {
		return err
	}
	if o.Len()+len(s) > st.limits.Output {
		return &LimitError{What: "bytes of output", Max: st.limits.Output}
	}
	o.WriteString(s)
	return nil
}
