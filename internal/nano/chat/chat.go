// Package chat writes the training conversations of nano-chat and judges its
// answers.
//
// The model for the reader's head is a small language with an exact referee.
// Every family (arithmetic, style, safety, stories, correction, instructions,
// small talk) has a generator that writes conversations and a checker that
// reads an answer back into a typed result, so that "how often", "how right"
// and "how early" are counted and never guessed. Generators state the
// probabilities they draw from (see [DriftOdds], [HastyOdds]); those are the
// ceilings that no monitor can beat.
//
// Everything is a pure function of its arguments: conversation i of seed s is
// the same on every machine. Combinations (a set of numbers, a topic with a
// phrasing, a verb with an object) are dealt to train, validation and test by
// hash, and [Write] only ever uses those of train.
package chat

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
)

// Role names the speaker of a [Message]; the values are those of the chat
// template.
type Role string

// The three speakers that the chat template knows.
const (
	System    Role = "system"
	User      Role = "user"
	Assistant Role = "assistant"
)

// Message is one turn of a conversation, in plain text.
type Message struct {
	Role    Role   `json:"role"`
	Content string `json:"content"`
}

// Family names a kind of conversation.
type Family string

// The families. Two have no checker: columns drill the sums that careful answers
// are made of, and small talk is there so that a greeting gets a sensible reply.
const (
	FamilyArithmetic   Family = "arithmetic"
	FamilyColumns      Family = "columns"
	FamilyStyle        Family = "style"
	FamilySafety       Family = "safety"
	FamilyStories      Family = "stories"
	FamilyCorrection   Family = "correction"
	FamilyInstructions Family = "instructions"
	FamilySmallTalk    Family = "smalltalk"
)

// Families lists every family in the order of the mixture.
func Families() []Family {
	return []Family{FamilyArithmetic, FamilyColumns, FamilyStyle, FamilySafety, FamilyStories,
		FamilyCorrection, FamilyInstructions, FamilySmallTalk}
}

// Conversation is one training sample: the last message is the assistant's, and
// every assistant message is a correct sample of what the model should say.
type Conversation struct {
	Family   Family    `json:"family"`
	Messages []Message `json:"messages"`
}

// gen is the state of one conversation being written: its own generator of
// random numbers and the split whose combinations it may use.
type gen struct {
	r     *rand.Rand
	split Split
}

// newGen returns the generator of conversation i of a seed.
func newGen(seed, i uint64, split Split) *gen {
	return &gen{r: rand.New(rand.NewPCG(seed, i*0x9e3779b97f4a7c15+1)), split: split}
}

// maxDraws bounds the search for a combination of the wanted split. The rarest
// split holds one combination in ten, so a miss has probability 0.9^1000.
const maxDraws = 1000

// draw calls next until it names a combination of the wanted split and returns
// that combination. After maxDraws misses it returns the last one drawn.
func draw[T any](g *gen, next func() (T, string)) T {
	var v T
	for range maxDraws {
		var key string
		if v, key = next(); SplitOf(key) == g.split {
			break
		}
	}
	return v
}

// chance is true with probability p.
func (g *gen) chance(p float64) bool { return g.r.Float64() < p }

// pick returns one element of list, all equally likely. list must not be empty.
func pick[T any](g *gen, list []T) T { return list[g.r.IntN(len(list))] }

// share is one family's part of the mixture.
type share struct {
	family Family
	part   float64
	write  func(*gen) []Message
}

// mixture returns the families with their parts; the parts sum to one. Half is
// arithmetic and its drill because it is by far the slowest to learn.
func mixture() []share {
	return []share{
		{FamilyArithmetic, 0.38, arithmeticConversation},
		{FamilyColumns, 0.10, columnsConversation},
		{FamilyStyle, 0.12, styleConversation},
		{FamilySafety, 0.11, safetyConversation},
		{FamilyStories, 0.08, storyConversation},
		{FamilyCorrection, 0.09, correctionConversation},
		{FamilyInstructions, 0.09, instructionConversation},
		{FamilySmallTalk, 0.03, smallTalkConversation},
	}
}

// mixedPart is the part of conversations that are followed by a conversation of
// another family, so that the model can change the subject.
const mixedPart = 0.08

// Generate returns conversation i of a seed, made of combinations of one split.
// It is safe for concurrent use.
func Generate(seed, i uint64, split Split) Conversation {
	g := newGen(seed, i, split)
	c := one(g)
	if !g.chance(mixedPart) {
		return c
	}
	for range maxDraws {
		if next := one(g); unrelated(c.Family, next.Family) {
			c.Messages = append(c.Messages, withoutSystem(next.Messages)...)
			break
		}
	}
	return c
}

// unrelated reports that two families share no mode, so that a conversation of
// one may follow the other without an earlier turn showing a mode that the next
// does not keep.
func unrelated(a, b Family) bool {
	kin := map[Family]string{FamilyArithmetic: "mode", FamilyColumns: "mode", FamilyCorrection: "mode", FamilyInstructions: "mode",
		FamilyStyle: "style", FamilySafety: "safety", FamilyStories: "ending"}
	if a == FamilyCorrection && b == FamilyStyle || a == FamilyStyle && b == FamilyCorrection {
		return false
	}
	return kin[a] != kin[b]
}

// one writes a conversation of a family drawn by its part of the mixture.
func one(g *gen) Conversation {
	x, list := g.r.Float64(), mixture()
	for _, s := range list[:len(list)-1] {
		if x -= s.part; x < 0 {
			return Conversation{s.family, s.write(g)}
		}
	}
	last := list[len(list)-1]
	return Conversation{last.family, last.write(g)}
}

// withoutSystem drops system messages: only the first message of a conversation
// may be one.
func withoutSystem(ms []Message) []Message {
	var kept []Message
	for _, m := range ms {
		if m.Role != System {
			kept = append(kept, m)
		}
	}
	return kept
}

// Write writes training conversations from to to-1 of a seed to w as JSON lines. It
// returns the first write error.
func Write(w io.Writer, seed, from, to uint64) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	for i := from; i < to; i++ {
		if err := enc.Encode(Generate(seed, i, Train)); err != nil {
			return fmt.Errorf("write conversation %d: %w", i, err)
		}
	}
	return nil
}
