package steer

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
)

// Bounds of an expression.
const (
	// MaxExprLen is the longest text of an expression, in bytes.
	MaxExprLen = 4096
	// MaxExprTerms is the most vectors in one expression.
	MaxExprTerms = 64
	// maxOffset bounds window offsets; no context is longer.
	maxOffset = 1 << 30
)

// ParseExpr reads an expression; see [Expr] for the grammar. The error wraps an
// [*ExprError] with the column of the first fault.
func ParseExpr(text string) (*Expr, error) {
	if len(text) > MaxExprLen {
		return nil, fmt.Errorf("expression: %w", &ExprError{0, fmt.Sprintf("%d bytes, the limit is %d", len(text), MaxExprLen)})
	}
	p := exprParser{text: []rune(text)}
	e, err := p.expr()
	if err != nil {
		return nil, fmt.Errorf("expression: %w", err)
	}
	return e, nil
}

type exprParser struct {
	text []rune
	pos  int
}

func (p *exprParser) fault(at int, format string, args ...any) error {
	return &ExprError{at + 1, fmt.Sprintf(format, args...)}
}

// peek skips blanks and returns the next character, 0 at the end.
func (p *exprParser) peek() rune {
	for p.pos < len(p.text) && unicode.IsSpace(p.text[p.pos]) {
		p.pos++
	}
	if p.pos == len(p.text) {
		return 0
	}
	return p.text[p.pos]
}

func (p *exprParser) take(c rune) bool {
	if p.peek() != c || p.pos == len(p.text) {
		return false
	}
	p.pos++
	return true
}

// here names what stands at the position, for messages.
func (p *exprParser) here() string {
	if c := p.peek(); p.pos < len(p.text) {
		return strconv.QuoteRune(c)
	}
	return "the end"
}

func (p *exprParser) expr() (*Expr, error) {
	e := &Expr{}
	for {
		if len(e.Terms) == MaxExprTerms {
			return nil, p.fault(p.pos, "more than %d terms", MaxExprTerms)
		}
		t, err := p.term()
		if err != nil {
			return nil, err
		}
		e.Terms = append(e.Terms, t)
		if p.take('+') {
			continue
		}
		if p.peek(); p.pos < len(p.text) {
			return nil, p.fault(p.pos, `want "+", ":", "@", "[", "#" or the end, not %s`, p.here())
		}
		return e, nil
	}
}

func (p *exprParser) term() (t ExprTerm, err error) {
	t.Project = p.take('!')
	if p.peek(); p.pos == len(p.text) || !unicode.IsLetter(p.text[p.pos]) {
		return t, p.fault(p.pos, "want the name of a vector, not %s", p.here())
	}
	start := p.pos
	t.Column = start + 1
	for p.pos < len(p.text) && nameRune(p.text[p.pos]) {
		p.pos++
	}
	t.Name = string(p.text[start:p.pos])
	for err == nil {
		at := p.pos
		switch {
		case p.take(':'):
			err = p.once(at, t.Dose != nil, "dose")
			if err == nil {
				t.Dose, err = p.dose()
			}
		case p.take('@'):
			err = p.once(at, t.Layers != nil, "range of blocks")
			if err == nil {
				t.Layers, err = p.layers()
			}
		case p.take('['):
			err = p.once(at, t.From != nil || t.To != nil || t.Everywhere, "window")
			if err == nil {
				err = p.window(&t)
			}
		case p.take('#'):
			err = p.phase(&t)
		default:
			return t, nil
		}
	}
	return t, err
}

func nameRune(c rune) bool {
	return unicode.IsLetter(c) || unicode.IsDigit(c) || strings.ContainsRune("_.-", c)
}

func (p *exprParser) once(at int, already bool, what string) error {
	if already {
		return p.fault(at, "a second %s in one term", what)
	}
	return nil
}

func (p *exprParser) digits() string {
	start := p.pos
	for p.pos < len(p.text) && p.text[p.pos] >= '0' && p.text[p.pos] <= '9' {
		p.pos++
	}
	return string(p.text[start:p.pos])
}

