package jinja

import (
	"math"
	"strconv"
	"strings"
)

// A value is one of: nil (None), Undefined, bool, int64, float64, string,
// bigInt, *List, *Dict, *namespace, *loop, callable. All but namespace and
// loop are immutable once a template can see them.

// Undefined is what a missing name, key or attribute gives. It prints as
// nothing, is false and empty, and everything else with it is an error.
type Undefined struct {
	name  string // what was missing
	owner string // the type it was looked for in, empty for a plain name
}

func (u Undefined) fail() error {
	if u.owner != "" {
		return fail("'%s object' has no attribute '%s'", u.owner, clip(u.name))
	}
	return fail("'%s' is undefined", clip(u.name))
}

// bigInt holds the digits of an integer from JSON that int64 cannot; it can
// be printed and compared for equality, not computed with.
type bigInt string

// List is a Python list or tuple.
type List struct {
	Items []any
	Tuple bool
}

// Dict is a Python dict: keys in the order of their first insertion.
type Dict struct {
	keys  []any
	vals  []any
	index map[any]int
}

// NewDict makes an empty dict.
func NewDict() *Dict { return &Dict{index: map[any]int{}} }

// SetText sets a text key, for data that comes from outside a template.
func (d *Dict) SetText(m *Marks, key string, val any) { d.set(m.Plain(key), key, val) }

// set inserts or replaces; hash is what hashKey made of key.
func (d *Dict) set(hash, key, val any) {
	if i, ok := d.index[hash]; ok {
		d.vals[i] = val
		return
	}
	d.index[hash] = len(d.keys)
	d.keys = append(d.keys, key)
	d.vals = append(d.vals, val)
}

func (d *Dict) get(hash any) (any, bool) {
	i, ok := d.index[hash]
	if !ok {
		return nil, false
	}
	return d.vals[i], true
}

// namespace is the one thing that a template can change in place.
type namespace struct{ vars map[string]any }

// callable is a macro, a method or a function.
type callable interface {
	call(st *state, a *args) (any, error)
}

// args are the evaluated arguments of one call.
type args struct {
	pos    []any
	names  []string // keyword arguments in order
	kw     map[string]any
	raw    map[string]string // spelling of keyword names that came from data
	caller callable          // of a {% call %} block
}

// spelled is a keyword name with the marks it came with.
func (a *args) spelled(name string) string {
	if s, ok := a.raw[name]; ok {
		return s
	}
	return name
}

// hashKey turns a value into a Go map key that is equal when Python's keys
// are. 1, 1.0 and True are one key.
func hashKey(m *Marks, v any) (any, error) {
	switch x := v.(type) {
	case nil:
		return nil, nil
	case string:
		return m.Plain(x), nil
	case bool:
		return boolInt(x), nil
	case int64, bigInt:
		return x, nil
	case float64:
		if x == math.Trunc(x) && math.Abs(x) < 1<<53 {
			return int64(x), nil
		}
		return x, nil
	case *List:
		if x.Tuple {
			return hashTuple(m, x)
		}
	}
	return nil, fail("unhashable type: '%s'", typeName(v))
}

// hashTuple makes a text of flat tuples of texts and numbers; deeper ones are
// of no use as keys in a chat template.
func hashTuple(m *Marks, t *List) (any, error) {
	var b strings.Builder
	for _, v := range t.Items {
		h, err := hashKey(m, v)
		if err != nil {
			return nil, err
		}
		switch x := h.(type) {
		case string:
			b.WriteString(strconv.Quote(x))
		case int64:
			b.WriteString(strconv.FormatInt(x, 10))
		default:
			return nil, fail("unhashable tuple")
		}
		b.WriteByte(',')
	}
	return tupleKey(b.String()), nil
}

type tupleKey string

func boolInt(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

func typeName(v any) string {
	switch x := v.(type) {
	case nil:
		return "NoneType"
	case Undefined:
		return "Undefined"
	case bool:
		return "bool"
	case int64, bigInt:
		return "int"
	case float64:
		return "float"
	case string:
		return "str"
	case *List:
		if x.Tuple {
			return "tuple"
		}
		return "list"
	case *Dict:
		return "dict"
	case *namespace:
		return "Namespace"
	case *loop:
		return "LoopContext"
	}
	return "function"
}

func truth(v any) bool {
	switch x := v.(type) {
	case nil, Undefined:
		return false
	case bool:
		return x
	case int64:
		return x != 0
	case float64:
		return x != 0
	case string:
		return x != ""
	case *List:
		return len(x.Items) > 0
	case *Dict:
		return len(x.keys) > 0
	}
	return true
}

// number reads bools, ints and floats as a number.
func number(v any) (i int64, f float64, isInt, ok bool) {
	switch x := v.(type) {
	case bool:
		i = boolInt(x)
		return i, float64(i), true, true
	case int64:
		return x, float64(x), true, true
	case float64:
		return 0, x, false, true
	case bigInt:
		f, err := strconv.ParseFloat(string(x), 64)
		return 0, f, false, err == nil
	}
	return 0, 0, false, false
}

// floatText is Python's repr of a float.
func floatText(f float64) string {
	switch {
	case math.IsNaN(f):
		return "nan"
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	}
	e := strconv.FormatFloat(f, 'e', -1, 64)
	exp, _ := strconv.Atoi(e[strings.IndexByte(e, 'e')+1:])
	if f != 0 && (exp < -4 || exp >= 16) {
		return e
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if strings.IndexByte(s, '.') < 0 {
		s += ".0"
	}
	return s
}
