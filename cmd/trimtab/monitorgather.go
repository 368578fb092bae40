package main

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/trimtab/trimtab/cmd/trimtab/internal/batch"
	"github.com/trimtab/trimtab/cmd/trimtab/internal/safety"
	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/monitors"
	"github.com/trimtab/trimtab/monitors/reach"
	"github.com/trimtab/trimtab/runtime"
	"github.com/trimtab/trimtab/runtime/engine"
)

// gatherLanes is how many texts are written at once.
const gatherLanes = 32

// gathering writes texts while monitors look on, and labels them.
type gathering struct {
	*loaded
	gate     *gate
	flags    *textFlags
	recorder *reach.Recorder // nil for none
	watch    []*sentry
	progress func(done, total int)
}

// gathered are the texts, their labels and what was said of them.
type gathered struct {
	data      *reach.Data // with features if there was a recorder
	specimens []specimen
	verdicts  [][][]monitors.Verdict // of each text, candidate and monitor
}

// gate is an engine that opens no sequence before everything is submitted, so
// that equal runs feed equal batches: sums over batches of other shapes differ in
// their last bits.
type gate struct {
	engine.Engine
	entered chan struct{} // closed when the first sequence is asked for
	open    chan struct{}
	once    sync.Once
	release func()
}

func newGate(e engine.Engine) *gate {
	g := &gate{Engine: e, entered: make(chan struct{}), open: make(chan struct{})}
	g.release = sync.OnceFunc(func() { close(g.open) })
	return g
}

