package main

import (
	"context"
	"slices"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/monitors/probe"
	"github.com/trimtab/trimtab/runtime/engine"
	"github.com/trimtab/trimtab/runtime/engine/chat"
	"github.com/trimtab/trimtab/steer"
)

// Rows are read from this many prompts of each kind, at the last row of the
// prompt and at the first rows of the model's own answer.
const (
	readPrompts = 60
	readRows    = 24
)

func (g *guard) render(turns []engine.Message, header bool) ([]decode.Token, error) {
	in := chat.Input{AddGenerationPrompt: header}
	for _, m := range turns {
		in.Messages = append(in.Messages, chat.Message{Role: m.Role, Content: m.Content})
	}
	return g.prompter.Prompt(in)
}

// probe learns to tell the rows of hazardous prompts from those of benign ones.
// Its gate opens above nearly every benign row that it saw.
func (g *guard) probe(ctx context.Context, site steer.Site, hazardous, benign [][]engine.Message) (*steer.Gate, error) {
	var examples []probe.Example
	for k, list := range [][][]engine.Message{benign, hazardous} {
		for _, turns := range list[:min(len(list), readPrompts)] {
			rows, err := g.rows(ctx, site, turns)
			if err != nil {
				return nil, err
			}
			for _, row := range rows {
				examples = append(examples, probe.Example{Row: row, Positive: k == 1})
			}
		}
	}
	p, err := probe.Train(ctx, examples, probe.TrainOptions{Name: "hazard", Site: site, Labels: [2]string{"benign", "hazardous"}})
	if err != nil {
		return nil, err
	}
	l := p.Value.Layers[0]
	gate := &steer.Gate{Site: site, Kind: steer.Logistic, Vector: l.Weight, Bias: l.Bias[0]}
	var values []float64
	for i := range examples {
		if !examples[i].Positive {
			values = append(values, gate.Value(examples[i].Row))
		}
	}
	slices.Sort(values)
	gate.Threshold = float32(min(max(values[len(values)*995/1000], 0.5), 0.999))
	return gate, nil
}

// rows are what a site shows from the end of the prompt on, while the model
// answers with its likeliest tokens.
func (g *guard) rows(ctx context.Context, site steer.Site, turns []engine.Message) (rows [][]float32, err error) {
	tokens, err := g.render(turns, true)
	if err != nil {
		return nil, err
	}
	s, err := g.e.NewSequence(ctx, engine.Origin{})
	if err != nil {
		return nil, err
	}
	defer s.Close()
	info := g.e.Info()
	for range readRows {
		if err := g.e.Forward(ctx, []engine.Feed{{Seq: s, Tokens: tokens, Capture: []steer.Site{site}}}); err != nil {
			return nil, err
		}
		x, err := s.Activation(site)
		if err != nil {
			return nil, err
		}
		rows = append(rows, slices.Clone(x[len(x)-info.Width:]))
		next, err := decode.Greedy{}.Sample(s.Logits(), nil)
		if err != nil {
			return nil, err
		}
		if info.Tokenizer.Kind(next)&engine.KindEnd != 0 {
			break
		}
		tokens = []decode.Token{next}
	}
	return rows, nil
}
