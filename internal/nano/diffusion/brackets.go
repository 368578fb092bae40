package diffusion

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// The kinds of brackets; the closing one stands at the index of its opening one.
const (
	opening = "([{"
	closing = ")]}"
)

// brackets returns a writer of balanced texts of n brackets: the shape uniform
// over all balanced shapes, every pair of a random kind.
func brackets(n int) func(*rand.Rand) string {
	return func(r *rand.Rand) string {
		text := make([]byte, 0, n)
		var open []int
		for len(text) < n {
			if closes(r, len(open), n-len(text)) {
				last := len(open) - 1
				text = append(text, closing[open[last]])
				open = open[:last]
				continue
			}
			kind := r.IntN(len(opening))
			text = append(text, opening[kind])
			open = append(open, kind)
		}
		return string(text)
	}
}

// closes draws whether the next bracket closes, given how many are open and how
// many places are left. These odds make every shape equally likely
// (Arnold and Sleep, "Uniform random generation of balanced parenthesis
// strings", 1980).
func closes(r *rand.Rand, open, left int) bool {
	return r.IntN(2*left*(open+1)) < open*(left+open+2)
}

// bracketsFault returns the checker of texts of n brackets.
func bracketsFault(n int) func(string) string {
	return func(text string) string {
		if len(text) != n {
			return fmt.Sprintf("%d brackets, want %d", len(text), n)
		}
		var open []int
		for i := range text {
			if kind := strings.IndexByte(opening, text[i]); kind >= 0 {
				open = append(open, kind)
				continue
			}
			kind := strings.IndexByte(closing, text[i])
			if kind < 0 {
				return fmt.Sprintf("%q at %d is no bracket", text[i], i)
			}
			last := len(open) - 1
			if last < 0 || open[last] != kind {
				return fmt.Sprintf("%q at %d closes nothing", text[i], i)
			}
			open = open[:last]
		}
		if len(open) > 0 {
			return fmt.Sprintf("%d brackets stay open", len(open))
		}
		return ""
	}
}
