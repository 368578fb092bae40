package lexicon

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"unicode/utf8"
)

// pattern is a regular expression that can be searched in a piece of a text
// whose beginning is not there and whose end has not come.
type pattern struct {
	text  string
	plain *regexp.Regexp
	// behind is the expression with one character before it, for pieces that
	// do not start the text; nil where what lies before makes no difference.
	behind *regexp.Regexp
	// patient expressions look at the character behind a match, so a match
	// does not count before that character is there.
	patient bool
}

func compilePattern(s string) (pattern, error) {
	p := pattern{text: s}
	if len(s) > MaxPattern {
		return p, fmt.Errorf("regular expression of %d bytes, the limit is %d", len(s), MaxPattern)
	}
	tree, err := syntax.Parse(s, syntax.Perl)
	if err != nil {
		return p, fmt.Errorf("regular expression: %w", explain(err))
	}
	prog, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return p, fmt.Errorf("regular expression: %w", err)
	}
	if len(prog.Inst) > MaxProgram {
		return p, fmt.Errorf("regular expression of %d instructions, the limit is %d; use smaller counts", len(prog.Inst), MaxProgram)
	}
	before, after, end := borders(prog)
	if end {
		return p, errors.New(`regular expression: $ and \z never match in a text that goes on; (?m:$) matches at the end of a line`)
	}
	p.patient = after
	if p.plain, err = regexp.Compile(s); err != nil {
		return p, fmt.Errorf("regular expression: %w", explain(err))
	}
	if p.plain.MatchString("") {
		return p, errors.New("regular expression matches the empty text, so it would match everywhere")
	}
	if before {
		p.behind, err = regexp.Compile(`\A(?s:.)(?s:.*?)(` + s + `)`)
	}
	return p, err
}

// explain takes Go's words out of an error of the parser.
func explain(err error) error {
	var e *syntax.Error
	if errors.As(err, &e) {
		return fmt.Errorf("%s: %.40q", e.Code, e.Expr)
	}
	return err
}

// borders says what a program wants to know of the text before and behind a
// match, and whether it asks for the end of the text.
func borders(prog *syntax.Prog) (before, after, end bool) {
	for i := range prog.Inst {
		in := &prog.Inst[i]
		if in.Op != syntax.InstEmptyWidth {
			continue
		}
		op := syntax.EmptyOp(in.Arg)
		before = before || op&(syntax.EmptyBeginLine|syntax.EmptyBeginText|syntax.EmptyWordBoundary|syntax.EmptyNoWordBoundary) != 0
		after = after || op&(syntax.EmptyEndLine|syntax.EmptyWordBoundary|syntax.EmptyNoWordBoundary) != 0
		end = end || op&syntax.EmptyEndText != 0
	}
	return before, after, end
}

// scan calls hit with the start of every match that is not empty, begins at lo
// or later, and ends behind from and not behind to. Starts are offsets in text.
func (p *pattern) scan(text []byte, lo, from, to int, hit func(start int)) {
	if p.patient {
		from, to = confirmed(text, from), confirmed(text, to)
	}
	for lo < len(text) && from < to {
		start, end := p.find(text, lo)
		if start < 0 {
			return
		}
		if end > start && end > from && end <= to {
			hit(start)
		}
		if lo = end; end == start {
			_, n := utf8.DecodeRune(text[end:])
			lo += n
		}
	}
}

// confirmed is the end of what is followed by another character.
func confirmed(text []byte, end int) int {
	_, n := utf8.DecodeLastRune(text[:end])
	return end - n
}

// find returns the first match that begins at lo or later, -1 for none.
func (p *pattern) find(text []byte, lo int) (start, end int) {
	if lo > 0 && p.behind != nil {
		_, n := utf8.DecodeLastRune(text[:lo])
		lo -= n // only to be looked back at
		m := p.plain.FindIndex(text[lo:])
		if m == nil || m[0] > 0 {
			return place(m, lo)
		}
		// It begins too early, taking lo for the start of the text, and may
		// hide another. This is rare and several times slower.
		if m = p.behind.FindSubmatchIndex(text[lo:]); m != nil {
			m = m[2:]
		}
		return place(m, lo)
	}
	return place(p.plain.FindIndex(text[lo:]), lo)
}

func place(m []int, lo int) (start, end int) {
	if m == nil {
		return -1, -1
	}
	return lo + m[0], lo + m[1]
}
