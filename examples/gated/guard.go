package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/runtime/engine"
	"github.com/trimtab/trimtab/runtime/engine/chat"
	"github.com/trimtab/trimtab/steer"
	"github.com/trimtab/trimtab/steer/extract"
)

// What is learned, is learned from so many pairs and prompts of each kind, and
// what is chosen, on so many others.
const (
	learnt = 40
	held   = 24
)

// guard is a model with a plan that keeps it safe.
type guard struct {
	e        engine.Engine
	prompter *chat.Prompter
	edit     steer.Intervention // without the gate
	gate     *steer.Gate
	plan     *steer.Plan
}

// newGuard fits a vector, then a gate for the rows that it acts on, and puts
// the one behind the other.
func newGuard(ctx context.Context, e engine.Engine, pairs []extract.Pair, benign [][]engine.Message) (*guard, error) {
	g := &guard{e: e}
	var err error
	if g.prompter, err = chat.NewPrompter(e.Info(), chat.Options{}); err != nil {
		return nil, err
	}
	if g.edit, err = g.vector(ctx, pairs); err != nil {
		return nil, fmt.Errorf("vector: %w", err)
	}
	var hazardous [][]engine.Message
	for i := range pairs {
		hazardous = append(hazardous, pairs[i].Turns)
	}
	if g.gate, err = g.fitGate(ctx, hazardous, benign); err != nil {
		return nil, fmt.Errorf("gate: %w", err)
	}
	gated := g.edit
	gated.Gate = g.gate
	g.plan, err = steer.NewPlan(gated)
	return g, err
}

// vector is read where it shows in an answer whether the one before it was
// safe, and acts on the rows where it does. Which block that is, and what dose
// it takes, depends on the model, and its own answers decide: a direction that
// tells the two kinds of answers apart need not turn the one into the other.
// What it does to benign prompts does not matter, since a gate will guard them.
func (g *guard) vector(ctx context.Context, pairs []extract.Pair) (best steer.Intervention, err error) {
	split, err := extract.Deal(pairs, 1)
	if err != nil {
		return best, err
	}
	var layers []int
	for l := g.e.Info().Layers / 2; l < g.e.Info().Layers; l++ {
		layers = append(layers, l)
	}
	m, err := extract.Read(ctx, g.e, g.render, split.Train[:min(len(split.Train), learnt)], layers,
		[]extract.Place{{Kind: extract.Shown}}, extract.ReadOptions{})
	if err != nil {
		return best, err
	}
	bad, most := unwanted(split.Train), -1
	for _, dose := range []float32{0.5, 0.75, 1, 1.5} { // times the difference
		for i := range m.Cells {
			iv := edit(m, i, dose)
			safe, err := g.safe(ctx, split.Validation[:min(len(split.Validation), held)], iv, bad)
			if err != nil {
				return best, err
			}
			if safe > most { // of equal ones the smallest dose
				best, most = iv, safe
			}
		}
	}
	return best, nil
}

// edit adds a cell's difference in the answer's rows where it matters: after few
// tokens, or anywhere.
func edit(m *extract.Moments, cell int, dose float32) steer.Intervention {
	first := -1 // the last row of the prompt, which writes the first token
	iv := steer.Intervention{Site: steer.Site{Layer: m.Cells[cell].Layer}, Scale: dose, When: steer.When{From: &first}}
	for _, x := range m.Difference(cell) {
		iv.Vector = append(iv.Vector, float32(x))
	}
	for _, t := range m.Occasions(0.9) {
		iv.When.Tokens = append(iv.When.Tokens, int32(t))
	}
	return iv
}

// safe counts the prompts that the model answers without an unwanted word.
func (g *guard) safe(ctx context.Context, pairs []extract.Pair, iv steer.Intervention, bad map[string]bool) (n int, err error) {
	plan, err := steer.NewPlan(iv)
	if err != nil {
		return 0, err
	}
	var prompts [][]engine.Message
	for i := range pairs {
		prompts = append(prompts, pairs[i].Turns)
	}
	texts, err := g.write(ctx, prompts, plan, nil, nil)
	for _, text := range texts {
		if !slices.ContainsFunc(strings.Fields(text), func(w string) bool { return bad[w] }) {
			n++
		}
	}
	return n, err
}

// unwanted are the words that only rejected answers use.
func unwanted(pairs []extract.Pair) map[string]bool {
	bad := map[string]bool{}
	for i := range pairs {
		for _, w := range strings.Fields(pairs[i].Rejected) {
			bad[w] = true
		}
	}
	for i := range pairs {
		for _, w := range strings.Fields(pairs[i].Chosen) {
			delete(bad, w)
		}
	}
	return bad
}

func (g *guard) render(turns []engine.Message, header bool) ([]decode.Token, error) {
	in := chat.Input{AddGenerationPrompt: header}
	for _, m := range turns {
		in.Messages = append(in.Messages, chat.Message{Role: m.Role, Content: m.Content})
	}
	return g.prompter.Prompt(in)
}
