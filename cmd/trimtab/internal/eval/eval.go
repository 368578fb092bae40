// Package eval measures steering methods on one model: what each does to the
// answers, beside what it damages.
//
// The model for the reader's head is an experiment with a closed envelope. A
// [Behaviour] comes with pairs and prompts in three disjoint splits: directions
// are read from the first, everything is chosen on the second, and the third is
// answered once, by every method, every control and every seed. [Run] does all
// of it; a [Report] is data, written as a table by its Markdown method.
package eval

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/trimtab/trimtab/runtime/engine"
	"github.com/trimtab/trimtab/steer/extract"
)

// Question is a prompt whose answers are judged.
type Question struct {
	ID    string
	Key   string           // questions with equal keys are drawn together by the bootstrap
	Turns []engine.Message // the assistant speaks next
	Of    any              // what the behaviour's judge needs beside the text
}

// Verdict is what a judge says of one answer.
type Verdict struct {
	Shown  float64 // 0 to 1: how much it shows the behaviour
	Broken bool    // it is neither this behaviour nor its opposite, or both
	Right  float64 // 0 to 1: it is right; only where the behaviour has Rightness
}

// score is what choices go by.
func (b *Behaviour) score(v Verdict) float64 {
	switch {
	case v.Broken:
		return 0
	case b.Rightness:
		return v.Right
	}
	return v.Shown
}

// Judge judges texts[i] as the answer to questions[i].
type Judge func(ctx context.Context, questions []Question, texts []string) ([]Verdict, error)

// Behaviour is what a vector is to bring about.
type Behaviour struct {
	Name  string
	Pairs []extract.Pair // each names its split; those of the test split are left alone
	Cues  []string       // ask for it in words; the best on Choose is the prompt baseline

	Choose, Test []Question // prompts of the validation and of the test split
	Judge        Judge
	Rightness    bool    // answers can be right, and that is what counts
	Goal         float64 // share that is to be reached; with Rightness, of the behaviour's own; 0 for none
}

// Axis is a behaviour and, where pairs can be turned around, its opposite.
type Axis struct {
	Name     string
	Is       *Behaviour
	Opposite *Behaviour // nil for none; its pairs are those of Is, exchanged
}

func (a *Axis) behaviours() []*Behaviour {
	if a.Opposite == nil {
		return []*Behaviour{a.Is}
	}
	return []*Behaviour{a.Is, a.Opposite}
}

// Options say what is measured and how. Axes, Open, Render and Now are required.
type Options struct {
	Axes     []Axis
	Together [][]string // names of behaviours to steer at once
	Neutral  Neutral
	Methods  []extract.Method // default: all
	Windows  []extract.Window // rows to try; default extract.Windows(). A short list saves most of the time.
	Seeds    int              // of the answers and the controls, default 3
	Counts   []int            // how many pairs, for the question how many suffice; nil for none

	Temperature float32 // of the answers
	MaxTokens   int     // longest answer
	MaxKL       float64 // budget of the choice, default extract.DefaultMaxKL

	// Open opens the model, once for each worker; Render is its template.
	Open    func(context.Context) (engine.Engine, error)
	Render  func(*engine.Info) (extract.Render, error)
	Workers int // axes measured at once, each on an engine of its own; default 1
	Slots   int // answers generated at once, default 16

	Now func() time.Time
	Say func(string) // progress, one line at a time, from several goroutines; nil for none
}

// Neutral are prompts that have nothing to do with any behaviour.
type Neutral struct{ Choose, Test [][]engine.Message }

const (
	defaultSeeds = 3
	maxSeeds     = 100
	defaultSlots = 16
)

func (o Options) filled() Options {
	if len(o.Methods) == 0 {
		o.Methods = []extract.Method{extract.PaLRS, extract.Guarded, extract.CAA, extract.Mean, extract.PCA, extract.Probe}
	}
	if o.Seeds == 0 {
		o.Seeds = defaultSeeds
	}
	if o.MaxKL == 0 {
		o.MaxKL = extract.DefaultMaxKL
	}
	o.Workers, o.Slots = max(o.Workers, 1), max(o.Slots, 0)
	if o.Slots == 0 {
		o.Slots = defaultSlots
	}
	if o.Say == nil {
		o.Say = func(string) {}
	}
	return o
}

// check reports every fault of filled options.
func (o *Options) check() error {
	var faults []error
	add := func(format string, args ...any) { faults = append(faults, fmt.Errorf("eval: "+format, args...)) }
	if len(o.Axes) == 0 {
		add("no behaviour is given")
	}
	if o.Seeds < 1 || o.Seeds > maxSeeds {
		add("%d seeds, must be 1 to %d", o.Seeds, maxSeeds)
	}
	if o.MaxTokens < 1 || !(o.Temperature >= 0) || !(o.MaxKL > 0) {
		add("most tokens %d, temperature %v and KL budget %v must be above 0", o.MaxTokens, o.Temperature, o.MaxKL)
	}
	known := map[string]bool{}
	for i := range o.Axes {
		for _, b := range o.Axes[i].behaviours() {
			if known[b.Name] {
				add("the behaviour %s is given twice", b.Name)
			}
			known[b.Name] = true
			faults = append(faults, b.disjoint())
		}
	}
	for _, names := range o.Together {
		for _, n := range names {
			if !known[n] {
				add("%s is to be combined and is not among the behaviours", n)
			}
		}
	}
	return errors.Join(faults...)
}

// disjoint reports a prompt that occurs in two splits.
func (b *Behaviour) disjoint() error {
	if len(b.Choose) == 0 || len(b.Test) == 0 {
		return fmt.Errorf("eval: %s has %d prompts to choose by and %d to test on, each needs one", b.Name, len(b.Choose), len(b.Test))
	}
	where := map[string]extract.Split{}
	see := func(key string, s extract.Split) error {
		if at, ok := where[key]; ok && at != s {
			return fmt.Errorf("eval: %s: %.60q is in the splits %s and %s", b.Name, key, at, s)
		}
		where[key] = s
		return nil
	}
	for _, p := range b.Pairs {
		if err := see(textOf(p.Turns), p.Split); err != nil {
			return err
		}
	}
	for _, part := range []struct {
		list  []Question
		split extract.Split
	}{{b.Choose, extract.Validation}, {b.Test, extract.Test}} {
		for _, q := range part.list {
			if err := see(textOf(q.Turns), part.split); err != nil {
				return err
			}
		}
	}
	return nil
}

func textOf(turns []engine.Message) string {
	text := ""
	for _, m := range turns {
		text += m.Role + ": " + m.Content + "\n"
	}
	return text
}
