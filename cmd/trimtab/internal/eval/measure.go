package eval

import (
	"context"
	"math"

	"github.com/trimtab/trimtab/cmd/trimtab/internal/stats"
	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/steer"
	"github.com/trimtab/trimtab/steer/extract"
)

// Share is a mean with its bootstrap interval.
type Share struct {
	Mean float64 `json:"mean"`
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// Row is what one way did to the answers of one behaviour.
type Row struct {
	Way     string    `json:"way"`
	Shown   Share     `json:"shown"`
	Right   *Share    `json:"right,omitempty"`
	Broken  Share     `json:"broken"`
	Seeds   []float64 `json:"by_seed"` // Shown, seed by seed
	Answers int       `json:"answers"`

	KL         float64 `json:"kl"`         // mean per token on neutral prompts of the test split
	Perplexity float64 `json:"perplexity"` // of the answers, to the unsteered model without the cue
	Repetition float64 `json:"repetition"` // share of 4-grams that the answer had before
	Tokens     float64 `json:"tokens"`     // mean length

	Cue string     `json:"cue,omitempty"`
	Fit *FitReport `json:"fit,omitempty"`

	own float64 // share of right answers among those that show the behaviour
}

// FitReport says how a vector was made.
type FitReport struct {
	Layer   int     `json:"layer"`
	Place   string  `json:"place"`
	Rows    string  `json:"rows"`
	Words   string  `json:"words,omitempty"` // of the tokens whose rows are steered, if not of all
	Dose    float64 `json:"dose"`
	Norm    float64 `json:"norm"`
	Score   float64 `json:"validation"` // of the judged answers on the validation split
	KL      float64 `json:"validation_kl"`
	Effect  float64 `json:"effect"` // nats per answer, on the validation pairs
	Seconds float64 `json:"seconds"`
}

const (
	draws        = 1000
	level        = 0.95
	perplexityOf = 60 // answers of a way whose perplexity is measured
)

// tally gathers the verdicts of one way over seeds.
type tally struct {
	verdicts [][]Verdict // by seed
	answers  [][]answer
}

// row counts. Intervals draw questions by their key, with all their answers.
func (t *tally) row(name string, b *Behaviour) Row {
	r := Row{Way: name, Shown: t.share(b.Test, func(v Verdict) float64 { return v.Shown }),
		Broken: t.share(b.Test, func(v Verdict) float64 { return number(v.Broken) })}
	if b.Rightness {
		s := t.share(b.Test, func(v Verdict) float64 { return v.Right })
		r.Right = &s
		r.own = t.own()
	}
	grams, again := 0, 0
	for s := range t.verdicts {
		sum := 0.0
		for i, v := range t.verdicts[s] {
			sum += v.Shown / float64(len(t.verdicts[s]))
			all, old := repeated(t.answers[s][i].tokens)
			grams, again = grams+all, again+old
			r.Tokens += float64(len(t.answers[s][i].tokens))
			r.Answers++
		}
		r.Seeds = append(r.Seeds, sum)
	}
	r.Tokens /= float64(max(r.Answers, 1))
	r.Repetition = float64(again) / float64(max(grams, 1))
	return r
}

// own is the share of right answers among those that show the behaviour.
func (t *tally) own() float64 {
	right, shown := 0.0, 0.0
	for _, list := range t.verdicts {
		for _, v := range list {
			right, shown = right+v.Shown*v.Right, shown+v.Shown
		}
	}
	return right / max(shown, 1)
}

func number(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

func (t *tally) share(questions []Question, of func(Verdict) float64) Share {
	index := map[string]int{}
	var sums, counts []float64
	for i, q := range questions {
		k, ok := index[q.Key]
		if !ok {
			k = len(sums)
			index[q.Key], sums, counts = k, append(sums, 0), append(counts, 0)
		}
		for s := range t.verdicts {
			sums[k] += of(t.verdicts[s][i])
			counts[k]++
		}
	}
	mean := func(units []int) float64 {
		sum, n := 0.0, 0.0
		for _, k := range units {
			sum, n = sum+sums[k], n+counts[k]
		}
		return sum / n
	}
	all := make([]int, len(sums))
	for k := range all {
		all[k] = k
	}
	low, high := stats.Resample(len(sums), mean, 1, draws, level)
	return Share{mean(all), low, high}
}

// repeated counts the 4-grams of a text, and those that it had before.
func repeated(tokens []decode.Token) (all, again int) {
	seen := map[[4]decode.Token]bool{}
	for i := 0; i+4 <= len(tokens); i++ {
		g := [4]decode.Token(tokens[i : i+4])
		if seen[g] {
			again++
		}
		seen[g] = true
		all++
	}
	return all, again
}

// perplexity of answers to the unsteered model, each behind its bare question.
func (d *desk) perplexity(ctx context.Context, questions []Question, list []answer) (float64, error) {
	var texts []extract.Answered
	tokens := 0
	for i, a := range list[:min(len(list), perplexityOf)] {
		if len(a.tokens) == 0 {
			continue
		}
		prompt, err := d.render(questions[i].Turns, true)
		if err != nil {
			return 0, err
		}
		text := append(append([]decode.Token(nil), prompt...), a.tokens...)
		texts = append(texts, extract.Answered{Tokens: text, From: len(prompt), To: len(text)})
		tokens += len(a.tokens)
	}
	if tokens == 0 {
		return 0, nil
	}
	logps, err := extract.LogProbs(ctx, d.e, nil, texts)
	sum := 0.0
	for _, x := range logps {
		sum += x
	}
	return math.Exp(-sum / float64(tokens)), err
}

// rows answers the test prompts in every way with every seed, and measures the
// damage. Plans and cues may differ from seed to seed.
func (d *desk) rows(ctx context.Context, b *Behaviour, names []string, ways func(name string, seed int) (way, error)) ([]Row, error) {
	tallies := make([]tally, len(names))
	kl := make([]float64, len(names))
	for seed := range d.o.Seeds {
		list := make([]way, len(names))
		var plans []*steer.Plan
		for i, name := range names {
			var err error
			if list[i], err = ways(name, seed); err != nil {
				return nil, err
			}
			plans = append(plans, list[i].sample()...)
		}
		said, err := d.answers(ctx, list, b.Test, uint64(seed+1))
		if err != nil {
			return nil, err
		}
		for i := range names {
			v, err := b.judged(ctx, b.Test, said[i])
			if err != nil {
				return nil, err
			}
			tallies[i].verdicts, tallies[i].answers = append(tallies[i].verdicts, v), append(tallies[i].answers, said[i])
		}
		div, err := extract.Divergences(ctx, d.e, plans, d.neutral)
		if err != nil {
			return nil, err
		}
		for i := range list {
			n := len(list[i].sample())
			for _, x := range div[:n] {
				kl[i] += x / float64(n*d.o.Seeds)
			}
			div = div[n:]
		}
	}
	out := make([]Row, len(names))
	for i, name := range names {
		out[i] = tallies[i].row(name, b)
		out[i].KL = kl[i]
		var err error
		if out[i].Perplexity, err = d.perplexity(ctx, b.Test, tallies[i].answers[0]); err != nil {
			return nil, err
		}
	}
	return out, nil
}
