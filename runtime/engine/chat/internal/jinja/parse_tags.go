package jinja

func (p *parser) ifTag(n node) (stmt, error) {
	s := &ifStmt{node: n}
	for {
		cond, err := p.tuple(false)
		if err != nil {
			return nil, err
		}
		if err := p.blockEnd(); err != nil {
			return nil, err
		}
		body, end, err := p.block("elif", "else", "endif")
		if err != nil {
			return nil, err
		}
		s.conds, s.bodies = append(s.conds, cond), append(s.bodies, body)
		if end == "elif" {
			continue
		}
		if end == "else" {
			if s.orElse, err = p.body("endif"); err != nil {
				return nil, err
			}
			return s, nil
		}
		return s, p.blockEnd()
	}
}

func (p *parser) forTag(n node) (_ stmt, err error) {
	s := &forStmt{node: n}
	if s.target, err = p.targets("in"); err != nil {
		return nil, err
	}
	if err = p.want("in"); err != nil {
		return nil, err
	}
	if s.iter, err = p.tuple(false); err != nil {
		return nil, err
	}
	if p.skip("if") {
		if s.cond, err = p.expression(); err != nil {
			return nil, err
		}
	}
	s.recursive = p.skip("recursive")
	if err = p.blockEnd(); err != nil {
		return nil, err
	}
	p.loops++
	body, end, err := p.block("else", "endfor")
	p.loops--
	if err != nil {
		return nil, err
	}
	s.body = body
	if end == "else" {
		s.orElse, err = p.body("endfor")
		return s, err
	}
	return s, p.blockEnd()
}

func (p *parser) jumpTag(n node, word string) (stmt, error) {
	if p.loops == 0 {
		return nil, errorf(n.line, "'%s' outside of a loop", word)
	}
	if word == "break" {
		return &jumpStmt{n, flowBreak}, p.blockEnd()
	}
	return &jumpStmt{n, flowContinue}, p.blockEnd()
}

// targets reads one target or several, separated by commas, up to the
// keyword or operator stop.
func (p *parser) targets(stop string) (target, error) {
	t, err := p.target()
	if err != nil || !p.cur().is(",") {
		return t, err
	}
	all := target{parts: []target{t}}
	for p.skip(",") && !p.cur().is(stop) {
		if t, err = p.target(); err != nil {
			return t, err
		}
		all.parts = append(all.parts, t)
	}
	return all, nil
}

func (p *parser) target() (t target, err error) {
	if p.skip("(") {
		if err = p.nest(); err != nil {
			return t, err
		}
		defer func() { p.depth-- }()
		if t, err = p.targets(")"); err != nil {
			return t, err
		}
		return t, p.want(")")
	}
	if t.name, err = p.ident(); err != nil {
		return t, err
	}
	if p.skip(".") {
		t.attr, err = p.ident()
	}
	return t, err
}

func (p *parser) setTag(n node) (stmt, error) {
	t, err := p.targets("=")
	if err != nil {
		return nil, err
	}
	if p.skip("=") {
		val, err := p.tuple(true)
		if err != nil {
			return nil, err
		}
		return &setStmt{n, t, val}, p.blockEnd()
	}
	s := &setBlock{node: n, target: t}
	if p.cur().is("|") {
		x, err := p.postfix(nil, false)
		if err != nil {
			return nil, err
		}
		s.filter, _ = x.(*filterExpr)
	}
	s.body, err = p.body("endset")
	return s, err
}

func (p *parser) macroTag(n node) (_ stmt, err error) {
	s := &macroStmt{node: n}
	if s.name, err = p.ident(); err != nil {
		return nil, err
	}
	if err = p.parameters(&s.sign); err != nil {
		return nil, err
	}
	s.body, err = p.macroBody(&s.sign, "endmacro")
	return s, err
}

// macroBody reads a body that is a function: its own loops, its own view of
// varargs and kwargs.
func (p *parser) macroBody(sign *signature, end string) ([]stmt, error) {
	loops := p.loops
	p.loops = 0
	p.reads = append(p.reads, sign)
	defer func() {
		p.loops = loops
		p.reads = p.reads[:len(p.reads)-1]
	}()
	return p.body(end)
}

func (p *parser) parameters(s *signature) error {
	if err := p.want("("); err != nil {
		return err
	}
	for !p.skip(")") {
		if len(s.names) > 0 {
			if err := p.want(","); err != nil {
				return err
			}
			if p.skip(")") {
				return nil
			}
		}
		id, err := p.ident()
		if err != nil {
			return err
		}
		var def expr
		if p.skip("=") {
			if def, err = p.expression(); err != nil {
				return err
			}
		}
		s.names, s.defaults = append(s.names, id), append(s.defaults, def)
	}
	return nil
}

func (p *parser) callTag(n node) (stmt, error) {
	s := &callStmt{node: n}
	if p.cur().is("(") {
		if err := p.parameters(&s.sign); err != nil {
			return nil, err
		}
	}
	x, err := p.expression()
	if err != nil {
		return nil, err
	}
	call, ok := x.(*callExpr)
	if !ok {
		return nil, errorf(n.line, "a call block needs a call")
	}
	s.call = call
	s.body, err = p.macroBody(&s.sign, "endcall")
	return s, err
}

func (p *parser) filterTag(n node) (stmt, error) {
	x, err := p.filter(nil)
	if err != nil {
		return nil, err
	}
	if x, err = p.postfix(x, false); err != nil {
		return nil, err
	}
	f, ok := x.(*filterExpr)
	if !ok {
		return nil, errorf(n.line, "a filter block needs a filter")
	}
	body, err := p.body("endfilter")
	return &filterStmt{n, f, body}, err
}

func (p *parser) withTag(n node) (stmt, error) {
	s := &withStmt{node: n}
	for p.cur().kind != tokBlockEnd {
		if len(s.targets) > 0 {
			if err := p.want(","); err != nil {
				return nil, err
			}
		}
		t, err := p.target()
		if err != nil {
			return nil, err
		}
		if err := p.want("="); err != nil {
			return nil, err
		}
		v, err := p.expression()
		if err != nil {
			return nil, err
		}
		s.targets, s.vals = append(s.targets, t), append(s.vals, v)
	}
	var err error
	s.body, err = p.body("endwith")
	return s, err
}

func (p *parser) scopeTag(n node, end string) (stmt, error) {
	body, err := p.body(end)
	return &scopeStmt{n, body}, err
}

// blockTag reads a named block. Nothing can extend a chat template, so it
// stands for its body.
func (p *parser) blockTag(n node) (stmt, error) {
	if _, err := p.ident(); err != nil {
		return nil, err
	}
	if err := p.blockEnd(); err != nil {
		return nil, err
	}
	body, _, err := p.block("endblock")
	if err != nil {
		return nil, err
	}
	if p.cur().kind == tokName {
		p.next()
	}
	return &scopeStmt{n, body}, p.blockEnd()
}

// autoescapeTag accepts only the setting that is on anyway.
func (p *parser) autoescapeTag(n node) (stmt, error) {
	if !p.skip("false") && !p.skip("False") {
		return nil, errorf(n.line, "autoescape is not available in chat templates")
	}
	return p.scopeTag(n, "endautoescape")
}
