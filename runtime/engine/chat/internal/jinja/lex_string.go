package jinja

import (
	"strconv"
	"strings"
)

// quoted takes a string literal and decodes its escapes as Python does.
func (l *lexer) quoted(s string) error {
	n := 1
	for n < len(s) && s[n] != s[0] {
		if s[n] == '\\' {
			n++
		}
		n++
	}
	if n >= len(s) {
		return errorf(l.line, "string is never closed: %c is missing", s[0])
	}
	text, ok := unescape(s[1:n])
	if !ok {
		return errorf(l.line, "bad escape in string %s", clip(s[:n+1]))
	}
	l.add(tokString, text)
	l.skip(n + 1)
	return nil
}

var escapes = map[byte]string{
	'\n': "", '\\': "\\", '\'': "'", '"': "\"", 'a': "\a", 'b': "\b",
	'f': "\f", 'n': "\n", 'r': "\r", 't': "\t", 'v': "\v",
}

// unescape decodes Python's string escapes. An escape that Python does not
// know stays as it is written, backslash included.
func unescape(s string) (string, bool) {
	if strings.IndexByte(s, '\\') < 0 {
		return s, true
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 >= len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		if e, ok := escapes[s[i]]; ok {
			b.WriteString(e)
			continue
		}
		r, n, ok := codePoint(s[i:])
		if !ok {
			return "", false
		}
		if n == 0 {
			b.WriteByte('\\')
			b.WriteByte(s[i])
			continue
		}
		b.WriteRune(r)
		i += n - 1
	}
	return b.String(), true
}

// codePoint decodes x41, u0041, U00000041 and octal escapes, s starting after
// the backslash. n is 0 when s is none of them.
func codePoint(s string) (r rune, n int, ok bool) {
	width := map[byte]int{'x': 2, 'u': 4, 'U': 8}[s[0]]
	if width > 0 {
		if len(s) < 1+width {
			return 0, 0, false
		}
		v, err := strconv.ParseUint(s[1:1+width], 16, 32)
		return rune(v), 1 + width, err == nil && v <= 0x10ffff
	}
	for n < len(s) && n < 3 && s[n] >= '0' && s[n] <= '7' {
		r = r*8 + rune(s[n]-'0')
		n++
	}
	return r, n, true
}
