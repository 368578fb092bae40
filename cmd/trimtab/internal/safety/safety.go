// Package safety measures what monitors, filters and rollbacks make of a
// model's answers, side by side.
//
// The model for the reader's head is an experiment with three disjoint sets of
// prompts. Answers to the first are recorded and labelled, and value functions
// are fitted on them ([Bench.Record], reach.Fit); levels are calibrated on
// answers to the second; the third is only measured on, once for each [Arm]: a
// way to make answers safer. Equal seeds draw equal answers until an arm
// interferes, so arms are compared in pairs.
package safety

import (
	"context"
	"fmt"
	"time"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/internal/nano/chat"
	"github.com/trimtab/trimtab/monitors"
	"github.com/trimtab/trimtab/monitors/reach"
	"github.com/trimtab/trimtab/runtime"
	"github.com/trimtab/trimtab/runtime/engine"
	prompting "github.com/trimtab/trimtab/runtime/engine/chat"
	"github.com/trimtab/trimtab/steer"
)

// Prompt is a question to the model.
type Prompt struct {
	Key      string // names it; equal keys never meet in two sets
	Turns    []engine.Message
	Harmless bool        // nothing unsafe is to be expected
	Probe    *chat.Probe // what the built-in checkers need, nil for other prompts
}

// Bench is a model with everything that answers and labels need.
type Bench struct {
	Engine    engine.Engine
	Prompter  *prompting.Prompter
	Label     Labeller
	Sampling  decode.Params
	MaxTokens int // of an answer
	Lanes     int // answers at once
	Now       func() time.Time
	// Note is told what is going on, for people. Nil for nobody.
	Note func(what string, done, total int)
}

// Arm is one way to make answers safer. The zero Arm is the model as it is.
type Arm struct {
	Name, Doc string
	Cue       string // a system message
	Plan      *steer.Plan
	Monitors  []monitors.Monitor
	Policy    func() (runtime.Policy, error) // a fresh one for each answer; nil commits always
	HoldBack  int
	// Replace stands for answers that the labeller finds unsafe once they are
	// complete. Empty for no such check.
	Replace string
}

// Answer is what an arm made of a prompt.
type Answer struct {
	Prompt  *Prompt
	Text    string
	Tokens  []decode.Token
	Pieces  []string // of the tokens
	Stopped bool     // the policy ended it, with a refusal or without a word
	Changed bool     // a policy took something back or ended it, or the text was replaced
	Unsafe  bool
	Extra   int // tokens that were made and thrown away

	Trajectory reach.Trajectory // unlabelled; empty unless recorded
}

// spell is the text of a token; end tokens have none.
func (b *Bench) spell(t decode.Token) string {
	tok := b.Engine.Info().Tokenizer
	if tok.Kind(t)&engine.KindEnd != 0 {
		return ""
	}
	return string(tok.AppendPiece(nil, t))
}

// encode renders a prompt, with a system message before it if there is one.
func (b *Bench) encode(p *Prompt, cue string) ([]decode.Token, error) {
	var in prompting.Input
	if in.AddGenerationPrompt = true; cue != "" {
		in.Messages = append(in.Messages, prompting.Message{Role: "system", Content: cue})
	}
	for _, m := range p.Turns {
		in.Messages = append(in.Messages, prompting.Message{Role: m.Role, Content: m.Content})
	}
	return b.Prompter.Prompt(in)
}

// Run answers every prompt under an arm, answer i with seed + i, and labels the
// answers. With a recorder, what it sees is in Answer.Trajectory. The time is
// that of all answers together.
func (b *Bench) Run(ctx context.Context, arm *Arm, prompts []Prompt, seed uint64, rec *reach.Recorder) ([]Answer, time.Duration, error) {
	sched, err := runtime.NewScheduler(b.Engine, runtime.Options{Slots: b.Lanes, Queue: len(prompts) + 1, NoCache: true})
	if err != nil {
		return nil, 0, err
	}
	defer sched.Close()
	began := b.Now()
	out := make([]Answer, len(prompts))
	streams := make([]*runtime.Stream, len(prompts))
	tapes := make([]*reach.Tape, len(prompts))
	for i := range prompts {
		if rec != nil {
			tapes[i] = rec.Tape(prompts[i].Key)
		}
		cfg, err := b.config(arm, &prompts[i], seed+uint64(i), tapes[i])
		if err != nil {
			return nil, 0, fmt.Errorf("%s: %w", arm.Name, err)
		}
		if streams[i], err = sched.Submit(ctx, cfg); err != nil {
			return nil, 0, fmt.Errorf("%s: prompt %s: %w", arm.Name, prompts[i].Key, err)
		}
	}
	for i, s := range streams {
		r, err := s.Wait(ctx)
		if err != nil {
			return nil, 0, fmt.Errorf("%s: prompt %s: %w", arm.Name, prompts[i].Key, err)
		}
		out[i] = b.answer(&prompts[i], r)
		if rec != nil {
			if out[i].Trajectory, err = tapes[i].Take(); err != nil {
				return nil, 0, err
			}
		}
		b.note(arm.Name, i+1, len(streams))
	}
	took := b.Now().Sub(began)
	return out, took, b.judge(ctx, arm, out)
}

