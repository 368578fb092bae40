package jinja

import (
	"unicode/utf8"
)

// Template is a parsed template. It is immutable and safe for concurrent use.
type Template struct {
	body []stmt
}

// MaxSource is the longest template accepted, in bytes. The longest published
// chat template known is near 30 KiB.
const MaxSource = 1 << 20

// maxNesting bounds how deep blocks and expressions nest in a source.
const maxNesting = 200

// Parse reads a template. Errors are *Error, with the line.
func Parse(src string) (*Template, error) {
	if len(src) > MaxSource {
		return nil, fail("template has %d bytes, the most is %d", len(src), MaxSource)
	}
	if !utf8.ValidString(src) {
		return nil, fail("template is not valid UTF-8")
	}
	toks, err := lex(src)
	if err != nil {
		return nil, err
	}
	p := &parser{toks: toks}
	body, _, err := p.block()
	if err != nil {
		return nil, err
	}
	return &Template{body: body}, nil
}

type parser struct {
	toks  []token
	at    int
	depth int
	reads []*signature // macros being parsed, for varargs and kwargs
	loops int          // for blocks around, inside the innermost macro
}

func (p *parser) cur() token { return p.toks[p.at] }

func (p *parser) peek() token { return p.toks[min(p.at+1, len(p.toks)-1)] }

func (p *parser) next() token {
	t := p.toks[p.at]
	if t.kind != tokEOF {
		p.at++
	}
	return t
}

// skip takes the operator or keyword s if it stands here.
func (p *parser) skip(s string) bool {
	if p.cur().is(s) {
		p.at++
		return true
	}
	return false
}

func (p *parser) want(s string) error {
	if !p.skip(s) {
		return errorf(p.cur().line, "expected '%s', found %v", s, p.cur())
	}
	return nil
}

func (p *parser) wantKind(k tokKind, what string) (token, error) {
	t := p.cur()
	if t.kind != k {
		return t, errorf(t.line, "expected %s, found %v", what, t)
	}
	return p.next(), nil
}

func (p *parser) ident() (string, error) {
	t, err := p.wantKind(tokName, "a name")
	return t.text, err
}

func (p *parser) nest() error {
	p.depth++
	if p.depth > maxNesting {
		return errorf(p.cur().line, "template nests more than %d deep", maxNesting)
	}
	return nil
}

// block reads statements up to one of the tags named in ends, which it takes
// together with its name but not its arguments. Without ends it reads to the
// end of the template.
func (p *parser) block(ends ...string) ([]stmt, string, error) {
	if err := p.nest(); err != nil {
		return nil, "", err
	}
	defer func() { p.depth-- }()
	var body []stmt
	start := p.cur().line
	for {
		switch t := p.next(); t.kind {
		case tokEOF:
			if len(ends) > 0 {
				return nil, "", errorf(start, "block is never closed: '%s' is missing", ends[len(ends)-1])
			}
			return body, "", nil
		case tokData:
			body = append(body, &dataStmt{node{t.line}, t.text})
		case tokVarBegin:
			s, err := p.print(t.line)
			if err != nil {
				return nil, "", err
			}
			body = append(body, s)
		default:
			tag, err := p.wantKind(tokName, "a tag name")
			if err != nil {
				return nil, "", err
			}
			for _, e := range ends {
				if tag.text == e {
					return body, e, nil
				}
			}
			s, err := p.statement(tag)
			if err != nil {
				return nil, "", err
			}
			body = append(body, s)
		}
	}
}

// body reads a block with a single end tag, arguments of which are none.
func (p *parser) body(end string) ([]stmt, error) {
	if err := p.blockEnd(); err != nil {
		return nil, err
	}
	b, _, err := p.block(end)
	if err != nil {
		return nil, err
	}
	return b, p.blockEnd()
}

func (p *parser) blockEnd() error {
	_, err := p.wantKind(tokBlockEnd, "'%}'")
	return err
}

func (p *parser) print(line int) (stmt, error) {
	x, err := p.tuple(true)
	if err != nil {
		return nil, err
	}
	_, err = p.wantKind(tokVarEnd, "'}}'")
	return &printStmt{node{line}, x}, err
}

func (p *parser) statement(tag token) (stmt, error) {
	switch n := (node{tag.line}); tag.text {
	case "if":
		return p.ifTag(n)
	case "for":
		return p.forTag(n)
	case "set":
		return p.setTag(n)
	case "macro":
		return p.macroTag(n)
	case "call":
		return p.callTag(n)
	case "filter":
		return p.filterTag(n)
	case "with":
		return p.withTag(n)
	case "break", "continue":
		return p.jumpTag(n, tag.text)
	case "generation":
		return p.scopeTag(n, "endgeneration")
	case "block":
		return p.blockTag(n)
	case "autoescape":
		return p.autoescapeTag(n)
	case "include", "import", "extends", "from":
		return nil, errorf(tag.line, "'%s' is refused: a chat template may not load files", tag.text)
	}
	return nil, errorf(tag.line, "unknown tag '%s'", clip(tag.text))
}
