package main

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/runtime"
)

// defaultMaxTokens is the length of an answer when --max-tokens is not given.
// Unlike a given number it yields to a small context.
const defaultMaxTokens = 512

// sampling holds the flags that `run` and `batch` share about how an answer is
// made.
type sampling struct {
	params    decode.Params
	maxTokens int
	stop      []string
	steering  *steering
	shadowing *shadowing
	watching  *watching

	flags *pflag.FlagSet
}

func newSampling(c *cobra.Command) *sampling {
	s := &sampling{params: decode.DefaultParams(), flags: c.Flags()}
	p, f := &s.params, c.Flags()
	f.Float32Var(&p.Temperature, "temp", p.Temperature, "temperature: 0 takes the likeliest token, 1 is the model's own distribution")
	f.IntVar(&p.TopK, "top-k", p.TopK, "keep the `N` likeliest tokens, 0 for all")
	f.Float32Var(&p.TopP, "top-p", p.TopP, "keep the likeliest tokens that make up this probability, 1 for all")
	f.Float32Var(&p.MinP, "min-p", p.MinP, "keep tokens at least this probable, relative to the best; 0 for all")
	f.Float32Var(&p.Typical, "typical-p", p.Typical, "locally typical sampling, 1 for off")
	f.Float32Var(&p.TopNSigma, "top-n-sigma", p.TopNSigma, "keep logits within so many standard deviations of the best, 0 for off")
	f.Float32Var(&p.Repeat, "repeat-penalty", p.Repeat, "divide the logits of recent tokens, 1 for off")
	f.Float32Var(&p.Frequency, "frequency-penalty", p.Frequency, "lower logits by how often a recent token occurred, 0 for off")
	f.Float32Var(&p.Presence, "presence-penalty", p.Presence, "lower logits of tokens that occurred recently, 0 for off")
	f.IntVar(&p.LastN, "repeat-last-n", p.LastN, "how many tokens are recent")
	f.Float32Var(&p.DRYMultiplier, "dry-multiplier", p.DRYMultiplier, "strength of the DRY penalty on repeated sequences, 0 for off")
	f.IntVar(&p.MinTokens, "min-tokens", p.MinTokens, "tokens before the answer may end")
	f.Uint64Var(&p.Seed, "seed", 0, "seed of every random choice")
	f.IntVar(&s.maxTokens, "max-tokens", 0, "longest answer in tokens (default 512, or what fits)")
	f.StringArrayVar(&s.stop, "stop", nil, "`TEXT` that ends the answer; may be given several times")
	s.steering, s.shadowing, s.watching = newSteering(c), newShadowing(c), newWatching(c)
	return s
}

// check reports wrong values before a model is loaded.
func (s *sampling) check(c *cobra.Command) error {
	if err := s.steering.check(c); err != nil {
		return err
	}
	if err := s.shadowing.check(c, s.steering.expr != nil); err != nil {
		return err
	}
	if err := s.watching.check(c); err != nil {
		return err
	}
	if err := s.params.Validate(); err != nil {
		return usagef(c, "%w", err)
	}
	if s.maxTokens < 0 || (s.maxTokens == 0 && s.flags.Changed("max-tokens")) {
		return usagef(c, "--max-tokens is %d, must be at least 1", s.maxTokens)
	}
	for _, t := range s.stop {
		if t == "" || len(t) > runtime.MaxStopBytes {
			return usagef(c, "a --stop text has %d bytes, must have 1 to %d", len(t), runtime.MaxStopBytes)
		}
	}
	if len(s.stop) > runtime.MaxStops {
		return usagef(c, "%d --stop texts, the limit is %d", len(s.stop), runtime.MaxStops)
	}
	return nil
}

// config describes the generation that answers a prompt.
func (s *sampling) config(m *loaded, prompt []decode.Token) (runtime.Config, error) {
	chain, err := s.params.Chain(m.vocab, prompt)
	if err != nil {
		return runtime.Config{}, err
	}
	cfg := runtime.Config{
		Engine: m.engine, Prompt: prompt, Processor: chain, Sampler: s.params.Sampler(), Seed: s.params.Seed,
		MaxTokens: s.maxTokens, Stop: s.stop, Plan: m.plan, Shadow: s.shadowing.config(),
	}
	if cfg.MaxTokens == 0 {
		cfg.MaxTokens, cfg.ClampMaxTokens = defaultMaxTokens, true
	}
	err = m.guard.apply(&cfg)
	return cfg, err
}
