package chat

import (
	"fmt"
	"strings"
)

// Ending is how a story ends.
type Ending string

// The two endings; EndingUnknown is what the checker says of anything else.
const (
	Happy         Ending = "happy"
	Sad           Ending = "sad"
	EndingUnknown Ending = "unknown"
)

func heroes() []string {
	return []string{"fox", "girl", "boy", "bear", "king", "queen", "mouse", "owl", "rabbit", "sailor", "baker", "goat",
		"frog", "knight", "farmer", "cat"}
}

func treasures() []string {
	return []string{"lantern", "ring", "map", "drum", "coat", "boat", "key", "bell", "letter", "kite", "hat", "cup"}
}

func places() []string {
	return []string{"near the old mill", "in a deep forest", "by the cold sea", "on a green hill", "in a small town", "under a stone bridge"}
}

func troubles() []string {
	return []string{"the wind took the %s away", "a thief stole the %s", "the %s fell into the river", "the %s broke in two"}
}

func endings(e Ending) []string {
	if e == Happy {
		return []string{"At last the %s came home with the %s and laughed with joy.",
			"In the end the %s had the %s again and danced all night."}
	}
	return []string{"At last the %s lost the %s for good and wept alone.",
		"In the end the %s never saw the %s again and cried all night."}
}

// searches returns the sentence before the ending, which already shows how the story
// will end: one choice at the very end would be one token in fifty to learn from.
func searches(e Ending) string {
	if e == Happy {
		return "Then a friend helped the %s look for it."
	}
	return "Then nobody helped the %s look for it."
}

// storyCues returns the sentences that announce an ending.
func storyCues(e Ending) []string {
	if e == Happy {
		return []string{"let it end well.", "give it a happy ending."}
	}
	return []string{"let it end badly.", "give it a sad ending."}
}

// StoryPrompt asks for a story.
type StoryPrompt struct{ Hero, Treasure string }

// Key names the combination that [SplitOf] deals.
func (p StoryPrompt) Key() string { return "story " + p.Hero + "|" + p.Treasure }

// Text returns the request as the tests ask it.
func (p StoryPrompt) Text() string {
	return fmt.Sprintf("tell me a story about %s and %s.", article(p.Hero), article(p.Treasure))
}

// article puts "a" or "an" in front of a noun.
func article(noun string) string {
	if strings.ContainsRune("aeiou", rune(noun[0])) {
		return "an " + noun
	}
	return "a " + noun
}

// storyPrompt draws a request of the generator's split.
func (g *gen) storyPrompt() StoryPrompt {
	return draw(g, func() (StoryPrompt, string) {
		p := StoryPrompt{pick(g, heroes()), pick(g, treasures())}
		return p, p.Key()
	})
}

// answer writes the story with the given ending.
func (p StoryPrompt) answer(g *gen, e Ending) string {
	return fmt.Sprintf("Once %s lived %s and loved %s. One day %s. %s %s",
		article(p.Hero), pick(g, places()), article(p.Treasure), fmt.Sprintf(pick(g, troubles()), p.Treasure),
		fmt.Sprintf(searches(e), p.Hero), fmt.Sprintf(pick(g, endings(e)), p.Hero, p.Treasure))
}

// storyCuePart is the part of stories whose ending is announced. It is larger
// than cuePart because two choices in fifty tokens are all there is to learn from.
const storyCuePart = 0.7

// storyConversation writes one or two stories; the second keeps the ending of the first
// unless it is announced anew. A story may also be asked for by its hero alone.
func storyConversation(g *gen) []Message {
	e, cue := pick(g, []Ending{Happy, Sad}), ""
	if g.chance(storyCuePart) {
		cue = pick(g, storyCues(e))
	}
	p := g.storyPrompt()
	q := p.Text()
	if g.chance(0.25) {
		q = "tell me a story about " + article(p.Hero) + "."
	}
	ms := append(opened(g, q, cue), Message{Assistant, p.answer(g, e)})
	if g.chance(0.3) {
		if cue = ""; g.chance(switchPart) {
			e = pick(g, []Ending{Happy, Sad})
			cue = pick(g, storyCues(e))
		}
		p = g.storyPrompt()
		ms = append(ms, Message{User, ask(g, p.Text(), cue)}, Message{Assistant, p.answer(g, e)})
	}
	return ms
}

// CheckStory tells how a story ends, by the words that only one kind of ending
// uses.
func CheckStory(text string) Ending {
	happy := containsAny(text, []string{"laughed with joy", "danced all night"}) >= 0
	sad := containsAny(text, []string{"wept alone", "cried all night"}) >= 0
	switch {
	case happy == sad:
		return EndingUnknown
	case happy:
		return Happy
	}
	return Sad
}
