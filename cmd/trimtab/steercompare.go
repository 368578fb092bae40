package main

import (
	"context"
	"encoding/json"
	"errors"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/trimtab/trimtab/cmd/trimtab/internal/sweep"
	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/runtime"
	"github.com/trimtab/trimtab/runtime/engine"
	"github.com/trimtab/trimtab/runtime/engine/chat"
	"github.com/trimtab/trimtab/steer"
)

const steerCompareLong = `Answer one prompt twice, unsteered and steered, with the same seed, and show both
side by side.

Along the steered text stands how far steering moved the model: at every token
the exact divergence KL(steered || unsteered) in nats between the distributions
that the two models have for it, given the same text before it, and the
probability of the token in both. 0 means that steering changed nothing there.`

const steerCompareExample = `  trimtab steer compare --vector kind=kind.gguf -p "What is a lake?"
  trimtab steer compare -m model.gguf --vector kind=kind.gguf --steer "kind:0.8" -p "Hello" --temp 0 --json`

// compareFlags are the flags of `steer compare` besides model and sampling.
type compareFlags struct {
	prompt, system, color string
	json                  bool
}

func newSteerCompare(a *app) *cobra.Command {
	c := &cobra.Command{Use: "compare", Short: "Answer a prompt unsteered and steered, side by side", Long: steerCompareLong, Example: steerCompareExample, Args: noArgs}
	ef, sf, cf := newEngineFlags(c), newSampling(c), &compareFlags{}
	f := c.Flags()
	f.StringVarP(&cf.prompt, "prompt", "p", "", "`TEXT` to answer (required)")
	f.StringVar(&cf.system, "system", "", "`TEXT` of the system message")
	f.StringVar(&cf.color, "color", "auto", "mark tokens by their divergence: auto, always or never")
	f.BoolVar(&cf.json, "json", false, "print one JSON object")
	f.SortFlags = false
	for _, name := range notCompared {
		_ = f.MarkHidden(name) // fails only where the flag is not there to be hidden
	}
	c.RunE = func(c *cobra.Command, _ []string) error {
		if err := errors.Join(ef.check(), sf.check(c), cf.check(c, sf.steering)); err != nil {
			return err
		}
		return a.steerCompare(c, ef, sf, cf)
	}
	return c
}

// notCompared are flags of sampling that a comparison has no use for: it always
// measures, a budget would steer by another dose than the one measured, and what
// a policy does is no distribution that could be compared.
var notCompared = [...]string{"shadow", "kl-budget", "monitor", "policy", "hold-back", "max-interventions", "rewind-to", "refusal", "guidance",
	"fail-open", "scores", "lift", "radius"}

func (cf *compareFlags) check(c *cobra.Command, s *steering) error {
	for _, name := range notCompared {
		if c.Flags().Changed(name) {
			return usagef(c, "--%s is for run and batch: compare measures what --steer does, by itself", name)
		}
	}
	switch {
	case s.expr == nil:
		return usagef(c, "--vector is missing: name the vector to compare, as in --vector kind=kind.gguf")
	case cf.prompt == "":
		return usagef(c, "--prompt is missing: give the text to answer")
	case !utf8.ValidString(cf.prompt) || !utf8.ValidString(cf.system):
		return usagef(c, "--prompt and --system must be valid UTF-8")
	case cf.color != "auto" && cf.color != "always" && cf.color != "never":
		return usagef(c, "--color is %q, must be auto, always or never", cf.color)
	}
	return nil
}

func (a *app) steerCompare(c *cobra.Command, ef *engineFlags, sf *sampling, cf *compareFlags) error {
	ctx, stop := a.interruptible(c.Context())
	defer stop()
	// One at a time and without a cache, so that equal runs give equal bits.
	m, err := load(ctx, a, ef, runtime.Options{Slots: 1, NoCache: true})
	if err != nil {
		return err
	}
	defer m.close()
	if err := m.prepare(sf); err != nil {
		return err
	}
	r, err := m.compare(ctx, sf, cf)
	if err != nil {
		return causeOr(ctx, err)
	}
	if cf.json {
		enc := json.NewEncoder(a.out)
		enc.SetEscapeHTML(false)
		return enc.Encode(r)
	}
	r.print(a.out, a.width, cf.color == "always" || cf.color == "auto" && a.outTTY && a.colors)
	return nil
}

