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

// access reads .name, [key] and (args) after x.
func (p *parser) access(x expr) (_ expr, err error) {
	for err == nil {
		switch t := p.cur(); {
		case t.is("."):
			x, err = p.dot(x)
		case t.is("["):
			x, err = p.subscript(x)
		case t.is("("):
			x, err = p.call(x)
		default:
			return x, nil
		}
	}
	return nil, err
}

// postfix reads what access reads, then filters and, if tests is set, tests.
// A nil x stands for the text of a block.
func (p *parser) postfix(x expr, tests bool) (_ expr, err error) {
	if x != nil {
		if x, err = p.access(x); err != nil {
			return nil, err
		}
	}
	for err == nil {
		switch t := p.cur(); {
		case t.is("|"):
			p.next()
			x, err = p.filter(x)
		case tests && t.is("is"):
			x, err = p.test(x)
		case tests && t.is("("):
			x, err = p.call(x)
		default:
			return x, nil
		}
	}
	return nil, err
}

func (p *parser) dot(x expr) (expr, error) {
	line := p.next().line
	t := p.next()
	switch t.kind {
	case tokName:
		return &attrExpr{node{line}, x, t.text}, nil
	case tokInt:
		i, err := intText(t.text)
		if err != nil {
			return nil, errorf(line, "bad index %s", clip(t.text))
		}
		return &itemExpr{node{line}, x, &literal{node{line}, i}}, nil
	}
	return nil, errorf(line, "expected a name after '.', found %v", t)
}

func (p *parser) subscript(x expr) (expr, error) {
	line := p.next().line
	first, err := p.subscriptPart(x, line)
	if err != nil {
		return nil, err
	}
	if s, ok := first.(*sliceExpr); ok && s.x == x {
		return s, p.want("]")
	}
	if p.cur().is(",") {
		t := &listExpr{node: node{line}, items: []expr{first}, tuple: true}
		for p.skip(",") {
			y, err := p.expression()
			if err != nil {
				return nil, err
			}
			t.items = append(t.items, y)
		}
		first = t
	}
	return &itemExpr{node{line}, x, first}, p.want("]")
}

// subscriptPart reads a key, or a slice of x.
func (p *parser) subscriptPart(x expr, line int) (expr, error) {
	var part [3]expr
	n := 0
	for {
		if t := p.cur(); t.is(":") && n < 2 {
			p.next()
			n++
			continue
		} else if t.is("]") && n > 0 {
			break
		}
		if part[n] != nil {
			break
		}
		y, err := p.expression()
		if err != nil {
			return nil, err
		}
		part[n] = y
		if n == 0 && !p.cur().is(":") {
			return y, nil
		}
	}
	return &sliceExpr{node{line}, x, part[0], part[1], part[2]}, nil
}

func (p *parser) call(x expr) (expr, error) {
	c := &callExpr{node: node{p.cur().line}, fn: x}
	var err error
	c.args, err = p.arguments()
	return c, err
}

func (p *parser) filter(x expr) (expr, error) {
	f := &filterExpr{node: node{p.cur().line}, x: x}
	var err error
	if f.name, err = p.dotted(); err != nil {
		return nil, err
	}
	if p.cur().is("(") {
		f.args, err = p.arguments()
	}
	return f, err
}

func (p *parser) dotted() (string, error) {
	s, err := p.ident()
	for err == nil && p.skip(".") {
		var t string
		t, err = p.ident()
		s += "." + t
	}
	return s, err
}

func (p *parser) test(x expr) (expr, error) {
	line := p.next().line
	negate := p.skip("not")
	t := &testExpr{node: node{line}, x: x}
	var err error
	if t.name, err = p.dotted(); err != nil {
		return nil, err
	}
	if p.cur().is("(") {
		t.args, err = p.arguments()
	} else if p.testArgument() {
		var y expr
		if y, err = p.primary(); err == nil {
			if y, err = p.access(y); err == nil {
				t.args.pos = []expr{y}
			}
		}
	}
	if err != nil {
		return nil, err
	}
	if negate {
		return &unaryExpr{node{line}, "not", t}, nil
	}
	return t, nil
}

// testArgument reports whether an argument without parentheses follows.
func (p *parser) testArgument() bool {
	switch t := p.cur(); t.kind {
	case tokString, tokInt, tokFloat:
		return true
	case tokOp:
		return t.text == "[" || t.text == "{"
	case tokName:
		switch t.text {
		case "else", "or", "and", "if", "is", "in", "not", "recursive":
			return false
		}
		return true
	}
	return false
}

func (p *parser) arguments() (a argList, err error) {
	if err = p.want("("); err != nil {
		return a, err
	}
	for first := true; !p.skip(")"); first = false {
		if !first {
			if err = p.want(","); err != nil {
				return a, err
			}
			if p.skip(")") {
				return a, nil
			}
		}
		if err = p.argument(&a); err != nil {
			return a, err
		}
	}
	return a, nil
}

func (p *parser) argument(a *argList) (err error) {
	switch t := p.cur(); {
	case p.skip("*"):
		a.star, err = p.expression()
	case p.skip("**"):
		a.starStar, err = p.expression()
	case t.kind == tokName && p.peek().is("="):
		p.at += 2
		x, err := p.expression()
		if err != nil {
			return err
		}
		a.names, a.kw = append(a.names, t.text), append(a.kw, x)
	case len(a.names) > 0:
		return errorf(t.line, "a positional argument follows a keyword argument")
	default:
		x, err := p.expression()
		if err != nil {
			return err
		}
		a.pos = append(a.pos, x)
	}
	return err
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