// integer reads one of at most limit.
func (p *exprParser) integer(what string, limit int) (int, error) {
	p.peek()
	start := p.pos
	digits := p.digits()
	if digits == "" {
		return 0, p.fault(start, "want %s, not %s", what, p.here())
	}
	n, err := strconv.Atoi(digits)
	if err != nil || n > limit {
		return 0, p.fault(start, "%s is %s, the limit is %d", what, digits, limit)
	}
	return n, nil
}

func (p *exprParser) dose() (*float32, error) {
	negative := p.take('-')
	p.peek()
	start := p.pos
	if p.digits() == "" {
		return nil, p.fault(start, "want a dose, not %s", p.here())
	}
	if p.pos < len(p.text) && p.text[p.pos] == '.' {
		p.pos++
		if p.digits() == "" {
			return nil, p.fault(p.pos, "want a digit after the point, not %s", p.here())
		}
	}
	if p.pos < len(p.text) && (p.text[p.pos] == 'e' || p.text[p.pos] == 'E') {
		p.pos++
		if p.pos < len(p.text) && p.text[p.pos] == '-' {
			p.pos++
		}
		if p.digits() == "" {
			return nil, p.fault(p.pos, "want an exponent, not %s", p.here())
		}
	}
	x, err := strconv.ParseFloat(string(p.text[start:p.pos]), 32)
	if err != nil {
		return nil, p.fault(start, "dose %s is out of range", string(p.text[start:p.pos]))
	}
	dose := float32(x)
	if negative {
		dose = -dose
	}
	return &dose, nil
}

func (p *exprParser) layers() ([]LayerRange, error) {
	var list []LayerRange
	seen := make(map[int]bool)
	for {
		p.peek()
		start := p.pos
		first, err := p.integer("a block", MaxVectorLayers-1)
		if err != nil {
			return nil, err
		}
		last := first
		if p.take('-') {
			if last, err = p.integer("the last block", MaxVectorLayers-1); err != nil {
				return nil, err
			}
		}
		if last < first {
			return nil, p.fault(start, "blocks %d-%d run backwards", first, last)
		}
		for layer := first; layer <= last; layer++ {
			if seen[layer] {
				return nil, p.fault(start, "block %d is named twice", layer)
			}
			seen[layer] = true
		}
		list = append(list, LayerRange{first, last})
		if !p.take(',') {
			return list, nil
		}
	}
}

func (p *exprParser) window(t *ExprTerm) (err error) {
	start := p.pos - 1
	if t.From, err = p.offset(':'); err != nil {
		return err
	}
	if t.To, err = p.offset(']'); err != nil {
		return err
	}
	t.Everywhere = t.From == nil && t.To == nil
	if t.From != nil && t.To != nil && *t.From >= *t.To {
		return p.fault(start, "window [%d:%d] is empty", *t.From, *t.To)
	}
	return nil
}

// offset reads an offset, if there is one, and what must follow.
func (p *exprParser) offset(end rune) (n *int, err error) {
	if p.peek() != end {
		negative := p.take('-')
		value, err := p.integer("an offset", maxOffset)
		if err != nil {
			return nil, err
		}
		if negative {
			value = -value
		}
		n = &value
	}
	if !p.take(end) {
		return nil, p.fault(p.pos, "want %q in the window, not %s", string(end), p.here())
	}
	return n, nil
}

func (p *exprParser) phase(t *ExprTerm) error {
	p.peek()
	start := p.pos
	for p.pos < len(p.text) && unicode.IsLetter(p.text[p.pos]) {
		p.pos++
	}
	name := string(p.text[start:p.pos])
	phase, ok := PhaseNamed(name)
	switch {
	case !ok:
		return p.fault(start, "unknown phase %q, want one of %s", name, strings.Join(phaseNames[:], ", "))
	case t.Phases&phase != 0:
		return p.fault(start, "phase %q is named twice", name)
	}
	t.Phases |= phase
	return nil
}
