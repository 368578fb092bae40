package jinja

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxJSONDepth bounds the nesting of data given to a template.
const maxJSONDepth = 200

// FromJSON reads one JSON value, keeping the order of object keys, and marks
// its texts. Errors name the byte offset.
func FromJSON(raw []byte, m *Marks) (any, error) {
	if !utf8.Valid(raw) {
		return nil, errors.New("json is not valid UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	v, err := jsonValue(d, m, 0)
	if err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("json has more than one value")
	}
	return v, nil
}

func jsonValue(d *json.Decoder, m *Marks, depth int) (any, error) {
	if depth > maxJSONDepth {
		return nil, errors.New("json is nested more than " + strconv.Itoa(maxJSONDepth) + " deep")
	}
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch x := t.(type) {
	case json.Delim:
		if x == '{' {
			return jsonObject(d, m, depth)
		}
		return jsonArray(d, m, depth)
	case string:
		return m.Mark(x), nil
	case json.Number:
		return jsonNumber(string(x)), nil
	case bool:
		return x, nil
	}
	return nil, nil
}

func jsonObject(d *json.Decoder, m *Marks, depth int) (any, error) {
	dict := NewDict()
	for d.More() {
		k, err := d.Token()
		if err != nil {
			return nil, err
		}
		key, _ := k.(string)
		v, err := jsonValue(d, m, depth+1)
		if err != nil {
			return nil, err
		}
		dict.SetText(m, m.Mark(key), v)
	}
	_, err := d.Token()
	return dict, err
}

func jsonArray(d *json.Decoder, m *Marks, depth int) (any, error) {
	l := &List{Items: []any{}}
	for d.More() {
		v, err := jsonValue(d, m, depth+1)
		if err != nil {
			return nil, err
		}
		l.Items = append(l.Items, v)
	}
	_, err := d.Token()
	return l, err
}

func jsonNumber(s string) any {
	if strings.ContainsAny(s, ".eE") {
		f, _ := strconv.ParseFloat(s, 64) // out of range gives an infinity, as in Python
		return f
	}
	i, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return bigInt(s)
	}
	return i
}

// jsonStyle is json.dumps' formatting.
type jsonStyle struct {
	indent    string // with newlines when multi
	multi     bool
	item, key string // separators
	ascii     bool
	sorted    bool
}

// toJSON appends what json.dumps(v, ensure_ascii=False, ...) gives.
func (st *state) toJSON(b *strings.Builder, v any, s *jsonStyle, level int) error {
	if err := st.enter(0); err != nil {
		return err
	}
	defer st.leave()
	switch x := v.(type) {
	case nil:
		b.WriteString("null")
	case bool:
		b.WriteString(strconv.FormatBool(x))
	case int64:
		b.WriteString(strconv.FormatInt(x, 10))
	case bigInt:
		b.WriteString(string(x))
	case float64:
		b.WriteString(jsonFloat(x))
	case string:
		return st.jsonString(b, x, s.ascii)
	case *List:
		return st.jsonList(b, x, s, level)
	case *Dict:
		return st.jsonDict(b, x, s, level)
	default:
		return fail("object of type %s is not JSON serializable", typeName(v))
	}
	return nil
}

func jsonFloat(f float64) string {
	switch {
	case math.IsNaN(f):
		return "NaN"
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	}
	return floatText(f)
}

func (st *state) jsonList(b *strings.Builder, l *List, s *jsonStyle, level int) error {
	if len(l.Items) == 0 {
		b.WriteString("[]")
		return nil
	}
	b.WriteByte('[')
	for i, v := range l.Items {
		if err := st.jsonBreak(b, s, i > 0, level+1); err != nil {
			return err
		}
		if err := st.toJSON(b, v, s, level+1); err != nil {
			return err
		}
	}
	return st.jsonEnd(b, s, level, ']')
}

func (st *state) jsonDict(b *strings.Builder, d *Dict, s *jsonStyle, level int) error {
	if len(d.keys) == 0 {
		b.WriteString("{}")
		return nil
	}
	order, err := st.jsonOrder(d, s)
	if err != nil {
		return err
	}
	b.WriteByte('{')
	for n, i := range order {
		if err := st.jsonBreak(b, s, n > 0, level+1); err != nil {
			return err
		}
		if err := st.jsonKey(b, d.keys[i], s); err != nil {
			return err
		}
		b.WriteString(s.key)
		if err := st.toJSON(b, d.vals[i], s, level+1); err != nil {
			return err
		}
	}
	return st.jsonEnd(b, s, level, '}')
}

func (st *state) jsonOrder(d *Dict, s *jsonStyle) ([]int, error) {
	order := make([]int, len(d.keys))
	for i := range order {
		order[i] = i
	}
	if !s.sorted {
		return order, nil
	}
	return order, st.sortBy(order, func(i int) any { return d.keys[i] }, false, true)
}

func (st *state) jsonKey(b *strings.Builder, k any, s *jsonStyle) error {
	if text, ok := k.(string); ok {
		return st.jsonString(b, text, s.ascii)
	}
	b.WriteByte('"')
	if err := st.toJSON(b, k, s, 0); err != nil {
		return err
	}
	b.WriteByte('"')
	return nil
}

func (st *state) jsonBreak(b *strings.Builder, s *jsonStyle, more bool, level int) error {
	if more {
		b.WriteString(s.item)
	}
	if !s.multi {
		return nil
	}
	if err := st.bytes(len(s.indent) * level); err != nil {
		return err
	}
	b.WriteByte('\n')
	b.WriteString(strings.Repeat(s.indent, level))
	return nil
}

func (st *state) jsonEnd(b *strings.Builder, s *jsonStyle, level int, end byte) error {
	if s.multi {
		if err := st.bytes(len(s.indent) * level); err != nil {
			return err
		}
		b.WriteByte('\n')
		b.WriteString(strings.Repeat(s.indent, level))
	}
	b.WriteByte(end)
	return nil
}

// jsonString escapes only what JSON demands, or all but ASCII.
func (st *state) jsonString(b *strings.Builder, s string, ascii bool) error {
	if err := st.bytes(6 * len(s)); err != nil {
		return err
	}
	b.WriteByte('"')
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteByte(s[i])
		case r < ' ':
			b.WriteString(jsonControl(r))
		case ascii && r > 0x7e && n > 1:
			jsonASCII(b, r)
		case ascii && r == 0x7f:
			b.WriteString(`\u007f`)
		default:
			b.WriteString(s[i : i+n])
		}
		i += n
	}
	b.WriteByte('"')
	return nil
}

func jsonControl(r rune) string {
	switch r {
	case '\n':
		return `\n`
	case '\r':
		return `\r`
	case '\t':
		return `\t`
	case '\b':
		return `\b`
	case '\f':
		return `\f`
	}
	return `\u` + hex(r, 4)
}

func jsonASCII(b *strings.Builder, r rune) {
	if r > 0xffff {
		r -= 0x10000
		b.WriteString(`\u` + hex(0xd800+r>>10, 4))
		r = 0xdc00 + r&0x3ff
	}
	b.WriteString(`\u` + hex(r, 4))
}
