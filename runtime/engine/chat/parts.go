package chat

import (
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/trimtab/trimtab/runtime/engine/chat/internal/jinja"
)

// Part is a piece of a prompt. In a Markup part control words are control
// tokens; in any other they are plain letters, because a user wrote them.
type Part struct {
	Text   string
	Markup bool
}

// RenderParts renders a prompt in which no message, tool or variable can
// forge a control word. control are the words that the model's tokenizer reads
// as control tokens, see [ControlWords]. The parts joined are what Render
// gives; in the usual case there is one Markup part.
//
// How it works: the punctuation of control words ("<", "|", ...) is replaced,
// in all texts from outside, by bytes that occur in no valid UTF-8, and goes
// through the template under the rules of the plain character. So each byte of
// the prompt still tells who wrote it, however the template cut, joined or
// compared it, and no text can fake or lose that. A control word with even one
// foreign byte is put into a part of its own with Markup false.
//
// A template that writes the brackets itself and a bare word between them
// ("<|" + role + "|>") keeps its meaning. A control word without any
// punctuation cannot be guarded this way: input that holds it is an error.
func (t *Template) RenderParts(in Input, control []string) ([]Part, error) {
	marks, bare := guard(control)
	if err := refuseBare(&in, bare); err != nil {
		return nil, fmt.Errorf("chat template input: %w", err)
	}
	text, err := t.render(&in, marks)
	if err != nil {
		return nil, err
	}
	return split(text, marks, control), nil
}

// guard chooses the characters to mark, the most frequent first, and lists the
// words that none of them is in.
func guard(control []string) (*jinja.Marks, []string) {
	var count [256]int
	for _, w := range control {
		for i := 0; i < len(w); i++ {
			if jinja.Markable(w[i]) {
				count[w[i]]++
			}
		}
	}
	var chars []byte
	for c := range count {
		if count[c] > 0 {
			chars = append(chars, byte(c))
		}
	}
	sort.SliceStable(chars, func(i, j int) bool { return count[chars[i]] > count[chars[j]] })
	marks := jinja.NewMarks(chars)
	var bare []string
	for _, w := range control {
		if w != "" && marks.Mark(w) == w {
			bare = append(bare, w)
		}
	}
	return marks, bare
}

// refuseBare looks for unguarded words in all texts of the input.
func refuseBare(in *Input, bare []string) error {
	if len(bare) == 0 {
		return nil
	}
	for i, m := range in.Messages {
		texts := []string{m.Role, m.Content, m.Reasoning, m.Name, m.ToolCallID}
		for _, c := range m.ToolCalls {
			texts = append(texts, c.ID, c.Name, string(c.Arguments))
		}
		if err := findBare(texts, bare); err != nil {
			return fmt.Errorf("message %d: %w", i, err)
		}
	}
	for i, raw := range in.Tools {
		if err := findBare([]string{string(raw)}, bare); err != nil {
			return fmt.Errorf("tool %d: %w", i, err)
		}
	}
	for name, raw := range in.Extra {
		if err := findBare([]string{string(raw)}, bare); err != nil {
			return fmt.Errorf("variable %q: %w", name, err)
		}
	}
	return nil
}

func findBare(texts, bare []string) error {
	for _, s := range texts {
		for _, w := range bare {
			if strings.Contains(s, w) {
				return fmt.Errorf("holds the control word %q, which has no punctuation to guard it by; remove it", w)
			}
		}
	}
	return nil
}

// span is a byte range of the prompt.
type span struct{ from, to int }

// split cuts a marked prompt so that every control word with a mark in it
// lies in a part that is no markup.
func split(marked string, marks *jinja.Marks, control []string) []Part {
	text := marks.Plain(marked)
	forged := forgedWords(marked, text, marks, control)
	var parts []Part
	at := 0
	for _, s := range forged {
		if s.from > at {
			parts = append(parts, Part{text[at:s.from], true})
		}
		parts = append(parts, Part{text[s.from:s.to], false})
		at = s.to
	}
	if at < len(text) {
		parts = append(parts, Part{text[at:], true})
	}
	return parts
}

// forgedWords finds the control words in text that have a mark, merged where
// they touch, without the bytes that also belong to a word of the template's.
func forgedWords(marked, text string, marks *jinja.Marks, control []string) []span {
	if marked == text {
		return nil // no mark in it: the usual case
	}
	words := indexWords(control)
	own := make([]bool, len(text))
	forged := make([]bool, len(text))
	for i := range len(text) {
		for _, n := range words.lengths[text[i]] {
			if i+n > len(text) || !words.has[text[i:i+n]] {
				continue
			}
			mine := marked[i:i+n] == text[i:i+n]
			for j := i; j < i+n; j++ {
				own[j] = own[j] || mine
				forged[j] = forged[j] || !mine
			}
		}
	}
	return collect(own, forged)
}

// wordIndex finds words by their first byte and length: vocabularies have
// thousands of control words, but of few lengths.
type wordIndex struct {
	lengths [256][]int
	has     map[string]bool
}

func indexWords(words []string) *wordIndex {
	x := &wordIndex{has: make(map[string]bool, len(words))}
	for _, w := range words {
		if w == "" || x.has[w] {
			continue
		}
		x.has[w] = true
		if l := &x.lengths[w[0]]; !slices.Contains(*l, len(w)) {
			*l = append(*l, len(w))
		}
	}
	return x
}

// collect gives the runs of forged bytes that are not also the template's own.
func collect(own, forged []bool) []span {
	var spans []span
	for i := range forged {
		if !forged[i] || own[i] {
			continue
		}
		if n := len(spans); n > 0 && spans[n-1].to == i {
			spans[n-1].to++
		} else {
			spans = append(spans, span{i, i + 1})
		}
	}
	return spans
}
