package jinja

import (
	"strings"
	"unicode/utf8"
)

// textOf is str(x), paid for twice: for reading and for what is made of it.
func (st *state) textOf(x any) (string, error) {
	s, err := st.str(x)
	if err != nil {
		return "", err
	}
	return s, st.bytes(2 * len(s))
}

func textFilter(f func(string) string) filterFunc {
	return func(st *state, x any, _ *args) (any, error) {
		s, err := st.textOf(x)
		if err != nil {
			return nil, err
		}
		return f(s), nil
	}
}

// wordTitle is Jinja2's title filter: words are split at spaces, hyphens and
// opening brackets.
func wordTitle(s string) string {
	start := true
	return mapText(s, func(r rune) string {
		was := start
		start = isSpace(r) || strings.ContainsRune("-({[<", r)
		if was {
			return upperRune(r)
		}
		return lower(string(r))
	})
}

func filterTrim(st *state, x any, a *args) (any, error) {
	s, err := st.textOf(x)
	if err != nil {
		return nil, err
	}
	return st.strip(s, a.value(0, "chars"), true, true)
}

// strip takes characters off the ends: white space for nil chars.
func (st *state) strip(s string, chars any, left, right bool) (any, error) {
	in := isSpace
	if set, ok := chars.(string); ok {
		set = st.plain(set)
		in = func(r rune) bool { return strings.ContainsRune(set, r) }
		if err := st.bytes(len(s) * min(len(set), 64)); err != nil {
			return nil, err
		}
	} else if chars != nil {
		return nil, fail("strip arg must be None or str")
	}
	p := st.plain(s) // same length as s
	from, to := 0, len(p)
	if left {
		from = len(p) - len(strings.TrimLeftFunc(p, in))
	}
	if right {
		to = len(strings.TrimRightFunc(p, in))
	}
	return s[from:max(from, to)], nil
}

func filterReplace(st *state, x any, a *args) (any, error) {
	s, err := st.textOf(x)
	if err != nil {
		return nil, err
	}
	return st.replace(s, a.value(0, "old"), a.value(1, "new"), a.value(2, "count"))
}

// replace is str.replace; it searches the plain text and keeps marks.
func (st *state) replace(s string, oldV, newV, countV any) (any, error) {
	old, err := st.str(oldV)
	if err != nil {
		return nil, err
	}
	with, err := st.str(newV)
	if err != nil {
		return nil, err
	}
	limit := -1
	if n, _, isInt, ok := number(countV); ok && isInt && n >= 0 {
		limit = int(min(n, 1<<30))
	}
	parts := st.cutAll(s, st.plain(old), limit)
	if err := st.bytes(len(s) + satMul(len(parts), len(with)) + 16*len(parts)); err != nil {
		return nil, err
	}
	return strings.Join(parts, with), nil
}

// cutAll splits s at up to limit places (-1: all) where its plain text is
// sep. An empty sep cuts around every character, as Python's replace does.
func (st *state) cutAll(s, sep string, limit int) []string {
	p := st.plain(s)
	var parts []string
	if sep == "" {
		parts = append(parts, "")
		for len(s) > 0 && (limit < 0 || len(parts) < limit) {
			_, n := utf8.DecodeRuneInString(s)
			parts, s = append(parts, s[:n]), s[n:]
		}
		if limit == 0 {
			return []string{s}
		}
		return append(parts, s)
	}
	for limit < 0 || len(parts) < limit {
		i := strings.Index(p, sep)
		if i < 0 {
			break
		}
		parts = append(parts, s[:i])
		s, p = s[i+len(sep):], p[i+len(sep):]
	}
	return append(parts, s)
}

var htmlEscapes = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "'", "&#39;", "\"", "&#34;")

// filterEscape drops marks on purpose: what it makes of them is harmless.
func filterEscape(st *state, x any, _ *args) (any, error) {
	s, err := st.textOf(x)
	if err != nil {
		return nil, err
	}
	if err := st.bytes(5 * len(s)); err != nil {
		return nil, err
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		plain := st.plain(s[i : i+1])
		if strings.ContainsAny(plain, "<>&'\"") {
			b.WriteString(htmlEscapes.Replace(plain))
		} else {
			b.WriteByte(s[i])
		}
	}
	return b.String(), nil
}

// filterIndent indents all lines but the first, and blank ones, unless asked.
func filterIndent(st *state, x any, a *args) (any, error) {
	s, err := st.textOf(x)
	if err != nil {
		return nil, err
	}
	pad := "    "
	switch w := a.value(0, "width").(type) {
	case string:
		pad = w
	case int64:
		if w > 1000 {
			return nil, fail("indent: the width must be at most 1000")
		}
		pad = strings.Repeat(" ", int(max(0, w)))
	}
	lines := strings.Split(s, "\n")
	if err := st.bytes(satMul(len(lines), len(pad)+16) + len(s)); err != nil {
		return nil, err
	}
	first, blank := truth(a.value(1, "first")), truth(a.value(2, "blank"))
	for i, l := range lines {
		if i == 0 && first || i > 0 && (l != "" || blank) {
			lines[i] = pad + l
		}
	}
	return strings.Join(lines, "\n"), nil
}

