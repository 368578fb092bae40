package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/trimtab/trimtab/bindings/llamacpp"
	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/runtime/engine"
	"github.com/trimtab/trimtab/steer"
)

// Steer are the comparisons of "trimtab bench steer". Engine and Twin are two
// engines on one model file with equal options and at least as many sequences as
// the largest batch: the twin is steered by one plan throughout, which llama.cpp
// then adds itself, so that the two can be run in turn.
type Steer struct {
	Engine, Twin *llamacpp.Engine
	Rounds       int   // paired rounds
	Tokens       int   // decode steps of a run
	Batches      []int // sequences; kinds and gates are measured at the first, distinct plans at the last
	Switches     int   // plan switches timed for each case
	Now          func() time.Time
	Note         func(string) // progress, for people
}

// steerPrompt is the length of the text before the runs.
const steerPrompt = 8

// nativeWarm is more Forwards than the engine waits before it hands a shared
// plan to llama.cpp.
const nativeWarm = 40

// SteerReport is what was measured.
type SteerReport struct {
	Model    string       `json:"model"`
	Backend  string       `json:"backend"`
	Sections []Section    `json:"sections"`
	Switches []SwitchTime `json:"switches"`
	Objects  float64      `json:"allocations_per_token"` // of a step with every block hooked
}

// Section is a group of comparisons with one question.
type Section struct {
	Title string  `json:"title"`
	Base  string  `json:"base"`           // what the ratio is to
	Goal  float64 `json:"goal,omitempty"` // least ratio wanted; 0 for a mere report
	Rows  []Row   `json:"rows"`
}

// Run makes every comparison.
func (d *Steer) Run(ctx context.Context) (*SteerReport, error) {
	info := d.Engine.Info()
	rep := &SteerReport{Model: info.Name, Backend: info.Backend}
	b := &steerBench{Steer: d, r: rand.New(rand.NewPCG(1, 2)), mid: info.Layers / 2}
	defer b.close()
	for _, section := range []func(context.Context) (Section, error){b.idle, b.shared, b.oneBlock, b.distinct, b.everyBlock, b.kinds, b.conditions} {
		s, err := section(ctx)
		rep.Sections = append(rep.Sections, s)
		if err != nil {
			return rep, fmt.Errorf("%s: %w", s.Title, err)
		}
	}
	var err error
	if rep.Switches, err = b.switches(ctx); err != nil {
		return rep, fmt.Errorf("plan switches: %w", err)
	}
	rep.Objects, err = b.objects(ctx)
	return rep, err
}

// steerBench is one run of Steer.
type steerBench struct {
	*Steer
	r     *rand.Rand
	mid   int // the block that plans of one block act after
	texts map[textKey]*text
}

type textKey struct {
	twin bool
	n    int
}

// text is a batch of sequences that is decoded again and again from the end of
// its prompt.
type text struct {
	e     *llamacpp.Engine
	seqs  []engine.Sequence
	feeds []engine.Feed
}

// text opens n sequences, or returns those that are open. Batches of one engine
// share nothing, so only one is kept open.
func (b *steerBench) text(ctx context.Context, twin bool, n int) (*text, error) {
	key := textKey{twin, n}
	if t := b.texts[key]; t != nil {
		return t, nil
	}
	for k, t := range b.texts {
		if k.twin == twin {
			t.close()
			delete(b.texts, k)
		}
	}
	t := &text{e: b.Engine}
	if twin {
		t.e = b.Twin
	}
	if b.texts == nil {
		b.texts = map[textKey]*text{}
	}
	b.texts[key] = t
	for i := range n {
		s, err := t.e.NewSequence(ctx, engine.Origin{})
		if err != nil {
			return nil, err
		}
		prompt := make([]decode.Token, steerPrompt)
		for k := range prompt {
			prompt[k] = decode.Token((31*i + 7*k + 65) % t.e.Info().Vocab)
		}
		t.seqs = append(t.seqs, s)
		t.feeds = append(t.feeds, engine.Feed{Seq: s, Tokens: prompt, PromptLen: steerPrompt, Phase: steer.PhasePrompt})
	}
	if err := t.e.Forward(ctx, t.feeds); err != nil {
		return nil, err
	}
	for i := range t.feeds {
		t.feeds[i].Tokens, t.feeds[i].Phase = []decode.Token{decode.Token(i + 65)}, steer.PhaseAnswer
	}
	return t, nil
}

