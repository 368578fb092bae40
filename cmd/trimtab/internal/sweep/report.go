package sweep

import (
	"math"
	"slices"

	"github.com/trimtab/trimtab/cmd/trimtab/internal/stats"
	"github.com/trimtab/trimtab/steer/extract"
)

// Estimate is a mean with its bootstrap interval.
type Estimate struct {
	Mean float64 `json:"mean"`
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// Result is what one arm did. A measure that was not taken is nil.
type Result struct {
	Expression string    `json:"expression"` // empty: unsteered
	Dose       float64   `json:"dose"`
	Layer      *int      `json:"layer,omitempty"`
	Margin     *Estimate `json:"margin,omitempty"`     // log p(chosen) - log p(rejected), nats per pair
	Effect     *Estimate `json:"effect,omitempty"`     // extract.GuardedEffect, nats per pair
	Score      *Estimate `json:"score,omitempty"`      // of the judge, 0 to 1
	KL         *Estimate `json:"kl,omitempty"`         // KL(unsteered || steered), nats per token
	Perplexity *Estimate `json:"perplexity,omitempty"` // of the held-out text
	Distinct   *Estimate `json:"distinct2,omitempty"`  // of the answers
	Loops      *Estimate `json:"loops,omitempty"`      // share of answers that end in a loop
	// Labels counts what the judge called the answers.
	Labels map[string]int `json:"labels,omitempty"`
}

// Observations are what was measured of one arm.
type Observations struct {
	Chosen, Rejected []float64 // log-probabilities of the pairs' answers
	Neutral, Held    []Tally   // of each text
	// By prompt, then by seed. A score that the judge did not give is NaN.
	Score, Distinct, Loops [][]float64
	Labels                 map[string]int
}

// Bootstrapping says how intervals are made.
type Bootstrapping struct {
	Seed  uint64
	Draws int
	Level float64
}

// Summarise turns observations into estimates; base are those of the unsteered
// model. Texts, pairs and prompts are what is resampled.
func (b Bootstrapping) Summarise(a Arm, o, base *Observations) Result {
	r := Result{Expression: a.Expression, Dose: a.Dose, Layer: a.Layer, Labels: o.Labels}
	var margin, effect []float64
	for i := range o.Chosen {
		margin = append(margin, o.Chosen[i]-o.Rejected[i])
		effect = append(effect, extract.GuardedEffect(o.Chosen[i], o.Rejected[i], base.Chosen[i], base.Rejected[i]))
	}
	r.Margin, r.Effect = b.mean(margin), b.mean(effect)
	r.KL = b.perRow(o.Neutral, func(t Tally) float64 { return t.Sum.Away }, func(x float64) float64 { return x })
	r.Perplexity = b.perRow(o.Held, func(t Tally) float64 { return -t.Sum.Steered }, math.Exp)
	r.Score, r.Distinct, r.Loops = b.mean(overSeeds(o.Score)), b.mean(overSeeds(o.Distinct)), b.mean(overSeeds(o.Loops))
	return r
}

func (b Bootstrapping) mean(values []float64) *Estimate {
	if len(values) == 0 {
		return nil
	}
	lo, hi := stats.Bootstrap(values, stats.Mean, b.Seed, b.Draws, b.Level)
	return &Estimate{stats.Mean(values), lo, hi}
}

// perRow is a sum over texts by the number of their rows.
func (b Bootstrapping) perRow(list []Tally, sum func(Tally) float64, of func(float64) float64) *Estimate {
	if len(list) == 0 {
		return nil
	}
	ratio := func(index []int) float64 {
		total, rows := 0.0, 0
		for _, i := range index {
			total += sum(list[i])
			rows += list[i].Rows
		}
		return of(total / float64(rows))
	}
	all := make([]int, len(list))
	for i := range all {
		all[i] = i
	}
	lo, hi := stats.Resample(len(list), ratio, b.Seed, b.Draws, b.Level)
	return &Estimate{ratio(all), lo, hi}
}

// overSeeds is each prompt's mean over its seeds; prompts without a value drop
// out.
func overSeeds(list [][]float64) (out []float64) {
	for _, values := range list {
		values = slices.DeleteFunc(slices.Clone(values), math.IsNaN)
		if len(values) > 0 {
			out = append(out, stats.Mean(values))
		}
	}
	return out
}
