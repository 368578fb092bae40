package jinja

import (
	"math"
	"strconv"
	"strings"
)

type filterFunc func(st *state, x any, a *args) (any, error)

// filters lacks map, which looks filters up itself; see state.filter.
var filters = filterTable()

func filterTable() map[string]filterFunc {
	t := map[string]filterFunc{
		"abs": filterAbs, "round": filterRound, "int": filterInt, "float": filterFloat,
		"length": filterLength, "count": filterLength, "default": filterDefault, "d": filterDefault,
		"string": filterString, "safe": filterString, "tojson": filterJSON,
		"upper": textFilter(upper), "lower": textFilter(lower), "title": textFilter(wordTitle),
		"capitalize": textFilter(capitalize), "trim": filterTrim, "replace": filterReplace,
		"escape": filterEscape, "e": filterEscape, "forceescape": filterEscape,
		"indent": filterIndent, "center": filterCenter, "wordcount": filterWordCount,
		"truncate": filterTruncate, "format": filterFormat, "urlencode": filterURL, "striptags": filterStripTags,
		"pprint": filterPprint, "random": filterRandom,
	}
	for name, f := range listFilters() {
		t[name] = f
	}
	return t
}

func (st *state) filter(name string, x any, a *args) (any, error) {
	if name == "map" {
		return filterMap(st, x, a)
	}
	f, ok := filters[name]
	if !ok {
		return nil, fail("no filter named '%s'", clip(name))
	}
	return f(st, x, a)
}

func filterAbs(_ *state, x any, _ *args) (any, error) {
	i, f, isInt, ok := number(x)
	switch {
	case !ok:
		return nil, badOperand("abs()", x)
	case isInt && i < 0:
		return -i, nil
	case isInt:
		return i, nil
	}
	return math.Abs(f), nil
}

func filterRound(_ *state, x any, a *args) (any, error) {
	_, f, _, ok := number(x)
	if !ok {
		return nil, badOperand("round()", x)
	}
	p, _, _, _ := number(a.value(0, "precision"))
	scale := math.Pow(10, float64(max(-300, min(p, 300))))
	switch m := a.value(1, "method"); m {
	case "ceil":
		return math.Ceil(f*scale) / scale, nil
	case "floor":
		return math.Floor(f*scale) / scale, nil
	}
	if p >= 0 && p < 300 { // as Python: correctly rounded from the decimal digits
		r, err := strconv.ParseFloat(strconv.FormatFloat(f, 'f', int(p), 64), 64)
		return r, err
	}
	return math.RoundToEven(f*scale) / scale, nil
}

func filterInt(st *state, x any, a *args) (any, error) {
	var def any = int64(0)
	if v := a.value(0, "default"); v != nil {
		def = v
	}
	base := int64(10)
	if b, _, isInt, ok := number(a.value(1, "base")); ok && isInt && b >= 2 && b <= 36 {
		base = b
	}
	if s, ok := x.(string); ok {
		s = strings.ReplaceAll(strings.TrimFunc(st.plain(s), isSpace), "_", "")
		if i, err := strconv.ParseInt(s, int(base), 64); err == nil {
			return i, st.bytes(len(s))
		}
		f, err := strconv.ParseFloat(s, 64)
		if err != nil {
			return def, st.bytes(len(s))
		}
		return truncated(f, def), nil
	}
	i, f, isInt, ok := number(x)
	switch {
	case !ok:
		return def, nil
	case isInt:
		return i, nil
	}
	return truncated(f, def), nil
}

func truncated(f float64, def any) any {
	if math.IsNaN(f) || math.Abs(f) >= 1<<63 {
		return def
	}
	return int64(f)
}

func filterFloat(st *state, x any, a *args) (any, error) {
	if s, ok := x.(string); ok {
		f, err := strconv.ParseFloat(strings.TrimFunc(st.plain(s), isSpace), 64)
		if err == nil {
			return f, st.bytes(len(s))
		}
	} else if _, f, _, ok := number(x); ok {
		return f, nil
	}
	if v := a.value(0, "default"); v != nil {
		return v, nil
	}
	return 0.0, nil
}

func filterLength(st *state, x any, _ *args) (any, error) {
	n, err := st.length(x)
	return n, err
}

func filterDefault(_ *state, x any, a *args) (any, error) {
	_, undefined := x.(Undefined)
	if undefined || truth(a.value(1, "boolean")) && !truth(x) {
		if len(a.pos) == 0 && a.kw["default_value"] == nil {
			return "", nil
		}
		return a.value(0, "default_value"), nil
	}
	return x, nil
}

func filterString(st *state, x any, _ *args) (any, error) {
	s, err := st.str(x)
	return s, err
}

// filterJSON is the tojson of Hugging Face's environment: json.dumps without
// ASCII or HTML escaping, keys in order.
func filterJSON(st *state, x any, a *args) (any, error) {
	s := &jsonStyle{item: ", ", key: ": ", ascii: truth(a.value(0, "ensure_ascii")), sorted: truth(a.value(3, "sort_keys"))}
	switch v := a.value(1, "indent").(type) {
	case nil:
	case string:
		s.multi, s.indent, s.item = true, v, ","
	default:
		n, _, _, ok := number(v)
		if !ok || n > 100 {
			return nil, fail("tojson: indent must be a small number or a text")
		}
		s.multi, s.indent, s.item = true, strings.Repeat(" ", int(max(0, n))), ","
	}
	if err := s.separators(a.value(2, "separators")); err != nil {
		return nil, err
	}
	var b strings.Builder
	err := st.toJSON(&b, x, s, 0)
	return b.String(), err
}

func (s *jsonStyle) separators(v any) error {
	if v == nil {
		return nil
	}
	l, ok := v.(*List)
	if !ok || len(l.Items) != 2 {
		return fail("tojson: separators must be a pair of texts")
	}
	item, ok1 := l.Items[0].(string)
	key, ok2 := l.Items[1].(string)
	if !ok1 || !ok2 {
		return fail("tojson: separators must be a pair of texts")
	}
	s.item, s.key = item, key
	return nil
}

func filterRandom(*state, any, *args) (any, error) {
	return nil, fail("random is not available in chat templates: a prompt must not depend on chance")
}
