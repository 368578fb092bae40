package runtime

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/monitors"
	"github.com/trimtab/trimtab/runtime/engine"
	"github.com/trimtab/trimtab/steer"
)

// ErrClosed is returned by what was closed before.
var ErrClosed = errors.New("closed")

// defaultBatch is the rows of a prompt chunk where the engine names none.
const defaultBatch = 512

// Session generates one text. It is the only writer of its sequence, holds the
// engine's cells until Close, and is used by one goroutine at a time, which is
// also the engine's only driver.
type Session struct {
	cfg     Config // filled
	info    *engine.Info
	seq     engine.Sequence
	open    openFunc
	plan    *steer.Plan
	known   *steer.Plan // what the engine steers with now
	back    int         // rows that the engine has beyond history.fed
	twin    *twin       // nil without a shadow
	doses   doses
	rng     *rand.Rand
	history // rows and visible tokens
	text    transcript
	watches []watch
	sensors sensors
	frozen  *frozen // nil without Config.ObserveTimeout
	stale   bool    // frozen is of an earlier step
	policy  Policy  // nil commits always

	raw, logits decode.Logits // of this step
	scratch     decode.Logits // what the processor edits
	bans        []decode.Token
	yield       bool // they give way where nothing else is left
	force       forced
	from        int // where the candidate's bytes begin in the transcript
	lp          Logprob
	step        Step
	event       Event
	observation monitors.Observation
	feeds       []engine.Feed
	due         struct{ rows, twin int } // of the feeds being computed
	measured    bool                     // the row at hand is one to sample from
	retry       bool                     // the row at hand is fed again, at a lower dose

	logprobs []Logprob // beside tokens
	freed    int       // visible tokens that may leave by now
	released int       // visible tokens that have left
	given    struct{ text, tokens int }

	done   bool
	broken bool // the sequence is not to be used again
	err    error
	result Result
	began  time.Time
}

// NewSession checks the Config and opens a sequence for it. Faults of the
// Config are reported together, see [Config.Validate]; a context error or an
// error of the engine may also be returned.
func NewSession(ctx context.Context, cfg Config) (*Session, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	f := cfg.filled()
	if f.Sentinel != nil {
		if err := f.Sentinel.Prove(ctx, f.Engine, f.Plan, f.Prompt); err != nil {
			return nil, fmt.Errorf("session: %w", err)
		}
	}
	l := lanes{open: f.Engine.NewSequence}
	if err := l.fill(ctx, &f); err != nil {
		return nil, fmt.Errorf("session: %w", errors.Join(err, l.close()))
	}
	s, err := openSession(ctx, f, l)
	if err != nil {
		return nil, errors.Join(err, l.close())
	}
	return s, nil
}

// lanes are the sequences that a session starts on.
type lanes struct {
	seq, twin engine.Sequence // twin is nil without a shadow, and when it is to be forked
	open      openFunc        // for that fork
}

// fill opens what is missing.
func (l *lanes) fill(ctx context.Context, cfg *Config) (err error) {
	if l.seq == nil {
		if l.seq, err = l.open(ctx, engine.Origin{}); err != nil {
			return err
		}
	}
	if cfg.Shadow != nil && l.twin == nil && cfg.share(cfg.Engine.Info()) == 0 {
		if l.twin, err = l.open(ctx, engine.Origin{}); err != nil {
			return fmt.Errorf("shadow: %w", err)
		}
	}
	return nil
}

func (l *lanes) close() error {
	var faults []error
	for _, seq := range []engine.Sequence{l.seq, l.twin} {
		if seq != nil {
			faults = append(faults, seq.Close())
		}
	}
	return errors.Join(faults...)
}

// openSession starts a session of a checked and filled Config on sequences
// that may hold the first rows of the prompt already. On error the sequences
// are still the caller's.
func openSession(ctx context.Context, cfg Config, l lanes) (*Session, error) {
	info, seq := cfg.Engine.Info(), l.seq
	s := &Session{
		cfg: cfg, info: info, seq: seq, open: l.open, rng: decode.NewRand(cfg.Seed), policy: cfg.Policy,
		history: newHistory(cfg.Prompt, min(cfg.MaxTokens, maxPrealloc)),
		text:    newTranscript(cfg.Stop),
		began:   cfg.Now(),
	}
	s.fed = seq.Len()
	s.result = Result{HoldBack: cfg.HoldBack, Usage: Usage{PromptTokens: len(cfg.Prompt), CachedTokens: s.fed}}
	if err := s.start(cfg.Monitors); err != nil {
		return nil, fmt.Errorf("session: %w", err)
	}
	s.event.Activation = s.sensors.show(s.sensors.sites)
	if err := s.openLanes(l.twin); err != nil {
		return nil, fmt.Errorf("session: %w", err)
	}
	if err := s.begin(ctx); err != nil {
		return nil, fmt.Errorf("session: %w", err)
	}
	return s, nil
}

// openLanes sets the plans that the sequences start with: one that was kept may
// have another's.
func (s *Session) openLanes(second engine.Sequence) error {
	s.plan = s.cfg.Plan
	if err := s.seq.Steer(s.plan); err != nil {
		return fmt.Errorf("plan: %w", err)
	}
	s.known = s.plan
	if s.cfg.Shadow == nil {
		return nil
	}
	s.twin = &twin{governor: newGovernor(s.cfg.Shadow), seq: second, share: s.cfg.share(s.info)}
	if second == nil {
		return nil
	}
	s.twin.share, s.twin.fed = 0, second.Len()
	if err := second.Steer(nil); err != nil {
		return fmt.Errorf("shadow: %w", err)
	}
	return nil
}

