package jinja

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

type tokKind uint8

const (
	tokEOF tokKind = iota
	tokData
	tokBlockBegin
	tokBlockEnd
	tokVarBegin
	tokVarEnd
	tokName
	tokString
	tokInt
	tokFloat
	tokOp
)

type token struct {
	kind tokKind
	text string // name, operator, digits, or the decoded string
	line int
}

// is reports whether t is the operator or the keyword s.
func (t token) is(s string) bool {
	return (t.kind == tokOp || t.kind == tokName) && t.text == s
}

func (t token) String() string {
	switch t.kind {
	case tokEOF:
		return "the end of the template"
	case tokBlockEnd:
		return "'%}'"
	case tokVarEnd:
		return "'}}'"
	}
	return "'" + clip(t.text) + "'"
}

// clip keeps error messages short: 60 bytes, cut at a character.
func clip(s string) string {
	if len(s) <= 60 {
		return s
	}
	n := 60
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "..."
}

// lexer cuts a template into tokens. The white space rules are those of
// Jinja2's lexer.py with trim_blocks and lstrip_blocks on.
type lexer struct {
	src       string
	pos       int
	line      int
	lineStart bool // the last match ended in a newline (or nothing was matched)
	out       []token
}

func lex(src string) ([]token, error) {
	src = strings.ReplaceAll(src, "\r\n", "\n")
	src = strings.ReplaceAll(src, "\r", "\n")
	src = strings.TrimSuffix(src, "\n") // keep_trailing_newline is off
	l := &lexer{src: src, line: 1, lineStart: true}
	for l.pos < len(l.src) {
		if err := l.root(); err != nil {
			return nil, err
		}
	}
	l.add(tokEOF, "")
	return l.out, nil
}

func (l *lexer) add(k tokKind, text string) { l.out = append(l.out, token{k, text, l.line}) }

// skip moves past n bytes, counting lines.
func (l *lexer) skip(n int) {
	s := l.src[l.pos : l.pos+n]
	l.line += strings.Count(s, "\n")
	l.pos += n
	l.lineStart = strings.HasSuffix(s, "\n")
}

// root takes the text up to the next tag, and the tag.
func (l *lexer) root() error {
	rest := l.src[l.pos:]
	i := tagStart(rest)
	if i < 0 {
		l.data(rest)
		l.skip(len(rest))
		return nil
	}
	l.data(l.strip(rest[:i], rest[i:]))
	l.skip(i)
	switch rest[i+1] {
	case '#':
		return l.comment()
	case '{':
		l.add(tokVarBegin, "")
		l.skip(2)
		l.sign()
		return l.inside(tokVarEnd, "}}")
	}
	if n := rawTag(rest[i:], "raw"); n > 0 {
		return l.raw(n)
	}
	l.add(tokBlockBegin, "")
	l.skip(2)
	l.sign()
	return l.inside(tokBlockEnd, "%}")
}

func (l *lexer) data(s string) {
	if s != "" {
		l.add(tokData, s)
	}
}

// sign skips the white space control character after a tag's start.
func (l *lexer) sign() {
	if l.pos < len(l.src) && (l.src[l.pos] == '-' || l.src[l.pos] == '+') {
		l.skip(1)
	}
}

func tagStart(s string) int {
	for i := 0; i+1 < len(s); i++ {
		if s[i] == '{' && (s[i+1] == '%' || s[i+1] == '{' || s[i+1] == '#') {
			return i
		}
	}
	return -1
}

// strip applies a tag's left white space control to the text before it.
func (l *lexer) strip(text, tag string) string {
	switch {
	case len(tag) > 2 && tag[2] == '-':
		return strings.TrimRightFunc(text, isSpace)
	case len(tag) > 2 && tag[2] == '+', tag[1] == '{':
		return text
	}
	at := strings.LastIndexByte(text, '\n') + 1
	if (at > 0 || l.lineStart) && strings.TrimLeftFunc(text[at:], isSpace) == "" {
		return text[:at]
	}
	return text
}

// tagEnd says how many bytes a tag's end takes at s: the sign, the mark and
// the white space that goes with it. 0 when no tag ends here.
func tagEnd(s, mark string, trim bool) int {
	switch {
	case strings.HasPrefix(s, "-"+mark):
		n := 1 + len(mark)
		return n + len(s[n:]) - len(strings.TrimLeftFunc(s[n:], isSpace))
	case trim && strings.HasPrefix(s, "+"+mark):
		return 1 + len(mark)
	case strings.HasPrefix(s, mark):
		if trim && strings.HasPrefix(s[len(mark):], "\n") {
			return len(mark) + 1
		}
		return len(mark)
	}
	return 0
}

func (l *lexer) comment() error {
	i := strings.Index(l.src[l.pos+2:], "#}")
	if i < 0 {
		return errorf(l.line, "comment is never closed: '#}' is missing")
	}
	i += l.pos + 2
	if i > l.pos+2 && (l.src[i-1] == '-' || l.src[i-1] == '+') {
		i--
	}
	l.skip(i - l.pos)
	l.skip(tagEnd(l.src[i:], "#}", true))
	return nil
}

