// Package sweep measures what steering does to a model: how likely texts are,
// how far the distributions move, and how repetitive what it writes is.
//
// [Measure] runs given texts under many plans beside the unsteered model, token
// by token, so divergences are exact and not estimated from samples. [Repeat]
// looks at written texts. Intervals come from package stats.
package sweep

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/runtime/engine"
	"github.com/trimtab/trimtab/steer"
)

// Text is a text to measure on: what is said of Tokens[From:To], each given all
// tokens before it. Rows from Prompt on are those of an answer, for plans that
// tell them apart. 0 < From < To <= len(Tokens), Prompt > 0.
type Text struct {
	Tokens           []decode.Token
	Prompt, From, To int
}

// Row is what the distributions say of one token, in nats.
type Row struct {
	Base, Steered float64 // log-probability of the token
	Away          float64 // KL(unsteered || steered)
	Back          float64 // KL(steered || unsteered)
}

// Tally sums rows up.
type Tally struct {
	Rows int
	Sum  Row
}

// Add counts one row.
func (t *Tally) Add(r Row) {
	t.Rows++
	t.Sum.Base += r.Base
	t.Sum.Steered += r.Steered
	t.Sum.Away += r.Away
	t.Sum.Back += r.Back
}

// Bounds on one Forward.
const (
	outputFloats = 32 << 20 // logits of the rows in flight, 128 MiB
	maxLanes     = 32       // sequences
)

// Measure tells hear of every scored token of every text under every plan, the
// rows of a text in order. A plan that does nothing is not run: its rows are the
// unsteered ones and its divergences exactly 0. done, if not nil, is told after
// each text. Measure drives the engine alone until it returns.
func Measure(ctx context.Context, e engine.Engine, plans []*steer.Plan, texts []Text, hear func(plan, text int, r Row), done func(texts int)) error {
	info := e.Info()
	if info.MaxSequences < 2 {
		return engine.Unsupported("measure", "the steered text needs a second sequence beside it")
	}
	var idle, active []int
	for i, p := range plans {
		if p.Fingerprint() == 0 {
			idle = append(idle, i)
		} else {
			active = append(active, i)
		}
	}
	for n := range texts {
		t := &texts[n]
		if t.From < 1 || t.To <= t.From || t.To > len(t.Tokens) || t.Prompt < 1 {
			return fmt.Errorf("measure: text %d: scores tokens %d to %d of %d, its prompt has %d", n, t.From, t.To, len(t.Tokens), t.Prompt)
		}
		m := measurer{e: e, text: t, hear: func(plan int, r Row) { hear(plan, n, r) }}
		lanes := max(2, min(info.MaxSequences, maxLanes, info.Cells/t.To)) - 1
		for at := 0; at == 0 || at < len(active); at += lanes {
			m.plans, m.index = []*steer.Plan{nil}, active[at:min(at+lanes, len(active))]
			for _, i := range m.index {
				m.plans = append(m.plans, plans[i])
			}
			m.idle = nil
			if at == 0 {
				m.idle = idle
			}
			if err := m.run(ctx); err != nil {
				return fmt.Errorf("measure: text %d: %w", n, err)
			}
		}
		if done != nil {
			done(n + 1)
		}
	}
	return nil
}

// measurer runs one text unsteered and under some plans in step, so that only
// the rows at hand are kept.
type measurer struct {
	e     engine.Engine
	text  *Text
	plans []*steer.Plan // the first is nil
	index []int         // of the others, as the caller counts
	idle  []int         // plans that get the unsteered rows
	hear  func(plan int, r Row)
	seqs  []engine.Sequence
}

func (m *measurer) run(ctx context.Context) (err error) {
	defer func() {
		for _, s := range m.seqs {
			err = errors.Join(err, s.Close())
		}
		m.seqs = nil
	}()
	for _, p := range m.plans {
		s, err := m.e.NewSequence(ctx, engine.Origin{})
		if err != nil {
			return err
		}
		m.seqs = append(m.seqs, s)
		if err := s.Steer(p); err != nil {
			return err
		}
	}
	t, chunk := m.text, max(1, outputFloats/max(1, m.e.Info().Vocab*len(m.plans)))
	for at := 0; at < t.To-1; {
		to := m.stretch(at, chunk)
		if err := m.feed(ctx, at, to); err != nil {
			return err
		}
		at = to
	}
	return nil
}

// stretch is where rows that can be fed together from at on end: they are
// scored or not, of the prompt or not, alike.
func (m *measurer) stretch(at, chunk int) int {
	t, to := m.text, m.text.To-1
	if at < t.From-1 {
		to = min(to, t.From-1)
	} else {
		to = min(to, at+chunk)
	}
	if at < t.Prompt {
		to = min(to, t.Prompt)
	}
	return to
}

// feed runs rows [at,to) in every sequence and tells of them if they count.
func (m *measurer) feed(ctx context.Context, at, to int) error {
	t := m.text
	phase, output := steer.PhaseAnswer, engine.OutputAll
	if at < t.Prompt {
		phase = steer.PhasePrompt
	}
	if at < t.From-1 {
		output = engine.OutputNone
	}
	feeds := make([]engine.Feed, len(m.seqs))
	for i, s := range m.seqs {
		feeds[i] = engine.Feed{Seq: s, Tokens: t.Tokens[at:to], Output: output, PromptLen: t.Prompt, Phase: phase}
	}
	if err := m.e.Forward(ctx, feeds); err != nil || output == engine.OutputNone {
		return err
	}
	vocab := m.e.Info().Vocab
	for row := range to - at {
		next := t.Tokens[at+row+1]
		base, err := distribution(m.seqs[0], row, vocab)
		if err != nil {
			return err
		}
		same := Row{Base: base.logp(next)}
		same.Steered = same.Base
		for _, i := range m.idle {
			m.hear(i, same)
		}
		for k, i := range m.index {
			mine, err := distribution(m.seqs[k+1], row, vocab)
			if err != nil {
				return err
			}
			away, back := divergence(base, mine)
			m.hear(i, Row{same.Base, mine.logp(next), away, back})
		}
	}
	return nil
}

// dist is a row of logits with the logarithm of the sum of their exponentials.
type dist struct {
	logits decode.Logits
	sum    float64
}

func distribution(s engine.Sequence, row, vocab int) (dist, error) {
	all := s.Logits()
	if len(all) < (row+1)*vocab {
		return dist{}, fmt.Errorf("the engine gave %d logits, row %d needs %d", len(all), row, (row+1)*vocab)
	}
	l := all[row*vocab : (row+1)*vocab]
	top := l[0]
	for _, x := range l {
		top = max(top, x)
	}
	sum := 0.0
	for _, x := range l {
		sum += math.Exp(float64(x - top))
	}
	return dist{l, float64(top) + math.Log(sum)}, nil
}

func (d dist) logp(t decode.Token) float64 { return float64(d.logits[t]) - d.sum }

// divergence is KL(p||q) and KL(q||p) in nats; rounding never makes them
// negative.
func divergence(p, q dist) (pq, qp float64) {
	for i := range p.logits {
		a, b := float64(p.logits[i])-p.sum, float64(q.logits[i])-q.sum
		if x := math.Exp(a); x > 0 {
			pq += x * (a - b)
		}
		if x := math.Exp(b); x > 0 {
			qp += x * (b - a)
		}
	}
	return max(pq, 0), max(qp, 0)
}
