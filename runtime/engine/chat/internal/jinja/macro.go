package jinja

// macro is a template's own function; it returns what its body prints.
type macro struct {
	name string
	sign *signature
	body []stmt
	sc   *scope // where it was defined
}

func (s *macroStmt) exec(_ *state, sc *scope, _ *output) (flow, error) {
	sc.vars[s.name] = &macro{name: s.name, sign: &s.sign, body: s.body, sc: sc}
	return flowNext, nil
}

func (s *callStmt) exec(st *state, sc *scope, out *output) (flow, error) {
	fn, err := st.eval(s.call.fn, sc)
	if err != nil {
		return flowNext, err
	}
	a, err := st.arguments(&s.call.args, sc)
	if err != nil {
		return flowNext, err
	}
	a.caller = &macro{name: "caller", sign: &s.sign, body: s.body, sc: sc}
	v, err := st.call(fn, a)
	if err != nil {
		return flowNext, err
	}
	text, err := st.str(v)
	if err != nil {
		return flowNext, err
	}
	return flowNext, out.write(st, text)
}

func (m *macro) call(st *state, a *args) (any, error) {
	if err := st.enter(0); err != nil {
		return nil, err
	}
	defer st.leave()
	sc := m.sc.child()
	if err := m.bind(st, a, sc); err != nil {
		return nil, err
	}
	return st.capture(m.body, sc)
}

// bind puts the arguments into sc under the parameters' names.
func (m *macro) bind(st *state, a *args, sc *scope) error {
	used := 0
	for i, name := range m.sign.names {
		v, given := a.kw[name]
		switch {
		case i < len(a.pos) && given:
			return fail("macro '%s' got multiple values for argument '%s'", m.name, name)
		case i < len(a.pos):
			v = a.pos[i]
		case given:
			used++
		case m.sign.defaults[i] != nil:
			var err error
			if v, err = st.eval(m.sign.defaults[i], sc); err != nil {
				return err
			}
		default:
			v = Undefined{name: name}
		}
		sc.vars[name] = v
	}
	if a.caller != nil {
		sc.vars["caller"] = a.caller
	}
	return m.rest(a, sc, used)
}

// rest handles the arguments that no parameter takes.
func (m *macro) rest(a *args, sc *scope, used int) error {
	n := len(m.sign.names)
	if m.sign.varargs {
		sc.vars["varargs"] = &List{Items: a.pos[min(n, len(a.pos)):], Tuple: true}
	} else if len(a.pos) > n {
		return fail("macro '%s' takes not more than %d argument(s)", m.name, n)
	}
	if m.sign.kwargs {
		d := NewDict()
		for _, k := range a.names {
			if !contains(m.sign.names, k) {
				d.set(k, a.spelled(k), a.kw[k])
			}
		}
		sc.vars["kwargs"] = d
	} else if len(a.names) > used {
		return fail("macro '%s' takes no keyword argument '%s'", m.name, m.unknown(a))
	}
	return nil
}

func (m *macro) unknown(a *args) string {
	for _, k := range a.names {
		if !contains(m.sign.names, k) {
			return k
		}
	}
	return ""
}
