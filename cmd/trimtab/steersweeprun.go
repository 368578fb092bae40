package main

import (
	"context"
	"fmt"
	"math"
	"sync"

	"github.com/trimtab/trimtab/cmd/trimtab/internal/checker"
	"github.com/trimtab/trimtab/cmd/trimtab/internal/sweep"
	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/runtime"
	"github.com/trimtab/trimtab/runtime/engine"
	"github.com/trimtab/trimtab/steer"
	"github.com/trimtab/trimtab/steer/extract"
)

// sweeper is one run of `steer sweep`. It drives the engine alone.
type sweeper struct {
	app    *app
	engine engine.Engine
	flags  *sweepFlags
	input  sweepInput
	render extract.Render
	judge  checker.Judge
	line   *statusLine

	arms   []sweep.Arm
	seen   []sweep.Observations // of each arm
	report *sweepReport
}

// Settings of the intervals.
const (
	sweepLevel = 0.95
	sweepDraws = 1000
)

func (s *sweeper) run(ctx context.Context) (*sweepReport, error) {
	for _, step := range []func(context.Context) error{s.pairs, s.neutral, s.held, s.speak} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	b := sweep.Bootstrapping{Seed: s.flags.seed, Draws: sweepDraws, Level: sweepLevel}
	for i, arm := range s.arms {
		s.report.Rows = append(s.report.Rows, b.Summarise(arm, &s.seen[i], &s.seen[0]))
	}
	return s.report, nil
}

// progress shows how far a stage is.
func (s *sweeper) progress(stage string, total int) func(int) {
	return func(done int) {
		s.line.set(bar(float64(done)/float64(max(total, 1)), 20)+" "+stage, done == total)
	}
}

// measure runs texts under every arm and adds up what was heard, by arm and
// text.
func (s *sweeper) measure(ctx context.Context, stage string, texts []sweep.Text) ([][]sweep.Tally, error) {
	out := make([][]sweep.Tally, len(s.arms))
	plans := make([]*steer.Plan, len(s.arms))
	for i := range out {
		out[i], plans[i] = make([]sweep.Tally, len(texts)), s.arms[i].Plan
	}
	err := sweep.Measure(ctx, s.engine, plans, texts, func(p, t int, r sweep.Row) { out[p][t].Add(r) }, s.progress(stage, len(texts)))
	return out, err
}

// pairs measures the answers of the pairs.
func (s *sweeper) pairs(ctx context.Context) error {
	if len(s.input.pairs) == 0 {
		return nil
	}
	s.report.Pairs = len(s.input.pairs)
	r, err := extract.NewRenderer(s.render)
	if err != nil {
		return badInput("%w", err)
	}
	var texts []sweep.Text
	for i, p := range s.input.pairs {
		for _, answer := range []string{p.Chosen, p.Rejected} {
			a, err := r.Answer(p.Turns, answer)
			if err != nil {
				return badInput("%s: pair %d: %w", s.flags.pairs, i+1, err)
			}
			texts = append(texts, sweep.Text{Tokens: a.Tokens, Prompt: a.From, From: a.From, To: a.To})
		}
	}
	tallies, err := s.measure(ctx, "pairs", texts)
	for arm, list := range tallies {
		for i := 0; i+1 < len(list); i += 2 {
			s.seen[arm].Chosen = append(s.seen[arm].Chosen, list[i].Sum.Steered)
			s.seen[arm].Rejected = append(s.seen[arm].Rejected, list[i+1].Sum.Steered)
		}
	}
	return err
}

// neutralLength is how much the model says to a neutral prompt, as in fits.
const neutralLength = 24

// neutral measures the divergence on the model's own answers.
func (s *sweeper) neutral(ctx context.Context) error {
	prompts := make([][]decode.Token, len(s.input.neutral))
	for i, turns := range s.input.neutral {
		var err error
		if prompts[i], err = s.render(turns, true); err != nil {
			return badInput("neutral prompt %d: %w", i+1, err)
		}
	}
	s.report.Neutral = len(prompts)
	said, err := extract.Speak(ctx, s.engine, prompts, neutralLength)
	if err != nil {
		return err
	}
	var texts []sweep.Text
	for _, a := range said {
		texts = append(texts, sweep.Text{Tokens: a.Tokens, Prompt: a.From, From: a.From, To: a.To})
	}
	tallies, err := s.measure(ctx, "neutral prompts", texts)
	for arm, list := range tallies {
		s.seen[arm].Neutral = list
		if s.flags.text == "" {
			s.seen[arm].Held = list
		}
	}
	return err
}

// The text of --text is measured in pieces, the first ones.
const (
	heldPiece  = 256 // tokens
	heldPieces = 64
)

// held measures the perplexity of --text. Each piece is the beginning of a text
// behind the model's start token, which is its prompt.
func (s *sweeper) held(ctx context.Context) error {
	if s.report.PerplexityOf = "the unsteered model's answers to the neutral prompts"; s.flags.text == "" {
		return nil
	}
	s.report.PerplexityOf = s.flags.text
	t := s.engine.Info().Tokenizer
	all, err := t.Encode(s.input.text, engine.EncodeOptions{Start: true})
	if err != nil {
		return badInput("%s: %w", s.flags.text, err)
	}
	bare, err := t.Encode(s.input.text, engine.EncodeOptions{})
	if err != nil {
		return badInput("%s: %w", s.flags.text, err)
	}
	start := all[:max(0, len(all)-len(bare))]
	var texts []sweep.Text
	for at := 0; at < len(bare) && len(texts) < heldPieces; at += heldPiece {
		tokens := append(append([]decode.Token{}, start...), bare[at:min(at+heldPiece, len(bare))]...)
		if prompt := max(1, len(start)); prompt < len(tokens) {
			texts = append(texts, sweep.Text{Tokens: tokens, Prompt: prompt, From: prompt, To: len(tokens)})
		}
	}
	if len(texts) == 0 {
		return badInput("%s: the text is too short to measure", s.flags.text)
	}
	tallies, err := s.measure(ctx, "held-out text", texts)
	for arm, list := range tallies {
		s.seen[arm].Held = list
	}
	return err
}

