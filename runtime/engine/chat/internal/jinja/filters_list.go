package jinja

import "strings"

// listFilters take anything that can be iterated.
func listFilters() map[string]filterFunc {
	return map[string]filterFunc{
		"first": filterFirst, "last": filterLast, "list": filterList, "join": filterJoin,
		"reverse": filterReverse, "sort": filterSort, "unique": filterUnique, "sum": filterSum,
		"min": filterExtreme(-1), "max": filterExtreme(1), "items": filterItems, "dictsort": filterDictSort,
		"select": filterSelect(true, false), "reject": filterSelect(false, false),
		"selectattr": filterSelect(true, true), "rejectattr": filterSelect(false, true),
		"batch": filterBatch, "slice": filterSlice, "groupby": filterGroup, "attr": filterAttr,
	}
}

// copied iterates x and pays for a list of the same length.
func (st *state) copied(x any) ([]any, error) {
	items, err := st.iterate(x)
	if err != nil {
		return nil, err
	}
	if err := st.slots(len(items)); err != nil {
		return nil, err
	}
	return append([]any{}, items...), nil
}

// copiedIfTrue lets map and select take none, as Jinja2 does.
func (st *state) copiedIfTrue(x any) ([]any, error) {
	if !truth(x) {
		return []any{}, nil
	}
	return st.copied(x)
}

func filterFirst(st *state, x any, _ *args) (any, error) {
	items, err := st.iterate(x)
	if err != nil || len(items) == 0 {
		return Undefined{name: "first item of an empty sequence"}, err
	}
	return items[0], nil
}

func filterLast(st *state, x any, _ *args) (any, error) {
	items, err := st.iterate(x)
	if err != nil || len(items) == 0 {
		return Undefined{name: "last item of an empty sequence"}, err
	}
	return items[len(items)-1], nil
}

func filterList(st *state, x any, _ *args) (any, error) {
	items, err := st.copied(x)
	return &List{Items: items}, err
}

func filterJoin(st *state, x any, a *args) (any, error) {
	items, err := st.copied(x)
	if err != nil {
		return nil, err
	}
	sep := ""
	if v := a.value(0, "d"); v != nil {
		if sep, err = st.str(v); err != nil {
			return nil, err
		}
	}
	if path := a.value(1, "attribute"); path != nil {
		if items, err = st.attrs(items, path, nil); err != nil {
			return nil, err
		}
	}
	return st.join(items, sep)
}

// join is sep.join(str(item) for item in items).
func (st *state) join(items []any, sep string) (any, error) {
	var b strings.Builder
	for i, it := range items {
		s, err := st.str(it)
		if err != nil {
			return nil, err
		}
		if err := st.bytes(len(s) + len(sep)); err != nil {
			return nil, err
		}
		if i > 0 {
			b.WriteString(sep)
		}
		b.WriteString(s)
	}
	return b.String(), nil
}

func filterReverse(st *state, x any, _ *args) (any, error) {
	items, err := st.copied(x)
	if err != nil {
		return nil, err
	}
	for i, j := 0, len(items)-1; i < j; i, j = i+1, j-1 {
		items[i], items[j] = items[j], items[i]
	}
	if _, ok := x.(string); ok {
		return filterJoin(st, &List{Items: items}, &args{})
	}
	return &List{Items: items}, nil
}

// path follows "a.b.0" from x; a missing step gives def, if there is one.
func (st *state) path(x, path, def any) (any, error) {
	s, ok := path.(string)
	if !ok {
		return st.item(x, path)
	}
	for part := range strings.SplitSeq(st.plain(s), ".") {
		var key any = part
		if i, err := intText(part); err == nil {
			key = i
		}
		var err error
		if x, err = st.item(x, key); err != nil {
			return nil, err
		}
		if _, missing := x.(Undefined); missing && def != nil {
			return def, nil
		}
	}
	return x, nil
}

