package extract

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/trimtab/trimtab/runtime/engine"
	"github.com/trimtab/trimtab/steer"
)

// Control is one way to (not) steer, measured on the test pairs.
type Control struct {
	Name   string // "unsteered", "fit", "negated", "random", "shuffled", "prompt"
	Margin Estimate
	Effect Estimate // over the unsteered model, as in [Trial]
	KL     float64  // mean per token on neutral prompts; 0 for unsteered and prompt
}

// controls measures the fit on the test pairs beside what a fit must beat. All
// vectors have the fit's layer, window and dose; all but the shuffled one also
// its length.
func (f *fitter) controls(ctx context.Context, r *Result, cell int) ([]Control, error) {
	names := []string{"unsteered", "fit", "negated", "random"}
	dirs := [][]float32{nil, r.Direction, negated(r.Direction), f.random(r.MeanNorm, len(r.Direction))}
	if d, ok := f.shuffled(cell, r.MeanNorm); ok {
		names, dirs = append(names, "shuffled"), append(dirs, d)
	}
	plans := make([]*steer.Plan, len(dirs))
	for i, d := range dirs[1:] {
		var err error
		if plans[i+1], err = plan(r.Chosen.Cell.Layer, d, r.Chosen.Window, r.Chosen.Dose); err != nil {
			return nil, err
		}
	}
	list, err := f.layout.contests(f.splits.Test, nil)
	if err != nil {
		return nil, fmt.Errorf("test: %w", err)
	}
	x, err := scores(ctx, f.e, plans, list, f.report("measuring controls", 2*len(plans)*len(list)))
	if err != nil {
		return nil, err
	}
	kl, err := divergences(ctx, f.e, plans[1:], f.neutral, nil)
	if err != nil {
		return nil, err
	}
	out := make([]Control, len(plans))
	for i := range out {
		out[i] = Control{Name: names[i], Margin: marginsOf(x[i]), Effect: effectsOf(x[i], x[0])}
		if i > 0 {
			out[i].KL = kl[i-1]
		}
	}
	return f.prompted(ctx, out, x[0])
}

// prompted adds the control that asks for the behaviour in words.
func (f *fitter) prompted(ctx context.Context, out []Control, base []logps) ([]Control, error) {
	if f.o.Cue == "" {
		return out, nil
	}
	list, err := f.layout.contests(f.splits.Test, func(t []engine.Message) []engine.Message { return asked(t, f.o.Cue) })
	if err != nil {
		return nil, fmt.Errorf("test with the cue: %w", err)
	}
	x, err := scores(ctx, f.e, []*steer.Plan{nil}, list, nil)
	if err != nil {
		return nil, err
	}
	return append(out, Control{Name: "prompt", Margin: marginsOf(x[0]), Effect: effectsOf(x[0], base)}), nil
}

// asked puts an instruction in front of the user's last turn: every template
// takes that, while some refuse a system turn.
func asked(turns []engine.Message, cue string) []engine.Message {
	out := slices.Clone(turns)
	last := &out[len(out)-1]
	last.Content = cue + " " + last.Content
	return out
}

// shuffled is the difference with half of the labels exchanged, enlarged as
// much as the true difference is. It is not given the fit's length: whatever
// direction is left by chance, often one along the true difference with either
// sign, would then act as strongly as the truth.
func (f *fitter) shuffled(cell int, norm float64) ([]float32, bool) {
	d, whole := f.m.Shuffled(cell), length(f.m.Difference(cell))
	if length(d) == 0 || whole == 0 {
		return nil, false
	}
	for i := range d {
		d[i] *= norm / whole
	}
	return narrow(d), true
}

func negated(d []float32) []float32 {
	out := make([]float32, len(d))
	for i, x := range d {
		out[i] = -x
	}
	return out
}

// random is a direction drawn evenly from the sphere of the given radius.
func (f *fitter) random(norm float64, width int) []float32 {
	r := rand.New(rand.NewPCG(f.o.Seed, 0x72616e646f6d))
	x := make([]float64, width)
	for i := range x {
		x[i] = r.NormFloat64()
	}
	n := length(x)
	if n == 0 {
		x[0], n = 1, 1
	}
	out := make([]float32, width)
	for i := range x {
		out[i] = float32(x[i] * norm / n)
	}
	return out
}

// Everyday are the neutral prompts of [Fit] for those who give none.
func Everyday() (out [][]engine.Message) {
	for _, q := range []string{
		"Hello!", "What is the capital of France?", "How do I boil an egg?", "Name three colours.",
		"What is the weather like in autumn?", "Write one sentence about a river.", "Thank you very much.",
		"Who wrote Romeo and Juliet?", "What day comes after Monday?", "How many legs does a spider have?",
		"Translate good morning into Spanish.", "What do bees make?", "Give me a word that rhymes with cat.",
		"Why is the sky blue?", "What is a library for?", "Good night.",
	} {
		out = append(out, []engine.Message{{Role: "user", Content: q}})
	}
	return out
}
