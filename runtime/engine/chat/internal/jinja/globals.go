package jinja

// function is a built-in global.
type function struct {
	name string
	run  func(st *state, a *args) (any, error)
}

func (f *function) call(st *state, a *args) (any, error) { return f.run(st, a) }

func globals(st *state) map[string]any {
	g := map[string]any{}
	add := func(name string, run func(*state, *args) (any, error)) { g[name] = &function{name, run} }
	add("range", rangeOf)
	add("dict", dictOf)
	add("namespace", namespaceOf)
	add("raise_exception", raise)
	add("cycler", unavailable("cycler"))
	add("joiner", joinerOf)
	add("lipsum", unavailable("lipsum"))
	if st.now != nil {
		add("strftime_now", strftimeNow)
	}
	return g
}

func unavailable(name string) func(*state, *args) (any, error) {
	return func(*state, *args) (any, error) { return nil, fail("%s is not available in chat templates", name) }
}

func raise(st *state, a *args) (any, error) {
	if len(a.pos) == 0 {
		return nil, fail("raise_exception needs a message")
	}
	s, err := st.str(a.pos[0])
	if err != nil {
		return nil, err
	}
	return nil, &Raised{Message: st.plain(s)}
}

func strftimeNow(st *state, a *args) (any, error) {
	format, ok := a.value(0, "format").(string)
	if !ok {
		return nil, fail("strftime_now needs a format")
	}
	if err := st.bytes(40 * len(format)); err != nil {
		return nil, err
	}
	return strftime(st.now(), format)
}

// value is argument i, by position or by name; nil when it is not given.
func (a *args) value(i int, name string) any {
	if i < len(a.pos) {
		return a.pos[i]
	}
	return a.kw[name]
}

func rangeOf(st *state, a *args) (any, error) {
	bounds := [3]int64{0, 0, 1}
	if len(a.pos) == 0 || len(a.pos) > 3 || len(a.names) > 0 {
		return nil, fail("range expects 1 to 3 arguments")
	}
	for i, v := range a.pos {
		n, _, isInt, ok := number(v)
		if !ok || !isInt {
			return nil, badOperand("range", v)
		}
		bounds[i] = n
	}
	if len(a.pos) == 1 {
		bounds = [3]int64{0, bounds[0], 1}
	}
	return rangeList(st, bounds[0], bounds[1], bounds[2])
}

func rangeList(st *state, from, to, step int64) (any, error) {
	if step == 0 {
		return nil, fail("range() arg 3 must not be zero")
	}
	l := &List{Items: []any{}}
	for i := from; step > 0 && i < to || step < 0 && i > to; {
		if len(l.Items) >= maxRange {
			return nil, fail("range too big: the most is %d", maxRange)
		}
		l.Items = append(l.Items, i)
		next, err := intOp("+", i, step)
		if err != nil {
			break
		}
		i, _ = next.(int64)
	}
	return l, st.slots(len(l.Items))
}

func dictOf(st *state, a *args) (any, error) {
	d := NewDict()
	if len(a.pos) > 0 {
		if err := st.fillDict(d, a.pos[0]); err != nil {
			return nil, err
		}
	}
	for _, k := range a.names {
		d.set(k, a.spelled(k), a.kw[k])
	}
	return d, st.slots(len(d.keys))
}

// fillDict copies a dict or a list of pairs.
func (st *state) fillDict(d *Dict, v any) error {
	if src, ok := v.(*Dict); ok {
		v = pairs(src)
	}
	items, err := st.iterate(v)
	if err != nil {
		return err
	}
	for _, it := range items {
		p, ok := it.(*List)
		if !ok || len(p.Items) != 2 {
			return fail("dict() needs pairs")
		}
		h, err := hashKey(st.marks, p.Items[0])
		if err != nil {
			return err
		}
		d.set(h, p.Items[0], p.Items[1])
	}
	return nil
}

func pairs(d *Dict) *List {
	l := &List{Items: make([]any, len(d.keys))}
	for i, k := range d.keys {
		l.Items[i] = &List{Items: []any{k, d.vals[i]}, Tuple: true}
	}
	return l
}

func namespaceOf(st *state, a *args) (any, error) {
	v, err := dictOf(st, a)
	if err != nil {
		return nil, err
	}
	ns := &namespace{vars: map[string]any{}}
	if d, ok := v.(*Dict); ok {
		for i, k := range d.keys {
			if s, ok := k.(string); ok {
				ns.vars[st.plain(s)] = d.vals[i]
			}
		}
	}
	return ns, nil
}

// joinerOf makes a function that gives nothing the first time, then sep.
func joinerOf(_ *state, a *args) (any, error) {
	sep := a.value(0, "sep")
	if sep == nil {
		sep = ", "
	}
	used := false
	return &function{"joiner", func(*state, *args) (any, error) {
		if !used {
			used = true
			return "", nil
		}
		return sep, nil
	}}, nil
}
