package eval

import (
	"context"
	"fmt"

	"github.com/trimtab/trimtab/internal/nano/chat"
	"github.com/trimtab/trimtab/runtime/engine"
	"github.com/trimtab/trimtab/steer/extract"
)

// Nano describes how much of nano-chat's behaviour is measured.
type Nano struct {
	Train, Choose, Test int // pairs for directions, and prompts of the two other splits; pairs to choose by are half of Train
	Quick               bool
}

const (
	nanoSeed      = 1
	styleGoal     = 0.9
	carefulGoal   = 0.9 // of the careful mode's own accuracy
	nanoMaxTokens = 160 // longer than any answer of the corpus
)

// Fill sets the axes, combinations and prompts for the built-in model: careful
// arithmetic, and every style attribute in both directions. With Quick only
// arithmetic and one attribute.
func (n Nano) Fill(o *Options) error {
	careful, err := n.behaviour("arithmetic-careful", []string{"Show your work.", "Be careful.", "Think step by step.", "Take your time."})
	if err != nil {
		return err
	}
	careful.Rightness, careful.Goal = true, carefulGoal
	o.Axes = append(o.Axes, Axis{Name: "arithmetic", Is: careful})
	for _, s := range styles() {
		if n.Quick && s.attribute != chat.Mood {
			continue
		}
		axis := Axis{Name: string(s.attribute)}
		if axis.Is, err = n.behaviour("style-"+chat.ValueName(s.attribute, true), s.cues[1]); err != nil {
			return err
		}
		if axis.Opposite, err = n.behaviour("style-"+chat.ValueName(s.attribute, false), s.cues[0]); err != nil {
			return err
		}
		axis.Is.Goal, axis.Opposite.Goal = styleGoal, styleGoal
		o.Axes = append(o.Axes, axis)
	}
	if !n.Quick {
		o.Together = [][]string{{"style-formal", "style-long", "style-cheerful"}, {"style-casual", "style-short", "style-gloomy"},
			{"style-formal", "style-short", "style-gloomy"}, {"style-casual", "style-long", "style-cheerful"}}
	}
	o.Temperature, o.MaxTokens = chat.Temperature, nanoMaxTokens
	return n.neutral(o)
}

func (n Nano) neutral(o *Options) error {
	set, err := chat.SetNamed("neutral")
	if err != nil {
		return err
	}
	for _, r := range set.Records(chat.Validation, nanoSeed, 24) {
		o.Neutral.Choose = append(o.Neutral.Choose, messages(r.Messages))
	}
	for _, r := range set.Records(chat.Test, nanoSeed, 48) {
		o.Neutral.Test = append(o.Neutral.Test, messages(r.Messages))
	}
	return nil
}

// styleOf is an attribute with the sentences that ask for either value.
type styleOf struct {
	attribute chat.Attribute
	cues      [2][]string // false, true
}

func styles() []styleOf {
	return []styleOf{
		{chat.Register, [2][]string{{"Keep it casual.", "Talk like a friend."}, {"Be formal.", "Use a formal tone."}}},
		{chat.Length, [2][]string{{"Keep it short.", "Be brief."}, {"Make it long.", "Tell me a lot."}}},
		{chat.Mood, [2][]string{{"Be gloomy.", "Sound sad."}, {"Be cheerful.", "Sound happy."}}},
	}
}

func (n Nano) behaviour(name string, cues []string) (*Behaviour, error) {
	set, err := chat.SetNamed(name)
	if err != nil {
		return nil, err
	}
	b := &Behaviour{Name: name, Cues: cues, Judge: each(func(q Question, text string) Verdict { return nanoVerdict(name, q.Of.(chat.Probe), text) })}
	for _, part := range []struct {
		split chat.Split
		count int
	}{{chat.Train, n.Train}, {chat.Validation, n.Train / 2}, {chat.Test, 8}} {
		for _, r := range set.Records(part.split, nanoSeed, part.count) {
			b.Pairs = append(b.Pairs, extract.Pair{Turns: messages(r.Messages), Chosen: r.Chosen, Rejected: r.Rejected, Split: extract.Split(part.split), Key: r.Key})
		}
	}
	kind := chat.KindStyle
	if name == "arithmetic-careful" {
		kind = chat.KindArithmetic
	}
	if b.Choose, err = questions(kind, chat.Validation, n.Choose); err == nil {
		b.Test, err = questions(kind, chat.Test, n.Test)
	}
	return b, err
}

func questions(kind chat.Kind, split chat.Split, n int) (out []Question, err error) {
	probes, err := chat.Probes(kind, split, nanoSeed, n)
	for i, p := range probes {
		turns := messages(p.Messages)
		out = append(out, Question{ID: fmt.Sprint(i), Key: textOf(turns), Turns: turns, Of: p})
	}
	return out, err
}

func messages(ms []chat.Message) []engine.Message {
	out := make([]engine.Message, len(ms))
	for i, m := range ms {
		out[i] = engine.Message{Role: string(m.Role), Content: m.Content}
	}
	return out
}

// each judges one text after the other.
func each(judge func(Question, string) Verdict) Judge {
	return func(_ context.Context, questions []Question, texts []string) ([]Verdict, error) {
		out := make([]Verdict, len(texts))
		for i := range texts {
			out[i] = judge(questions[i], texts[i])
		}
		return out, nil
	}
}

// nanoVerdict judges an answer to a probe by the corpus' own checkers. A style
// answer is broken when any attribute is mixed or missing.
func nanoVerdict(set string, p chat.Probe, text string) (v Verdict) {
	if p.Sum != nil {
		r := chat.CheckArithmetic(*p.Sum, text)
		return Verdict{Shown: number("arithmetic-"+string(r.Mode) == set), Broken: r.Mode == chat.ModeUnknown, Right: number(r.Correct)}
	}
	r := chat.CheckStyle(text)
	v.Broken = !r.Unambiguous()
	for k, a := range chat.Attributes() {
		if r.Clear[k] && "style-"+chat.ValueName(a, r.Style.Get(a)) == set {
			v.Shown = 1
		}
	}
	return v
}
