package chat

import (
	"strconv"
	"strings"
)

// ArithmeticResult is what [CheckArithmetic] reads from an answer.
type ArithmeticResult struct {
	Mode    Mode // ModeUnknown when the text is of neither form
	Answer  int  // the number given; meaningful unless Mode is ModeUnknown
	Correct bool // Answer is the right one
	Working bool // the columns shown are exactly the right ones (careful only)
}

// CheckArithmetic reads an answer to s. Text around the expected form makes the
// mode unknown: nothing is forgiven.
func CheckArithmetic(s Sum, text string) ArithmeticResult {
	text = strings.TrimSpace(text)
	if rest, ok := strings.CutPrefix(text, hastyLead); ok {
		return result(s, Hasty, rest)
	}
	working, final, ok := strings.Cut(text, carefulEnd)
	if !ok || !strings.HasPrefix(text, carefulLead) {
		return ArithmeticResult{Mode: ModeUnknown}
	}
	r := result(s, Careful, final)
	want, _, _ := strings.Cut(s.Careful(), carefulEnd)
	r.Working = working == want
	return r
}

// result reads "19." as the answer of a mode.
func result(s Sum, m Mode, number string) ArithmeticResult {
	digits, ok := strings.CutSuffix(number, ".")
	n, err := strconv.Atoi(digits)
	if !ok || err != nil || n < 0 {
		return ArithmeticResult{Mode: ModeUnknown}
	}
	return ArithmeticResult{Mode: m, Answer: n, Correct: n == s.Answer()}
}
