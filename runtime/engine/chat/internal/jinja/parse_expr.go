package jinja

import "strconv"

// The grammar is that of Jinja2's parser.py: from the loosest binding to the
// tightest: if-else, or, and, not, comparisons, + -, ~, * / // %, **, sign,
// postfix, filters and tests.

func (p *parser) expression() (expr, error) {
	if err := p.nest(); err != nil {
		return nil, err
	}
	defer func() { p.depth-- }()
	return p.conditional()
}

func (p *parser) conditional() (expr, error) {
	x, err := p.or()
	for err == nil && p.cur().is("if") {
		c := &condExpr{node: node{p.next().line}, a: x}
		if c.cond, err = p.or(); err != nil {
			return nil, err
		}
		if p.skip("else") {
			if c.b, err = p.expression(); err != nil {
				return nil, err
			}
		}
		x = c
	}
	return x, err
}

// tuple reads "a" or "a, b, ...". Without cond, an "if" ends it.
func (p *parser) tuple(cond bool) (expr, error) {
	one := p.or
	if cond {
		one = p.expression
	}
	line := p.cur().line
	x, err := one()
	if err != nil || !p.cur().is(",") {
		return x, err
	}
	t := &listExpr{node: node{line}, items: []expr{x}, tuple: true}
	for p.skip(",") && !p.tupleEnd() {
		if x, err = one(); err != nil {
			return nil, err
		}
		t.items = append(t.items, x)
	}
	return t, nil
}

func (p *parser) tupleEnd() bool {
	t := p.cur()
	return t.kind == tokVarEnd || t.kind == tokBlockEnd || t.is(")") || t.is("recursive")
}

func (p *parser) or() (expr, error)  { return p.logic("or", p.and) }
func (p *parser) and() (expr, error) { return p.logic("and", p.not) }

func (p *parser) logic(word string, next func() (expr, error)) (expr, error) {
	x, err := next()
	for err == nil && p.cur().is(word) {
		l := &logicExpr{node: node{p.next().line}, and: word == "and", a: x}
		if l.b, err = next(); err != nil {
			return nil, err
		}
		x = l
	}
	return x, err
}

func (p *parser) not() (expr, error) {
	if !p.cur().is("not") {
		return p.compare()
	}
	if err := p.nest(); err != nil {
		return nil, err
	}
	defer func() { p.depth-- }()
	u := &unaryExpr{node: node{p.next().line}, op: "not"}
	var err error
	u.x, err = p.not()
	return u, err
}

func (p *parser) compare() (expr, error) {
	x, err := p.sum()
	if err != nil {
		return nil, err
	}
	c := &compareExpr{node: node{p.cur().line}, first: x}
	for {
		op := p.cur().text
		switch {
		case p.cur().is("not") && p.peek().is("in"):
			p.next()
			op = "not in"
		case p.cur().kind == tokOp && isCompare(op), p.cur().is("in"):
		default:
			if len(c.ops) == 0 {
				return x, nil
			}
			return c, nil
		}
		p.next()
		y, err := p.sum()
		if err != nil {
			return nil, err
		}
		c.ops, c.rest = append(c.ops, op), append(c.rest, y)
	}
}

func isCompare(op string) bool {
	switch op {
	case "==", "!=", "<", "<=", ">", ">=":
		return true
	}
	return false
}

func (p *parser) sum() (expr, error)     { return p.binary(p.concat, "+", "-") }
func (p *parser) concat() (expr, error)  { return p.binary(p.product, "~") }
func (p *parser) product() (expr, error) { return p.binary(p.power, "*", "/", "//", "%") }
func (p *parser) power() (expr, error)   { return p.binary(p.unaryFull, "**") }

func (p *parser) binary(next func() (expr, error), ops ...string) (expr, error) {
	x, err := next()
	for err == nil && p.cur().kind == tokOp && contains(ops, p.cur().text) {
		t := p.next()
		b := &binaryExpr{node: node{t.line}, op: t.text, a: x}
		if b.b, err = next(); err != nil {
			return nil, err
		}
		x = b
	}
	return x, err
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}

func (p *parser) unaryFull() (expr, error) { return p.unary(true) }

func (p *parser) unary(filters bool) (x expr, err error) {
	if t := p.cur(); t.is("-") || t.is("+") {
		if err = p.nest(); err != nil {
			return nil, err
		}
		defer func() { p.depth-- }()
		u := &unaryExpr{node: node{p.next().line}, op: t.text}
		if u.x, err = p.unary(false); err != nil {
			return nil, err
		}
		x = u
	} else if x, err = p.primary(); err != nil {
		return nil, err
	}
	if filters {
		return p.postfix(x, true)
	}
	return p.access(x)
}

func (p *parser) primary() (expr, error) {
	t := p.next()
	n := node{t.line}
	switch {
	case t.kind == tokName:
		return p.word(t), nil
	case t.kind == tokString:
		for p.cur().kind == tokString { // 'a' 'b' is 'ab'
			t.text += p.next().text
		}
		return &literal{n, t.text}, nil
	case t.kind == tokInt:
		i, err := intText(t.text)
		if err != nil {
			return nil, errorf(t.line, "integer %s is out of range", clip(t.text))
		}
		return &literal{n, i}, nil
	case t.kind == tokFloat:
		f, _ := strconv.ParseFloat(t.text, 64) // out of range is an infinity, as in Python
		return &literal{n, f}, nil
	case t.is("("):
		return p.parenthesis(n)
	case t.is("["):
		items, err := p.list("]")
		return &listExpr{n, items, false}, err
	case t.is("{"):
		return p.dict(n)
	}
	return nil, errorf(t.line, "expected an expression, found %v", t)
}

func intText(s string) (int64, error) { return strconv.ParseInt(s, 0, 64) }

func (p *parser) word(t token) expr {
	n := node{t.line}
	switch t.text {
	case "true", "True":
		return &literal{n, true}
	case "false", "False":
		return &literal{n, false}
	case "none", "None":
		return &literal{n, nil}
	}
	if len(p.reads) > 0 {
		s := p.reads[len(p.reads)-1]
		s.varargs = s.varargs || t.text == "varargs"
		s.kwargs = s.kwargs || t.text == "kwargs"
	}
	return &name{n, t.text}
}

func (p *parser) parenthesis(n node) (expr, error) {
	if p.skip(")") {
		return &listExpr{node: n, tuple: true}, nil
	}
	x, err := p.tuple(true)
	if err != nil {
		return nil, err
	}
	return x, p.want(")")
}

func (p *parser) list(end string) (items []expr, err error) {
	for !p.skip(end) {
		if len(items) > 0 {
			if err = p.want(","); err != nil {
				return nil, err
			}
			if p.skip(end) {
				return items, nil
			}
		}
		x, err := p.expression()
		if err != nil {
			return nil, err
		}
		items = append(items, x)
	}
	return items, nil
}

func (p *parser) dict(n node) (expr, error) {
	d := &dictExpr{node: n}
	for !p.skip("}") {
		if len(d.keys) > 0 {
			if err := p.want(","); err != nil {
				return nil, err
			}
			if p.skip("}") {
				return d, nil
			}
		}
		k, err := p.expression()
		if err != nil {
			return nil, err
		}
		if err := p.want(":"); err != nil {
			return nil, err
		}
		v, err := p.expression()
		if err != nil {
			return nil, err
		}
		d.keys, d.vals = append(d.keys, k), append(d.vals, v)
	}
	return d, nil
}