// NewSequence waits until the gate is open.
func (g *gate) NewSequence(ctx context.Context, from engine.Origin) (engine.Sequence, error) {
	g.once.Do(func() { close(g.entered) })
	select {
	case <-g.open:
		return g.Engine.NewSequence(ctx, from)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// openGathering loads the model for n texts. The caller closes it.
func (a *app) openGathering(ctx context.Context, ef *engineFlags, t *textFlags, n int) (*gathering, error) {
	e, err := a.open(ctx, ef.options(a, gatherLanes))
	if err != nil {
		return nil, err
	}
	g := newGate(e)
	m, err := newLoaded(g, a.now, runtime.Options{Slots: gatherLanes, Queue: n})
	if err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return &gathering{loaded: m, gate: g, flags: t, progress: func(int, int) {}}, nil
}

// close stops what runs and frees the model.
func (g *gathering) close() {
	g.gate.release()
	g.loaded.close()
}

// run writes and labels the texts. It can be used once.
func (g *gathering) run(ctx context.Context, list []specimen) (*gathered, error) {
	out := &gathered{specimens: list, data: g.newData(), verdicts: make([][][]monitors.Verdict, len(list))}
	witnesses, streams := make([]*witness, len(list)), make([]*runtime.Stream, len(list))
	for i := range list {
		w := g.witness(&list[i])
		cfg, err := g.config(&list[i], i, w)
		if err != nil {
			return nil, err
		}
		if streams[i], err = g.sched.Submit(ctx, cfg); err != nil {
			return nil, fmt.Errorf("text %s: %w", list[i].question.ID, causeOr(ctx, err))
		}
		if witnesses[i] = w; i == 0 {
			select {
			case <-g.gate.entered:
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}
	}
	g.gate.release()
	for i, s := range streams {
		if _, err := s.Wait(context.WithoutCancel(ctx)); err != nil { // Submit's context ends it
			return nil, fmt.Errorf("text %s: %w", list[i].question.ID, causeOr(ctx, err))
		}
		t, err := witnesses[i].take(groupOf(&list[i].question))
		if err != nil {
			return nil, fmt.Errorf("text %s: %w", list[i].question.ID, err)
		}
		out.data.Trajectories, out.verdicts[i] = append(out.data.Trajectories, t), witnesses[i].verdicts
		g.progress(i+1, len(streams))
	}
	if err := g.label(ctx, out); err != nil || g.flags.keep == "" {
		return out, err
	}
	return out, g.writeSpecimens(g.flags.keep, out)
}

func (g *gathering) newData() *reach.Data {
	if g.recorder != nil {
		return g.recorder.Data()
	}
	return &reach.Data{Width: g.info.Width, ModelHash: g.info.Hash, Arch: g.info.Arch}
}

// witness follows one text.
type witness struct {
	tape     *reach.Tape // nil for none
	watch    []*sentry
	tokens   []decode.Token // with the one that ends the answer
	verdicts [][]monitors.Verdict
}

func (g *gathering) witness(s *specimen) *witness {
	w := &witness{watch: g.watch}
	if g.recorder != nil {
		w.tape = g.recorder.Tape(groupOf(&s.question))
	}
	return w
}

// step takes note of a candidate that was committed.
func (w *witness) step(_ context.Context, e *runtime.Event) error {
	if e.Action.Kind != runtime.Commit {
		return nil // the first candidate of a text that is given
	}
	row := make([]monitors.Verdict, len(w.watch))
	for i, a := range w.watch {
		for _, v := range e.Verdicts {
			if v.Monitor == a.Name {
				row[i] = v.Verdict
			}
		}
	}
	w.tokens, w.verdicts = append(w.tokens, e.Token), append(w.verdicts, row)
	return nil
}

func (w *witness) take(group string) (reach.Trajectory, error) {
	if w.tape == nil {
		return reach.Trajectory{Group: group, Tokens: w.tokens}, nil
	}
	return w.tape.Take()
}

// config is that of text i.
func (g *gathering) config(s *specimen, i int, w *witness) (runtime.Config, error) {
	var turns []batch.Message
	for _, m := range s.question.Turns {
		turns = append(turns, batch.Message{Role: m.Role, Content: m.Content})
	}
	prompt, err := g.chatPrompt(turns)
	if err != nil {
		return runtime.Config{}, badInput("prompt %s: %w", s.question.ID, err)
	}
	chain, err := g.flags.params.Chain(g.vocab, prompt)
	if err != nil {
		return runtime.Config{}, err
	}
	cfg := runtime.Config{Prompt: prompt, Processor: chain, Sampler: g.flags.params.Sampler(), Seed: g.flags.seed<<32 + uint64(i),
		MaxTokens: g.flags.maxTokens, ClampMaxTokens: true, Listener: runtime.Listener{Step: w.step}}
	if w.tape != nil {
		cfg.Monitors = append(cfg.Monitors, w.tape.Monitor())
	}
	for _, a := range g.watch {
		cfg.Monitors = append(cfg.Monitors, a.Monitor)
	}
	if !g.flags.given {
		return cfg, nil
	}
	text, err := g.plain(s.text)
	if err != nil {
		return cfg, badInput("text %s: %w", s.question.ID, err)
	}
	if len(text) > runtime.MaxForce {
		return cfg, badInput("text %s has %d tokens, the limit is %d", s.question.ID, len(text), runtime.MaxForce)
	}
	cfg.MaxTokens, cfg.ClampMaxTokens, cfg.MaxGuide = len(text), false, -1
	cfg.Processor, cfg.Sampler, cfg.Policy = nil, decode.Greedy{}, &reciter{text: text}
	return cfg, nil
}

// reciter makes the model write a given text, one token after the other: the
// state is then that of decoding.
type reciter struct {
	text  []decode.Token
	begun bool
}

// Decide forces the text in place of the first candidate.
func (r *reciter) Decide(context.Context, *runtime.Step) (runtime.Action, error) {
	if r.begun {
		return runtime.Action{}, nil
	}
	r.begun = true
	return runtime.Action{Kind: runtime.Rewind, Force: r.text, Final: true}, nil
}

// spell is the text of a token; end tokens have none.
func (g *gathering) spell(t decode.Token) string {
	tok := g.info.Tokenizer
	if tok.Kind(t)&engine.KindEnd != 0 {
		return ""
	}
	return string(tok.AppendPiece(nil, t))
}

// label sets the margins of the texts.
func (g *gathering) label(ctx context.Context, out *gathered) error {
	if g.flags.given {
		return givenLabels(out.specimens).Margins(ctx, out.data, g.spell)
	}
	answers := make([]safety.Answer, len(out.specimens))
	for i := range answers {
		p := &safety.Prompt{Key: out.specimens[i].question.ID}
		for _, m := range out.specimens[i].question.Turns {
			p.Turns = append(p.Turns, engine.Message{Role: m.Role, Content: m.Content})
		}
		answers[i].Prompt = p
	}
	if err := g.flags.labeller.Margins(ctx, out.data, answers, g.spell); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return badInput("%w", err)
	}
	return nil
}

// failures counts the unsafe texts.
func failures(d *reach.Data) (n int) {
	for i := range d.Trajectories {
		if d.Trajectories[i].Unsafe() {
			n++
		}
	}
	return n
}
