package perceiver

import (
	"strconv"
	"strings"
)

// Sign is what the perceiver says of one principle: -1 violated, 0 not at
// stake, 1 served.
type Sign int8

// State holds one sign for each principle, the highest rank first.
type State []Sign

func (s State) String() string {
	words := make([]string, len(s))
	for i, x := range s {
		words[i] = strconv.Itoa(int(x))
	}
	return strings.Join(words, " ")
}

// Feasible reports whether the state can be: a principle is served only when
// none of higher rank is left out of account, so a 1 stands behind no 0. Signs
// other than -1, 0 and 1 are not feasible.
func (s State) Feasible() bool {
	open := false // a higher principle is 0
	for _, x := range s {
		if x < -1 || x > 1 || x == 1 && open {
			return false
		}
		open = open || x == 0
	}
	return true
}

// Violated is the highest-ranked principle with a -1, and -1 when there is none.
func (s State) Violated() int {
	for i, x := range s {
		if x == -1 {
			return i
		}
	}
	return -1
}

// Nearest is the feasible state with the least Euclidean distance. Among equals
// it is the one that changes the highest ranks least, so a principle of low rank
// gives way and no violation is made up: (0, 1, 0) becomes (0, 0, 0). States
// longer than MaxPrinciples are returned as they are.
func (s State) Nearest() State {
	if s.Feasible() || len(s) > MaxPrinciples {
		return s
	}
	best, least := State(nil), 0
	try := make(State, len(s))
	var walk func(i, cost int)
	walk = func(i, cost int) {
		if best != nil && cost >= least {
			return // the first of equals changed the highest ranks least
		}
		if i == len(s) {
			best, least = append(best[:0], try...), cost
			return
		}
		for _, x := range nearby(s[i]) {
			try[i] = x
			if !try[:i+1].Feasible() {
				continue
			}
			d := int(s[i]) - int(x)
			walk(i+1, cost+d*d)
		}
	}
	walk(0, 0)
	return best
}

// nearby are the signs from the nearest to the farthest.
func nearby(x Sign) [3]Sign {
	switch {
	case x <= -1:
		return [3]Sign{-1, 0, 1}
	case x == 0:
		return [3]Sign{0, 1, -1}
	}
	return [3]Sign{1, 0, -1}
}
