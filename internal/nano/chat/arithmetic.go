package chat

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Mode is how an arithmetic question is answered.
type Mode string

// A careful answer shows its columns and is right; a hasty one is a guess.
// ModeUnknown is what the checker says of text that is neither.
const (
	Careful     Mode = "careful"
	Hasty       Mode = "hasty"
	ModeUnknown Mode = "unknown"
)

// The fixed parts of the two kinds of answers. Each mode has exactly one first
// word, so that a sampling temperature below one does not favour either.
const (
	carefulLead = "Step by step: "
	carefulEnd  = " So the answer is "
	hastyLead   = "Quick guess: "
)

// Sum is an addition problem: two to four numbers below 1000.
type Sum struct{ Numbers []int }

// Answer returns the right answer.
func (s Sum) Answer() int {
	total := 0
	for _, n := range s.Numbers {
		total += n
	}
	return total
}

// Key names the combination that [SplitOf] deals: the numbers without their
// order.
func (s Sum) Key() string {
	sorted := slices.Sorted(slices.Values(s.Numbers))
	return "sum " + joinInts(sorted, "+")
}

// Digits returns the length of the longest number, 1 to 3.
func (s Sum) Digits() int {
	return len(strconv.Itoa(slices.Max(s.Numbers)))
}

// Difficulty grows with the count of numbers and with their digits: 1 for two
// one-digit numbers up to 5 for four three-digit numbers.
func (s Sum) Difficulty() int { return len(s.Numbers) - 2 + s.Digits() }

// HastyOdds is the probability that the generator writes the right answer when
// it answers a sum hastily: about 0.3 over the mixture, and falling with the
// difficulty.
func HastyOdds(s Sum) float64 { return 0.42 - 0.06*float64(s.Difficulty()) }

// Careful returns the careful answer: the numbers padded to three digits, the
// sum of every column from the right with its carry as the last addend, and the
// result. Every digit stands beside what it is made of, which a small model
// learns several times faster than bare column totals. It is always right.
func (s Sum) Careful() string {
	padded := make([]string, len(s.Numbers))
	for i, n := range s.Numbers {
		padded[i] = fmt.Sprintf("%03d", n)
	}
	var columns []string
	total := 0
	for place := 2; place >= 0; place-- {
		column, carry := "", total/10
		total = 0
		for _, p := range padded {
			column += "+" + p[place:place+1]
			total += int(p[place] - '0')
		}
		if place < 2 {
			column += fmt.Sprintf("+%d", carry)
			total += carry
		}
		columns = append(columns, fmt.Sprintf("%s=%02d", column[1:], total))
	}
	return fmt.Sprintf("%s%s:%s>%04d.%s%d.", carefulLead, strings.Join(padded, "+"),
		strings.Join(columns, ","), s.Answer(), carefulEnd, s.Answer())
}

// HastyAnswer returns the text of a guess.
func HastyAnswer(guess int) string { return fmt.Sprintf("%s%d.", hastyLead, guess) }

// hasty writes a guess that is right with probability [HastyOdds] and otherwise
// off by one of a few usual slips.
func (s Sum) hasty(g *gen) string {
	if g.chance(HastyOdds(s)) {
		return HastyAnswer(s.Answer())
	}
	return HastyAnswer(s.slip(g))
}

// slip returns a wrong answer near the right one: it forgets a carry, takes one
// too many, or miscounts by one or two.
func (s Sum) slip(g *gen) int { return slipped(g, s.Answer()) }

// slipped returns n off by one of the usual slips.
func slipped(g *gen, n int) int {
	slips := []int{-2, -1, 1, 2}
	if n >= 20 {
		slips = append(slips, -10, 10)
	}
	if n >= 200 {
		slips = append(slips, -100, 100)
	}
	wrong := n + pick(g, slips)
	if wrong < 0 {
		return n + 1
	}
	return wrong
}

// answer writes an answer in the given mode.
func (s Sum) answer(g *gen, m Mode) string {
	if m == Careful {
		return s.Careful()
	}
	return s.hasty(g)
}

// sum draws a problem of the generator's split.
func (g *gen) sum() Sum {
	return draw(g, func() (Sum, string) {
		count := pick(g, []int{2, 2, 2, 3, 3, 4})
		limit := pick(g, []int{10, 100, 100, 1000, 1000})
		s := Sum{Numbers: make([]int, count)}
		for i := range s.Numbers {
			s.Numbers[i] = g.r.IntN(limit)
		}
		return s, s.Key()
	})
}

// question writes the problem as a user would.
func (s Sum) question(g *gen) string {
	plus := joinInts(s.Numbers, " + ")
	switch g.r.IntN(6) {
	case 0:
		return "how much is " + plus + "?"
	case 1:
		return "please add " + joinInts(s.Numbers, " and ") + "."
	case 2:
		return plus
	case 3:
		return "what is " + joinInts(s.Numbers, "+") + "?"
	}
	return "what is " + plus + "?"
}

// modeCues returns the sentences that announce a mode.
func modeCues(m Mode) []string {
	if m == Careful {
		return []string{"show your work.", "be careful.", "think step by step.", "take your time."}
	}
	return []string{"be brief.", "be quick.", "just guess.", "answer at once."}
}

// mode draws one of the two modes evenly.
func (g *gen) mode() Mode { return pick(g, []Mode{Careful, Hasty}) }

// arithmeticConversation writes one to three problems answered in one mode. A
// later turn keeps the mode shown so far, unless it announces one itself. In
// one of five cases it repeats the question before it.
func arithmeticConversation(g *gen) []Message {
	mode, cue := g.mode(), ""
	if g.chance(cuePart) {
		cue = pick(g, modeCues(mode))
	}
	s := g.sum()
	ms := append(opened(g, s.question(g), cue), Message{Assistant, s.answer(g, mode)})
	for range g.turns() - 1 {
		if cue = ""; g.chance(switchPart) {
			mode = g.mode()
			cue = pick(g, modeCues(mode))
		}
		if !g.chance(0.2) {
			s = g.sum()
		}
		ms = append(ms, Message{User, ask(g, s.question(g), cue)}, Message{Assistant, s.answer(g, mode)})
	}
	return ms
}

// joinInts joins decimal numbers with a separator.
func joinInts(ns []int, sep string) string {
	parts := make([]string, len(ns))
	for i, n := range ns {
		parts[i] = strconv.Itoa(n)
	}
	return strings.Join(parts, sep)
}
