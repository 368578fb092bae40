package extract

import (
	"context"
	"fmt"
	"math"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/runtime/engine"
	"github.com/trimtab/trimtab/steer"
)

// contest is a pair ready to be scored: both answers behind one prompt.
type contest [2]*answered

// contests renders pairs for scoring. The token that ends the answer is scored
// too, so that an answer's length counts.
func (l *layout) contests(pairs []Pair, edit func([]engine.Message) []engine.Message) ([]contest, error) {
	out := make([]contest, len(pairs))
	for i := range pairs {
		p := &pairs[i]
		turns := p.Turns
		if edit != nil {
			turns = edit(turns)
		}
		for side, answer := range []string{p.Chosen, p.Rejected} {
			a, err := l.answer(turns, answer)
			if err != nil {
				return nil, fmt.Errorf("pair %d: %w", i, err)
			}
			if a.to < len(a.tokens) {
				a.to++
			}
			out[i][side] = a
		}
	}
	return out, nil
}

// logps are the log-probabilities of a contest's answers in nats: chosen, then
// rejected.
type logps [2]float64

// margin is log p(chosen) - log p(rejected).
func (l logps) margin() float64 { return l[0] - l[1] }

// effect is how much l is better than base: the gain of the chosen answer and
// the loss of the rejected, the loss counted only as far as the gain. A margin
// that grows because a damaged model finds both answers unlikely is no effect,
// and the gain is bounded by the certainty of the chosen answer.
func (l logps) effect(base logps) float64 {
	gain, loss := l[0]-base[0], base[1]-l[1]
	return gain + min(loss, gain)
}

// scores returns the log-probabilities of every contest under every plan,
// teacher-forced.
func scores(ctx context.Context, e engine.Engine, plans []*steer.Plan, list []contest, done func(int)) ([][]logps, error) {
	out := make([][]logps, len(plans))
	for i := range out {
		out[i] = make([]logps, len(list))
	}
	var jobs []job
	for i := range list {
		for side, a := range list[i] {
			for p, plan := range plans {
				jobs = append(jobs, scoring(a, plan, func(logp float64) { out[p][i][side] += logp }))
			}
		}
	}
	err := newDriver(e, nil, engine.OutputAll).run(ctx, jobs, done)
	return out, err
}

func marginsOf(list []logps) Estimate {
	x := make([]float64, len(list))
	for i, l := range list {
		x[i] = l.margin()
	}
	return estimate(x)
}

func effectsOf(list, base []logps) Estimate {
	x := make([]float64, len(list))
	for i, l := range list {
		x[i] = l.effect(base[i])
	}
	return estimate(x)
}

// scoring is the job that hears the log-probability of each answer token.
func scoring(a *answered, plan *steer.Plan, hear func(float64)) job {
	vocab := 0
	see := func(seq engine.Sequence, row, n int) error {
		logits := seq.Logits()
		if vocab = len(logits) / n; vocab == 0 {
			return fmt.Errorf("the engine gave no logits for %d rows", n)
		}
		for r := range n {
			next := a.tokens[row+r+1]
			hear(logProb(logits[r*vocab:(r+1)*vocab], next))
		}
		return nil
	}
	return job{tokens: a.tokens[:a.to-1], prompt: a.from, plan: plan, from: a.from - 1, see: see}
}

func logProb(row decode.Logits, t decode.Token) float64 {
	return float64(row[t]) - logSum(row)
}

// logSum is log(sum(exp(row))), safe for large logits.
func logSum(row decode.Logits) float64 {
	top := row[0]
	for _, x := range row {
		top = max(top, x)
	}
	sum := 0.0
	for _, x := range row {
		sum += math.Exp(float64(x - top))
	}
	return float64(top) + math.Log(sum)
}

// divergences returns for every plan the mean over all answer rows of
// KL(unsteered||steered): how far the plan moves the model where it should not.
// Each group of one text holds the unsteered sequence and its rivals, so that
// no distribution is stored.
func divergences(ctx context.Context, e engine.Engine, plans []*steer.Plan, neutral []*answered, done func(int)) ([]float64, error) {
	d := newDriver(e, nil, engine.OutputAll)
	out := make([]float64, len(plans))
	if len(plans) == 0 || len(neutral) == 0 {
		return out, nil
	}
	rows, count := 0, 0
	for _, a := range neutral {
		lanes := max(2, min(d.lanes, e.Info().MaxBatch/len(a.tokens)))
		if e.Info().MaxSequences < 2 {
			return nil, engine.Unsupported("divergence", "it needs two sequences at once")
		}
		for at := 0; at < len(plans); at += lanes - 1 {
			part := plans[at:min(at+lanes-1, len(plans))]
			if err := d.group(ctx, rivals(a, part, out[at:])); err != nil {
				return nil, err
			}
		}
		rows += a.to - a.from
		if count++; done != nil {
			done(count)
		}
	}
	for i := range out {
		out[i] /= float64(rows)
	}
	return out, nil
}

// rivals are the jobs of one text: unsteered first, then each plan, which adds
// its divergence to sums.
func rivals(a *answered, plans []*steer.Plan, sums []float64) []job {
	var base decode.Logits // of the chunk just computed: valid until the next Forward
	same := job{tokens: a.tokens[:a.to-1], prompt: a.from, from: a.from - 1}
	jobs := []job{same}
	jobs[0].see = func(seq engine.Sequence, _, _ int) error { base = seq.Logits(); return nil }
	for i, plan := range plans {
		j := same
		j.plan = plan
		j.see = func(seq engine.Sequence, _, n int) error {
			mine := seq.Logits()
			if len(mine) != len(base) || len(mine) < n {
				return fmt.Errorf("%d logits beside %d", len(mine), len(base))
			}
			for v, r := len(mine)/n, 0; r < n; r++ {
				sums[i] += decode.Divergence(base[r*v:(r+1)*v], mine[r*v:(r+1)*v])
			}
			return nil
		}
		jobs = append(jobs, j)
	}
	return jobs
}
