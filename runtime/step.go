package runtime

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/runtime/engine"
)

// maxBans bounds the banned tokens of one place.
const maxBans = 4096

// decide makes a candidate and gets the one decision about it.
func (s *Session) decide(ctx context.Context) (err error) {
	defer recovered(&err)
	s.event.Verdicts = s.event.Verdicts[:0]
	if err := s.propose(ctx); err != nil {
		return err
	}
	if err := s.observe(ctx); err != nil {
		return err
	}
	return s.judge(ctx)
}

// process makes the row that is sampled from. Nothing is copied when nothing
// edits it.
func (s *Session) process(ctx context.Context) error {
	s.logits = s.raw
	if s.cfg.Processor == nil && len(s.bans) == 0 {
		return nil
	}
	if s.scratch == nil {
		s.scratch = make(decode.Logits, len(s.raw))
	}
	copy(s.scratch, s.raw)
	s.logits = s.scratch
	for _, t := range s.bans { // first, so that a truncation keeps others
		s.scratch[t] = float32(math.Inf(-1))
	}
	if s.cfg.Processor == nil {
		return nil
	}
	if len(s.force.queue) > 0 {
		s.force.raise(s.scratch)
	}
	return s.cfg.Processor.Process(ctx, s.scratch)
}

// propose draws the candidate and puts its bytes behind the text.
func (s *Session) propose(ctx context.Context) error {
	t, err := s.draw(ctx)
	if err != nil {
		return err
	}
	if t < 0 || int(t) >= s.info.Vocab {
		return fmt.Errorf("sample: token %d is outside the vocabulary of %d", t, s.info.Vocab)
	}
	s.from = len(s.text.raw)
	if tok := s.info.Tokenizer; tok != nil {
		s.text.raw = tok.AppendPiece(s.text.raw, t)
	}
	s.event.Index, s.event.Token, s.event.Piece = len(s.tokens), t, s.text.raw[s.from:]
	s.event.End, s.event.Rewindable = s.ends(t), s.rewindable()
	if !s.cfg.Logprobs {
		return nil
	}
	var top []decode.Logprob
	if s.cfg.TopLogprobs > 0 {
		top = make([]decode.Logprob, 0, s.cfg.TopLogprobs)
	}
	chosen, top, err := decode.Logprobs(top, s.raw, t, s.cfg.TopLogprobs)
	s.lp = Logprob{chosen.Logprob, top}
	if err != nil {
		return fmt.Errorf("log-probabilities: %w", err)
	}
	return nil
}

func (s *Session) ends(t decode.Token) bool {
	if s.cfg.End != nil {
		return slices.Contains(s.cfg.End, t)
	}
	tok := s.info.Tokenizer
	return tok != nil && tok.Kind(t)&engine.KindEnd != 0
}

