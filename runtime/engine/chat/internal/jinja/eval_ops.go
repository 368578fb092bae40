package jinja

import (
	"math"
	"math/bits"
	"strings"
	"unicode/utf8"
)

func (e *unaryExpr) eval(st *state, sc *scope) (any, error) {
	x, err := st.eval(e.x, sc)
	if err != nil {
		return nil, err
	}
	if e.op == "not" {
		return !truth(x), nil
	}
	i, f, isInt, ok := number(x)
	switch {
	case !ok:
		return nil, badOperand(e.op, x)
	case e.op == "-" && isInt:
		return -i, nil
	case e.op == "-":
		return -f, nil
	case isInt:
		return i, nil
	}
	return f, nil
}

func badOperand(op string, xs ...any) error {
	var kinds []string
	for _, x := range xs {
		if u, ok := x.(Undefined); ok {
			return u.fail()
		}
		kinds = append(kinds, "'"+typeName(x)+"'")
	}
	return fail("unsupported operand type(s) for %s: %s", op, strings.Join(kinds, " and "))
}

func (e *binaryExpr) eval(st *state, sc *scope) (any, error) {
	a, err := st.eval(e.a, sc)
	if err != nil {
		return nil, err
	}
	b, err := st.eval(e.b, sc)
	if err != nil {
		return nil, err
	}
	return st.binary(e.op, a, b)
}

func (st *state) binary(op string, a, b any) (any, error) {
	switch op {
	case "~":
		return st.concat(a, b)
	case "+":
		if v, ok, err := st.add(a, b); ok {
			return v, err
		}
	case "*":
		if v, ok, err := st.repeat(a, b); ok {
			return v, err
		}
		if v, ok, err := st.repeat(b, a); ok {
			return v, err
		}
	case "%":
		if s, ok := a.(string); ok {
			return st.percent(s, b)
		}
	}
	i, f, isInt, ok := number(a)
	j, g, isInt2, ok2 := number(b)
	if !ok || !ok2 {
		return nil, badOperand(op, a, b)
	}
	if isInt && isInt2 {
		return intOp(op, i, j)
	}
	return floatOp(op, f, g)
}

func (st *state) concat(a, b any) (any, error) {
	x, err := st.str(a)
	if err != nil {
		return nil, err
	}
	y, err := st.str(b)
	if err != nil {
		return nil, err
	}
	if err := st.bytes(len(x) + len(y)); err != nil {
		return nil, err
	}
	return x + y, nil
}

// add joins texts and lists; ok is false for anything else.
func (st *state) add(a, b any) (v any, ok bool, err error) {
	if x, ok := a.(string); ok {
		y, ok := b.(string)
		if !ok {
			return nil, false, nil
		}
		if err := st.bytes(len(x) + len(y)); err != nil {
			return nil, true, err
		}
		return x + y, true, nil
	}
	x, ok := a.(*List)
	y, ok2 := b.(*List)
	if !ok || !ok2 || x.Tuple != y.Tuple {
		return nil, false, nil
	}
	if err := st.slots(len(x.Items) + len(y.Items)); err != nil {
		return nil, true, err
	}
	items := append(append(make([]any, 0, len(x.Items)+len(y.Items)), x.Items...), y.Items...)
	return &List{Items: items, Tuple: x.Tuple}, true, nil
}

// repeat is text*n and list*n; ok is false for anything else.
func (st *state) repeat(a, n any) (v any, ok bool, err error) {
	i, _, isInt, isNum := number(n)
	if !isNum || !isInt {
		return nil, false, nil
	}
	count := int(max(0, min(i, math.MaxInt32)))
	switch x := a.(type) {
	case string:
		if err := st.bytes(satMul(len(x), count)); err != nil {
			return nil, true, err
		}
		return strings.Repeat(x, count), true, nil
	case *List:
		if err := st.slots(satMul(len(x.Items), count)); err != nil {
			return nil, true, err
		}
		items := []any{}
		for range count {
			if len(x.Items) == 0 {
				break
			}
			items = append(items, x.Items...)
		}
		return &List{Items: items, Tuple: x.Tuple}, true, nil
	}
	return nil, false, nil
}

// satMul multiplies sizes, staying far below overflow of later sums.
func satMul(a, b int) int {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	if hi != 0 || lo > math.MaxInt32 {
		return math.MaxInt32
	}
	return int(lo)
}

func intOp(op string, i, j int64) (any, error) {
	var v int64
	ok := true
	switch op {
	case "+":
		v = i + j
		ok = (v > i) == (j > 0)
	case "-":
		v = i - j
		ok = (v < i) == (j > 0)
	case "*":
		v = i * j
		ok = i == 0 || v/i == j && !(i == -1 && j == math.MinInt64)
	case "**":
		return intPower(i, j)
	default:
		return intDivide(op, i, j)
	}
	if !ok {
		return nil, fail("integer overflow in %d %s %d", i, op, j)
	}
	return v, nil
}

