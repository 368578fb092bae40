package runtime

import (
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/monitors"
	"github.com/trimtab/trimtab/runtime/engine"
	"github.com/trimtab/trimtab/steer"
)

// Bounds of a [Config].
const (
	MaxStops       = 16   // stop strings
	MaxStopBytes   = 256  // bytes of one stop string
	MaxTopLogprobs = 20   // alternatives reported per token
	MaxHoldBack    = 4096 // tokens of the hold-back window
	MaxMonitors    = 64   // monitors of one session
	MaxHidden      = 4096 // the largest Config.MaxGuide

	DefaultMaxRewinds   = 16   // rewinds of one session
	DefaultMaxDiscarded = 1024 // tokens that all rewinds of a session throw away
	DefaultMaxGuide     = 64   // hidden tokens in a sequence at once, when there is a policy
)

// Config describes one generation. It is checked as a whole before anything
// runs ([Config.Validate]); the zero value of every optional field is a default.
//
// Processor and Policy are live objects: they belong to the session that is
// made from the Config, and a Config that has a stateful one makes one session
// only. Everything else is data and may be shared.
type Config struct {
	// Engine runs the model. A [Scheduler] brings its own: then nil or the same.
	Engine engine.Engine
	// Prompt is fed before anything is generated; at least one token.
	Prompt []decode.Token
	// Plan steers the model. Nil for none.
	Plan *steer.Plan
	// PlanFrom is the row of the prompt at which steering begins: those before
	// it are made under no plan, and are shared with prompts that have none. It
	// keeps the steering of earlier turns of a conversation out of this one.
	PlanFrom int
	// Sentinel proves the Plan on the engine before it is first used. Nil for
	// no proof; a [Scheduler] has one of its own.
	Sentinel *Sentinel
	// Shadow measures, and may bound, how far steering moves the model. Nil
	// for neither.
	Shadow *Shadow

	// Processor edits a copy of the logits before sampling, usually a
	// decode.Chain. It accepts visible generated tokens only. Nil for none.
	Processor decode.Processor
	// Sampler picks the candidate. Nil for the most likely token.
	Sampler decode.Sampler
	// Seed of the session's generator (PCG). It runs on over rewinds: what is
	// thrown away is not sampled again from the same numbers.
	Seed uint64

	// MaxTokens bounds the visible tokens; 0 until the context is full. When
	// prompt and MaxTokens (and MaxGuide) do not fit the context, that is an
	// error wrapping engine.ErrContextFull, unless ClampMaxTokens lowers
	// MaxTokens to what fits.
	MaxTokens      int
	ClampMaxTokens bool
	// Stop strings end the text before them. They are found across the borders
	// of tokens, and no part of one is ever released. They need a tokenizer.
	Stop []string
	// End are the tokens that end the answer. Nil for those that the tokenizer
	// marks engine.KindEnd; empty but not nil for none.
	End []decode.Token

	// Logprobs reports the natural logarithm of each token's probability under
	// the raw logits, TopLogprobs (0 to 20) that of the likeliest tokens too.
	Logprobs    bool
	TopLogprobs int

	// HoldBack is the window in tokens: text leaves when so many later tokens
	// are committed, or at the end. 0 lets it leave at once, and then a policy
	// can reject a candidate but take nothing back. Needs Caps.Rewind if not 0.
	HoldBack int
	// Monitors observe every candidate, in this order. Names must differ.
	Monitors []monitors.Monitor
	// Policy decides. Nil commits always.
	Policy Policy
	// OnFault says what happens when a monitor or the policy fails.
	OnFault FaultMode
	// ObserveTimeout bounds each call of a watcher, in real time: one that does
	// not answer is left behind with its goroutine and a copy of the step, and
	// that is a fault ([ErrStalled]). 0 for no bound, at no cost; else every
	// step copies its logits and starts a goroutine per monitor.
	ObserveTimeout time.Duration
	// MaxRewinds, MaxDiscarded and MaxGuide are the budgets of the policy:
	// rewinds, tokens thrown away (candidates count), and hidden tokens at
	// once (at most MaxHidden). 0 for the defaults, negative for none.
	MaxRewinds, MaxDiscarded, MaxGuide int

	// Listener is told what happens. The zero value listens to nothing.
	Listener Listener
	// Now is the clock of the timings. Nil for time.Now.
	Now func() time.Time

	warm bool // nothing is generated: see [Scheduler.Warm]
}

// Validate reports every fault of the Config at once, against the Engine's
// Info. Errors may wrap [engine.ErrContextFull] and [engine.ErrUnsupported].
func (c *Config) Validate() error {
	if c.Engine == nil {
		return errors.New("config: no engine")
	}
	f := c.filled()
	return f.faults(c.Engine.Info())
}

// filled is the Config with its defaults. MaxTokens becomes what it means for
// the context, and is 0 or less when not even one token fits.
func (c *Config) filled() Config {
	f := *c
	if f.Sampler == nil {
		f.Sampler = decode.Greedy{}
	}
	if f.Now == nil {
		f.Now = time.Now
	}
	if f.Policy == nil && f.MaxGuide == 0 {
		f.MaxGuide = -1
	}
	f.MaxRewinds = budget(f.MaxRewinds, DefaultMaxRewinds)
	f.MaxDiscarded = budget(f.MaxDiscarded, DefaultMaxDiscarded)
	f.MaxGuide = min(budget(f.MaxGuide, DefaultMaxGuide), MaxHidden)
	f.Shadow = f.Shadow.filled()
	if f.Engine != nil {
		info := f.Engine.Info()
		room := f.room(info)
		if f.MaxTokens == 0 || f.ClampMaxTokens && f.MaxTokens > room {
			f.MaxTokens = room
		}
	}
	return f
}

