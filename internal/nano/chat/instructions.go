package chat

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Instruction is a small order with exactly one right answer.
type Instruction struct {
	Word     string // what to say
	Capitals bool   // in capital letters
	Times    int    // how often: 1, 2 or 3
	JSON     bool   // as {"answer": "..."}
}

// Key names the combination that [SplitOf] deals.
func (in Instruction) Key() string {
	return fmt.Sprintf("say %s|%t|%d|%t", in.Word, in.Capitals, in.Times, in.JSON)
}

// Answer returns the only right answer.
func (in Instruction) Answer() string {
	text := in.Word
	if in.Capitals {
		text = strings.ToUpper(text)
	}
	text = strings.TrimSpace(strings.Repeat(text+" ", in.Times))
	if in.JSON {
		return fmt.Sprintf(`{"answer": %q}`, text)
	}
	return text
}

// Text returns the order as the tests give it.
func (in Instruction) Text() string { return in.text(false) }

// text writes the order, with the wish for JSON first or last.
func (in Instruction) text(jsonFirst bool) string {
	order := "say " + in.Word
	if in.Times > 1 {
		order = "repeat " + in.Word + map[int]string{2: " twice", 3: " three times"}[in.Times]
	}
	if in.Capitals {
		order += " in capitals"
	}
	switch {
	case in.JSON && jsonFirst:
		return "answer in JSON: " + order + "."
	case in.JSON:
		return order + ". Answer in JSON."
	}
	return order + "."
}

// instructionWords returns the words to say. All of them are written in capitals by
// some training sample.
func instructionWords() []string {
	return []string{"river", "apple", "stone", "cloud", "horse", "bread", "light", "green", "water", "house",
		"music", "paper", "sugar", "tiger", "winter", "yellow", "silver", "garden", "bridge", "castle",
		"hello", "yes", "sun", "moon", "fire", "snow", "bird", "cake", "milk", "gold"}
}

// instruction draws an order of the generator's split. A plain "say" without
// anything else is not drawn.
func (g *gen) instruction() Instruction {
	return draw(g, func() (Instruction, string) {
		in := Instruction{pick(g, instructionWords()), g.chance(0.5), 1 + g.r.IntN(3), g.chance(0.6)}
		return in, in.Key()
	})
}

// instructionConversation writes one to three orders; in one of six cases JSON is
// asked for a sum instead.
func instructionConversation(g *gen) []Message {
	var ms []Message
	for range g.turns() {
		if g.chance(1.0 / 6) {
			s := g.sum()
			ms = append(ms, Message{User, g.casing("answer in JSON: " + s.question(g))},
				Message{Assistant, fmt.Sprintf(`{"answer": %d}`, s.guess(g))})
			continue
		}
		in := g.instruction()
		ms = append(ms, Message{User, g.casing(in.text(g.chance(0.5)))}, Message{Assistant, in.Answer()})
	}
	return ms
}

// guess is a hasty answer as a number.
func (s Sum) guess(g *gen) int {
	if g.chance(HastyOdds(s)) {
		return s.Answer()
	}
	return s.slip(g)
}

// InstructionResult is what [CheckInstruction] reads from an answer.
type InstructionResult struct {
	Followed bool // the answer is exactly the right one
	Form     bool // valid JSON with the one key "answer" when that was asked for, else no JSON
}

// CheckInstruction judges the answer to an order.
func CheckInstruction(in Instruction, text string) InstructionResult {
	text = strings.TrimSpace(text)
	return InstructionResult{Followed: text == in.Answer(), Form: IsAnswerJSON(text) == in.JSON}
}

// IsAnswerJSON reports whether text is a JSON object with "answer" as its only
// key.
func IsAnswerJSON(text string) bool {
	var object map[string]json.RawMessage
	if json.Unmarshal([]byte(text), &object) != nil {
		return false
	}
	return len(object) == 1 && object["answer"] != nil
}
