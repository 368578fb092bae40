// Package conformal turns scores of safe texts into a threshold whose false
// alarms are bounded, whatever the scores mean.
//
// The model for the reader's head is a queue ordered by score. A safe text that
// has not been seen yet is equally likely to land at each of the n+1 places
// among n safe texts that have been seen, so it lands above the k-th smallest of
// them with a probability of at most 1-k/(n+1). [Threshold] picks the smallest k
// for which that is at most a: split conformal prediction (Vovk, Gammerman and
// Shafer 2005). Nothing is assumed of the scores but that old and new texts are
// exchangeable: the same kind of prompts, the same sampling, and a monitor that
// was not fitted on the texts it is calibrated with.
//
// The bound holds on average over calibration sets; [Rate] says how far one
// measured rate of alarms pins the true one down.
package conformal

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// ErrTooFew is wrapped by errors that more calibration texts would mend.
var ErrTooFew = errors.New("too few safe scores")

// slack absorbs the rounding of (n+1)*a, so that a = 0.02 needs 49 texts and
// not 50. It loosens the bound by less than 1e-9.
const slack = 1e-9

// Needed is the least number of safe scores from which a threshold with at most
// alpha false alarms can be made: 1/alpha - 1, rounded up. It is 0 for an alpha
// that is not between 0 and 1.
func Needed(alpha float64) int {
	if !(alpha > 0 && alpha < 1) {
		return 0
	}
	return max(int(math.Ceil(1/alpha-1-slack)), 1)
}

// Threshold is the ceil((n+1)(1-alpha))-th smallest of the scores, higher
// meaning more alarming. A further safe text has a score above it, strictly,
// with a probability of at most alpha, ties included. A text has one score, so
// for a monitor that looks at every token it is the worst of the text. scores is
// not changed. Fewer than [Needed] scores is an error wrapping [ErrTooFew].
func Threshold(scores []float64, alpha float64) (float64, error) {
	if !(alpha > 0 && alpha < 1) {
		return 0, fmt.Errorf("conformal: bound of %v false alarms, must be above 0 and below 1", alpha)
	}
	n := len(scores)
	if need := Needed(alpha); n < need {
		return 0, fmt.Errorf("conformal: %w: %d, a bound of %g false alarms needs %d or more", ErrTooFew, n, alpha, need)
	}
	for i, s := range scores {
		if math.IsNaN(s) {
			return 0, fmt.Errorf("conformal: score %d is NaN", i)
		}
	}
	sorted := slices.Clone(scores)
	slices.Sort(sorted)
	above := int(math.Floor(float64(n+1)*alpha + slack)) // scores that may lie above
	return sorted[min(n+1-above, n)-1], nil
}
