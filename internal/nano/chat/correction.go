package chat

import (
	"fmt"
	"strings"
)

// Reaction is what an answer does after the user has objected.
type Reaction string

// The reactions: the answer is changed, kept, reworked with columns, or taken
// over from the user. ReactionUnknown is what the checker says of anything else.
const (
	Changed         Reaction = "changed"
	Kept            Reaction = "kept"
	Reworked        Reaction = "reworked"
	Adopted         Reaction = "adopted"
	ReactionUnknown Reaction = "unknown"
)

// The fixed first words of the reactions; Reworked starts like a careful answer.
const (
	changedLead = "Let me change it: "
	keptLead    = "I still say "
	adoptedLead = "You are right, it is "
)

// Objection is what the user says to an answer, and so what is asked for.
type Objection string

// The objections. Retry asks for nothing definite: half of the answers change
// and half do not. The others ask for exactly one reaction.
const (
	Retry   Objection = "retry"   // "no, try again": Changed or Kept, evenly
	Demand  Objection = "demand"  // "change your answer": Changed
	Rework  Objection = "rework"  // "no, work it out": Reworked, and right
	Correct Objection = "correct" // "no, it is 19": Adopted
)

// Objections lists the objections.
func Objections() []Objection { return []Objection{Retry, Demand, Rework, Correct} }

// text writes the objection; right is the number that Correct names.
func (o Objection) text(g *gen, right int) string {
	switch o {
	case Demand:
		return pick(g, []string{"please change your answer.", "give me another number."})
	case Rework:
		return pick(g, []string{"no, work it out.", "no, show your work."})
	case Correct:
		return fmt.Sprintf(pick(g, []string{"no, it is %d.", "wrong, it is %d."}), right)
	}
	return pick(g, []string{"no, try again.", "that is wrong, try again.", "try again."})
}

// react writes the answer to an objection after the answer given.
func (o Objection) react(g *gen, s Sum, given int) string {
	keep := o == Retry && g.chance(0.5)
	switch {
	case o == Correct:
		return fmt.Sprintf("%s%d.", adoptedLead, s.Answer())
	case o == Rework:
		return s.Careful()
	case keep:
		return fmt.Sprintf("%s%d.", keptLead, given)
	}
	return fmt.Sprintf("%s%d.", changedLead, s.another(g, given))
}

// another returns a guess that differs from the one given, as far from it as a slip
// is from the answer. When that was wrong the new guess is right in half of the cases.
func (s Sum) another(g *gen, given int) int {
	if given != s.Answer() && g.chance(0.5) {
		return s.Answer()
	}
	return slipped(g, given)
}

// correctionConversation writes an answer and one to three objections with their
// reactions, or in three of ten cases a style answer with a wish to change one
// attribute. The first answer is careful as often as hasty, so that these
// conversations leave the odds of the modes even; nobody corrects an answer that is
// right.
func correctionConversation(g *gen) []Message {
	if g.chance(0.3) {
		return restyleConversation(g)
	}
	s, mode, cue := g.sum(), g.mode(), ""
	if g.chance(cuePart) {
		cue = pick(g, modeCues(mode))
	}
	said := s.answer(g, mode)
	ms := append(opened(g, s.question(g), cue), Message{Assistant, said})
	given := CheckArithmetic(s, said).Answer
	for range g.turns() {
		o := pick(g, append(Objections(), Demand))
		if o == Correct && given == s.Answer() {
			o = Demand
		}
		said = o.react(g, s, given)
		given = CheckCorrection(o, s, given, said).Answer
		ms = append(ms, Message{User, g.casing(o.text(g, s.Answer()))}, Message{Assistant, said})
	}
	return ms
}

// RestyleText returns the objection that asks for another value of an attribute.
func RestyleText(a Attribute, v bool) string { return "no, make it " + ValueName(a, v) + "." }

// restyleConversation writes a style answer, a wish for the other value of one
// attribute, and the answer with the rest of the style kept.
func restyleConversation(g *gen) []Message {
	t, q := g.stylePrompt()
	s, a := g.style(), pick(g, Attributes())
	cue := ""
	if g.chance(cuePart) {
		cue = g.styleCue(s)
	}
	other := s.With(a, !s.Get(a))
	return append(opened(g, q, cue), Message{Assistant, s.answer(g, t)},
		Message{User, g.casing(RestyleText(a, other.Get(a)))}, Message{Assistant, other.answer(g, t)})
}

// CorrectionResult is what [CheckCorrection] reads from an answer.
type CorrectionResult struct {
	Reaction Reaction
	Answer   int
	Correct  bool // Answer is the right one
	Followed bool // the reaction is one that the objection asks for
}

// CheckCorrection reads the answer to objection o, after the answer given to s.
// A reaction that contradicts itself (a "change" to the same number, or keeping
// another one) is unknown.
func CheckCorrection(o Objection, s Sum, given int, text string) CorrectionResult {
	text = strings.TrimSpace(text)
	r := CorrectionResult{Reaction: ReactionUnknown}
	for lead, reaction := range map[string]Reaction{changedLead: Changed, keptLead: Kept, adoptedLead: Adopted} {
		if rest, ok := strings.CutPrefix(text, lead); ok {
			a := result(s, Hasty, rest)
			if a.Mode == Hasty && (reaction == Adopted || (a.Answer == given) == (reaction == Kept)) {
				r = CorrectionResult{Reaction: reaction, Answer: a.Answer, Correct: a.Correct}
			}
		}
	}
	if a := CheckArithmetic(s, text); a.Mode == Careful {
		r = CorrectionResult{Reaction: Reworked, Answer: a.Answer, Correct: a.Correct}
	}
	r.Followed = o.wants(r)
	return r
}

// wants reports whether a reaction is one that the objection asks for.
func (o Objection) wants(r CorrectionResult) bool {
	switch o {
	case Demand:
		return r.Reaction == Changed
	case Rework:
		return r.Reaction == Reworked
	case Correct:
		return r.Reaction == Adopted && r.Correct
	}
	return r.Reaction == Changed || r.Reaction == Kept
}
