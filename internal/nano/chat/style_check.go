package chat

import "strings"

// StyleResult is what [CheckStyle] reads from an answer.
type StyleResult struct {
	Style Style
	// Clear says for each attribute, in the order of [Attributes], that the text
	// shows exactly one value of it.
	Clear [3]bool
}

// Unambiguous reports that all three attributes are clear.
func (r StyleResult) Unambiguous() bool { return r.Clear == [3]bool{true, true, true} }

// CheckStyle classifies an answer. An attribute is clear when the text carries
// markers of one value and none of the other; the length when there is one
// sentence, or three.
func CheckStyle(text string) StyleResult {
	var r StyleResult
	r.Style.Formal, r.Clear[0] = oneSided(text,
		append(openers(true), joiners(true)...), append(openers(false), joiners(false)...))
	sentences := strings.Count(text, ".")
	r.Style.Long, r.Clear[1] = sentences == 3, sentences == 1 || sentences == 3
	r.Style.Cheerful, r.Clear[2] = oneSided(text, tails(true), tails(false))
	if !strings.HasSuffix(strings.TrimSpace(text), ".") {
		r.Clear[1] = false // cut off
	}
	return r
}

// oneSided reports whether the text has markers of the first list, and whether
// it has markers of exactly one of the two lists.
func oneSided(text string, yes, no []string) (value, clear bool) {
	y, n := containsAny(text, yes) >= 0, containsAny(text, no) >= 0
	return y, y != n
}
