package chat

import (
	"fmt"
	"strings"
)

// Attribute is one of the three independent binary properties of a style
// answer.
type Attribute string

// The attributes. Each has two values, see [Style].
const (
	Register Attribute = "register" // formal or casual
	Length   Attribute = "length"   // short or long
	Mood     Attribute = "mood"     // cheerful or gloomy
)

// Attributes lists the three attributes in order.
func Attributes() []Attribute { return []Attribute{Register, Length, Mood} }

// Style is a full choice of attributes: false is casual, short, gloomy.
type Style struct{ Formal, Long, Cheerful bool }

// Get returns the value of one attribute.
func (s Style) Get(a Attribute) bool {
	switch a {
	case Register:
		return s.Formal
	case Length:
		return s.Long
	}
	return s.Cheerful
}

// With returns s with one attribute set.
func (s Style) With(a Attribute, v bool) Style {
	switch a {
	case Register:
		s.Formal = v
	case Length:
		s.Long = v
	default:
		s.Cheerful = v
	}
	return s
}

// ValueName returns the word for a value of an attribute, such as "formal".
func ValueName(a Attribute, v bool) string {
	names := map[Attribute][2]string{
		Register: {"casual", "formal"},
		Length:   {"short", "long"},
		Mood:     {"gloomy", "cheerful"},
	}[a]
	if v {
		return names[1]
	}
	return names[0]
}

// topic is something to tell about: a plural noun and three true sentences
// about it without their subject.
type topic struct {
	name  string
	facts []string
}

// Every list below has four entries for either value, and the words that go on
// after the first sentence one each: branches of equal width keep their odds
// when the sampling temperature is not one.
func openers(formal bool) []string {
	if formal {
		return []string{"It should be noted that", "One may observe that", "Studies indicate that", "We understand that"}
	}
	return []string{"Okay so,", "Honestly,", "Hey,", "Yeah,"}
}

// joiners returns the words that open the second and the third sentence of a
// long answer.
func joiners(formal bool) []string {
	if formal {
		return []string{"Moreover,", "Furthermore,"}
	}
	return []string{"Plus,", "Oh and"}
}

// tails returns the ends of sentences that carry the mood.
func tails(cheerful bool) []string {
	if cheerful {
		return []string{"which is a joy", "which is lovely", "and that makes us smile", "and that brings delight"}
	}
	return []string{"which is a sorrow", "which is dreary", "and that makes us weep", "and that brings grief"}
}

// Answer writes an answer about topic name in style s, choosing words and facts
// by g.
func (s Style) answer(g *gen, t topic) string {
	facts := []string{pick(g, t.facts)}
	starts := []string{pick(g, openers(s.Formal))}
	if s.Long {
		facts = permuted(g, t.facts)
		starts = append(starts, joiners(s.Formal)...)
	}
	var b strings.Builder
	for i, start := range starts {
		subject := t.name
		if i > 0 {
			subject = "they"
		}
		fmt.Fprintf(&b, " %s %s %s, %s.", start, subject, facts[i], pick(g, tails(s.Cheerful)))
	}
	return b.String()[1:]
}

// permuted returns the elements of list in random order.
func permuted(g *gen, list []string) []string {
	out := append([]string(nil), list...)
	g.r.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}

// styleCues returns the sentences that announce a value of an attribute.
func styleCues(a Attribute, v bool) []string {
	cues := map[Attribute][2][]string{
		Register: {{"keep it casual.", "talk like a friend."}, {"be formal.", "use a formal tone."}},
		Length:   {{"keep it short.", "be brief."}, {"make it long.", "tell me a lot."}},
		Mood:     {{"be gloomy.", "sound sad."}, {"be cheerful.", "sound happy."}},
	}[a]
	if v {
		return cues[1]
	}
	return cues[0]
}

// phrasings are the ways in which a topic is asked about.
func phrasings() []string {
	return []string{"tell me about %s.", "tell me about %s", "what do you know about %s?", "talk about %s."}
}

// StylePrompt is a question of the style family.
type StylePrompt struct{ Topic, Text string }

// stylePrompt draws a question of the generator's split. The combination is
// the topic with the phrasing; the facts are known from other phrasings.
func (g *gen) stylePrompt() (topic, string) {
	type drawn struct {
		t topic
		q string
	}
	d := draw(g, func() (drawn, string) {
		t, p := pick(g, topics()), pick(g, phrasings())
		return drawn{t, fmt.Sprintf(p, t.name)}, "style " + t.name + "|" + p
	})
	return d.t, d.q
}

// style draws the three attributes evenly and independently.
func (g *gen) style() Style {
	return Style{Formal: g.chance(0.5), Long: g.chance(0.5), Cheerful: g.chance(0.5)}
}

// styleCue announces one, two or all three of the attributes of s in random
// order.
func (g *gen) styleCue(s Style) string {
	order := Attributes()
	g.r.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	var cues []string
	for _, a := range order[:pick(g, []int{1, 1, 2, 3})] {
		cues = append(cues, pick(g, styleCues(a, s.Get(a))))
	}
	return strings.Join(cues, " ")
}

// styleConversation writes one to three questions answered in one style. A later turn
// keeps the style shown so far, except for what it announces itself.
func styleConversation(g *gen) []Message {
	s, cue := g.style(), ""
	if g.chance(cuePart) {
		cue = g.styleCue(s)
	}
	t, q := g.stylePrompt()
	ms := append(opened(g, q, cue), Message{Assistant, s.answer(g, t)})
	for range min(g.turns(), 2) - 1 {
		if cue = ""; g.chance(switchPart) {
			a := pick(g, Attributes())
			s = s.With(a, g.chance(0.5))
			cue = pick(g, styleCues(a, s.Get(a)))
		}
		if !g.chance(0.2) {
			t, q = g.stylePrompt()
		}
		ms = append(ms, Message{User, ask(g, q, cue)}, Message{Assistant, s.answer(g, t)})
	}
	return ms
}
