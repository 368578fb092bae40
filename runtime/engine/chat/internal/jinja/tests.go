package jinja

import "unicode"

// test answers "x is name(args)".
func (st *state) test(name string, x any, a *args) (bool, error) {
	if f, ok := kindTests[name]; ok {
		return f(x), nil
	}
	switch name {
	case "eq", "equalto", "==":
		return st.compareTest("==", x, a)
	case "ne", "!=":
		return st.compareTest("!=", x, a)
	case "lt", "lessthan", "<":
		return st.compareTest("<", x, a)
	case "le", "<=":
		return st.compareTest("<=", x, a)
	case "gt", "greaterthan", ">":
		return st.compareTest(">", x, a)
	case "ge", ">=":
		return st.compareTest(">=", x, a)
	case "in":
		return st.compareTest("in", x, a)
	case "sameas":
		return len(a.pos) == 1 && same(x, a.pos[0]), nil
	case "odd", "even", "divisibleby":
		return divisible(name, x, a)
	case "lower", "upper":
		return st.cased(name, x)
	case "filter", "test":
		return st.knows(name, x)
	}
	return false, fail("no test named '%s'", clip(name))
}

var kindTests = map[string]func(any) bool{
	"defined":   func(v any) bool { _, u := v.(Undefined); return !u },
	"undefined": func(v any) bool { _, u := v.(Undefined); return u },
	"none":      func(v any) bool { return v == nil },
	"boolean":   func(v any) bool { _, ok := v.(bool); return ok },
	"true":      func(v any) bool { return v == true },
	"false":     func(v any) bool { return v == false },
	"string":    func(v any) bool { _, ok := v.(string); return ok },
	"mapping":   func(v any) bool { _, ok := v.(*Dict); return ok },
	"number":    func(v any) bool { _, _, _, ok := number(v); return ok },
	"float":     func(v any) bool { _, ok := v.(float64); return ok },
	"callable":  isCallable,
	"escaped":   func(any) bool { return false },
	"iterable":  isSequence,
	"sequence":  isSequence,
	"integer": func(v any) bool {
		switch v.(type) {
		case int64, bigInt:
			return true
		}
		return false
	},
}

// isCallable: an undefined value has a __call__, the one that fails.
func isCallable(v any) bool {
	switch v.(type) {
	case callable, Undefined:
		return true
	}
	return false
}

// isSequence counts the undefined value too: it has a length, 0.
func isSequence(v any) bool {
	switch v.(type) {
	case string, *List, *Dict, Undefined:
		return true
	}
	return false
}

func (st *state) compareTest(op string, x any, a *args) (bool, error) {
	if len(a.pos) != 1 {
		return false, fail("test '%s' needs one argument", op)
	}
	return st.compare(op, x, a.pos[0])
}

// same is Python's "is". Small values have one identity each.
func same(x, y any) bool {
	switch x.(type) {
	case nil, bool, int64, string, *List, *Dict, *namespace, *loop, callable:
		return x == y
	}
	return false
}

func divisible(name string, x any, a *args) (bool, error) {
	i, _, isInt, ok := number(x)
	if !ok || !isInt {
		return false, badOperand("%", x)
	}
	n := int64(2)
	if name == "divisibleby" {
		if n, _, isInt, ok = number(a.value(0, "num")); !ok || !isInt || n == 0 {
			return false, fail("divisibleby needs a number other than zero")
		}
	}
	if name == "odd" {
		return i%n != 0, nil
	}
	return i%n == 0, nil
}

// cased is str.islower or str.isupper.
func (st *state) cased(name string, x any) (bool, error) {
	s, err := st.str(x)
	if err != nil {
		return false, err
	}
	return isCased(s, name == "upper"), st.bytes(len(s))
}

func isCased(s string, wantUpper bool) bool {
	seen := false
	for _, r := range s {
		up, low := unicode.IsUpper(r) || unicode.IsTitle(r), unicode.IsLower(r)
		if wantUpper && low || !wantUpper && up {
			return false
		}
		seen = seen || up || low
	}
	return seen
}

func (st *state) knows(kind string, x any) (bool, error) {
	s, ok := x.(string)
	if !ok {
		return false, nil
	}
	if kind == "filter" {
		_, ok = filterTable()[st.plain(s)]
		return ok || st.plain(s) == "map", nil
	}
	_, ok = kindTests[st.plain(s)]
	return ok, nil
}
