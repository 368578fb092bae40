package jinja

import (
	"fmt"
	"time"
)

// Input is what one render gets.
type Input struct {
	Vars   map[string]any   // values from FromJSON, NewDict, or plain Go scalars
	Marks  *Marks           // how the texts in Vars were marked, nil for not at all
	Now    func() time.Time // clock of strftime_now, nil for none
	Limits Limits
}

// Fault is a mistake of this package that a template ran into. It is an error
// and not a panic because templates come from strangers, and one of them must
// not end the process.
type Fault struct{ What string }

func (e *Fault) Error() string { return "internal fault: " + e.What }

// Render runs the template once. Errors are *Error, *Raised, *LimitError or
// *Fault.
func (t *Template) Render(in Input) (_ string, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = &Fault{fmt.Sprint(r)}
		}
	}()
	st := &state{limits: in.Limits.withDefaults(), marks: in.Marks, now: in.Now}
	root := &scope{vars: globals(st)}
	top := root.child()
	for k, v := range in.Vars {
		top.vars[k] = v
	}
	var out output
	if _, err := st.run(t.body, top.child(), &out); err != nil {
		return "", err
	}
	return out.String(), nil
}

// run executes statements in order, up to a break or continue.
func (st *state) run(body []stmt, sc *scope, out *output) (flow, error) {
	for _, s := range body {
		if err := st.enter(s.pos()); err != nil {
			return flowNext, err
		}
		f, err := s.exec(st, sc, out)
		st.leave()
		if err != nil {
			return flowNext, at(err, s.pos())
		}
		if f != flowNext {
			return f, nil
		}
	}
	return flowNext, nil
}

// capture runs statements and returns what they print.
func (st *state) capture(body []stmt, sc *scope) (string, error) {
	var out output
	_, err := st.run(body, sc, &out)
	return out.String(), err
}

func (s *dataStmt) exec(st *state, _ *scope, out *output) (flow, error) {
	return flowNext, out.write(st, s.text)
}

func (s *printStmt) exec(st *state, sc *scope, out *output) (flow, error) {
	v, err := st.eval(s.x, sc)
	if err != nil {
		return flowNext, err
	}
	text, err := st.str(v)
	if err != nil {
		return flowNext, err
	}
	return flowNext, out.write(st, text)
}

func (s *ifStmt) exec(st *state, sc *scope, out *output) (flow, error) {
	for i, c := range s.conds {
		v, err := st.eval(c, sc)
		if err != nil {
			return flowNext, err
		}
		if truth(v) {
			return st.run(s.bodies[i], sc, out)
		}
	}
	return st.run(s.orElse, sc, out)
}

func (s *jumpStmt) exec(*state, *scope, *output) (flow, error) { return s.flow, nil }

func (s *setStmt) exec(st *state, sc *scope, _ *output) (flow, error) {
	v, err := st.eval(s.val, sc)
	if err != nil {
		return flowNext, err
	}
	return flowNext, st.assign(s.target, v, sc)
}

func (s *setBlock) exec(st *state, sc *scope, _ *output) (flow, error) {
	text, err := st.capture(s.body, sc.child())
	if err != nil {
		return flowNext, err
	}
	var v any = text
	if s.filter != nil {
		if v, err = st.filterBlock(s.filter, text, sc); err != nil {
			return flowNext, err
		}
	}
	return flowNext, st.assign(s.target, v, sc)
}

// assign sets a name of the innermost scope, a namespace attribute, or the
// parts of a sequence.
func (st *state) assign(t target, v any, sc *scope) error {
	if t.parts != nil {
		items, err := st.iterate(v)
		if err != nil {
			return err
		}
		if len(items) != len(t.parts) {
			return fail("cannot unpack %d values into %d names", len(items), len(t.parts))
		}
		for i, part := range t.parts {
			if err := st.assign(part, items[i], sc); err != nil {
				return err
			}
		}
		return nil
	}
	if t.attr == "" {
		sc.vars[t.name] = v
		return nil
	}
	held, _ := sc.get(t.name)
	ns, ok := held.(*namespace)
	if !ok {
		return fail("cannot assign attribute '%s' on non-namespace object '%s'", t.attr, t.name)
	}
	ns.vars[t.attr] = v
	return nil
}

func (s *filterStmt) exec(st *state, sc *scope, out *output) (flow, error) {
	text, err := st.capture(s.body, sc.child())
	if err != nil {
		return flowNext, err
	}
	v, err := st.filterBlock(s.filter, text, sc)
	if err != nil {
		return flowNext, err
	}
	if text, err = st.str(v); err != nil {
		return flowNext, err
	}
	return flowNext, out.write(st, text)
}

func (s *withStmt) exec(st *state, sc *scope, out *output) (flow, error) {
	inner := sc.child()
	for i, t := range s.targets {
		v, err := st.eval(s.vals[i], sc)
		if err != nil {
			return flowNext, err
		}
		if err := st.assign(t, v, inner); err != nil {
			return flowNext, err
		}
	}
	return st.run(s.body, inner, out)
}

func (s *scopeStmt) exec(st *state, sc *scope, out *output) (flow, error) {
	return st.run(s.body, sc.child(), out)
}