func (t *text) close() {
	for _, s := range t.seqs {
		s.Close()
	}
}

func (b *steerBench) close() {
	for _, t := range b.texts {
		t.close()
	}
}

// decode makes steps and takes them back. Tokens are given, not chosen: both
// sides of a comparison feed the same.
func (t *text) decode(ctx context.Context, steps int) error {
	for k := range steps {
		for i := range t.feeds {
			t.feeds[i].Tokens[0] = decode.Token((17*k + 5*i + 65) % t.e.Info().Vocab)
		}
		if err := t.e.Forward(ctx, t.feeds); err != nil {
			return err
		}
	}
	return t.rewind(steps)
}

func (t *text) rewind(steps int) error {
	for _, s := range t.seqs {
		if err := s.Rewind(steps); err != nil {
			return err
		}
	}
	return nil
}

// steer gives sequence i the plan i, or the last of them.
func (t *text) steer(plans []*steer.Plan) error {
	for i, s := range t.seqs {
		var p *steer.Plan
		if len(plans) > 0 {
			p = plans[min(i, len(plans)-1)]
		}
		if err := s.Steer(p); err != nil {
			return err
		}
	}
	return nil
}

// timed is a run of n sequences under plans.
func (b *steerBench) timed(twin bool, n int, plans ...*steer.Plan) work {
	return func(ctx context.Context, _ int) (time.Duration, error) {
		t, err := b.text(ctx, twin, n)
		if err != nil {
			return 0, err
		}
		if err := t.steer(plans); err != nil {
			return 0, err
		}
		start := b.Now()
		err = t.decode(ctx, b.Tokens)
		return b.Now().Sub(start), err
	}
}

// add makes one comparison.
func (b *steerBench) add(ctx context.Context, s *Section, name string, n int, base, ours work) error {
	b.Note(fmt.Sprintf("%s: %s", s.Title, name))
	row, err := pair(ctx, name, n*b.Tokens, b.Rounds, base, ours)
	if err == nil {
		s.Rows = append(s.Rows, row)
		b.Note(fmt.Sprintf("  ratio %.3f (%.3f to %.3f)", row.Ratio, row.Min, row.Max))
	}
	return err
}

func sequences(n int) string {
	if n == 1 {
		return "1 sequence"
	}
	return fmt.Sprintf("%d sequences", n)
}

// idle compares llama.cpp alone with the engine that could steer but does not.
func (b *steerBench) idle(ctx context.Context) (Section, error) {
	s := Section{Title: "steering at rest", Base: "llama_decode on a context without callbacks", Goal: 0.99}
	bare, err := b.Engine.Bare()
	if err != nil {
		return s, err
	}
	defer bare.Close()
	for _, n := range b.Batches {
		alone := func(context.Context, int) (time.Duration, error) {
			bare.Reset()
			prompts, next := make([][]decode.Token, n), make([]decode.Token, n)
			for i := range prompts {
				prompts[i] = make([]decode.Token, steerPrompt)
			}
			if err := bare.Start(prompts, next); err != nil {
				return 0, err
			}
			start := b.Now()
			for k := range b.Tokens {
				if err := bare.Step(steerPrompt+k, next); err != nil {
					return 0, err
				}
			}
			return b.Now().Sub(start), nil
		}
		if err := b.add(ctx, &s, sequences(n), n, alone, b.greedy(n)); err != nil {
			return s, err
		}
	}
	return s, nil
}

