package extract

import (
	"errors"
	"fmt"
	"slices"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/runtime/engine"
)

// maxTail is how many of the template's tokens after a turn are told apart.
const maxTail = 16

// layout knows what a template writes behind a turn, and so which rows of a
// rendered conversation are which place.
type layout struct {
	render     Render
	userTail   int // tokens between a user's text and the answer's first token
	answerTail int // tokens behind an answer when the next answer is to follow
}

// newLayout measures the template: what two conversations with different last
// words have in common at their end is the template's.
func newLayout(render Render) (*layout, error) {
	say := func(role, text string) engine.Message { return engine.Message{Role: role, Content: text} }
	tail := func(before ...engine.Message) (int, error) {
		last := &before[len(before)-1]
		a, err := render(before, true)
		if err != nil {
			return 0, err
		}
		a = slices.Clone(a)
		last.Content = "0"
		b, err := render(before, true)
		return commonSuffix(a, b), err
	}
	l := &layout{render: render}
	var err error
	if l.userTail, err = tail(say("user", "yes")); err != nil {
		return nil, fmt.Errorf("render a user turn: %w", err)
	}
	if l.answerTail, err = tail(say("user", "hello"), say("assistant", "yes")); err != nil {
		return nil, fmt.Errorf("render an answer: %w", err)
	}
	if l.userTail == 0 {
		return nil, errors.New("the template writes nothing between question and answer")
	}
	return l, nil
}

func commonSuffix(a, b []decode.Token) int {
	n := 0
	for n < len(a) && n < len(b) && a[len(a)-1-n] == b[len(b)-1-n] {
		n++
	}
	return n
}

func commonPrefix(a, b []decode.Token) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// places lists every place of a kind that this template has.
func (l *layout) places(k Kind) []Place {
	n := map[Kind]int{AnswerEnd: l.answerTail, Echo: l.userTail, AnswerMean: 1, Shown: 1, PromptEnd: l.userTail}[k]
	out := make([]Place, min(n, maxTail))
	for i := range out {
		out[i] = Place{k, i}
	}
	return out
}

// span is a run of rows [from, to) whose mean is one place's state.
type span struct {
	place    int // index into the wanted places
	from, to int
}

// text is one conversation to run, with the spans to read.
type text struct {
	tokens []decode.Token
	spans  []span
}

// from is the first row that any span needs.
func (t *text) from() int {
	at := len(t.tokens)
	for _, s := range t.spans {
		at = min(at, s.from)
	}
	return at
}

// answered is a conversation with its answer, and where the answer lies.
type answered struct {
	tokens   []decode.Token
	from, to int // rows of the answer
}

// answer renders turns with an answer. The answer starts where the prompt
// ends; templates that open an answer to come otherwise than one that was given
// (with a think block, say) are compared with another answer instead.
func (l *layout) answer(turns []engine.Message, text string) (*answered, error) {
	if text == "" {
		return nil, errors.New("the answer is empty")
	}
	with := func(answer string) ([]decode.Token, error) {
		return l.render(append(slices.Clone(turns), engine.Message{Role: "assistant", Content: answer}), true)
	}
	full, err := with(text)
	if err != nil {
		return nil, err
	}
	prompt, err := l.render(turns, true)
	if err != nil {
		return nil, err
	}
	a := &answered{tokens: full, from: len(prompt), to: len(full) - l.answerTail}
	if commonPrefix(prompt, full) < len(prompt) {
		other, err := with(otherThan(text))
		if err != nil {
			return nil, err
		}
		a.from = commonPrefix(full, other)
	}
	if a.from <= 0 || a.from >= a.to {
		return nil, fmt.Errorf("the template hides the answer %.40q", text)
	}
	return a, nil
}

// otherThan is an answer with another first letter.
func otherThan(text string) string {
	if text[0] == '0' {
		return "yes"
	}
	return "0"
}

// texts renders one side of a pair so that every wanted place is in it. Places
// share a text where one is the other's beginning.
func (l *layout) texts(turns []engine.Message, answer string, want []Place) ([]text, error) {
	var a *answered
	var list []text
	for i, p := range want {
		if p.Kind == Shown {
			continue // read by itself, in couples
		}
		if p.Kind != PromptEnd && a == nil {
			var err error
			if a, err = l.answer(turns, answer); err != nil {
				return nil, err
			}
		}
		tokens, s, err := l.locate(turns, answer, a, p)
		if err != nil {
			return nil, err
		}
		s.place = i
		list = merge(list, tokens, s)
	}
	return list, nil
}

func (l *layout) locate(turns []engine.Message, answer string, a *answered, p Place) ([]decode.Token, span, error) {
	switch p.Kind {
	case AnswerMean:
		return a.tokens[:a.to], span{from: a.from, to: a.to}, nil
	case AnswerEnd:
		at := a.to + p.Offset
		return a.tokens[:min(at+1, len(a.tokens))], span{from: at, to: at + 1}, inside(a.tokens, at, p)
	case Echo:
		turns = append(slices.Clone(turns), engine.Message{Role: "assistant", Content: answer}, turns[len(turns)-1])
	}
	tokens, err := l.render(turns, true)
	at := len(tokens) - l.userTail + p.Offset
	if err != nil {
		return nil, span{}, err
	}
	if err := inside(tokens, at, p); err != nil {
		return nil, span{}, err
	}
	return tokens[:at+1], span{from: at, to: at + 1}, nil
}

func inside(tokens []decode.Token, at int, p Place) error {
	if at < 0 || at >= len(tokens) {
		return fmt.Errorf("this template has no place %s", p)
	}
	return nil
}

// merge adds a span to the text that begins with tokens or that tokens begin
// with, else as a new text.
func merge(list []text, tokens []decode.Token, s span) []text {
	for i := range list {
		t := &list[i]
		if n := commonPrefix(t.tokens, tokens); n == len(tokens) || n == len(t.tokens) {
			if len(tokens) > len(t.tokens) {
				t.tokens = tokens
			}
			t.spans = append(t.spans, s)
			return list
		}
	}
	return append(list, text{tokens, []span{s}})
}