// rawTag is the length of "{%- name -%}" at the start of s, without the white
// space that follows, or 0.
func rawTag(s, name string) int {
	t := strings.TrimPrefix(s, "{%")
	if t != "" && (t[0] == '-' || t[0] == '+') {
		t = t[1:]
	}
	t = strings.TrimLeftFunc(t, isSpace)
	if !strings.HasPrefix(t, name) {
		return 0
	}
	t = strings.TrimLeftFunc(t[len(name):], isSpace)
	if n := tagEnd(t, "%}", true); n == 0 {
		return 0
	}
	return len(s) - len(t)
}

func (l *lexer) raw(head int) error {
	l.skip(head)
	l.skip(tagEnd(l.src[l.pos:], "%}", false))
	rest := l.src[l.pos:]
	for i := 0; ; i++ {
		j := strings.Index(rest[i:], "{%")
		if j < 0 {
			return errorf(l.line, "raw block is never closed: '{%% endraw %%}' is missing")
		}
		i += j
		if n := rawTag(rest[i:], "endraw"); n > 0 {
			l.data(l.strip(rest[:i], rest[i:]))
			l.skip(i + n)
			l.skip(tagEnd(l.src[l.pos:], "%}", true))
			return nil
		}
	}
}

// inside cuts the expression part of a tag into tokens, up to its end mark.
// A mark inside brackets is an operator: "{{ {'a': {}} }}".
func (l *lexer) inside(end tokKind, mark string) error {
	var open []byte
	for l.pos < len(l.src) {
		s := l.src[l.pos:]
		if len(open) == 0 {
			if n := tagEnd(s, mark, end == tokBlockEnd); n > 0 {
				l.add(end, "")
				l.skip(n)
				return nil
			}
		}
		if r, n := utf8.DecodeRuneInString(s); isSpace(r) {
			l.skip(n)
			continue
		}
		if err := l.tokenAt(s, &open); err != nil {
			return err
		}
	}
	return errorf(l.line, "tag is never closed: '%s' is missing", mark)
}

func (l *lexer) tokenAt(s string, open *[]byte) error {
	switch c := s[0]; {
	case c == '\'' || c == '"':
		return l.quoted(s)
	case c >= '0' && c <= '9':
		return l.number(s)
	case c == '_' || unicode.IsLetter(firstRune(s)):
		n := nameLen(s)
		l.add(tokName, s[:n])
		l.skip(n)
		return nil
	}
	return l.operator(s, open)
}

func firstRune(s string) rune { r, _ := utf8.DecodeRuneInString(s); return r }

func nameLen(s string) int {
	for i, r := range s {
		if r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			return i
		}
	}
	return len(s)
}

func (l *lexer) operator(s string, open *[]byte) error {
	for _, op := range []string{"**", "//", "==", "!=", "<=", ">="} {
		if strings.HasPrefix(s, op) {
			l.add(tokOp, op)
			l.skip(2)
			return nil
		}
	}
	c := s[0]
	if strings.IndexByte("+-*/%~<>=.,:|()[]{};", c) < 0 {
		return errorf(l.line, "unexpected character %q in a tag", firstRune(s))
	}
	switch c {
	case '(', '[', '{':
		*open = append(*open, c)
	case ')', ']', '}':
		if n := len(*open); n == 0 || matching[c] != (*open)[n-1] {
			return errorf(l.line, "unexpected '%c'", c)
		}
		*open = (*open)[:len(*open)-1]
	}
	l.add(tokOp, s[:1])
	l.skip(1)
	return nil
}

var matching = map[byte]byte{')': '(', ']': '[', '}': '{'}

func (l *lexer) number(s string) error {
	n := digits(s, 0)
	kind := tokInt
	if n+1 < len(s) && s[n] == '.' && isDigit(s[n+1]) {
		n, kind = digits(s, n+1), tokFloat
	}
	if m := exponent(s[n:]); m > 0 {
		n, kind = n+m, tokFloat
	}
	if kind == tokInt && s[0] == '0' && len(s) > 2 && strings.IndexByte("xXoObB", s[1]) >= 0 {
		n = nameLen(s)
	}
	l.add(kind, strings.ReplaceAll(s[:n], "_", ""))
	l.skip(n)
	return nil
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func digits(s string, i int) int {
	for i < len(s) && (isDigit(s[i]) || s[i] == '_') {
		i++
	}
	return i
}

func exponent(s string) int {
	if s == "" || (s[0] != 'e' && s[0] != 'E') {
		return 0
	}
	i := 1
	if i < len(s) && (s[i] == '+' || s[i] == '-') {
		i++
	}
	if i >= len(s) || !isDigit(s[i]) {
		return 0
	}
	return digits(s, i)
}
