package jinja

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// method is a function bound to its object.
type method struct {
	recv any
	name string
}

func (m *method) call(st *state, a *args) (any, error) {
	switch r := m.recv.(type) {
	case string:
		f := textMethods[m.name]
		if err := st.bytes(2 * len(r)); err != nil {
			return nil, err
		}
		return f(st, r, a)
	case *Dict:
		return r.method(st, m.name, a)
	case *List:
		return r.method(st, m.name, a)
	case *loop:
		return r.method(st, m.name, a)
	}
	return nil, fail("'%s' cannot be called", m.name)
}

// changing are methods that the immutable sandbox refuses.
var changing = []string{"append", "clear", "extend", "insert", "pop", "popitem", "remove", "reverse", "setdefault", "sort", "update"}

func hasMethod(x any, name string) bool {
	switch v := x.(type) {
	case string:
		_, ok := textMethods[name]
		return ok
	case *Dict:
		return contains([]string{"items", "keys", "values", "get", "copy", "clear", "pop", "popitem", "setdefault", "update"}, name)
	case *List:
		if name == "index" || name == "count" {
			return true
		}
		return !v.Tuple && (name == "copy" || contains([]string{"append", "clear", "extend", "insert", "pop", "remove", "reverse", "sort"}, name))
	}
	return false
}

func refuseChange(x any, name string) error {
	return fail("calling '%s' of a %s is refused: a template may not change its data", name, typeName(x))
}

func (d *Dict) method(st *state, name string, a *args) (any, error) {
	if contains(changing, name) {
		return nil, refuseChange(d, name)
	}
	if err := st.slots(len(d.keys)); err != nil {
		return nil, err
	}
	switch name {
	case "items":
		return pairs(d), nil
	case "keys":
		return &List{Items: d.keys}, nil
	case "values":
		return &List{Items: d.vals}, nil
	case "copy":
		return d, nil
	}
	if len(a.pos) == 0 || len(a.pos) > 2 {
		return nil, fail("get expects 1 or 2 arguments")
	}
	h, err := hashKey(st.marks, a.pos[0])
	if err != nil {
		return nil, err
	}
	if v, ok := d.get(h); ok {
		return v, nil
	}
	if len(a.pos) == 2 {
		return a.pos[1], nil
	}
	return nil, nil
}

func (l *List) method(st *state, name string, a *args) (any, error) {
	if name == "copy" {
		return l, nil
	}
	if contains(changing, name) {
		return nil, refuseChange(l, name)
	}
	if len(a.pos) != 1 {
		return nil, fail("%s expects one argument", name)
	}
	n := int64(0)
	for i, v := range l.Items {
		eq, err := st.equal(v, a.pos[0])
		if err != nil {
			return nil, err
		}
		if eq && name == "index" {
			return int64(i), nil
		}
		n += boolInt(eq)
	}
	if name == "index" {
		return nil, fail("value is not in list")
	}
	return n, nil
}

type textMethod func(st *state, s string, a *args) (any, error)

// textMethods are Python's str methods.
var textMethods = map[string]textMethod{
	"upper": plainMethod(upper), "lower": plainMethod(lower), "casefold": plainMethod(lower),
	"title": plainMethod(title), "capitalize": plainMethod(capitalize), "swapcase": plainMethod(swapCase),
	"strip": stripMethod(true, true), "lstrip": stripMethod(true, false), "rstrip": stripMethod(false, true),
	"split": splitMethod(false), "rsplit": splitMethod(true), "splitlines": splitLines,
	"startswith": affixMethod(strings.HasPrefix), "endswith": affixMethod(strings.HasSuffix),
	"removeprefix": removeMethod(true), "removesuffix": removeMethod(false),
	"find": findMethod(false, false), "rfind": findMethod(true, false),
	"index": findMethod(false, true), "rindex": findMethod(true, true),
	"partition": partitionMethod(false), "rpartition": partitionMethod(true),
	"replace": replaceMethod, "count": countMethod, "join": joinMethod, "format": formatMethod,
	"ljust": padMethod('l'), "rjust": padMethod('r'), "center": padMethod('c'), "zfill": zfill,
	"isdigit": allMethod(unicode.IsDigit), "isdecimal": allMethod(unicode.IsDigit), "isnumeric": allMethod(unicode.IsNumber),
	"isalpha": allMethod(unicode.IsLetter), "isspace": allMethod(isSpace), "isalnum": allMethod(isAlnum),
	"islower":    func(_ *state, s string, _ *args) (any, error) { return isCased(s, false), nil },
	"isupper":    func(_ *state, s string, _ *args) (any, error) { return isCased(s, true), nil },
	"isascii":    func(st *state, s string, _ *args) (any, error) { return isASCII(st.plain(s)), nil },
	"expandtabs": expandTabs,
}

func isAlnum(r rune) bool    { return unicode.IsLetter(r) || unicode.IsNumber(r) }
func isWordRune(r rune) bool { return r == '_' || isAlnum(r) }

func isASCII(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

func swapCase(s string) string {
	return mapText(s, func(r rune) string {
		if unicode.IsUpper(r) {
			return string(unicode.ToLower(r))
		}
		return upperRune(r)
	})
}

func plainMethod(f func(string) string) textMethod {
	return func(_ *state, s string, _ *args) (any, error) { return f(s), nil }
}

func stripMethod(left, right bool) textMethod {
	return func(st *state, s string, a *args) (any, error) {
		return st.strip(s, a.value(0, "chars"), left, right)
	}
}

func padMethod(side byte) textMethod {
	return func(st *state, s string, a *args) (any, error) {
		return st.pad(s, a.value(0, "width"), a.value(1, "fillchar"), side)
	}
}

func allMethod(in func(rune) bool) textMethod {
	return func(st *state, s string, _ *args) (any, error) {
		return s != "" && strings.IndexFunc(st.plain(s), func(r rune) bool { return !in(r) }) < 0, nil
	}
}

func zfill(st *state, s string, a *args) (any, error) {
	sign := ""
	w := a.value(0, "width")
	if p := st.plain(s); p != "" && (p[0] == '-' || p[0] == '+') {
		sign, s = s[:1], s[1:]
		if n, ok := w.(int64); ok {
			w = n - 1
		}
	}
	v, err := st.pad(s, w, "0", 'r')
	t, _ := v.(string)
	return sign + t, err
}

func expandTabs(st *state, s string, a *args) (any, error) {
	size, col := int64(8), int64(0)
	if n, _, _, ok := number(a.value(0, "tabsize")); ok {
		size = max(0, min(n, 100))
	}
	if err := st.bytes(satMul(int(size), len(s))); err != nil {
		return nil, err
	}
	return mapText(s, func(r rune) string {
		switch {
		case r == '\n' || r == '\r':
			col = 0
		case r == '\t' && size > 0:
			n := size - col%size
			col += n
			return strings.Repeat(" ", int(n))
		case r == '\t':
			return ""
		default:
			col++
		}
		return string(r)
	}), nil
}