// judge asks the policy.
func (s *Session) judge(ctx context.Context) error {
	s.event.Action = Action{}
	if s.twin != nil {
		s.event.Shadow = &s.twin.shown
	}
	if s.policy == nil {
		return nil
	}
	s.step = Step{
		Index: len(s.tokens), Token: s.event.Token, Piece: s.event.Piece, End: s.event.End,
		Forced: s.event.Forced, Yielded: s.event.Yielded,
		Verdicts: s.event.Verdicts, Tokens: s.tokens, Rewindable: s.event.Rewindable,
		RewindsLeft: s.cfg.MaxRewinds - s.result.Rewinds,
		DiscardLeft: s.cfg.MaxDiscarded - s.result.Discarded,
		Plan:        s.plan.Fingerprint(),
	}
	a, err := s.ask(ctx)
	if err == nil {
		s.event.Action = a
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	s.policy = nil
	return s.fault("policy", "", err)
}

func (s *Session) ask(ctx context.Context) (a Action, err error) {
	defer recovered(&err)
	if a, err = s.policy.Decide(ctx, &s.step); err != nil {
		return a, err
	}
	return a, s.check(&a)
}

// check reports why an action cannot be carried out here.
func (s *Session) check(a *Action) error {
	if err := a.check(s.info.Vocab); err != nil {
		return err
	}
	caps := &s.info.Caps
	if !caps.Rewind && (a.GuideSpan > 0 || a.Kind == Rewind && a.Plan != nil) {
		return engine.Unsupported("rewind", "a guide span, and a new plan with a rewind, need it")
	}
	kept := len(s.tokens) - min(a.Rewind, s.rewindable())
	if n := s.guided(s.history.end(kept)) + len(a.Guide); n > s.cfg.MaxGuide {
		return fmt.Errorf("%d hidden tokens at once, the limit is %d (Config.MaxGuide)", n, s.cfg.MaxGuide)
	}
	if n := len(s.bans) + len(a.Ban); n > maxBans {
		return fmt.Errorf("%d banned tokens at one place, the limit is %d", n, maxBans)
	}
	if a.Plan.Fingerprint() == 0 {
		return nil
	}
	c := Config{Plan: a.Plan}
	return c.checkPlan(s.info)
}

// apply carries the decision out. True means that the same logits are to be
// decided on again.
func (s *Session) apply(ctx context.Context) (again bool, err error) {
	defer recovered(&err)
	s.event.Rewound, s.event.Exhausted, s.event.Text = 0, "", nil
	before := len(s.text.out)
	var reason FinishReason
	switch s.event.Action.Kind {
	case Commit:
		reason, err = s.commit()
	case Rewind:
		reason, again, err = s.rewind()
	case Stop:
		reason = s.stop()
	}
	if err != nil {
		return false, err
	}
	s.event.Text = s.text.out[before:]
	if err := s.tell(ctx); err != nil {
		return false, err
	}
	if reason != "" {
		s.conclude(ctx, reason, nil)
	}
	return again, nil
}

// commit makes the candidate part of the text.
func (s *Session) commit() (FinishReason, error) {
	a := &s.event.Action
	if len(s.tokens) == 0 {
		s.result.Timings.FirstToken = s.cfg.Now().Sub(s.began)
	}
	if s.event.End {
		s.text.raw = s.text.raw[:s.from]
		s.release(len(s.text.raw), true)
		if s.event.Forced && s.force.pop() {
			return FinishFilter, nil
		}
		return FinishStop, nil
	}
	if p := s.cfg.Processor; p != nil {
		if err := p.Accept(s.event.Token); err != nil {
			return "", fmt.Errorf("accept token %d: %w", s.event.Token, err)
		}
	}
	s.history.commit(s.event.Token, s.from)
	if s.cfg.Logprobs {
		s.logprobs = append(s.logprobs, s.lp)
	}
	if s.twin != nil {
		s.twin.commit()
	}
	s.bans, s.yield = append(s.bans[:0], a.Ban...), a.Yield
	last := s.event.Forced && s.force.pop()
	s.force.set(a)
	if at, found := s.text.stop(s.from); found {
		s.result.StopString = s.stopAt(at)
		s.release(at, true)
		return FinishStop, nil
	}
	if last && len(s.force.queue) == 0 {
		s.release(len(s.text.raw), true)
		return FinishFilter, nil
	}
	if len(s.tokens) >= s.cfg.MaxTokens {
		s.release(len(s.text.raw), true)
		return FinishLength, nil
	}
	s.hold(a.Release)
	s.prepare()
	return "", nil
}

func (s *Session) stopAt(at int) string {
	longest := ""
	for _, stop := range s.cfg.Stop {
		if len(stop) > len(longest) && string(s.text.raw[at:min(at+len(stop), len(s.text.raw))]) == stop {
			longest = stop
		}
	}
	return longest
}

// stop ends the text before the candidate.
func (s *Session) stop() FinishReason {
	s.text.raw = s.text.raw[:s.from]
	if a := &s.event.Action; a.Kind == Stop && a.Release { // not a rewind that no budget allowed
		s.release(len(s.text.raw), true)
	}
	return FinishFilter
}

func (s *Session) tell(ctx context.Context) error {
	e := &s.event
	e.Raw, e.Logits, e.Logprob = s.raw, s.logits, nil
	if s.cfg.Logprobs {
		e.Logprob = &s.lp
	}
	s.result.Faults = append(s.result.Faults, e.Faults...)
	var err error
	if s.cfg.Listener.Step != nil {
		err = s.cfg.Listener.Step(ctx, e)
	}
	e.Faults = e.Faults[:0]
	if err != nil {
		return fmt.Errorf("listener: %w", err)
	}
	return nil
}
