package runtime

import (
	"fmt"

	"github.com/trimtab/trimtab/runtime/engine"
	"github.com/trimtab/trimtab/steer"
)

// sync brings the engine to where the session is. Like landed it talks to the
// engine; nothing else between two Forwards does.
func (s *Session) sync() error {
	if s.twin != nil {
		if err := s.syncTwin(); err != nil {
			return err
		}
	}
	if s.back > 0 {
		if err := s.seq.Rewind(s.back); err != nil {
			return fmt.Errorf("rewind %d rows: %w", s.back, err)
		}
		s.back = 0
	}
	plan := s.inForce()
	if plan == s.known {
		return nil
	}
	if err := s.seq.Steer(plan); err != nil {
		return fmt.Errorf("plan: %w", err)
	}
	s.known = plan
	return nil
}

// inForce is the plan for the next row.
func (s *Session) inForce() *steer.Plan {
	if s.fed < s.cfg.PlanFrom {
		return nil
	}
	if s.twin == nil || s.twin.dose == 1 {
		return s.plan
	}
	s.soil(s.fed)
	return s.doses.scaled(s.plan, s.twin.dose)
}

// doses keeps the scaled forms of one plan: a session makes few of them, and
// comes back to them often.
type doses struct {
	base *steer.Plan
	by   map[float64]*steer.Plan
}

func (d *doses) scaled(p *steer.Plan, f float64) *steer.Plan {
	if d.base != p || d.by == nil {
		d.base, d.by = p, map[float64]*steer.Plan{}
	}
	q, ok := d.by[f]
	if !ok {
		q = p.Scaled(f)
		d.by[f] = q
	}
	return q
}

// chunk is how many rows the steered sequence can be fed next at most, ahead
// of which the twin is fed so many. It never crosses the prompt's end, the row
// where the plan begins, or that at which the twin is forked; and the last row
// of the text waits for the twin's.
func (s *Session) chunk(ahead int) int {
	end := len(s.rows)
	for _, border := range [...]int{s.prompt, s.cfg.PlanFrom} {
		if s.fed < border {
			end = min(end, border)
		}
	}
	t := s.twin
	switch {
	case t == nil:
	case t.seq == nil && s.fed < t.share:
		end = min(end, t.share)
	case end == len(s.rows) && t.due(&s.history) > ahead:
		end--
	}
	return max(end-s.fed, 0)
}

// demand is how many rows the session wants to be fed next, and whether they
// are all of the last token: then a text is waiting for them.
func (s *Session) demand() (rows int, text bool) {
	n := len(s.pending())
	if s.twin == nil {
		return s.chunk(0), n == 1
	}
	due := s.twin.due(&s.history)
	if n <= 1 && due <= 1 {
		return n + due, true
	}
	ahead := due
	if s.twin.seq != nil {
		ahead = s.twin.chunk(&s.history)
	}
	return ahead + s.chunk(ahead), false
}

// appendFeeds appends what the session is to be fed next, at most so many rows
// and at least one: the twin's first, since the steered sequence waits for it.
func (s *Session) appendFeeds(dst []engine.Feed, most int) []engine.Feed {
	s.due.rows, s.due.twin = 0, 0
	if s.twin != nil {
		if n := min(most, s.twin.chunk(&s.history)); n > 0 {
			dst = s.feedTwin(dst, n)
			s.due.twin = n
		}
	}
	if n := min(most-s.due.twin, s.chunk(s.due.twin)); n > 0 {
		dst = append(dst, s.feed(n))
		s.due.rows = n
	}
	return dst
}

// feed is the next feed of the steered sequence.
func (s *Session) feed(n int) engine.Feed {
	f := engine.Feed{Seq: s.seq, PromptLen: s.prompt, Phase: s.phase(s.fed), Tokens: s.pending()[:n]}
	if s.fed+n < len(s.rows) {
		f.Output = engine.OutputNone
		return f
	}
	f.Capture = s.sensors.sites
	return f
}

// landed takes what the last Forward left, and reports whether there is a row
// to decide on.
func (s *Session) landed() (ready bool, err error) {
	s.fed += s.due.rows
	if s.twin != nil {
		s.twin.fed += s.due.twin
		if err := s.collectTwin(s.due.twin); err != nil {
			return false, err
		}
	}
	if !s.ready() {
		return false, nil
	}
	return true, s.collect()
}

// ready reports whether the last row is fed, so that there are logits.
func (s *Session) ready() bool { return s.fed == len(s.rows) }

// collect fetches the row to decide on.
func (s *Session) collect() error {
	s.measured = false
	s.raw = s.seq.Logits()
	if len(s.raw) != s.info.Vocab {
		return fmt.Errorf("the engine gave %d logits, the vocabulary has %d", len(s.raw), s.info.Vocab)
	}
	return s.sensors.read(s.seq, s.info.Width)
}
