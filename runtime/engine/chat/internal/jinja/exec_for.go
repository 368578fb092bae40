package jinja

// loop is the variable of the same name inside a for block.
type loop struct {
	st      *state
	stmt    *forStmt
	sc      *scope
	items   []any
	index   int
	depth   int
	changed any
	seen    bool
}

func (s *forStmt) exec(st *state, sc *scope, out *output) (flow, error) {
	v, err := st.eval(s.iter, sc)
	if err != nil {
		return flowNext, err
	}
	return flowNext, s.run(st, sc, out, v, 0)
}

func (s *forStmt) run(st *state, sc *scope, out *output, v any, depth int) error {
	items, err := st.iterate(v)
	if err != nil {
		return err
	}
	if s.cond != nil {
		if items, err = s.filter(st, sc, items); err != nil {
			return err
		}
	}
	if len(items) == 0 {
		_, err := st.run(s.orElse, sc.child(), out)
		return err
	}
	l := &loop{st: st, stmt: s, sc: sc, items: items, depth: depth}
	for i, item := range items {
		l.index = i
		inner := sc.child()
		inner.vars["loop"] = l
		if err := st.assign(s.target, item, inner); err != nil {
			return err
		}
		f, err := st.run(s.body, inner, out)
		if err != nil {
			return err
		}
		if f == flowBreak {
			return nil
		}
	}
	return nil
}

// filter keeps the items for which the loop's condition holds.
func (s *forStmt) filter(st *state, sc *scope, items []any) ([]any, error) {
	if err := st.slots(len(items)); err != nil {
		return nil, err
	}
	kept := []any{}
	for _, item := range items {
		inner := sc.child()
		if err := st.assign(s.target, item, inner); err != nil {
			return nil, err
		}
		v, err := st.eval(s.cond, inner)
		if err != nil {
			return nil, err
		}
		if truth(v) {
			kept = append(kept, item)
		}
	}
	return kept, nil
}

// attr are the attributes of the loop variable.
func (l *loop) attr(name string) (any, bool) {
	n := len(l.items)
	switch name {
	case "index":
		return int64(l.index + 1), true
	case "index0":
		return int64(l.index), true
	case "revindex":
		return int64(n - l.index), true
	case "revindex0":
		return int64(n - l.index - 1), true
	case "first":
		return l.index == 0, true
	case "last":
		return l.index == n-1, true
	case "length":
		return int64(n), true
	case "depth":
		return int64(l.depth + 1), true
	case "depth0":
		return int64(l.depth), true
	case "previtem":
		return l.item(l.index-1, "there is no previous item"), true
	case "nextitem":
		return l.item(l.index+1, "there is no next item"), true
	case "cycle", "changed":
		return &method{recv: l, name: name}, true
	}
	return nil, false
}

func (l *loop) item(i int, missing string) any {
	if i < 0 || i >= len(l.items) {
		return Undefined{name: missing}
	}
	return l.items[i]
}

// call runs a recursive loop over other items.
func (l *loop) call(st *state, a *args) (any, error) {
	if !l.stmt.recursive {
		return nil, fail("the loop must have the 'recursive' marker to be called recursively")
	}
	if len(a.pos) != 1 || len(a.names) > 0 {
		return nil, fail("loop() takes one argument")
	}
	if err := st.enter(0); err != nil {
		return nil, err
	}
	defer st.leave()
	var out output
	err := l.stmt.run(st, l.sc, &out, a.pos[0], l.depth+1)
	return out.String(), err
}

func (l *loop) method(st *state, name string, a *args) (any, error) {
	if name == "cycle" {
		if len(a.pos) == 0 {
			return nil, fail("no items for cycling given")
		}
		return a.pos[l.index%len(a.pos)], nil
	}
	now := &List{Items: a.pos, Tuple: true}
	same := false
	if l.seen {
		var err error
		if same, err = st.equal(l.changed, now); err != nil {
			return nil, err
		}
	}
	l.changed, l.seen = now, true
	return !same, nil
}