func filterCenter(st *state, x any, a *args) (any, error) {
	s, err := st.textOf(x)
	if err != nil {
		return nil, err
	}
	width := any(int64(80))
	if v := a.value(0, "width"); v != nil {
		width = v
	}
	return st.pad(s, width, nil, 'c')
}

// pad widens s to width characters: side 'l' puts it left, 'r' right, 'c' in
// the middle.
func (st *state) pad(s string, width, fill any, side byte) (any, error) {
	w, _, isInt, ok := number(width)
	if !ok || !isInt {
		return nil, badOperand("padding", width)
	}
	f := " "
	if c, ok := fill.(string); ok {
		f = c
	}
	n := int(min(w, 1<<31)) - utf8.RuneCountInString(s)
	if n <= 0 {
		return s, st.bytes(len(s))
	}
	if err := st.bytes(len(s) + satMul(n, len(f))); err != nil {
		return nil, err
	}
	switch side {
	case 'l':
		return s + strings.Repeat(f, n), nil
	case 'r':
		return strings.Repeat(f, n) + s, nil
	}
	left := n/2 + (n & int(w) & 1) // CPython's rounding
	return strings.Repeat(f, left) + s + strings.Repeat(f, n-left), nil
}

func filterWordCount(st *state, x any, _ *args) (any, error) {
	s, err := st.textOf(x)
	if err != nil {
		return nil, err
	}
	n := int64(0)
	for range strings.FieldsFuncSeq(st.plain(s), func(r rune) bool { return !isWordRune(r) }) {
		n++
	}
	return n, nil
}

func filterTruncate(st *state, x any, a *args) (any, error) {
	s, err := st.textOf(x)
	if err != nil {
		return nil, err
	}
	length, leeway, end := int64(255), int64(5), "..."
	if n, _, _, ok := number(a.value(0, "length")); ok {
		length = n
	}
	if e, ok := a.value(2, "end").(string); ok {
		end = e
	}
	if n, _, _, ok := number(a.value(3, "leeway")); ok {
		leeway = n
	}
	if length > int64(len(s)) || int64(utf8.RuneCountInString(s)) <= length+leeway {
		return s, nil
	}
	cut := s[:byteAt(s, int(max(0, length-int64(utf8.RuneCountInString(end)))))]
	if !truth(a.value(1, "killwords")) {
		if i := strings.LastIndexByte(cut, ' '); i >= 0 {
			cut = cut[:i]
		}
	}
	return cut + end, nil
}

// filterURL percent-encodes like urllib's quote with "/" kept.
func filterURL(st *state, x any, _ *args) (any, error) {
	s, err := st.textOf(x)
	if err != nil {
		return nil, err
	}
	if err := st.bytes(3 * len(s)); err != nil {
		return nil, err
	}
	p := st.plain(s)
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if c := p[i]; isWordByte(c) || strings.IndexByte("-._~/", c) >= 0 {
			b.WriteByte(s[i]) // with its mark
		} else {
			b.WriteString("%" + strings.ToUpper(hex(rune(c), 2)))
		}
	}
	return b.String(), nil
}

// filterStripTags drops <...> and collapses white space.
func filterStripTags(st *state, x any, _ *args) (any, error) {
	s, err := st.textOf(x)
	if err != nil {
		return nil, err
	}
	for range len(s) {
		p := st.plain(s)
		i := strings.IndexByte(p, '<')
		if i < 0 {
			break
		}
		j := strings.IndexByte(p[i:], '>')
		if j < 0 {
			break
		}
		if err := st.bytes(len(s)); err != nil {
			return nil, err
		}
		s = s[:i] + s[i+j+1:]
	}
	return strings.Join(strings.FieldsFunc(s, isSpace), " "), nil
}

func filterPprint(st *state, x any, _ *args) (any, error) {
	var b strings.Builder
	err := st.repr(&b, x)
	return b.String(), err
}

func filterFormat(st *state, x any, a *args) (any, error) {
	s, err := st.textOf(x)
	if err != nil {
		return nil, err
	}
	if len(a.names) > 0 {
		d := NewDict()
		for _, k := range a.names {
			d.set(k, a.spelled(k), a.kw[k])
		}
		return st.percent(s, d)
	}
	return st.percent(s, &List{Items: a.pos, Tuple: true})
}