func intDivide(op string, i, j int64) (any, error) {
	if j == 0 {
		return nil, fail("division by zero")
	}
	if op == "/" {
		return float64(i) / float64(j), nil
	}
	if j == -1 { // the one quotient that overflows
		if i == math.MinInt64 {
			return nil, fail("integer overflow in %d %s %d", i, op, j)
		}
		if op == "%" {
			return int64(0), nil
		}
		return -i, nil
	}
	q, r := i/j, i%j
	if r != 0 && (r < 0) != (j < 0) { // Python rounds down
		q, r = q-1, r+j
	}
	if op == "%" {
		return r, nil
	}
	return q, nil
}

func intPower(i, j int64) (any, error) {
	if j < 0 {
		return floatOp("**", float64(i), float64(j))
	}
	v := int64(1)
	for ; j > 0 && v != 0 && i != 1; j-- {
		if i == -1 {
			return 1 - 2*(j%2), nil
		}
		next, err := intOp("*", v, i)
		if err != nil {
			return nil, err
		}
		v, _ = next.(int64)
	}
	return v, nil
}

func floatOp(op string, f, g float64) (any, error) {
	if g == 0 && (op == "/" || op == "//" || op == "%") {
		return nil, fail("float division by zero")
	}
	switch op {
	case "+":
		return f + g, nil
	case "-":
		return f - g, nil
	case "*":
		return f * g, nil
	case "/":
		return f / g, nil
	case "//":
		return math.Floor(f / g), nil
	case "%":
		r := math.Mod(f, g)
		if r != 0 && (r < 0) != (g < 0) {
			r += g
		}
		return r, nil
	}
	return math.Pow(f, g), nil
}

// iterate lists what a for loop would see.
func (st *state) iterate(v any) ([]any, error) {
	switch x := v.(type) {
	case Undefined:
		return nil, nil
	case *List:
		return x.Items, nil
	case *Dict:
		return x.keys, nil
	case string:
		if err := st.slots(len(x)); err != nil {
			return nil, err
		}
		items := make([]any, 0, len(x))
		for i := 0; i < len(x); {
			_, n := utf8.DecodeRuneInString(x[i:])
			items = append(items, x[i:i+n])
			i += n
		}
		return items, nil
	}
	return nil, fail("'%s' object is not iterable", typeName(v))
}

// length is Python's len().
func (st *state) length(v any) (int64, error) {
	switch x := v.(type) {
	case Undefined:
		return 0, nil
	case string:
		return int64(utf8.RuneCountInString(x)), st.bytes(len(x))
	case *List:
		return int64(len(x.Items)), nil
	case *Dict:
		return int64(len(x.keys)), nil
	case *loop:
		return int64(len(x.items)), nil
	}
	return 0, fail("object of type '%s' has no len()", typeName(v))
}

func (e *sliceExpr) eval(st *state, sc *scope) (any, error) {
	x, err := st.eval(e.x, sc)
	if err != nil {
		return nil, err
	}
	var bounds [3]any
	for i, b := range []expr{e.from, e.to, e.step} {
		if b != nil {
			if bounds[i], err = st.eval(b, sc); err != nil {
				return nil, err
			}
		}
	}
	return st.slice(x, bounds)
}

func (st *state) slice(x any, bounds [3]any) (any, error) {
	switch c := x.(type) {
	case Undefined:
		return nil, c.fail()
	case *List:
		items, err := st.pick(c.Items, bounds)
		return &List{Items: items, Tuple: c.Tuple}, err
	case string:
		chars, err := st.iterate(c)
		if err != nil {
			return nil, err
		}
		if chars, err = st.pick(chars, bounds); err != nil {
			return nil, err
		}
		var b strings.Builder
		for _, ch := range chars {
			s, _ := ch.(string)
			b.WriteString(s)
		}
		return b.String(), nil
	}
	return Undefined{name: "slice", owner: typeName(x)}, nil
}

// pick is Python's items[from:to:step].
func (st *state) pick(items []any, bounds [3]any) ([]any, error) {
	if err := st.slots(len(items)); err != nil {
		return nil, err
	}
	n, step := int64(len(items)), int64(1)
	if bounds[2] != nil {
		i, _, isInt, ok := number(bounds[2])
		if !ok || !isInt || i == 0 {
			return nil, fail("slice step must be an integer other than zero")
		}
		step = i
	}
	low, high := int64(0), n
	if step < 0 {
		low, high = -1, n-1
	}
	from, err := sliceBound(bounds[0], n, low, high, step > 0)
	if err != nil {
		return nil, err
	}
	to, err := sliceBound(bounds[1], n, low, high, step < 0)
	if err != nil {
		return nil, err
	}
	out := []any{}
	for i := from; step > 0 && i < to || step < 0 && i > to; {
		out = append(out, items[i])
		if step > n || step < -n {
			break
		}
		i += step
	}
	return out, nil
}

// sliceBound clamps one bound to low..high; a missing one is low or high.
func sliceBound(v any, n, low, high int64, missingLow bool) (int64, error) {
	if v == nil {
		if missingLow {
			return low, nil
		}
		return high, nil
	}
	i, _, isInt, ok := number(v)
	if !ok || !isInt {
		return 0, fail("slice indices must be integers, not %s", typeName(v))
	}
	if i < 0 {
		i += n
	}
	return max(low, min(i, high)), nil
}
