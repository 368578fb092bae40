package sweep

import "github.com/trimtab/trimtab/decode"

// Repetition is how often a text says the same again.
type Repetition struct {
	// Distinct is the share of different pairs among all pairs of neighbouring
	// tokens (distinct-2 of Li et al., arXiv 1510.03055); 1 for texts of fewer
	// than two tokens.
	Distinct float64
	// Loops: the text ends by saying a run of tokens at least three times in a
	// row, the last perhaps in part.
	Loops bool
}

// Bounds of what counts as a loop.
const (
	loopPeriod = 64 // tokens of the longest run that is looked for
	loopTimes  = 3
	loopTokens = 9 // "no no no" is not yet a loop
)

// Repeat looks at a text.
func Repeat(tokens []decode.Token) Repetition {
	r := Repetition{Distinct: 1}
	if n := len(tokens) - 1; n > 0 {
		seen := make(map[[2]decode.Token]bool, n)
		for i := range n {
			seen[[2]decode.Token{tokens[i], tokens[i+1]}] = true
		}
		r.Distinct = float64(len(seen)) / float64(n)
	}
	for period := 1; period <= loopPeriod && !r.Loops; period++ {
		same := 0 // tokens at the end that equal the one a period before
		for i := len(tokens) - 1; i >= period && tokens[i] == tokens[i-period]; i-- {
			same++
		}
		r.Loops = same+period >= max(loopTimes*period, loopTokens)
	}
	return r
}
