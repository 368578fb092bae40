package chat

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// cuePart is the part of conversations whose first turn announces the mode. It
// is what makes the model carry the mode as state instead of tossing a coin at
// the first token of every answer.
const cuePart = 0.35

// switchPart is the part of later turns that announce a mode anew, which may
// then differ from the one shown so far.
const switchPart = 0.15

// ask returns the user's message for a question, announced by cue when cue is
// not empty: before the question or after it.
func ask(g *gen, question, cue string) string {
	q := g.casing(question)
	switch {
	case cue == "":
		return q
	case g.chance(0.5):
		return g.casing(cue) + " " + q
	}
	return q + " " + g.casing(cue)
}

// casing writes the first letter large in half of the cases, since users do.
func (g *gen) casing(s string) string {
	if g.chance(0.5) {
		return capital(s)
	}
	return s
}

// capital returns s with a large first letter.
func capital(s string) string {
	r, n := utf8.DecodeRuneInString(s)
	return string(unicode.ToUpper(r)) + s[n:]
}

// opened starts a conversation with a question: the cue stands in the user's
// message, or in a system message in one of four cases.
func opened(g *gen, question, cue string) []Message {
	if cue != "" && g.chance(0.25) {
		return []Message{{System, g.casing(cue)}, {User, ask(g, question, "")}}
	}
	return []Message{{User, ask(g, question, cue)}}
}

// turns draws how many questions a conversation has: one in half of the cases,
// then two or three.
func (g *gen) turns() int {
	switch x := g.r.Float64(); {
	case x < 0.45:
		return 1
	case x < 0.85:
		return 2
	}
	return 3
}

// containsAny reports the lowest position in s at which one of the phrases
// starts, or -1.
func containsAny(s string, phrases []string) int {
	at := -1
	for _, p := range phrases {
		if i := strings.Index(s, p); i >= 0 && (at < 0 || i < at) {
			at = i
		}
	}
	return at
}