// greedy is a run of n unsteered sequences that chooses its tokens, as the bare
// loop does.
func (b *steerBench) greedy(n int) work {
	return func(ctx context.Context, _ int) (time.Duration, error) {
		t, err := b.text(ctx, false, n)
		if err != nil {
			return 0, err
		}
		if err := t.steer(nil); err != nil {
			return 0, err
		}
		start := b.Now()
		for range b.Tokens {
			if err := t.e.Forward(ctx, t.feeds); err != nil {
				return 0, err
			}
			for i, s := range t.seqs {
				if t.feeds[i].Tokens[0], err = (decode.Greedy{}).Sample(s.Logits(), nil); err != nil {
					return 0, err
				}
			}
		}
		took := b.Now().Sub(start)
		return took, t.rewind(b.Tokens)
	}
}

// shared compares an unsteered batch with one that shares an additive plan.
func (b *steerBench) shared(ctx context.Context) (Section, error) {
	s := Section{Title: "one additive vector for the whole batch", Base: "unsteered", Goal: 0.99}
	plan, err := b.plan(steer.Intervention{Vector: b.vector(), Scale: 1})
	if err != nil {
		return s, err
	}
	for _, n := range b.Batches {
		if err := b.add(ctx, &s, sequences(n), n, b.timed(false, n), b.settled(plan, n)); err != nil {
			return s, err
		}
	}
	return s, nil
}

// settled is a run on the twin, after enough steps under the plan.
func (b *steerBench) settled(plan *steer.Plan, n int) work {
	ready := false
	run := b.timed(true, n, plan)
	return func(ctx context.Context, round int) (time.Duration, error) {
		if !ready {
			t, err := b.text(ctx, true, n)
			if err != nil {
				return 0, err
			}
			if err := errors.Join(t.steer([]*steer.Plan{plan}), t.decode(ctx, nativeWarm)); err != nil {
				return 0, err
			}
			ready = true
		}
		return run(ctx, round)
	}
}

// oneBlock steers every sequence by a plan of its own after one block.
func (b *steerBench) oneBlock(ctx context.Context) (Section, error) {
	s := Section{Title: "one hooked block, a plan for each sequence", Base: "unsteered", Goal: 0.95}
	for _, n := range b.Batches {
		plans, err := b.plans(n, b.mid)
		if err != nil {
			return s, err
		}
		if err := b.add(ctx, &s, sequences(n), n, b.timed(false, n), b.timed(false, n, plans...)); err != nil {
			return s, err
		}
	}
	return s, nil
}

// distinct looks whether more plans cost more: it compares one plan for all, on
// the hook, with several.
func (b *steerBench) distinct(ctx context.Context) (Section, error) {
	n := b.Batches[len(b.Batches)-1]
	s := Section{Title: fmt.Sprintf("number of plans among %s", sequences(n)), Base: "one plan for all, after the same block"}
	one, err := b.plans(1, b.mid)
	if err != nil {
		return s, err
	}
	for k := 2; k <= n; k *= 2 {
		some, err := b.plans(k, b.mid)
		if err != nil {
			return s, err
		}
		plans := make([]*steer.Plan, n)
		for i := range plans {
			plans[i] = some[i%k]
		}
		if err := b.add(ctx, &s, fmt.Sprintf("%d plans", k), n, b.timed(false, n, one...), b.timed(false, n, plans...)); err != nil {
			return s, err
		}
	}
	return s, nil
}

// everyBlock steers every sequence by a plan of its own after every block.
func (b *steerBench) everyBlock(ctx context.Context) (Section, error) {
	s := Section{Title: "every block hooked, a plan for each sequence", Base: "unsteered"}
	blocks := make([]int, b.Engine.Info().Layers)
	for i := range blocks {
		blocks[i] = i
	}
	for _, n := range b.Batches {
		plans, err := b.plans(n, blocks...)
		if err != nil {
			return s, err
		}
		if err := b.add(ctx, &s, sequences(n), n, b.timed(false, n), b.timed(false, n, plans...)); err != nil {
			return s, err
		}
	}
	return s, nil
}