func (b *Bench) note(what string, done, total int) {
	if b.Note != nil {
		b.Note(what, done, total)
	}
}

// config is one answer's.
func (b *Bench) config(arm *Arm, p *Prompt, seed uint64, tape *reach.Tape) (runtime.Config, error) {
	prompt, err := b.encode(p, arm.Cue)
	if err != nil {
		return runtime.Config{}, err
	}
	info := b.Engine.Info()
	vocab := decode.Vocab{Size: info.Vocab, Piece: info.Tokenizer.AppendPiece}
	chain, err := b.Sampling.Chain(vocab, prompt)
	if err != nil {
		return runtime.Config{}, err
	}
	cfg := runtime.Config{Prompt: prompt, Plan: arm.Plan, Processor: chain, Sampler: b.Sampling.Sampler(), Seed: seed,
		MaxTokens: b.MaxTokens, ClampMaxTokens: true, HoldBack: arm.HoldBack, Monitors: arm.Monitors, MaxRewinds: 256, MaxDiscarded: 4096, MaxGuide: 64}
	if arm.Policy == nil {
		cfg.MaxGuide = 0
	} else if cfg.Policy, err = arm.Policy(); err != nil {
		return cfg, err
	}
	if tape != nil {
		cfg.Monitors = append([]monitors.Monitor{tape.Monitor()}, arm.Monitors...)
	}
	return cfg, nil
}

func (b *Bench) answer(p *Prompt, r *runtime.Result) Answer {
	a := Answer{Prompt: p, Text: r.Text, Tokens: r.Tokens, Extra: r.Discarded, Stopped: r.FinishReason == runtime.FinishFilter}
	a.Changed = a.Stopped || r.Rewinds > 0
	for _, t := range r.Tokens {
		a.Pieces = append(a.Pieces, b.spell(t))
	}
	return a
}

// judge labels the answers and replaces unsafe ones where the arm wants that.
func (b *Bench) judge(ctx context.Context, arm *Arm, list []Answer) error {
	unsafe, err := b.Label.Unsafe(ctx, list)
	if err != nil {
		return fmt.Errorf("%s: %w", arm.Name, err)
	}
	for i := range list {
		a := &list[i]
		if a.Unsafe = unsafe[i]; a.Unsafe && arm.Replace != "" {
			a.Text, a.Unsafe, a.Stopped, a.Changed = arm.Replace, false, true, true
			a.Extra += len(a.Tokens)
			a.Tokens, a.Pieces = nil, []string{arm.Replace}
		}
	}
	return nil
}

// Record answers prompts with the model as it is and returns the labelled
// trajectories: what reach.Fit and Model.Calibrate take.
func (b *Bench) Record(ctx context.Context, rec *reach.Recorder, prompts []Prompt, seed uint64) (*reach.Data, []Answer, error) {
	list, _, err := b.Run(ctx, &Arm{Name: "recording"}, prompts, seed, rec)
	if err != nil {
		return nil, nil, err
	}
	d := rec.Data()
	for i := range list {
		d.Trajectories = append(d.Trajectories, list[i].Trajectory)
	}
	if err := b.Label.Margins(ctx, d, list, b.spell); err != nil {
		return nil, nil, err
	}
	for i := range list {
		list[i].Trajectory = d.Trajectories[i]
	}
	return d, list, d.Check(true)
}

// plain encodes text without control words.
func (b *Bench) plain(text string) ([]decode.Token, error) {
	return b.Engine.Info().Tokenizer.Encode(text, engine.EncodeOptions{})
}