func (st *state) attrs(items []any, path, def any) ([]any, error) {
	out := make([]any, len(items))
	for i, it := range items {
		var err error
		if out[i], err = st.path(it, path, def); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// filterMap applies a filter to each item, or takes an attribute of each.
func filterMap(st *state, x any, a *args) (any, error) {
	items, err := st.copiedIfTrue(x)
	if err != nil {
		return nil, err
	}
	if path, ok := a.kw["attribute"]; ok && len(a.pos) == 0 {
		items, err = st.attrs(items, path, a.kw["default"])
		return &List{Items: items}, err
	}
	if len(a.pos) == 0 {
		return nil, fail("map requires a filter argument")
	}
	name, _ := a.pos[0].(string)
	rest := &args{pos: a.pos[1:], names: a.names, kw: a.kw}
	for i, it := range items {
		if err := st.enter(0); err != nil {
			return nil, err
		}
		items[i], err = st.filter(st.plain(name), it, rest)
		st.leave()
		if err != nil {
			return nil, err
		}
	}
	return &List{Items: items}, nil
}

// filterSelect keeps the items for which a test on them, or on an attribute
// of them, says keep.
func filterSelect(keep, byAttr bool) filterFunc {
	return func(st *state, x any, a *args) (any, error) {
		items, err := st.copiedIfTrue(x)
		if err != nil {
			return nil, err
		}
		pos, path := a.pos, any(nil)
		if byAttr {
			if len(pos) == 0 {
				return nil, fail("selectattr needs an attribute")
			}
			path, pos = pos[0], pos[1:]
		}
		kept := []any{}
		for _, it := range items {
			ok, err := st.passes(it, path, pos)
			if err != nil {
				return nil, err
			}
			if ok == keep {
				kept = append(kept, it)
			}
		}
		return &List{Items: kept}, nil
	}
}

// passes applies the test pos[0] with the arguments after it; no test asks
// for truth.
func (st *state) passes(it, path any, pos []any) (bool, error) {
	if path != nil {
		var err error
		if it, err = st.path(it, path, nil); err != nil {
			return false, err
		}
	}
	if len(pos) == 0 {
		return truth(it), st.spend(1)
	}
	name, _ := pos[0].(string)
	if err := st.spend(1); err != nil {
		return false, err
	}
	return st.test(st.plain(name), it, &args{pos: pos[1:]})
}

func filterSort(st *state, x any, a *args) (any, error) {
	items, err := st.copied(x)
	if err != nil {
		return nil, err
	}
	keys := items
	if path := a.value(2, "attribute"); path != nil {
		if keys, err = st.attrs(items, path, nil); err != nil {
			return nil, err
		}
	}
	order, err := st.sorted(keys, truth(a.value(0, "reverse")), truth(a.value(1, "case_sensitive")))
	if err != nil {
		return nil, err
	}
	return &List{Items: take(items, order)}, nil
}

// sorted gives the order of the keys as indices.
func (st *state) sorted(keys []any, reverse, exact bool) ([]int, error) {
	order := make([]int, len(keys))
	for i := range order {
		order[i] = i
	}
	return order, st.sortBy(order, func(i int) any { return keys[i] }, reverse, exact)
}

func take(items []any, order []int) []any {
	out := make([]any, len(order))
	for i, j := range order {
		out[i] = items[j]
	}
	return out
}

func filterUnique(st *state, x any, a *args) (any, error) {
	items, err := st.copied(x)
	if err != nil {
		return nil, err
	}
	keys := items
	if path := a.value(1, "attribute"); path != nil {
		if keys, err = st.attrs(items, path, nil); err != nil {
			return nil, err
		}
	}
	seen, kept := map[any]bool{}, []any{}
	for i, k := range keys {
		if s, ok := k.(string); ok && !truth(a.value(0, "case_sensitive")) {
			k = lower(s)
		}
		h, err := hashKey(st.marks, k)
		if err != nil {
			return nil, err
		}
		if !seen[h] {
			seen[h] = true
			kept = append(kept, items[i])
		}
	}
	return &List{Items: kept}, nil
}

func filterSum(st *state, x any, a *args) (any, error) {
	items, err := st.copied(x)
	if err != nil {
		return nil, err
	}
	if path := a.value(0, "attribute"); path != nil {
		if items, err = st.attrs(items, path, nil); err != nil {
			return nil, err
		}
	}
	var total any = int64(0)
	if v := a.value(1, "start"); v != nil {
		total = v
	}
	for _, it := range items {
		if total, err = st.binary("+", total, it); err != nil {
			return nil, err
		}
	}
	return total, nil
}

func filterExtreme(side int) filterFunc {
	return func(st *state, x any, a *args) (any, error) {
		items, err := st.copied(x)
		if err != nil || len(items) == 0 {
			return Undefined{name: "no aggregated item, sequence was empty"}, err
		}
		keys := items
		if path := a.value(1, "attribute"); path != nil {
			if keys, err = st.attrs(items, path, nil); err != nil {
				return nil, err
			}
		}
		order, err := st.sorted(keys, side > 0, truth(a.value(0, "case_sensitive")))
		if err != nil {
			return nil, err
		}
		return items[order[0]], nil
	}
}

func filterItems(_ *state, x any, _ *args) (any, error) {
	switch d := x.(type) {
	case Undefined:
		return &List{}, nil
	case *Dict:
		return pairs(d), nil
	}
	return nil, fail("can only get item pairs from a mapping")
}

func filterDictSort(st *state, x any, a *args) (any, error) {
	d, ok := x.(*Dict)
	if !ok {
		return nil, fail("dictsort needs a mapping, not %s", typeName(x))
	}
	keys := d.keys
	switch by := a.value(1, "by"); by {
	case nil, "key":
	case "value":
		keys = d.vals
	default:
		return nil, fail("dictsort: by must be 'key' or 'value'")
	}
	order, err := st.sorted(keys, truth(a.value(2, "reverse")), truth(a.value(0, "case_sensitive")))
	if err != nil {
		return nil, err
	}
	return &List{Items: take(pairs(d).Items, order)}, st.slots(len(order))
}

func filterBatch(st *state, x any, a *args) (any, error) {
	items, err := st.copied(x)
	if err != nil {
		return nil, err
	}
	n, _, isInt, ok := number(a.value(0, "linecount"))
	if !ok || !isInt || n < 1 || n > maxRange {
		return nil, fail("batch needs a positive number")
	}
	out := &List{}
	for len(items) > 0 {
		k := min(int(n), len(items))
		row := items[:k:k]
		for fill := a.value(1, "fill_with"); fill != nil && len(row) < int(n); {
			row = append(row, fill)
		}
		out.Items, items = append(out.Items, &List{Items: row}), items[k:]
	}
	return out, st.slots(int(n))
}

func filterSlice(st *state, x any, a *args) (any, error) {
	items, err := st.copied(x)
	if err != nil {
		return nil, err
	}
	n, _, isInt, ok := number(a.value(0, "slices"))
	if !ok || !isInt || n < 1 || n > maxRange {
		return nil, fail("slice needs a positive number")
	}
	per, extra := len(items)/int(n), len(items)%int(n)
	out, fill := &List{}, a.value(1, "fill_with")
	for i := range int(n) {
		k := per
		if i < extra {
			k++
		}
		row := items[:k:k]
		if fill != nil && i >= extra && extra > 0 {
			row = append(row, fill)
		}
		out.Items, items = append(out.Items, &List{Items: row}), items[k:]
	}
	return out, st.slots(int(n))
}

func filterGroup(st *state, x any, a *args) (any, error) {
	items, err := st.copied(x)
	if err != nil {
		return nil, err
	}
	keys, err := st.attrs(items, a.value(0, "attribute"), a.value(1, "default"))
	if err != nil {
		return nil, err
	}
	order, err := st.sorted(keys, false, truth(a.value(2, "case_sensitive")))
	if err != nil {
		return nil, err
	}
	out := &List{}
	var group *List
	for n, i := range order {
		same := false
		if n > 0 {
			if same, err = st.equal(keys[order[n-1]], keys[i]); err != nil {
				return nil, err
			}
		}
		if !same {
			group = &List{}
			out.Items = append(out.Items, &List{Items: []any{keys[i], group}, Tuple: true})
		}
		group.Items = append(group.Items, items[i])
	}
	return out, nil
}

func filterAttr(st *state, x any, a *args) (any, error) {
	name, _ := a.value(0, "name").(string)
	if v, ok := attribute(x, st.plain(name)); ok {
		return v, nil
	}
	return missing(x, name), nil
}
