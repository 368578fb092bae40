package extract

import (
	"context"
	"slices"

	"github.com/trimtab/trimtab/runtime/engine"
	"github.com/trimtab/trimtab/steer"
)

// Divergences returns for every plan the mean over all answer rows of the texts
// of KL(unsteered||steered), in nats per token: how far the plan moves the model
// where it should not. It drives the engine alone until it returns.
func Divergences(ctx context.Context, e engine.Engine, plans []*steer.Plan, texts []Answered) ([]float64, error) {
	return divergences(ctx, e, plans, inner(texts), nil)
}

// LogProbs returns the log-probability of every text's answer under a plan, in
// nats. It drives the engine alone until it returns.
func LogProbs(ctx context.Context, e engine.Engine, plan *steer.Plan, texts []Answered) ([]float64, error) {
	out := make([]float64, len(texts))
	var jobs []job
	for i, a := range inner(texts) {
		jobs = append(jobs, scoring(a, plan, func(logp float64) { out[i] += logp }))
	}
	return out, newDriver(e, nil, engine.OutputAll).run(ctx, jobs, nil)
}

func inner(texts []Answered) []*answered {
	out := make([]*answered, len(texts))
	for i, t := range texts {
		out[i] = &answered{t.Tokens, t.From, t.To}
	}
	return out
}

// PlacesOf lists every place that one of the methods reads by default, in this
// template: what [Read] needs so that [Options.States] serve them all.
func PlacesOf(render Render, methods ...Method) ([]Place, error) {
	l, err := newLayout(render)
	if err != nil {
		return nil, err
	}
	var out []Place
	for _, m := range methods {
		for _, k := range m.kinds() {
			for _, p := range few(l.places(k), m) {
				if !slices.Contains(out, p) {
					out = append(out, p)
				}
			}
		}
	}
	return out, nil
}
