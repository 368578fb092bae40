package main

import (
	"context"
	"time"

	"github.com/trimtab/trimtab/cmd/trimtab/internal/batch"
	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/runtime"
	"github.com/trimtab/trimtab/runtime/engine"
	"github.com/trimtab/trimtab/runtime/engine/chat"
	"github.com/trimtab/trimtab/steer"
)

type tokens = []decode.Token

// loaded is an open model with what every answer needs. It owns the engine.
type loaded struct {
	engine   engine.Engine
	info     *engine.Info
	prompter *chat.Prompter
	vocab    decode.Vocab
	plan     *steer.Plan // nil for none
	guard    *guard      // nil for none
	sched    *runtime.Scheduler
	now      func() time.Time
}

// close stops what runs and frees the model.
func (m *loaded) close() {
	m.sched.Close()
	m.engine.Close()
}

// load opens a model, reads its template and starts a scheduler with the given
// options, of which Slots must be set. The caller closes it.
func load(ctx context.Context, a *app, f *engineFlags, so runtime.Options) (*loaded, error) {
	line := newStatusLine(a)
	o := f.options(a, so.Slots)
	o.progress = func(share float32) bool {
		line.set("loading "+f.model+" "+bar(float64(share), 20), share == 0 || share == 1)
		return ctx.Err() == nil
	}
	e, err := a.open(ctx, o)
	line.clear()
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		if e != nil {
			e.Close()
		}
		return nil, err
	}
	m, err := newLoaded(e, a.now, so)
	if err != nil {
		e.Close()
		return nil, err
	}
	return m, nil
}

func newLoaded(e engine.Engine, now func() time.Time, so runtime.Options) (*loaded, error) {
	info := e.Info()
	p, err := chat.NewPrompter(info, chat.Options{})
	if err != nil {
		return nil, badInput("%w", err)
	}
	m := &loaded{engine: e, info: info, prompter: p, now: now}
	m.vocab = decode.Vocab{Size: info.Vocab, End: ends(info), Piece: info.Tokenizer.AppendPiece, Encode: m.plain}
	m.sched, err = runtime.NewScheduler(e, so)
	return m, err
}

func ends(info *engine.Info) (out []decode.Token) {
	for t := range info.Vocab {
		if info.Tokenizer.Kind(decode.Token(t))&engine.KindEnd != 0 {
			out = append(out, decode.Token(t))
		}
	}
	return out
}

// prepare makes what depends on the flags and is the same for every answer: the
// steering plan, the monitors, and what costs a scan of the vocabulary.
func (m *loaded) prepare(s *sampling) (err error) {
	if m.plan, err = s.steering.plan(m.info); err != nil {
		return err
	}
	if m.guard, err = s.watching.open(m, s.steering.anyModel); err != nil {
		return err
	}
	if s.params.DRYMultiplier == 0 {
		return nil
	}
	b, err := decode.NewBreakers(m.vocab, s.params.DRYBreakers)
	m.vocab.Breakers = b
	return err
}

func (m *loaded) plain(text string) ([]decode.Token, error) {
	return m.info.Tokenizer.Encode(text, engine.EncodeOptions{})
}

// rawPrompt encodes text as it is, with the model's start token.
func (m *loaded) rawPrompt(text string) ([]decode.Token, error) {
	return m.info.Tokenizer.Encode(text, engine.EncodeOptions{Start: true})
}

// chatPrompt renders a conversation with the model's template. No message can
// forge a control word.
func (m *loaded) chatPrompt(messages []batch.Message) ([]decode.Token, error) {
	return m.render(messages, true)
}

// transcript renders a conversation as it stands at the start of later prompts.
func (m *loaded) transcript(messages []batch.Message) ([]decode.Token, error) {
	return m.render(messages, false)
}

func (m *loaded) render(messages []batch.Message, answer bool) ([]decode.Token, error) {
	in := chat.Input{AddGenerationPrompt: answer, Now: m.now}
	for _, msg := range messages {
		in.Messages = append(in.Messages, chat.Message{Role: msg.Role, Content: msg.Content})
	}
	return m.prompter.Prompt(in)
}

// answerOf turns a result into the documented form.
func answerOf(r *runtime.Result) *batch.Answer {
	a := &batch.Answer{Text: r.Text, FinishReason: string(r.FinishReason)}
	for _, t := range r.Tokens {
		a.Tokens = append(a.Tokens, int32(t))
	}
	a.Usage = batch.Usage{PromptTokens: r.Usage.PromptTokens, CompletionTokens: r.Usage.CompletionTokens}
	a.Shadow = divergenceOf(r.Shadow)
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	a.Timings = batch.Timings{Queued: ms(r.Timings.Queued), FirstToken: ms(r.Timings.FirstToken), Total: ms(r.Timings.Total)}
	return a
}
