package jinja

import "unicode/utf8"

// eval evaluates x under the budget and puts its line on errors.
func (st *state) eval(x expr, sc *scope) (any, error) {
	if err := st.enter(x.pos()); err != nil {
		return nil, err
	}
	v, err := x.eval(st, sc)
	st.leave()
	if err != nil {
		return nil, at(err, x.pos())
	}
	return v, nil
}

func (st *state) evalAll(xs []expr, sc *scope) ([]any, error) {
	vals := make([]any, len(xs))
	for i, x := range xs {
		var err error
		if vals[i], err = st.eval(x, sc); err != nil {
			return nil, err
		}
	}
	return vals, nil
}

func (e *literal) eval(*state, *scope) (any, error) { return e.val, nil }

func (e *name) eval(_ *state, sc *scope) (any, error) {
	if v, ok := sc.get(e.name); ok {
		return v, nil
	}
	return Undefined{name: e.name}, nil
}

func (e *listExpr) eval(st *state, sc *scope) (any, error) {
	items, err := st.evalAll(e.items, sc)
	return &List{Items: items, Tuple: e.tuple}, err
}

func (e *dictExpr) eval(st *state, sc *scope) (any, error) {
	d := NewDict()
	for i := range e.keys {
		k, err := st.eval(e.keys[i], sc)
		if err != nil {
			return nil, err
		}
		h, err := hashKey(st.marks, k)
		if err != nil {
			return nil, err
		}
		v, err := st.eval(e.vals[i], sc)
		if err != nil {
			return nil, err
		}
		d.set(h, k, v)
	}
	return d, nil
}

func (e *condExpr) eval(st *state, sc *scope) (any, error) {
	c, err := st.eval(e.cond, sc)
	if err != nil {
		return nil, err
	}
	if truth(c) {
		return st.eval(e.a, sc)
	}
	if e.b == nil {
		return Undefined{name: "else section of an inline if"}, nil
	}
	return st.eval(e.b, sc)
}

func (e *logicExpr) eval(st *state, sc *scope) (any, error) {
	v, err := st.eval(e.a, sc)
	if err != nil || truth(v) != e.and {
		return v, err
	}
	return st.eval(e.b, sc)
}

func (e *compareExpr) eval(st *state, sc *scope) (any, error) {
	a, err := st.eval(e.first, sc)
	if err != nil {
		return nil, err
	}
	for i, op := range e.ops {
		b, err := st.eval(e.rest[i], sc)
		if err != nil {
			return nil, err
		}
		ok, err := st.compare(op, a, b)
		if err != nil || !ok {
			return false, err
		}
		a = b
	}
	return true, nil
}

func (st *state) compare(op string, a, b any) (bool, error) {
	switch op {
	case "==":
		return st.equal(a, b)
	case "!=":
		eq, err := st.equal(a, b)
		return !eq, err
	case "in":
		return st.contains(b, a)
	case "not in":
		in, err := st.contains(b, a)
		return !in, err
	}
	c, err := st.order(a, b)
	switch op {
	case "<":
		return c < 0, err
	case "<=":
		return c <= 0, err
	case ">":
		return c > 0, err
	}
	return c >= 0, err
}

func (e *attrExpr) eval(st *state, sc *scope) (any, error) {
	x, err := st.eval(e.x, sc)
	if err != nil {
		return nil, err
	}
	return st.attr(x, e.name)
}

func (e *itemExpr) eval(st *state, sc *scope) (any, error) {
	x, err := st.eval(e.x, sc)
	if err != nil {
		return nil, err
	}
	k, err := st.eval(e.key, sc)
	if err != nil {
		return nil, err
	}
	return st.item(x, k)
}

// attr is x.name: a method or attribute first, then an item.
func (st *state) attr(x any, name string) (any, error) {
	if u, ok := x.(Undefined); ok {
		return nil, u.fail()
	}
	if v, ok := attribute(x, name); ok {
		return v, nil
	}
	if d, ok := x.(*Dict); ok {
		if v, ok := d.get(name); ok {
			return v, nil
		}
	}
	return missing(x, name), nil
}

func missing(x any, name string) Undefined {
	return Undefined{name: name, owner: typeName(x)}
}

// attribute are methods, and the fields of the template's own objects.
func attribute(x any, name string) (any, bool) {
	switch o := x.(type) {
	case *namespace:
		v, ok := o.vars[name]
		return v, ok
	case *loop:
		return o.attr(name)
	}
	if hasMethod(x, name) {
		return &method{recv: x, name: name}, true
	}
	return nil, false
}

