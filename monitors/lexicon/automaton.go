package lexicon

import (
	"slices"
	"strings"
)

// automaton finds many phrases in one pass over the bytes of a text (Aho and
// Corasick 1975, https://doi.org/10.1145/360825.360855). A state is a number, so
// that a watcher can keep one for every token and go back to it; the Go
// libraries looked at hide theirs and search whole texts.
//
// Nodes are numbered breadth first, so the children of node n are the nodes
// from first[n] to first[n+1], in the order of their labels. A node costs 17
// bytes.
type automaton struct {
	label []byte
	first []int32
	fail  []int32 // the longest proper suffix that is a node
	out   []int32 // the phrase that ends here, -1 for none
	above []int32 // the nearest of the failure chain that ends a phrase, 0 for none
	root  [256]int32
}

// span is a run of sorted phrases that share their first bytes: a node that is
// still to be made.
type span struct{ from, to, depth int }

// newAutomaton makes the automaton of the phrases, none of them empty. Of equal
// phrases the first counts.
func newAutomaton(phrases []string) *automaton {
	order := make([]int, len(phrases))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return strings.Compare(phrases[i], phrases[j]) })
	a := &automaton{label: []byte{0}, fail: []int32{0}, out: []int32{-1}, above: []int32{0}}
	todo := []span{{0, len(order), 0}} // of node n at n
	for n := 0; n < len(todo); n++ {
		a.first = append(a.first, int32(len(todo)))
		todo = a.grow(n, todo, phrases, order)
	}
	a.first = append(a.first, int32(len(todo)))
	return a
}

// grow makes the children of node n. All shorter nodes are complete, so the
// failure links can be followed.
func (a *automaton) grow(n int, todo []span, phrases []string, order []int) []span {
	s := todo[n]
	for i := s.from; i < s.to; {
		p := phrases[order[i]]
		if len(p) == s.depth { // ends here: it was noted when n was made
			i++
			continue
		}
		b := p[s.depth]
		j := i + 1
		for j < s.to && phrases[order[j]][s.depth] == b {
			j++
		}
		a.add(n, b)
		if q := order[i]; len(phrases[q]) == s.depth+1 {
			a.out[len(a.out)-1] = int32(q)
		}
		todo = append(todo, span{i, j, s.depth + 1})
		i = j
	}
	return todo
}

// add appends a child of n.
func (a *automaton) add(n int, b byte) {
	child := int32(len(a.label))
	fail := int32(0)
	if n != 0 {
		fail = a.step(a.fail[n], b)
	} else {
		a.root[b] = child
	}
	above := fail
	if a.out[fail] < 0 {
		above = a.above[fail]
	}
	a.label, a.fail = append(a.label, b), append(a.fail, fail)
	a.out, a.above = append(a.out, -1), append(a.above, above)
}

// step follows one byte from a state.
func (a *automaton) step(n int32, b byte) int32 {
	for n != 0 {
		if c := a.child(n, b); c != 0 {
			return c
		}
		n = a.fail[n]
	}
	return a.root[b]
}

func (a *automaton) child(n int32, b byte) int32 {
	lo := a.first[n]
	if at, ok := slices.BinarySearch(a.label[lo:a.first[n+1]], b); ok {
		return lo + int32(at)
	}
	return 0
}
