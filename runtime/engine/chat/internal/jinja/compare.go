package jinja

import (
	"sort"
	"strings"
)

// equal is Python's ==.
func (st *state) equal(a, b any) (bool, error) {
	if err := st.enter(0); err != nil {
		return false, err
	}
	defer st.leave()
	switch x := a.(type) {
	case nil:
		return b == nil, nil
	case Undefined:
		_, ok := b.(Undefined)
		return ok, nil
	case string:
		y, ok := b.(string)
		if !ok || len(x) != len(y) {
			return false, nil
		}
		return st.plain(x) == st.plain(y), st.bytes(len(x))
	case *List:
		y, ok := b.(*List)
		if !ok || x.Tuple != y.Tuple || len(x.Items) != len(y.Items) {
			return false, nil
		}
		return st.equalItems(x.Items, y.Items)
	case *Dict:
		y, ok := b.(*Dict)
		if !ok {
			return false, nil
		}
		return st.equalDicts(x, y)
	case bigInt:
		return b == a, nil
	}
	return equalNumbers(a, b), nil
}

func (st *state) equalItems(x, y []any) (bool, error) {
	for i := range x {
		if eq, err := st.equal(x[i], y[i]); err != nil || !eq {
			return false, err
		}
	}
	return true, nil
}

func equalNumbers(a, b any) bool {
	i, f, isInt, ok := number(a)
	j, g, isInt2, ok2 := number(b)
	if !ok || !ok2 {
		return !ok && !ok2 && a == b // functions, namespaces: identity
	}
	if isInt && isInt2 {
		return i == j
	}
	return f == g
}

func (st *state) equalDicts(x, y *Dict) (bool, error) {
	if len(x.keys) != len(y.keys) {
		return false, nil
	}
	for i, k := range x.keys {
		h, err := hashKey(st.marks, k)
		if err != nil {
			return false, err
		}
		v, ok := y.get(h)
		if !ok {
			return false, nil
		}
		if eq, err := st.equal(x.vals[i], v); err != nil || !eq {
			return false, err
		}
	}
	return true, nil
}

// order is Python's <, as -1, 0 or 1; values of different kinds have none.
func (st *state) order(a, b any) (int, error) {
	if err := st.enter(0); err != nil {
		return 0, err
	}
	defer st.leave()
	if x, ok := a.(string); ok {
		if y, ok := b.(string); ok {
			return strings.Compare(st.plain(x), st.plain(y)), st.bytes(min(len(x), len(y)))
		}
	}
	i, f, isInt, ok := number(a)
	j, g, isInt2, ok2 := number(b)
	switch {
	case ok && ok2 && isInt && isInt2:
		return sign(i < j, i > j), nil
	case ok && ok2:
		return sign(f < g, f > g), nil
	}
	x, ok := a.(*List)
	y, ok2 := b.(*List)
	if ok && ok2 && x.Tuple == y.Tuple {
		return st.orderLists(x.Items, y.Items)
	}
	if u, ok := a.(Undefined); ok {
		return 0, u.fail()
	}
	if u, ok := b.(Undefined); ok {
		return 0, u.fail()
	}
	return 0, fail("cannot order '%s' and '%s'", typeName(a), typeName(b))
}

func sign(less, more bool) int { return int(boolInt(more) - boolInt(less)) }

func (st *state) orderLists(x, y []any) (int, error) {
	for i := 0; i < len(x) && i < len(y); i++ {
		if eq, err := st.equal(x[i], y[i]); err != nil {
			return 0, err
		} else if !eq {
			return st.order(x[i], y[i])
		}
	}
	return sign(len(x) < len(y), len(x) > len(y)), nil
}

// contains is Python's "x in box".
func (st *state) contains(box, x any) (bool, error) {
	switch c := box.(type) {
	case string:
		s, ok := x.(string)
		if !ok {
			return false, fail("'in <string>' requires string as left operand, not %s", typeName(x))
		}
		return strings.Contains(st.plain(c), st.plain(s)), st.bytes(len(c) + len(s))
	case *Dict:
		h, err := hashKey(st.marks, x)
		if err != nil {
			return false, err
		}
		_, ok := c.get(h)
		return ok, nil
	}
	items, err := st.iterate(box)
	if err != nil {
		return false, err
	}
	for _, v := range items {
		if eq, err := st.equal(x, v); err != nil || eq {
			return eq, err
		}
	}
	return false, nil
}

// sortBy sorts xs in place, stably, by Python's order of their keys; without
// exact, texts are compared in lower case.
func (st *state) sortBy(xs []int, key func(int) any, reverse, exact bool) error {
	keys := make(map[int]any, len(xs))
	for _, x := range xs {
		k := key(x)
		if s, ok := k.(string); ok && !exact {
			k = lower(s)
		}
		keys[x] = k
	}
	var failed error
	sort.SliceStable(xs, func(i, j int) bool {
		if failed != nil {
			return false
		}
		if reverse {
			i, j = j, i
		}
		c, err := st.order(keys[xs[i]], keys[xs[j]])
		failed = err
		return c < 0
	})
	return failed
}