// maxPrealloc bounds the tokens that a session makes room for at its start.
const maxPrealloc = 4096

func (s *Session) begin(ctx context.Context) (err error) {
	if s.cfg.Listener.Start == nil {
		return nil
	}
	defer recovered(&err)
	if err := s.cfg.Listener.Start(ctx, &Begin{Config: &s.cfg, Info: s.info, Cached: s.fed}); err != nil {
		return fmt.Errorf("listener: %w", err)
	}
	return nil
}

// Next generates until text leaves, and returns it. At the end it returns
// io.EOF, or the error that ended the session; [Session.Result] is then set in
// both cases. A context that ends, ends the session.
func (s *Session) Next(ctx context.Context) (Chunk, error) {
	for {
		if c := s.take(); !c.empty() {
			return c, nil
		}
		if s.done {
			break
		}
		if err := s.forward(ctx); err != nil {
			s.fail(ctx, err)
		}
	}
	if s.err != nil {
		return Chunk{}, s.err
	}
	return Chunk{}, io.EOF
}

// Run generates to the end. The Result is there even when there is an error.
func (s *Session) Run(ctx context.Context) (*Result, error) {
	for {
		if _, err := s.Next(ctx); err == io.EOF {
			return &s.result, nil
		} else if err != nil {
			return &s.result, err
		}
	}
}

// Result is what was made, or nil before the end. It stays valid.
func (s *Session) Result() *Result {
	if !s.done {
		return nil
	}
	return &s.result
}

// Close frees the sequence. A session that has not ended is cancelled.
func (s *Session) Close() error {
	if !s.done {
		s.conclude(context.Background(), FinishCancelled, fmt.Errorf("session: %w", ErrClosed))
	}
	return errors.Join(s.seq.Close(), s.closeTwin())
}

// forward is one step of a session that has the engine for itself.
func (s *Session) forward(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return s.at(err)
	}
	most := s.info.MaxBatch
	if most < 1 {
		most = defaultBatch
	}
	if err := s.sync(); err != nil {
		return s.at(err)
	}
	s.feeds = s.appendFeeds(s.feeds[:0], most)
	if err := s.cfg.Engine.Forward(ctx, s.feeds); err != nil {
		return s.at(err)
	}
	ready, err := s.landed()
	if err != nil {
		return s.at(err)
	}
	if !ready {
		return nil
	}
	return s.advance(ctx)
}

// advance runs the rest of the step on what collect fetched, without touching
// the engine: a scheduler advances many sessions at once.
func (s *Session) advance(ctx context.Context) error {
	if s.cfg.warm {
		s.conclude(ctx, FinishStop, nil)
		return nil
	}
	if s.twin != nil {
		if again, err := s.measure(); err != nil {
			return s.at(err)
		} else if again {
			return nil
		}
	}
	for again := true; again && !s.done; {
		if err := s.decide(ctx); err != nil {
			return s.at(err)
		}
		var err error
		if again, err = s.apply(ctx); err != nil {
			return s.at(err)
		}
	}
	return nil
}

// take returns what has left since the last take.
func (s *Session) take() Chunk {
	text, tokens := len(s.text.out), s.released
	c := Chunk{Text: s.text.out[s.given.text:text:text], Tokens: s.tokens[s.given.tokens:tokens:tokens]}
	if s.cfg.Logprobs {
		c.Logprobs = s.logprobs[s.given.tokens:tokens:tokens]
	}
	s.given.text, s.given.tokens = text, tokens
	return c
}

// fail ends the session with an error.
func (s *Session) fail(ctx context.Context, err error) {
	if s.done {
		return
	}
	s.conclude(ctx, reasonOf(err), err)
}

// conclude makes the Result. It is called once.
func (s *Session) conclude(ctx context.Context, reason FinishReason, err error) {
	s.done, s.err = true, err
	r := &s.result
	r.FinishReason = reason
	r.Text = string(s.text.out)
	if reason == FinishStop || reason == FinishLength {
		s.released = len(s.tokens)
	}
	r.Tokens = s.tokens[:s.released]
	if s.cfg.Logprobs {
		r.Logprobs = s.logprobs[:s.released]
	}
	r.Usage.CompletionTokens = s.released
	if s.twin != nil {
		r.Shadow = s.twin.summary(s.released, s.twin.spent)
	}
	r.Timings.Total = s.cfg.Now().Sub(s.began)
	if err := s.ended(ctx); err != nil && s.err == nil {
		s.err, r.FinishReason = s.at(err), FinishError
	}
}

func (s *Session) ended(ctx context.Context) (err error) {
	if s.cfg.Listener.End == nil {
		return nil
	}
	defer recovered(&err)
	if err := s.cfg.Listener.End(ctx, &s.result); err != nil {
		return fmt.Errorf("listener: %w", err)
	}
	return nil
}

// at names the step in an error.
func (s *Session) at(err error) error { return fmt.Errorf("step %d: %w", len(s.tokens), err) }
