package main

import (
	"context"
	"errors"
	"slices"

	"github.com/trimtab/trimtab/monitors/probe"
	"github.com/trimtab/trimtab/runtime/engine"
	"github.com/trimtab/trimtab/steer"
)

// A threshold lies so far above the benign rows, where that leaves room.
const (
	margin  = 0.05
	highest = 0.999
)

// fitGate learns, on the rows that the edit acts on, to tell hazardous prompts
// from benign ones: at every block before the edit's, of which it takes the
// first whose gate lets most rows of other hazardous prompts through.
func (g *guard) fitGate(ctx context.Context, hazardous, benign [][]engine.Message) (best *steer.Gate, err error) {
	var sites []steer.Site
	for l := range max(g.edit.Site.Layer, 1) {
		sites = append(sites, steer.Site{Layer: l})
	}
	var learn, other [2][][][]float32 // by class, block and row
	for class, prompts := range [][][]engine.Message{benign, hazardous} {
		n := min(len(prompts), learnt+held)
		if learn[class], err = g.rows(ctx, prompts[:n*learnt/(learnt+held)], sites); err != nil {
			return nil, err
		}
		if other[class], err = g.rows(ctx, prompts[n*learnt/(learnt+held):n], sites); err != nil {
			return nil, err
		}
	}
	if len(learn[0][0]) == 0 || len(learn[1][0]) == 0 {
		return nil, errors.New("the edit acts on no row of the answers to one kind of prompts: give benign prompts that resemble the others")
	}
	most := -1
	for k, site := range sites {
		gate, err := train(ctx, site, learn[0][k], learn[1][k])
		if err != nil {
			return nil, err
		}
		for _, row := range slices.Concat(learn[0][k], other[0][k]) { // it stays shut for all benign rows
			gate.Threshold = max(gate.Threshold, float32(min(gate.Value(row)+margin, highest)))
		}
		if n := opens(gate, other[1][k]); n > most {
			best, most = gate, n
		}
	}
	return best, nil
}

// opens counts the rows that a gate lets through.
func opens(gate *steer.Gate, rows [][]float32) (n int) {
	for _, row := range rows {
		if gate.Open(row) {
			n++
		}
	}
	return n
}

func train(ctx context.Context, site steer.Site, benign, hazardous [][]float32) (*steer.Gate, error) {
	var examples []probe.Example
	for class, rows := range [][][]float32{benign, hazardous} {
		for _, row := range rows {
			examples = append(examples, probe.Example{Row: row, Positive: class == 1})
		}
	}
	p, err := probe.Train(ctx, examples, probe.TrainOptions{Name: "hazard", Site: site, Labels: [2]string{"benign", "hazardous"}})
	if err != nil {
		return nil, err
	}
	l := p.Value.Layers[0]
	return &steer.Gate{Site: site, Kind: steer.Logistic, Vector: l.Weight, Bias: l.Bias[0], Threshold: 0.5}, nil
}

// rows are what each site shows in the rows that the edits act on, while the
// model answers on its own.
func (g *guard) rows(ctx context.Context, prompts [][]engine.Message, sites []steer.Site) ([][][]float32, error) {
	rows, width := make([][][]float32, len(sites)), g.e.Info().Width
	_, err := g.write(ctx, prompts, nil, sites, func(l *lane) error {
		at := l.Seq.Len() - 1
		if !g.edit.When.Active(steer.Row{Offset: at - l.PromptLen, Token: int32(l.Tokens[len(l.Tokens)-1])}) {
			return nil
		}
		for k, site := range sites {
			x, err := l.Seq.Activation(site)
			if err != nil {
				return err
			}
			rows[k] = append(rows[k], slices.Clone(x[len(x)-width:]))
		}
		return nil
	})
	return rows, err
}
