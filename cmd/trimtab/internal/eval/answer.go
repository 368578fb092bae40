package eval

import (
	"context"
	"fmt"
	"hash/fnv"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/runtime"
	"github.com/trimtab/trimtab/runtime/engine"
	"github.com/trimtab/trimtab/steer"
	"github.com/trimtab/trimtab/steer/extract"
)

// desk is one engine with what answering and measuring need. One goroutine
// uses it.
type desk struct {
	o        *Options
	e        engine.Engine
	render   extract.Render
	renderer *extract.Renderer
	neutral  []extract.Answered // of the test split, with the model's own answers
	budget   []extract.Answered // of the validation split, likewise
}

// neutralTokens is the length of the answers that divergence is measured on.
const neutralTokens = 24

func newDesk(ctx context.Context, o *Options) (*desk, error) {
	e, err := o.Open(ctx)
	if err != nil {
		return nil, err
	}
	d := &desk{o: o, e: e}
	if err := d.prepare(ctx); err != nil {
		e.Close()
		return nil, err
	}
	return d, nil
}

func (d *desk) prepare(ctx context.Context) (err error) {
	if d.render, err = d.o.Render(d.e.Info()); err != nil {
		return err
	}
	if d.renderer, err = extract.NewRenderer(d.render); err != nil {
		return err
	}
	if d.neutral, err = d.everyday(ctx, d.o.Neutral.Test); err != nil {
		return err
	}
	d.budget, err = d.everyday(ctx, d.o.Neutral.Choose)
	return err
}

// everyday are neutral prompts with the model's own answers.
func (d *desk) everyday(ctx context.Context, list [][]engine.Message) ([]extract.Answered, error) {
	var prompts [][]decode.Token
	for _, turns := range list {
		p, err := d.render(turns, true)
		if err != nil {
			return nil, fmt.Errorf("neutral prompt: %w", err)
		}
		prompts = append(prompts, p)
	}
	return extract.Speak(ctx, d.e, prompts, neutralTokens)
}

// way is one way to bring a behaviour about: a plan, or a sentence before the
// question, or neither.
type way struct {
	name string
	plan *steer.Plan
	each []*steer.Plan // if set, one for every question, instead of plan
	cue  string
}

// sample are the plans that divergence is measured of: some of each.
func (w *way) sample() []*steer.Plan {
	if w.each == nil {
		return []*steer.Plan{w.plan}
	}
	return w.each[:min(len(w.each), sampled)]
}

const sampled = 8

// answer is one text with its tokens.
type answer struct {
	prompt, tokens []decode.Token
	text           string
}

// answers has every question answered in every way, all in one batch: the
// result is one list for each way. Equal seeds use equal random numbers for
// equal questions, whatever the way.
func (d *desk) answers(ctx context.Context, ways []way, questions []Question, seed uint64) (_ [][]answer, err error) {
	info := d.e.Info()
	slots := max(1, min(d.o.Slots, info.MaxSequences))
	s, err := runtime.NewScheduler(d.e, runtime.Options{Slots: slots, Queue: len(ways)*len(questions) + 1, NoCache: true})
	if err != nil {
		return nil, err
	}
	defer s.Close()
	streams := make([][]*runtime.Stream, len(ways))
	out := make([][]answer, len(ways))
	for w := range ways {
		for i := range questions {
			cfg, err := d.config(&ways[w], &questions[i], seed, i)
			if err != nil {
				return nil, fmt.Errorf("%s: question %s: %w", ways[w].name, questions[i].ID, err)
			}
			st, err := s.Submit(ctx, cfg)
			if err != nil {
				return nil, fmt.Errorf("%s: question %s: %w", ways[w].name, questions[i].ID, err)
			}
			streams[w] = append(streams[w], st)
			out[w] = append(out[w], answer{prompt: cfg.Prompt})
		}
	}
	for w := range ways {
		for i, st := range streams[w] {
			r, err := st.Wait(ctx)
			if err != nil {
				return nil, fmt.Errorf("%s: question %s: %w", ways[w].name, questions[i].ID, err)
			}
			out[w][i].text, out[w][i].tokens = r.Text, r.Tokens
		}
	}
	return out, nil
}

func (d *desk) config(w *way, q *Question, seed uint64, i int) (runtime.Config, error) {
	prompt, err := d.render(asked(q.Turns, w.cue), true)
	if err != nil {
		return runtime.Config{}, err
	}
	plan := w.plan
	if w.each != nil {
		plan = w.each[i]
	}
	cfg := runtime.Config{Prompt: prompt, Plan: plan, Seed: mix(seed, uint64(i)), MaxTokens: d.o.MaxTokens, ClampMaxTokens: true}
	if d.o.Temperature == 0 {
		return cfg, nil
	}
	cfg.Sampler = decode.Categorical{}
	cfg.Processor, err = decode.NewTemperature(d.o.Temperature)
	return cfg, err
}

// asked puts a sentence in front of the user's last turn.
func asked(turns []engine.Message, cue string) []engine.Message {
	if cue == "" {
		return turns
	}
	out := append([]engine.Message(nil), turns...)
	out[len(out)-1].Content = cue + " " + out[len(out)-1].Content
	return out
}

func mix(seed, i uint64) uint64 {
	h := fnv.New64a()
	fmt.Fprint(h, seed, " ", i)
	return h.Sum64()
}

// texts are what answers say.
func texts(list []answer) []string {
	out := make([]string, len(list))
	for i := range list {
		out[i] = list[i].text
	}
	return out
}

// judged has a list of answers judged.
func (b *Behaviour) judged(ctx context.Context, questions []Question, list []answer) ([]Verdict, error) {
	v, err := b.Judge(ctx, questions, texts(list))
	if err != nil {
		return nil, fmt.Errorf("judge %s: %w", b.Name, err)
	}
	if len(v) != len(questions) {
		return nil, fmt.Errorf("judge %s: %d verdicts for %d answers", b.Name, len(v), len(questions))
	}
	return v, nil
}
