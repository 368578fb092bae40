package jinja

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// str is Python's str(v), which is also what a template prints.
func (st *state) str(v any) (string, error) {
	switch x := v.(type) {
	case string:
		return x, nil
	case Undefined:
		return "", nil
	}
	var b strings.Builder
	if err := st.repr(&b, v); err != nil {
		return "", err
	}
	return b.String(), nil
}

// repr appends Python's repr(v).
func (st *state) repr(b *strings.Builder, v any) error {
	if err := st.enter(0); err != nil {
		return err
	}
	defer st.leave()
	switch x := v.(type) {
	case nil:
		b.WriteString("None")
	case Undefined:
		b.WriteString("Undefined")
	case bool:
		if x {
			b.WriteString("True")
		} else {
			b.WriteString("False")
		}
	case int64:
		b.WriteString(strconv.FormatInt(x, 10))
	case bigInt:
		b.WriteString(string(x))
	case float64:
		b.WriteString(floatText(x))
	case string:
		return st.quote(b, x)
	case *List:
		return st.reprList(b, x)
	case *Dict:
		return st.reprDict(b, x)
	default:
		b.WriteString("<" + typeName(v) + ">")
	}
	return nil
}

func (st *state) reprList(b *strings.Builder, l *List) error {
	open, end := "[", "]"
	if l.Tuple {
		open, end = "(", ")"
		if len(l.Items) == 1 {
			end = ",)"
		}
	}
	b.WriteString(open)
	for i, v := range l.Items {
		if i > 0 {
			b.WriteString(", ")
		}
		if err := st.repr(b, v); err != nil {
			return err
		}
	}
	b.WriteString(end)
	return nil
}

func (st *state) reprDict(b *strings.Builder, d *Dict) error {
	b.WriteByte('{')
	for i, k := range d.keys {
		if i > 0 {
			b.WriteString(", ")
		}
		if err := st.repr(b, k); err != nil {
			return err
		}
		b.WriteString(": ")
		if err := st.repr(b, d.vals[i]); err != nil {
			return err
		}
	}
	b.WriteByte('}')
	return nil
}

// quote is Python's repr of a string: single quotes unless only those occur.
func (st *state) quote(b *strings.Builder, s string) error {
	if err := st.bytes(4 * len(s)); err != nil {
		return err
	}
	q := byte('\'')
	if strings.IndexByte(s, '\'') >= 0 && strings.IndexByte(s, '"') < 0 {
		q = '"'
	}
	b.WriteByte(q)
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && n == 1 || r >= ' ' && r < 0x7f && r != rune(q) && r != '\\' {
			b.WriteByte(s[i])
		} else {
			quoteRune(b, r, q)
		}
		i += n
	}
	b.WriteByte(q)
	return nil
}

func quoteRune(b *strings.Builder, r rune, q byte) {
	switch {
	case r == rune(q) || r == '\\':
		b.WriteByte('\\')
		b.WriteRune(r)
	case r == '\n':
		b.WriteString(`\n`)
	case r == '\r':
		b.WriteString(`\r`)
	case r == '\t':
		b.WriteString(`\t`)
	case unicode.IsPrint(r):
		b.WriteRune(r)
	case r <= 0xff:
		b.WriteString(`\x` + hex(r, 2))
	case r <= 0xffff:
		b.WriteString(`\u` + hex(r, 4))
	default:
		b.WriteString(`\U` + hex(r, 8))
	}
}

func hex(r rune, width int) string {
	s := strconv.FormatInt(int64(r), 16)
	return strings.Repeat("0", max(0, width-len(s))) + s
}
