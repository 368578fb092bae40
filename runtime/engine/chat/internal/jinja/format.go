package jinja

import (
	"fmt"
	"strconv"
	"strings"
)

// percent is Python's format % values.
func (st *state) percent(format string, v any) (any, error) {
	vals := []any{v}
	if l, ok := v.(*List); ok && l.Tuple {
		vals = l.Items
	}
	named, _ := v.(*Dict)
	var b strings.Builder
	used := 0
	for i := 0; i < len(format); i++ {
		if format[i] != '%' {
			b.WriteByte(format[i])
			continue
		}
		d, n, err := directive(format[i:])
		if err != nil {
			return nil, err
		}
		i += n - 1
		if d.verb == '%' {
			b.WriteByte('%')
			continue
		}
		var x any
		switch {
		case d.key != "":
			if named == nil {
				return nil, fail("format requires a mapping")
			}
			var ok bool
			if x, ok = named.get(d.key); !ok {
				return nil, fail("format: no key '%s'", clip(d.key))
			}
		case used < len(vals):
			x = vals[used]
			used++
		default:
			return nil, fail("not enough arguments for format string")
		}
		if err := st.directive(&b, d, x); err != nil {
			return nil, err
		}
	}
	if named == nil && used < len(vals) {
		return nil, fail("not all arguments converted during string formatting")
	}
	return b.String(), st.bytes(b.Len())
}

// spec is one %(key)flags width.precision verb.
type spec struct {
	key   string
	flags string // as Go's fmt takes them, width and precision included
	verb  byte
}

func directive(s string) (d spec, n int, err error) {
	n = 1
	if strings.HasPrefix(s[1:], "(") {
		i := strings.IndexByte(s, ')')
		if i < 0 {
			return d, 0, fail("incomplete format key")
		}
		d.key, n = s[2:i], i+1
	}
	start := n
	for n < len(s) && strings.IndexByte("-+ #0.123456789", s[n]) >= 0 {
		n++
	}
	if n >= len(s) || n-start > 8 {
		return d, 0, fail("incomplete format")
	}
	d.flags, d.verb = s[start:n], s[n]
	return d, n + 1, nil
}

// maxWidth bounds the width and the precision of a format.
const maxWidth = 1000

func (d spec) tooWide() bool {
	for part := range strings.FieldsFuncSeq(d.flags, func(r rune) bool { return r < '0' || r > '9' }) {
		if n, err := strconv.Atoi(part); err != nil || n > maxWidth {
			return true
		}
	}
	return false
}

func (st *state) directive(b *strings.Builder, d spec, x any) error {
	if d.tooWide() {
		return fail("format: width and precision must be at most %d", maxWidth)
	}
	i, f, isInt, ok := number(x)
	switch d.verb {
	case 's', 'r':
		s, err := st.str(x)
		if d.verb == 'r' {
			var q strings.Builder
			err = st.repr(&q, x)
			s = q.String()
		}
		if err != nil {
			return err
		}
		if err := st.bytes(len(s)); err != nil {
			return err
		}
		if d.flags == "" { // fmt would be right too, but never let it see marks
			b.WriteString(s)
			return nil
		}
		fmt.Fprintf(b, "%"+d.flags+"s", s)
	case 'd', 'i', 'u', 'x', 'X', 'o':
		if !ok {
			return fail("%%%c format: a number is required, not %s", d.verb, typeName(x))
		}
		if !isInt {
			i = int64(f)
		}
		verb := strings.NewReplacer("i", "d", "u", "d").Replace(string(d.verb))
		fmt.Fprintf(b, "%"+d.flags+verb, i)
	case 'f', 'F', 'e', 'E', 'g', 'G':
		if !ok {
			return fail("%%%c format: a number is required, not %s", d.verb, typeName(x))
		}
		fmt.Fprintf(b, "%"+d.flags+string(d.verb), f)
	default:
		return fail("unsupported format character '%c'", d.verb)
	}
	return nil
}

// formatMethod is str.format with plain fields: {}, {0}, {name}, {{ and }}.
// Attribute access and format specs are refused.
func formatMethod(st *state, s string, a *args) (any, error) {
	var b strings.Builder
	auto := 0
	for i := 0; i < len(s); i++ {
		switch {
		case strings.HasPrefix(s[i:], "{{"), strings.HasPrefix(s[i:], "}}"):
			b.WriteByte(s[i])
			i++
		case s[i] == '{':
			n := strings.IndexByte(s[i:], '}')
			if n < 0 {
				return nil, fail("format: '}' is missing")
			}
			v, err := formatField(a, s[i+1:i+n], &auto)
			if err != nil {
				return nil, err
			}
			text, err := st.str(v)
			if err != nil {
				return nil, err
			}
			if err := st.bytes(len(text)); err != nil {
				return nil, err
			}
			b.WriteString(text)
			i += n
		case s[i] == '}':
			return nil, fail("format: single '}'")
		default:
			b.WriteByte(s[i])
		}
	}
	return b.String(), nil
}

func formatField(a *args, field string, auto *int) (any, error) {
	if field == "" {
		field = strconv.Itoa(*auto)
		*auto++
	}
	if i, err := strconv.Atoi(field); err == nil && i >= 0 {
		if i >= len(a.pos) {
			return nil, fail("format: no argument %d", i)
		}
		return a.pos[i], nil
	}
	v, ok := a.kw[field]
	if !ok {
		return nil, fail("format: field '%s' is unknown or not supported", clip(field))
	}
	return v, nil
}
