package jinja

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
