package jinja

import (
	"strings"
	"unicode/utf8"
)

// textArg is argument i, which must be a text.
func textArg(a *args, i int, name string) (string, error) {
	s, ok := a.value(i, name).(string)
	if !ok {
		return "", fail("%s must be str, not %s", name, typeName(a.value(i, name)))
	}
	return s, nil
}

// affixMethod takes one text or a tuple of them.
func affixMethod(has func(s, affix string) bool) textMethod {
	return func(st *state, s string, a *args) (any, error) {
		options := []any{a.value(0, "prefix")}
		if l, ok := options[0].(*List); ok && l.Tuple {
			options = l.Items
		}
		p := st.plain(s)
		for _, o := range options {
			affix, ok := o.(string)
			if !ok {
				return nil, fail("startswith and endswith take str or a tuple of str, not %s", typeName(o))
			}
			if err := st.bytes(len(affix)); err != nil {
				return nil, err
			}
			if has(p, st.plain(affix)) {
				return true, nil
			}
		}
		return false, nil
	}
}

func removeMethod(front bool) textMethod {
	return func(st *state, s string, a *args) (any, error) {
		affix, err := textArg(a, 0, "prefix")
		if err != nil {
			return nil, err
		}
		p := st.plain(s)
		switch affix = st.plain(affix); {
		case front && strings.HasPrefix(p, affix):
			return s[len(affix):], nil
		case !front && strings.HasSuffix(p, affix):
			return s[:len(s)-len(affix)], nil
		}
		return s, nil
	}
}

func findMethod(last, must bool) textMethod {
	return func(st *state, s string, a *args) (any, error) {
		sub, err := textArg(a, 0, "sub")
		if err != nil {
			return nil, err
		}
		p, from := st.plain(s), 0
		if n := a.value(1, "start"); n != nil {
			i, err := sliceBound(n, int64(utf8.RuneCountInString(p)), 0, int64(len(p)), true)
			if err != nil {
				return nil, err
			}
			from = byteAt(p, int(i))
		}
		i := strings.Index(p[from:], st.plain(sub))
		if last {
			i = strings.LastIndex(p[from:], st.plain(sub))
		}
		switch {
		case i >= 0:
			return int64(utf8.RuneCountInString(p[:from+i])), nil
		case must:
			return nil, fail("substring not found")
		}
		return int64(-1), nil
	}
}

func partitionMethod(last bool) textMethod {
	return func(st *state, s string, a *args) (any, error) {
		sep, err := textArg(a, 0, "sep")
		if err != nil {
			return nil, err
		}
		p := st.plain(s)
		i := strings.Index(p, st.plain(sep))
		if last {
			i = strings.LastIndex(p, st.plain(sep))
		}
		parts := []any{s, "", ""}
		if i >= 0 {
			parts = []any{s[:i], s[i : i+len(sep)], s[i+len(sep):]}
		} else if last {
			parts = []any{"", "", s}
		}
		return &List{Items: parts, Tuple: true}, nil
	}
}

func replaceMethod(st *state, s string, a *args) (any, error) {
	for i, name := range []string{"old", "new"} {
		if _, err := textArg(a, i, name); err != nil {
			return nil, err
		}
	}
	return st.replace(s, a.value(0, "old"), a.value(1, "new"), a.value(2, "count"))
}

func countMethod(st *state, s string, a *args) (any, error) {
	sub, err := textArg(a, 0, "sub")
	if err != nil {
		return nil, err
	}
	return int64(strings.Count(st.plain(s), st.plain(sub))), nil
}

func joinMethod(st *state, s string, a *args) (any, error) {
	if len(a.pos) != 1 {
		return nil, fail("join takes one argument")
	}
	items, err := st.iterate(a.pos[0])
	if err != nil {
		return nil, err
	}
	for i, it := range items {
		if _, ok := it.(string); !ok {
			return nil, fail("sequence item %d: expected str instance, %s found", i, typeName(it))
		}
	}
	return st.join(items, s)
}

func splitMethod(fromRight bool) textMethod {
	return func(st *state, s string, a *args) (any, error) {
		limit := -1
		if n, _, isInt, ok := number(a.value(1, "maxsplit")); ok && isInt && n >= 0 {
			limit = int(min(n, 1<<30))
		}
		var parts []string
		switch sep := a.value(0, "sep").(type) {
		case nil:
			parts = fields(s, limit, fromRight)
		case string:
			if sep == "" {
				return nil, fail("empty separator")
			}
			if fromRight && limit >= 0 {
				parts = st.cutRight(s, st.plain(sep), limit)
			} else {
				parts = st.cutAll(s, st.plain(sep), limit)
			}
		default:
			return nil, fail("sep must be str or None, not %s", typeName(sep))
		}
		return st.texts(parts)
	}
}

func (st *state) texts(parts []string) (any, error) {
	if err := st.slots(len(parts)); err != nil {
		return nil, err
	}
	l := &List{Items: make([]any, len(parts))}
	for i, p := range parts {
		l.Items[i] = p
	}
	return l, nil
}

func (st *state) cutRight(s, sep string, limit int) []string {
	p := st.plain(s)
	var parts []string
	for len(parts) < limit {
		i := strings.LastIndex(p, sep)
		if i < 0 {
			break
		}
		parts = append(parts, s[i+len(sep):])
		s, p = s[:i], p[:i]
	}
	return reversed(append(parts, s))
}

func reversed(parts []string) []string {
	for i, j := 0, len(parts)-1; i < j; i, j = i+1, j-1 {
		parts[i], parts[j] = parts[j], parts[i]
	}
	return parts
}

// fields splits at runs of white space, at most limit times (-1: all).
func fields(s string, limit int, fromRight bool) []string {
	if limit < 0 {
		return strings.FieldsFunc(s, isSpace)
	}
	var parts []string
	if fromRight {
		for s = strings.TrimRightFunc(s, isSpace); s != "" && len(parts) < limit; s = strings.TrimRightFunc(s, isSpace) {
			i := strings.LastIndexFunc(s, isSpace)
			_, n := utf8.DecodeRuneInString(s[max(i, 0):])
			if i < 0 {
				i, n = 0, 0
			}
			parts, s = append(parts, s[i+n:]), s[:i]
		}
		if s != "" {
			parts = append(parts, s)
		}
		return reversed(parts)
	}
	for s = strings.TrimLeftFunc(s, isSpace); s != "" && len(parts) < limit; s = strings.TrimLeftFunc(s, isSpace) {
		i := strings.IndexFunc(s, isSpace)
		if i < 0 {
			i = len(s)
		}
		parts, s = append(parts, s[:i]), s[i:]
	}
	if s != "" {
		parts = append(parts, s)
	}
	return parts
}

func splitLines(st *state, s string, a *args) (any, error) {
	keep := truth(a.value(0, "keepends"))
	var parts []string
	for s != "" {
		i := strings.IndexFunc(s, isLineEnd)
		if i < 0 {
			parts = append(parts, s)
			break
		}
		_, n := utf8.DecodeRuneInString(s[i:])
		if strings.HasPrefix(s[i:], "\r\n") {
			n = 2
		}
		if keep {
			parts = append(parts, s[:i+n])
		} else {
			parts = append(parts, s[:i])
		}
		s = s[i+n:]
	}
	return st.texts(parts)
}

func isLineEnd(r rune) bool {
	return r >= '\n' && r <= '\r' || r >= 0x1c && r <= 0x1e || r == 0x85 || r == 0x2028 || r == 0x2029
}