// speak answers the prompts under every arm and has the answers judged.
func (s *sweeper) speak(ctx context.Context) error {
	if len(s.input.questions) == 0 {
		return nil
	}
	s.report.Prompts, s.report.Seeds, s.report.Check = len(s.input.questions), s.flags.seeds, s.flags.check
	m, err := newLoaded(s.engine, s.app.now, runtime.Options{Slots: min(sweepSlots, s.engine.Info().MaxSequences), NoCache: true})
	if err != nil {
		return err
	}
	defer m.sched.Close()
	answers, err := s.answers(ctx, m)
	if err != nil {
		return err
	}
	for arm := range s.arms {
		if err := s.observe(ctx, arm, answers[arm]); err != nil {
			return err
		}
	}
	return nil
}

// sweepSlots is how many answers are written at once.
const sweepSlots = 16

// answers are written by arm, seed and question.
func (s *sweeper) answers(ctx context.Context, m *loaded) ([][][]*runtime.Result, error) {
	prompts := make([]tokens, len(s.input.questions))
	for i, q := range s.input.questions {
		var err error
		if prompts[i], err = s.render(turnsOfQuestion(q), true); err != nil {
			return nil, badInput("prompt %s: %w", q.ID, err)
		}
	}
	out := make([][][]*runtime.Result, len(s.arms))
	var jobs []func(context.Context) error
	for arm := range s.arms {
		out[arm] = make([][]*runtime.Result, s.flags.seeds)
		for seed := range out[arm] {
			out[arm][seed] = make([]*runtime.Result, len(prompts))
			for i, prompt := range prompts {
				jobs = append(jobs, func(ctx context.Context) (err error) {
					out[arm][seed][i], err = s.answer(ctx, m, prompt, s.arms[arm].Plan, s.flags.seed+uint64(seed))
					return err
				})
			}
		}
	}
	return out, together(ctx, jobs, sweepSlots, s.progress("answers", len(jobs)))
}

func (s *sweeper) answer(ctx context.Context, m *loaded, prompt tokens, plan *steer.Plan, seed uint64) (*runtime.Result, error) {
	how := sampling{params: decode.DefaultParams(), maxTokens: s.flags.maxTokens}
	how.params.Temperature, how.params.Seed = s.flags.temp, seed
	cfg, err := how.config(m, prompt)
	if err != nil {
		return nil, err
	}
	cfg.Plan, cfg.ClampMaxTokens = plan, true
	st, err := m.sched.Submit(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return st.Wait(context.WithoutCancel(ctx)) // Submit's context ends it
}

// together runs jobs, so many at once, until one fails.
func together(ctx context.Context, jobs []func(context.Context) error, lanes int, done func(int)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var (
		mu             sync.Mutex
		wait           sync.WaitGroup
		next, finished int
		failed         error
	)
	take := func() func(context.Context) error {
		mu.Lock()
		defer mu.Unlock()
		if next == len(jobs) || failed != nil {
			return nil
		}
		next++
		return jobs[next-1]
	}
	for range min(lanes, len(jobs)) {
		wait.Go(func() {
			for job := take(); job != nil; job = take() {
				err := job(ctx)
				mu.Lock()
				if finished++; err != nil && failed == nil {
					failed = err
					cancel()
				}
				done(finished)
				mu.Unlock()
			}
		})
	}
	wait.Wait()
	return failed
}

// observe looks at the answers of an arm, which are by seed and question.
func (s *sweeper) observe(ctx context.Context, arm int, answers [][]*runtime.Result) error {
	o, n := &s.seen[arm], len(s.input.questions)
	o.Distinct, o.Loops, o.Score = make([][]float64, n), make([][]float64, n), make([][]float64, n)
	for _, list := range answers {
		texts := make([]string, n)
		for i, r := range list {
			rep := sweep.Repeat(r.Tokens)
			o.Distinct[i], o.Loops[i] = append(o.Distinct[i], rep.Distinct), append(o.Loops[i], oneIf(rep.Loops))
			texts[i] = r.Text
		}
		if s.flags.check == "" {
			continue
		}
		s.progress("judging", len(s.arms))(arm)
		verdicts, err := s.judge(ctx, s.input.questions, texts)
		if err != nil {
			return s.judgeFault(err)
		}
		hear(o, verdicts)
	}
	return nil
}

func oneIf(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// judgeFault: a built-in judge that cannot judge was given the wrong prompts;
// a command that fails is a failure.
func (s *sweeper) judgeFault(err error) error {
	if s.flags.check == checker.NanoShown || s.flags.check == checker.NanoRight {
		return badInput("--check: %w", err)
	}
	return fmt.Errorf("--check: %w", err)
}

// hear takes one round of verdicts over, by question.
func hear(o *sweep.Observations, verdicts []checker.Verdict) {
	for i, v := range verdicts {
		score := math.NaN()
		if v.Score != nil {
			score = *v.Score
		}
		o.Score[i] = append(o.Score[i], score)
		if v.Label != "" {
			if o.Labels == nil {
				o.Labels = map[string]int{}
			}
			o.Labels[v.Label]++
		}
	}
}
