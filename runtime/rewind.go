package runtime

import "fmt"

// rewind throws away the candidate and committed tokens before it. True means
// that the logits at hand are those of the place it went back to.
func (s *Session) rewind() (FinishReason, bool, error) {
	a := &s.event.Action
	n := min(a.Rewind, s.rewindable())
	if why := s.spent(n + 1); why != "" {
		s.event.Exhausted = why
		return s.stop(), false, nil
	}
	s.event.Rewound = n
	s.result.Rewinds++
	s.result.Discarded += n + 1
	if err := s.forget(n); err != nil {
		return "", false, err
	}
	if len(a.Force) > 0 {
		s.bans = s.bans[:0]
	}
	s.bans, s.yield = append(s.bans, a.Ban...), a.Yield
	s.force.drop()
	s.force.set(a)
	before := len(s.rows)
	rows := s.cut(len(s.tokens) - n)
	if rows < before || a.Plan != nil {
		rows-- // fed again: for its logits, and under the new plan
	}
	s.keep(rows)
	s.prepare()
	if s.twin != nil && !s.ready() {
		s.twin.next()
	}
	return "", s.ready(), nil
}

// forget takes n tokens and the candidate out of everything but the rows.
func (s *Session) forget(n int) error {
	if k := len(s.tokens) - n; n > 0 {
		s.from = s.marks[k].start
		s.bans = s.bans[:0]
		s.freed = min(s.freed, k)
		if s.cfg.Logprobs {
			s.logprobs = s.logprobs[:k]
		}
		if s.twin != nil {
			s.twin.cut(k)
		}
		if p := s.cfg.Processor; p != nil {
			if err := p.Rewind(n); err != nil {
				return fmt.Errorf("rewind processor by %d: %w", n, err)
			}
		}
	}
	s.text.raw = s.text.raw[:s.from]
	return s.unwatch(n + 1)
}

// spent says which budget does not allow another rewind.
func (s *Session) spent(discard int) string {
	if s.result.Rewinds >= s.cfg.MaxRewinds {
		return fmt.Sprintf("all %d rewinds are spent", s.cfg.MaxRewinds)
	}
	if left := s.cfg.MaxDiscarded - s.result.Discarded; discard > left {
		return fmt.Sprintf("%d tokens to discard, %d of %d left", discard, left, s.cfg.MaxDiscarded)
	}
	return ""
}

// keep leaves the engine with the first rows only, at the next sync.
func (s *Session) keep(rows int) {
	if rows < s.fed {
		s.back += s.fed - rows
		s.fed = rows
	}
	if s.twin != nil {
		s.twin.keep(rows)
	}
}

// prepare sets up the next feed: guidance that ends, a new plan, new guidance.
func (s *Session) prepare() {
	a := &s.event.Action
	s.keep(s.expire())
	if a.Plan != nil {
		s.plan = a.Plan
		s.soil(s.fed)
		if s.twin != nil {
			s.twin.renew()
		}
	}
	if len(a.Guide) > 0 {
		s.splice(a.Guide, a.GuideSpan)
	}
}
