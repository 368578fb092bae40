package main

import (
	"context"
	"fmt"
	"math"

	"github.com/spf13/cobra"

	"github.com/trimtab/trimtab/cmd/trimtab/internal/batch"
	"github.com/trimtab/trimtab/runtime"
)

// shadowing holds the flags that `run` and `batch` share about measuring and
// bounding what steering does.
type shadowing struct {
	shadow bool
	budget float64
	set    bool // --kl-budget was given
}

func newShadowing(c *cobra.Command) *shadowing {
	s := &shadowing{}
	f := c.Flags()
	f.BoolVar(&s.shadow, "shadow", false, "measure steering: KL(steered || unsteered) at every token (costs a second row for each)")
	f.Float64Var(&s.budget, "kl-budget", 0, fmt.Sprintf("lower the dose so that any %d tokens have at most `X` nats of KL(steered || unsteered) on average; implies --shadow", runtime.DefaultShadowWindow))
	return s
}

// check reports wrong values before a model is loaded.
func (s *shadowing) check(c *cobra.Command, steers bool) error {
	s.set = c.Flags().Changed("kl-budget")
	switch {
	case s.set && !(s.budget >= 0):
		return usagef(c, "--kl-budget is %v, must be 0 or more nats a token", s.budget)
	case s.set && !steers:
		return usagef(c, "--kl-budget bounds steering, but nothing steers: give --vector NAME=FILE")
	case s.shadow && !steers:
		return usagef(c, "--shadow measures steering, but nothing steers: give --vector NAME=FILE")
	}
	return nil
}

// wanted reports whether texts run with a second sequence.
func (s *shadowing) wanted() bool { return s != nil && (s.shadow || s.set) }

// config is the shadow of a generation, nil for none.
func (s *shadowing) config() *runtime.Shadow {
	switch {
	case !s.wanted():
		return nil
	case s.set && !math.IsInf(s.budget, 1):
		return &runtime.Shadow{Mean: &s.budget}
	}
	return &runtime.Shadow{}
}

// divergenceOf turns what was measured into the documented form.
func divergenceOf(d *runtime.Divergence) *batch.Divergence {
	if d == nil {
		return nil
	}
	return &batch.Divergence{KL: d.KL, Mean: d.Mean, Max: d.Max, Total: d.Total, Worst: d.Worst,
		LeastDose: d.LeastDose, Lowered: d.Lowered, Unsteered: d.Unsteered, Tries: d.Tries}
}

// divergenceLine is the line of --stats.
func divergenceLine(d *runtime.Divergence) string {
	if d.Worst < 0 {
		return "KL: no tokens"
	}
	line := fmt.Sprintf("KL(steered || unsteered) %.4f nats a token, most %.4f (token %d)", d.Mean, d.Max, d.Worst+1)
	if d.Lowered > 0 || d.Tries > 0 {
		line += fmt.Sprintf("; %d tokens at a lower dose (least %.2f), %d of them unsteered, %d rows fed again or given up", d.Lowered, d.LeastDose, d.Unsteered, d.Tries)
	}
	return line
}

// cleanFrom is the row of a prompt at which the turn begins that it asks to
// answer: what was said before stays unsteered with --clean-turns.
func (t *talk) cleanFrom(prompt tokens) (int, error) {
	if !t.flags.cleanTurns || len(t.history) == 0 {
		return 0, nil
	}
	before, err := t.model.transcript(t.history)
	if err != nil {
		return 0, err
	}
	n := 0
	for n < min(len(before), len(prompt)-1) && before[n] == prompt[n] {
		n++
	}
	return n, nil
}

// clean feeds the conversation again without steering, while its user reads.
func (t *talk) clean(ctx context.Context) {
	if !t.flags.cleanTurns || t.model.plan.Fingerprint() == 0 {
		return
	}
	text, err := t.model.transcript(t.history)
	if err != nil {
		return // the next turn says so
	}
	t.cleaning, _ = t.model.sched.Warm(context.WithoutCancel(ctx), text) // without it the next turn feeds the rows itself
}

// stopCleaning makes way for the next turn, which goes on where it was.
func (t *talk) stopCleaning() {
	if t.cleaning != nil {
		t.cleaning.Close()
		t.cleaning = nil
	}
}