// item is x[k]: an item first, then an attribute.
func (st *state) item(x, k any) (any, error) {
	if err := st.bytes(0); err != nil {
		return nil, err
	}
	switch c := x.(type) {
	case Undefined:
		return nil, c.fail()
	case *Dict:
		h, err := hashKey(st.marks, k)
		if err != nil {
			return missing(x, "?"), nil
		}
		if v, ok := c.get(h); ok {
			return v, nil
		}
	case *List:
		if i, ok := index(k, len(c.Items)); ok {
			return c.Items[i], nil
		}
	case string:
		if err := st.bytes(len(c)); err != nil {
			return nil, err
		}
		if i, ok := index(k, utf8.RuneCountInString(c)); ok {
			at := byteAt(c, i)
			return c[at : byteAt(c[at:], 1)+at], nil
		}
	}
	if s, ok := k.(string); ok {
		if v, ok := attribute(x, st.plain(s)); ok {
			return v, nil
		}
		return missing(x, s), nil
	}
	return missing(x, typeName(k)), nil
}

// index resolves a Python index into a sequence of n.
func index(k any, n int) (int, bool) {
	i, _, isInt, ok := number(k)
	if !ok || !isInt {
		return 0, false
	}
	if i < 0 {
		i += int64(n)
	}
	return int(i), i >= 0 && i < int64(n)
}

func (e *callExpr) eval(st *state, sc *scope) (any, error) {
	fn, err := st.eval(e.fn, sc)
	if err != nil {
		return nil, err
	}
	a, err := st.arguments(&e.args, sc)
	if err != nil {
		return nil, err
	}
	return st.call(fn, a)
}

func (st *state) call(fn any, a *args) (any, error) {
	switch f := fn.(type) {
	case callable:
		return f.call(st, a)
	case Undefined:
		return nil, f.fail()
	}
	return nil, fail("'%s' object is not callable", typeName(fn))
}

func (st *state) arguments(l *argList, sc *scope) (*args, error) {
	a := &args{}
	var err error
	if a.pos, err = st.evalAll(l.pos, sc); err != nil {
		return nil, err
	}
	if len(l.names) > 0 || l.starStar != nil {
		a.kw = map[string]any{}
	}
	for i, n := range l.names {
		v, err := st.eval(l.kw[i], sc)
		if err != nil {
			return nil, err
		}
		a.set(n, v)
	}
	return a, st.starred(l, sc, a)
}

func (a *args) set(name string, v any) {
	if _, ok := a.kw[name]; !ok {
		a.names = append(a.names, name)
	}
	a.kw[name] = v
}

// starred adds *args and **kwargs.
func (st *state) starred(l *argList, sc *scope, a *args) error {
	if l.star != nil {
		v, err := st.eval(l.star, sc)
		if err != nil {
			return err
		}
		items, err := st.iterate(v)
		if err != nil {
			return err
		}
		a.pos = append(a.pos, items...)
	}
	if l.starStar == nil {
		return nil
	}
	v, err := st.eval(l.starStar, sc)
	if err != nil {
		return err
	}
	d, ok := v.(*Dict)
	if !ok {
		return fail("argument after ** must be a mapping, not %s", typeName(v))
	}
	a.raw = map[string]string{}
	for i, k := range d.keys {
		s, ok := k.(string)
		if !ok {
			return fail("keywords must be strings")
		}
		plain := st.plain(s)
		a.set(plain, d.vals[i])
		if plain != s {
			a.raw[plain] = s
		}
	}
	return nil
}

func (e *filterExpr) eval(st *state, sc *scope) (any, error) {
	x, err := st.eval(e.x, sc)
	if err != nil {
		return nil, err
	}
	a, err := st.arguments(&e.args, sc)
	if err != nil {
		return nil, err
	}
	return st.filter(e.name, x, a)
}

// filterBlock applies a chain of filters whose head has no operand to text.
func (st *state) filterBlock(f *filterExpr, text string, sc *scope) (any, error) {
	if err := st.enter(f.line); err != nil {
		return nil, err
	}
	defer st.leave()
	var x any = text
	if inner, ok := f.x.(*filterExpr); ok {
		var err error
		if x, err = st.filterBlock(inner, text, sc); err != nil {
			return nil, err
		}
	}
	a, err := st.arguments(&f.args, sc)
	if err != nil {
		return nil, err
	}
	v, err := st.filter(f.name, x, a)
	if err != nil {
		return nil, at(err, f.line)
	}
	return v, nil
}

func (e *testExpr) eval(st *state, sc *scope) (any, error) {
	x, err := st.eval(e.x, sc)
	if err != nil {
		return nil, err
	}
	a, err := st.arguments(&e.args, sc)
	if err != nil {
		return nil, err
	}
	return st.test(e.name, x, a)
}
