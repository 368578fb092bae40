package reach

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/trimtab/trimtab/decode"
)

// Spell turns tokens into their texts, for the functions that label. End tokens
// are spelt as nothing.
type Spell func(decode.Token) string

// text is the concatenation of the first n tokens.
func (t *Trajectory) text(spell Spell, n int) string {
	var b strings.Builder
	for _, k := range t.Tokens[:n] {
		b.WriteString(spell(k))
	}
	return b.String()
}

// LabelText sets the margins of every text by where its failure begins: find
// returns the byte offset of the first bad word, or -1. The margin is 1 up to
// the token that the word begins in, and -1 from that token on.
func LabelText(d *Data, spell Spell, find func(text string) int) {
	for i := range d.Trajectories {
		t := &d.Trajectories[i]
		at, n := find(t.text(spell, len(t.Tokens))), -1
		for k, end := 0, 0; at >= 0 && k < len(t.Tokens); k++ {
			if end += len(spell(t.Tokens[k])); at < end {
				n = k
				break
			}
		}
		t.Margins = fallAt(len(t.Tokens), n, 1, -1)
	}
}

// fallAt are margins that fall from before to after with token at; -1 for never.
func fallAt(tokens, at int, before, after float32) []float32 {
	m := make([]float32, tokens+1)
	for i := range m {
		m[i] = before
		if at >= 0 && i > at {
			m[i] = after
		}
	}
	return m
}

// Prefix is the beginning of a text, up to some token, for a judge.
type Prefix struct {
	Trajectory int // index in Data.Trajectories
	Text       string
}

// Judge says of each prefix how likely it is unsafe, 0 to 1, in their order.
type Judge func(ctx context.Context, list []Prefix) ([]float64, error)

// Bisect sets the margins of every text with a judge of whole texts, such as a
// command: l = 1 - 2 p. Where a text fails it looks for the token with which it
// becomes unsafe by halving, all texts in one call of the judge a round, on the
// assumption that an unsafe beginning stays unsafe: about 2 + log2(tokens) calls
// in all. Before that token the margin is that of the longest safe beginning
// that was judged.
func Bisect(ctx context.Context, d *Data, spell Spell, judge Judge) error {
	b := &bisection{d: d, spell: spell, judge: judge, spans: make([]span, len(d.Trajectories))}
	all := make([]int, len(b.spans))
	for i := range all {
		all[i] = i
		b.spans[i] = span{high: len(d.Trajectories[i].Tokens), before: 1}
	}
	whole := func(i int) int { return b.spans[i].high }
	if err := b.ask(ctx, all, whole, func(s *span, m float32) { s.after = m }); err != nil {
		return err
	}
	for open := b.open(); len(open) > 0; open = b.open() {
		middle := func(i int) int { return (b.spans[i].low + b.spans[i].high) / 2 }
		err := b.ask(ctx, open, middle, func(s *span, m float32) {
			if m < 0 {
				s.high = (s.low + s.high) / 2
			} else {
				s.low, s.before = (s.low+s.high)/2, m
			}
		})
		if err != nil {
			return err
		}
	}
	for i, s := range b.spans {
		t := &d.Trajectories[i]
		if s.after >= 0 {
			t.Margins = fallAt(len(t.Tokens), -1, s.after, 0)
		} else {
			t.Margins = fallAt(len(t.Tokens), s.high-1, s.before, s.after)
		}
	}
	return nil
}

// bisection is one Bisect at work.
type bisection struct {
	d     *Data
	spell Spell
	judge Judge
	spans []span // of the texts
}

// span is what is known of where a text fails.
type span struct {
	low, high     int // tokens: the longest safe and the shortest unsafe beginning known
	before, after float32
}

// open are the texts whose failure is not found yet.
func (b *bisection) open() (list []int) {
	for i, s := range b.spans {
		if s.after < 0 && s.high-s.low > 1 {
			list = append(list, i)
		}
	}
	return list
}

// ask has the first length(i) tokens of some texts judged.
func (b *bisection) ask(ctx context.Context, list []int, length func(i int) int, take func(s *span, margin float32)) error {
	prefixes := make([]Prefix, len(list))
	for k, i := range list {
		prefixes[k] = Prefix{i, b.d.Trajectories[i].text(b.spell, length(i))}
	}
	p, err := b.judge(ctx, prefixes)
	if err != nil {
		return fmt.Errorf("reach: label: %w", err)
	}
	if len(p) != len(list) {
		return fmt.Errorf("reach: label: %d verdicts on %d texts", len(p), len(list))
	}
	for k, i := range list {
		if !(p[k] >= 0 && p[k] <= 1) {
			return fmt.Errorf("reach: label: text %d: probability %v, want 0 to 1", i, p[k])
		}
		take(&b.spans[i], float32(1-2*p[k]))
	}
	return nil
}

// Give sets the margins of one text from outside.
func (t *Trajectory) Give(margins []float32) error {
	if len(margins) != len(t.Tokens)+1 {
		return errors.New("reach: label: one margin is wanted for each prefix, the empty one included")
	}
	t.Margins = margins
	return nil
}