// comparison is what `steer compare` says; its JSON form is documented.
type comparison struct {
	Model      string        `json:"model"`
	ModelHash  string        `json:"model_hash"`
	Expression string        `json:"expression"`
	Seed       uint64        `json:"seed"`
	Unsteered  side          `json:"unsteered"`
	Steered    side          `json:"steered"`
	Common     int           `json:"common"` // tokens at the beginning that both texts share
	MeanKL     float64       `json:"mean_kl"`
	MaxKL      float64       `json:"max_kl"`
	Tokens     []tokenReport `json:"tokens"` // of the steered text

	pieces [2][][]byte
}

type side struct {
	Text         string `json:"text"`
	FinishReason string `json:"finish_reason"`
	Count        int    `json:"tokens"`
}

// tokenReport is one token of the steered text.
type tokenReport struct {
	Token     decode.Token `json:"token"`
	Text      string       `json:"text"` // invalid UTF-8 is replaced
	KL        float64      `json:"kl"`   // KL(steered || unsteered), nats
	Steered   float64      `json:"logprob"`
	Unsteered float64      `json:"logprob_unsteered"`
}

// compare writes both answers and measures along the steered one. Afterwards
// the scheduler is closed: the engine has one driver.
func (m *loaded) compare(ctx context.Context, sf *sampling, cf *compareFlags) (*comparison, error) {
	in := chat.Input{AddGenerationPrompt: true, Now: m.now, Messages: []chat.Message{{Role: "user", Content: cf.prompt}}}
	if cf.system != "" {
		in.Messages = append([]chat.Message{{Role: "system", Content: cf.system}}, in.Messages...)
	}
	prompt, err := m.prompter.Prompt(in)
	if err != nil {
		return nil, badInput("prompt: %w", err)
	}
	r := &comparison{Model: m.info.Name, ModelHash: m.info.Hash, Expression: sf.steering.expr.String(), Seed: sf.params.Seed}
	var said [2]*runtime.Result
	for i, plan := range []*steer.Plan{nil, m.plan} {
		cfg, err := sf.config(m, prompt)
		if err != nil {
			return nil, err
		}
		cfg.Plan = plan
		st, err := m.sched.Submit(ctx, cfg)
		if err != nil {
			return nil, err
		}
		if said[i], err = st.Wait(context.WithoutCancel(ctx)); err != nil { // Submit's context ends it
			return nil, err
		}
		for _, t := range said[i].Tokens {
			r.pieces[i] = append(r.pieces[i], m.info.Tokenizer.AppendPiece(nil, t))
		}
	}
	r.Unsteered, r.Steered = sideOf(said[0]), sideOf(said[1])
	a, b := said[0].Tokens, said[1].Tokens
	for r.Common < min(len(a), len(b)) && a[r.Common] == b[r.Common] {
		r.Common++
	}
	m.sched.Close()
	return r, r.measure(ctx, m.engine, m.plan, prompt, b)
}

func sideOf(r *runtime.Result) side {
	return side{r.Text, string(r.FinishReason), len(r.Tokens)}
}

// measure fills in what is said of each token of the steered text.
func (r *comparison) measure(ctx context.Context, e engine.Engine, plan *steer.Plan, prompt, answer tokens) error {
	if len(answer) == 0 {
		return nil
	}
	all := append(append(tokens{}, prompt...), answer...)
	text := sweep.Text{Tokens: all, Prompt: len(prompt), From: len(prompt), To: len(all)}
	var sum sweep.Tally
	err := sweep.Measure(ctx, e, []*steer.Plan{plan}, []sweep.Text{text}, func(_, _ int, row sweep.Row) {
		i := len(r.Tokens)
		r.Tokens = append(r.Tokens, tokenReport{answer[i], string([]rune(string(r.pieces[1][i]))), row.Back, row.Steered, row.Base})
		r.MaxKL = max(r.MaxKL, row.Back)
		sum.Add(row)
	}, nil)
	r.MeanKL = sum.Sum.Back / float64(max(sum.Rows, 1))
	return err
}
