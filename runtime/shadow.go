package runtime

import (
	"errors"
	"fmt"

	"github.com/trimtab/trimtab/runtime/engine"
	"github.com/trimtab/trimtab/steer"
)

// Bounds and defaults of a [Shadow].
const (
	DefaultShadowWindow = 16
	MaxShadowWindow     = 4096
	DefaultShadowTries  = 3
	MaxShadowTries      = 16
)

// Shadow runs the same text without steering beside a steered one, in the same
// batches, and measures at every token how far steering has moved the model:
// KL(steered || unsteered) in nats, exact, in float64 from the raw logits. The
// unsteered sequence is fed the tokens of the text, hidden guidance included,
// under no plan at all. Where the plan leaves the first rows of the prompt
// alone these are shared; the rest costs a second row for every row.
//
// With a limit it also bounds what is measured. The dose of the plan, and of
// every plan that the policy brings, is multiplied by a factor from 0 to 1 that
// starts at 1, falls smoothly as the limits come near and rises again behind
// them. A row that would break a limit is never sampled from: it is fed again at
// a lower dose, up to Tries times, the last time without the plan, and when
// even that is too far (rows before it were steered) the candidate is drawn from
// the unsteered row. So these hold for every text, without exception and without
// rounding beyond float64:
//
//   - no committed token was drawn from a row with more than Token nats;
//   - no Window tokens in a row have more than Mean nats on average, where
//     tokens before the answer count as 0;
//   - all tokens together have at most Total nats.
//
// A limit of 0 gives the text of no plan at all. Limits that are never reached,
// infinite ones too, give the text of the plan. The divergence is that of
// the model's rows, before processors, bans and the sampler.
//
// Rewound tokens count for nothing. Where the engine cannot rewind, no row is
// fed again and the unsteered one is taken at once.
type Shadow struct {
	Token *float64 // most nats of one token; nil for any
	Mean  *float64 // most nats per token, averaged over the last Window tokens; nil for any
	Total *float64 // most nats of the whole answer; nil for any

	Window int // tokens; 0 for DefaultShadowWindow
	Tries  int // most times that one row is fed again; 0 for DefaultShadowTries, negative for none
}

// limited reports whether there is anything to keep.
func (s *Shadow) limited() bool { return s.Token != nil || s.Mean != nil || s.Total != nil }

func (s *Shadow) filled() *Shadow {
	if s == nil {
		return nil
	}
	f := *s
	if f.Window == 0 {
		f.Window = DefaultShadowWindow
	}
	f.Tries = budget(f.Tries, DefaultShadowTries)
	return &f
}

func (s *Shadow) faults() (faults []error) {
	for _, l := range []struct {
		name  string
		value *float64
	}{{"token", s.Token}, {"mean", s.Mean}, {"total", s.Total}} {
		if l.value != nil && !(*l.value >= 0) {
			faults = append(faults, fmt.Errorf("shadow: most nats (%s) is %v, must be 0 or more", l.name, *l.value))
		}
	}
	if s.Window < 1 || s.Window > MaxShadowWindow {
		faults = append(faults, fmt.Errorf("shadow: window of %d tokens, must be 1 to %d", s.Window, MaxShadowWindow))
	}
	if s.Tries > MaxShadowTries {
		faults = append(faults, fmt.Errorf("shadow: %d tries, the limit is %d", s.Tries, MaxShadowTries))
	}
	return faults
}

// checkShadow checks a filled Config.
func (c *Config) checkShadow(info *engine.Info) (faults []error) {
	if c.PlanFrom < 0 || c.PlanFrom > 0 && c.PlanFrom >= len(c.Prompt) {
		faults = append(faults, fmt.Errorf("the plan begins at row %d of a prompt of %d: at least its last row must be left to it", c.PlanFrom, len(c.Prompt)))
	}
	if c.Shadow == nil {
		return faults
	}
	faults = append(faults, c.Shadow.faults()...)
	if info.MaxSequences < 2 {
		faults = append(faults, engine.Unsupported("shadow", fmt.Sprintf("it needs a second sequence, this engine has %d", info.MaxSequences)))
	}
	return faults
}

// bare is how many of the prompt's first rows are made without the plan.
func (c *Config) bare() int { return max(c.PlanFrom, untouched(c.Plan, len(c.Prompt))) }

// untouched is how many of the first rows of a prompt of n tokens a plan can do
// nothing to.
func untouched(p *steer.Plan, n int) int {
	if p.PromptFingerprint() == 0 {
		return n
	}
	first := n
	for i := range p.Len() {
		iv := p.At(i)
		w := &iv.When
		if iv.Scale == 0 || w.Phases != 0 && w.Phases&steer.PhasePrompt == 0 {
			continue
		}
		from := 0
		if w.From != nil {
			from = max(n+*w.From, 0)
		}
		first = min(first, from)
	}
	return first
}

// share is how many rows the shadow takes from the steered sequence.
func (c *Config) share(info *engine.Info) int {
	n := c.bare()
	if !info.Caps.Fork || n < len(c.Prompt) && n < blockTokens {
		return 0
	}
	return n
}

// shadowRows is the most rows that the shadow has for itself. A shared row
// that is fed again stands twice.
func (c *Config) shadowRows(info *engine.Info) int {
	if c.Shadow == nil {
		return 0
	}
	return len(c.Prompt) + c.MaxTokens + c.MaxGuide - max(c.share(info)-1, 0)
}

// Reading compares a row with the one that the model gives without steering.
type Reading struct {
	KL   float64 // nats, KL(steered || unsteered), of the row that the candidate was drawn from
	Dose float64 // factor on the plan's dose in that row, 0 to 1
	// Unsteered says that the candidate was drawn from the unsteered row: no
	// dose kept the limits. KL and Dose are 0 then.
	Unsteered bool
	Tries     []Try // rows that broke a limit and were fed again, or given up
}

// Try is a row that was not sampled from.
type Try struct{ Dose, KL float64 }

// Divergence is how far steering moved the model in a whole text.
type Divergence struct {
	KL        []float64 // nats, beside Result.Tokens; see [Shadow]
	Mean, Max float64   // nats per token; 0 for an empty text
	Total     float64   // nats
	Worst     int       // the token with Max, -1 for an empty text
	LeastDose float64   // lowest factor on the dose, 1 for an empty text
	Lowered   int       // tokens from a row at a factor below 1, with those of the next line
	Unsteered int       // tokens from the unsteered row
	Tries     int       // rows that were thrown away, those of rewound tokens too
}

// errDivergence says that there is nothing to compare.
var errDivergence = errors.New("the divergence is not finite: one of the rows holds values that are no numbers, or excludes a token that the other allows")
