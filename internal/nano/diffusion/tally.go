package diffusion

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Rate counts solved puzzles.
type Rate struct{ Solved, Of int }

// Share is the solved part, 0 for none at all.
func (r Rate) Share() float64 {
	if r.Of == 0 {
		return 0
	}
	return float64(r.Solved) / float64(r.Of)
}

// Interval is the 95 % interval of the share (Wilson 1927), [0, 1] for no puzzle.
func (r Rate) Interval() (low, high float64) {
	if r.Of == 0 {
		return 0, 1
	}
	const z = 1.959964
	n, p := float64(r.Of), r.Share()
	middle := (p + z*z/(2*n)) / (1 + z*z/n)
	half := z / (1 + z*z/n) * math.Sqrt(p*(1-p)/n+z*z/(4*n*n))
	return max(0, middle-half), min(1, middle+half)
}

// Tally counts solved puzzles by task and number of steps. The zero value is
// empty and ready. It is not safe for concurrent use.
type Tally struct{ rates map[Task]map[int]Rate }

// Add judges the answer that a sampler gave to a puzzle after some steps.
func (t *Tally) Add(p Puzzle, steps int, answer string) {
	if t.rates == nil {
		t.rates = map[Task]map[int]Rate{}
	}
	if t.rates[p.Task] == nil {
		t.rates[p.Task] = map[int]Rate{}
	}
	r := t.rates[p.Task][steps]
	r.Of++
	if p.Check(answer).Solved {
		r.Solved++
	}
	t.rates[p.Task][steps] = r
}

// Rate is what was counted for a task and a number of steps.
func (t *Tally) Rate(task Task, steps int) Rate { return t.rates[task][steps] }

// Steps lists the numbers of steps seen, ascending.
func (t *Tally) Steps() []int {
	var out []int
	for _, rates := range t.rates {
		for steps := range rates {
			if !slices.Contains(out, steps) {
				out = append(out, steps)
			}
		}
	}
	slices.Sort(out)
	return out
}

// String is a Markdown table: tasks down, steps across, shares with their 95 %
// intervals.
func (t *Tally) String() string {
	var b strings.Builder
	b.WriteString("| task | puzzles |")
	for _, steps := range t.Steps() {
		fmt.Fprintf(&b, " %d steps |", steps)
	}
	b.WriteString("\n|" + strings.Repeat("---|", len(t.Steps())+2) + "\n")
	for _, task := range Tasks() {
		of := 0
		for _, r := range t.rates[task] {
			of = max(of, r.Of)
		}
		fmt.Fprintf(&b, "| %s | %d |", task, of)
		for _, steps := range t.Steps() {
			r := t.Rate(task, steps)
			low, high := r.Interval()
			fmt.Fprintf(&b, " %.3f (%.3f-%.3f) |", r.Share(), low, high)
		}
		b.WriteString("\n")
	}
	return b.String()
}
