package perceiver

import (
	"math"
	"slices"
	"testing"
)

// every calls f with each state of n principles.
func every(n int, f func(State)) {
	s := make(State, n)
	var walk func(int)
	walk = func(i int) {
		if i == n {
			f(slices.Clone(s))
			return
		}
		for x := Sign(-1); x <= 1; x++ {
			s[i] = x
			walk(i + 1)
		}
	}
	walk(0)
}

// TestFeasible holds the rule of the paper, written for three principles.
func TestFeasible(t *testing.T) {
	every(3, func(s State) {
		want := (s[1] != 1 || s[0] != 0) && (s[2] != 1 || s[0] != 0 && s[1] != 0)
		if s.Feasible() != want {
			t.Errorf("(%s): feasible is %v", s, !want)
		}
	})
	if (State{2, 0, 0}).Feasible() || (State{0, -2, 0}).Feasible() {
		t.Error("a sign that there is not is feasible")
	}
}

// TestNearest is judged by trying all states.
func TestNearest(t *testing.T) {
	for n := 1; n <= 5; n++ {
		every(n, func(s State) {
			got := s.Nearest()
			if !got.Feasible() {
				t.Fatalf("(%s): (%s) is not feasible", s, got)
			}
			least := math.MaxInt
			every(n, func(o State) {
				if o.Feasible() {
					least = min(least, apart(s, o))
				}
			})
			if apart(s, got) != least || s.Feasible() && !slices.Equal(s, got) {
				t.Fatalf("(%s): (%s) is %d away, the nearest %d", s, got, apart(s, got), least)
			}
			if (s.Violated() < 0) != (got.Violated() < 0) {
				t.Fatalf("(%s) became (%s): a violation came or went", s, got)
			}
		})
	}
	for _, c := range []struct{ in, want State }{
		{State{0, 1, 0}, State{0, 0, 0}}, {State{0, 1, 1}, State{1, 1, 1}}, {State{1, 0, 1}, State{1, 0, 0}}, {State{0, -1, 1}, State{0, -1, 0}},
	} {
		if got := c.in.Nearest(); !slices.Equal(got, c.want) {
			t.Errorf("(%s) became (%s), want (%s)", c.in, got, c.want)
		}
	}
	long := State{0, 1, 0, 0, 0, 0, 0, 0, 0}
	if !slices.Equal(long.Nearest(), long) {
		t.Error("a state past the limit was changed")
	}
}

func apart(a, b State) (sum int) {
	for i := range a {
		d := int(a[i]) - int(b[i])
		sum += d * d
	}
	return sum
}

func TestViolated(t *testing.T) {
	for _, c := range []struct {
		s    State
		want int
	}{{State{0, 0, 0}, -1}, {State{1, 1, -1}, 2}, {State{1, -1, -1}, 1}, {nil, -1}} {
		if got := c.s.Violated(); got != c.want {
			t.Errorf("(%s): %d, want %d", c.s, got, c.want)
		}
	}
}
