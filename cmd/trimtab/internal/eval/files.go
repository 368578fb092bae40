package eval

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/trimtab/trimtab/cmd/trimtab/internal/checker"
	"github.com/trimtab/trimtab/runtime/engine"
	"github.com/trimtab/trimtab/steer/extract"
)

// Given is a behaviour of the user's own.
type Given struct {
	Name    string
	Pairs   []extract.Pair
	Cues    []string
	Checker *checker.Checker
	Prompts int // most prompts of the test split; 0 for all
}

// brokenLabels are what a checker calls an answer that is neither the behaviour
// nor its opposite.
var brokenLabels = []string{"broken", "mixed", "unknown"}

// Axis deals the pairs into splits, where they do not name them, and makes
// prompts of those that are not for directions.
func (g Given) Axis(seed uint64) (Axis, error) {
	if g.Checker == nil {
		return Axis{}, errors.New("eval: a behaviour of your own needs a checker")
	}
	s, err := extract.Deal(g.Pairs, seed)
	if err != nil {
		return Axis{}, fmt.Errorf("%s: %w", g.Name, err)
	}
	b := &Behaviour{Name: g.Name, Cues: g.Cues, Judge: outside(g.Checker)}
	for _, part := range []struct {
		split extract.Split
		pairs []extract.Pair
	}{{extract.Train, s.Train}, {extract.Validation, s.Validation}, {extract.Test, s.Test}} {
		for _, p := range part.pairs {
			p.Split = part.split
			b.Pairs = append(b.Pairs, p)
		}
	}
	b.Choose, b.Test = asQuestions(s.Validation, maxChoose), asQuestions(s.Test, g.Prompts)
	return Axis{Name: g.Name, Is: b}, nil
}

// maxChoose bounds the validation prompts that the judge hears of every trial.
const maxChoose = 64

func asQuestions(pairs []extract.Pair, most int) (out []Question) {
	for i, p := range pairs {
		if most > 0 && i >= most {
			break
		}
		out = append(out, Question{ID: fmt.Sprint(i), Key: textOf(p.Turns), Turns: p.Turns})
	}
	return out
}

// outside asks the checker. A verdict without a score counts as shown when its
// label says "yes" or "shown".
func outside(c *checker.Checker) Judge {
	return func(ctx context.Context, questions []Question, texts []string) ([]Verdict, error) {
		items := make([]checker.Item, len(texts))
		for i, q := range questions {
			items[i] = checker.Item{ID: fmt.Sprint(i), Text: texts[i]}
			if items[i].Messages = turns(q.Turns); len(q.Turns) == 1 {
				items[i].Prompt, items[i].Messages = q.Turns[0].Content, nil
			}
		}
		said, err := c.Check(ctx, items)
		if err != nil {
			return nil, err
		}
		out := make([]Verdict, len(said))
		for i, v := range said {
			out[i].Broken = slices.Contains(brokenLabels, v.Label)
			switch {
			case v.Score != nil:
				out[i].Shown = *v.Score
			case v.Label == "yes" || v.Label == "shown":
				out[i].Shown = 1
			case !out[i].Broken && v.Label != "no":
				return nil, fmt.Errorf(`the checker gave the label %q and no score: want a "score", or one of the labels yes, shown, no, broken, mixed, unknown`, v.Label)
			}
		}
		return out, nil
	}
}

func turns(list []engine.Message) []checker.Message {
	out := make([]checker.Message, len(list))
	for i, m := range list {
		out[i] = checker.Message{Role: m.Role, Content: m.Content}
	}
	return out
}