func budget(n, otherwise int) int {
	if n == 0 {
		return otherwise
	}
	return max(n, 0)
}

// room is how many visible tokens fit behind the prompt.
func (c *Config) room(info *engine.Info) int {
	room := min(info.Context, info.Cells) - len(c.Prompt) - c.MaxGuide
	if c.Shadow == nil {
		return room
	}
	none := *c
	none.MaxTokens = 0
	return min(room, (info.Cells-none.reserve(info))/2)
}

// reserve is the most rows that the sequences of a filled Config can have.
func (c *Config) reserve(info *engine.Info) int {
	return len(c.Prompt) + c.MaxTokens + c.MaxGuide + c.shadowRows(info)
}

// sequences is how many the session may have open.
func (c *Config) sequences() int {
	if c.Shadow != nil {
		return 2
	}
	return 1
}

// faults checks a filled Config.
func (c *Config) faults(info *engine.Info) error {
	var faults []error
	add := func(err error) {
		if err != nil {
			faults = append(faults, fmt.Errorf("config: %w", err))
		}
	}
	add(c.checkPrompt(info))
	add(c.checkPlan(info))
	for _, err := range c.checkShadow(info) {
		add(err)
	}
	for _, err := range c.checkText(info) {
		add(err)
	}
	for _, err := range c.checkMonitors(info) {
		add(err)
	}
	if c.ObserveTimeout < 0 {
		add(fmt.Errorf("observe timeout %v, must not be negative", c.ObserveTimeout))
	}
	if c.OnFault > FailOpen {
		add(fmt.Errorf("unknown fault mode %d", c.OnFault))
	}
	if c.TopLogprobs < 0 || c.TopLogprobs > MaxTopLogprobs {
		add(fmt.Errorf("top log-probabilities %d, must be 0 to %d", c.TopLogprobs, MaxTopLogprobs))
	}
	if c.TopLogprobs > 0 && !c.Logprobs {
		add(errors.New("top log-probabilities need Logprobs"))
	}
	return errors.Join(faults...)
}

func (c *Config) checkPrompt(info *engine.Info) error {
	if len(c.Prompt) == 0 {
		return errors.New("the prompt is empty, a model needs at least one token")
	}
	if err := checkTokens("prompt", c.Prompt, info.Vocab); err != nil {
		return err
	}
	room, left, beside := min(info.Context, info.Cells), c.room(info), ""
	if c.Shadow != nil {
		beside = ", and a shadow beside them"
	}
	if left > 0 && c.MaxTokens < 0 {
		return fmt.Errorf("most tokens is %d, must not be negative", c.MaxTokens)
	}
	if c.MaxTokens > 0 && c.MaxTokens <= left {
		return nil
	}
	return fmt.Errorf("prompt of %d tokens, %d to generate and %d for guidance%s: %w: %d fit",
		len(c.Prompt), max(c.MaxTokens, 1), c.MaxGuide, beside, engine.ErrContextFull, room)
}

func (c *Config) checkPlan(info *engine.Info) error {
	if c.Plan.Fingerprint() == 0 {
		return nil
	}
	faults := []error{c.Plan.Check(info.Layers, info.Width)}
	for i := range c.Plan.Len() {
		if iv := c.Plan.At(i); iv.Scale != 0 {
			faults = append(faults, info.Caps.CanEdit(iv.Site, iv.Op))
		}
	}
	if err := errors.Join(faults...); err != nil {
		return fmt.Errorf("plan: %w", err)
	}
	return nil
}

func (c *Config) checkText(info *engine.Info) (faults []error) {
	if len(c.Stop) > MaxStops {
		return append(faults, fmt.Errorf("%d stop strings, the limit is %d", len(c.Stop), MaxStops))
	}
	if len(c.Stop) > 0 && info.Tokenizer == nil {
		faults = append(faults, errors.New("stop strings need a tokenizer, the engine has none"))
	}
	for i, s := range c.Stop {
		if s == "" || len(s) > MaxStopBytes || !utf8.ValidString(s) {
			faults = append(faults, fmt.Errorf("stop string %d (%d bytes) must be valid UTF-8 of 1 to %d bytes", i, len(s), MaxStopBytes))
		}
	}
	if err := checkTokens("end", c.End, info.Vocab); err != nil {
		faults = append(faults, err)
	}
	return faults
}

func (c *Config) checkMonitors(info *engine.Info) (faults []error) {
	if c.HoldBack < 0 || c.HoldBack > MaxHoldBack {
		faults = append(faults, fmt.Errorf("hold-back of %d tokens, must be 0 to %d", c.HoldBack, MaxHoldBack))
	}
	if c.HoldBack > 0 && !info.Caps.Rewind {
		faults = append(faults, engine.Unsupported("hold-back", "this engine cannot rewind, so nothing held could be taken back"))
	}
	if len(c.Monitors) > MaxMonitors {
		return append(faults, fmt.Errorf("%d monitors, the limit is %d", len(c.Monitors), MaxMonitors))
	}
	seen := map[string]bool{}
	for i, m := range c.Monitors {
		if m.Name == "" || seen[m.Name] {
			faults = append(faults, fmt.Errorf("monitor %d: the name %q is empty or taken", i, m.Name))
		}
		seen[m.Name] = true
		if m.Start == nil {
			faults = append(faults, fmt.Errorf("monitor %q: Start is nil", m.Name))
		}
		for _, site := range m.Sites {
			if err := info.Caps.CanCapture(site); err != nil {
				faults = append(faults, fmt.Errorf("monitor %q: site %s: %w", m.Name, site, err))
			}
		}
	}
	return faults
}
