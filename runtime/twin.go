package runtime

import (
	"context"
	"fmt"
	"slices"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/runtime/engine"
	"github.com/trimtab/trimtab/steer"
)

// twin is the sequence of a [Shadow]: it is fed the session's rows, under no
// plan. Its last row is there when the steered one is, or earlier.
type twin struct {
	governor
	seq   engine.Sequence // nil until it is forked from the steered one
	share int             // rows to fork; 0 when the sequence is there from the start
	fed   int             // rows that the engine has
	back  int             // rows that it has beyond those

	last  decode.Logits // of the last row of the text
	acts  sensors       // of that row
	own   bool          // both are copies, which outlive the Forward
	spent int           // rows thrown away
	shown Reading
}

// openFunc opens a sequence of the session's engine.
type openFunc func(context.Context, engine.Origin) (engine.Sequence, error)

// chunk is how many rows the twin can be fed next.
func (t *twin) chunk(h *history) int {
	switch {
	case t.seq == nil:
		return 0
	case t.fed < h.prompt:
		return h.prompt - t.fed
	}
	return len(h.rows) - t.fed
}

// due is how many rows stand between the twin and the end of the text, also
// when its sequence is about to be forked.
func (t *twin) due(h *history) int {
	if t.seq != nil {
		return len(h.rows) - t.fed
	}
	if !t.forks(h) {
		return 0
	}
	return len(h.rows) - min(t.share, h.fed)
}

// forks reports whether the rows to share are all made.
func (t *twin) forks(h *history) bool { return h.fed >= t.share }

// sync brings the twin's sequence to where the session is.
func (s *Session) syncTwin() (err error) {
	t := s.twin
	if t.seq == nil && (t.forks(&s.history) || s.back > 0) {
		n := min(t.share, s.fed)
		if t.seq, err = s.open(context.Background(), engine.Origin{Fork: s.seq, Len: n}); err != nil {
			return fmt.Errorf("shadow: %w", err)
		}
		t.fed = n
	}
	if t.back > 0 {
		if err := t.seq.Rewind(t.back); err != nil {
			return fmt.Errorf("shadow: rewind %d rows: %w", t.back, err)
		}
		t.back = 0
	}
	return nil
}

// feedTwin appends the twin's next feed.
func (s *Session) feedTwin(dst []engine.Feed, most int) []engine.Feed {
	t := s.twin
	f := engine.Feed{Seq: t.seq, PromptLen: s.prompt, Phase: steer.PhaseAnswer, Tokens: s.rows[t.fed:][:most], Output: engine.OutputNone}
	if t.fed < s.prompt {
		f.Phase = steer.PhasePrompt
	}
	if t.fed+most == len(s.rows) {
		f.Output = engine.OutputLast
		if t.limits.limited() {
			f.Capture = s.sensors.sites
		}
	}
	return append(dst, f)
}

// collectTwin fetches the twin's last row, when the last Forward has made it.
func (s *Session) collectTwin(rows int) error {
	t := s.twin
	if rows == 0 || t.fed < len(s.rows) {
		return nil
	}
	t.last, t.own = t.seq.Logits(), false
	if len(t.last) != s.info.Vocab {
		return fmt.Errorf("shadow: the engine gave %d logits, the vocabulary has %d", len(t.last), s.info.Vocab)
	}
	if t.limits.limited() {
		t.acts.sites = s.sensors.sites
		t.acts.rows = slices.Grow(t.acts.rows[:0], len(t.acts.sites))[:len(t.acts.sites)]
		if err := t.acts.read(t.seq, s.info.Width); err != nil {
			return fmt.Errorf("shadow: %w", err)
		}
	}
	if !s.ready() {
		t.hold()
	}
	return nil
}

// hold makes the last row outlive its Forward.
func (t *twin) hold() {
	if t.own {
		return
	}
	t.own = true
	t.last = slices.Clone(t.last)
	for i, row := range t.acts.rows {
		t.acts.rows[i] = slices.Clone(row)
	}
}

// keep leaves the engine with the first rows only, at the next sync.
func (t *twin) keep(rows int) {
	if t.seq != nil && rows < t.fed {
		t.back += t.fed - rows
		t.fed = rows
	}
}

// measure compares the row at hand with the twin's. True means that it is too
// far: it is to be fed again, at the dose that the governor has set.
func (s *Session) measure() (again bool, err error) {
	t := s.twin
	if s.measured {
		return false, nil
	}
	if !s.retry {
		t.tries = t.tries[:0]
	}
	s.retry = false
	kl := 0.0
	if t.seq != nil { // else all rows up to here are shared
		kl = decode.Divergence(s.raw, t.last)
	}
	if t.tooFar(kl) {
		if s.canRetry() {
			t.lower(kl)
			t.hold()
			s.again()
			return true, nil
		}
		t.reject(kl)
		t.spent++
		s.raw = t.last
		copy(s.sensors.rows, t.acts.rows)
		t.accept(0, true)
	} else {
		t.accept(kl, false)
	}
	if kl = t.now.kl; kl-kl != 0 {
		return false, errDivergence
	}
	s.measured = true
	t.governor.shown(&t.shown)
	return false, nil
}

// canRetry reports whether a lower dose can change the row at hand.
func (s *Session) canRetry() bool {
	if !s.twin.mayLower() || !s.info.Caps.Rewind {
		return false
	}
	n := len(s.rows) - 1
	at := steer.Row{Offset: n - s.prompt, Token: int32(s.rows[n]), Phase: s.phase(n)}
	for i := range s.plan.Len() {
		if s.plan.At(i).Dose(at) != 0 {
			return true
		}
	}
	return false
}

// again has the steered sequence fed its last row once more.
func (s *Session) again() {
	s.fed--
	s.back++
	s.retry = true
	s.twin.spent++
}

// phase is the part of the text that a row belongs to.
func (s *Session) phase(row int) steer.Phase {
	if row < s.prompt {
		return steer.PhasePrompt
	}
	return steer.PhaseAnswer
}

// closeTwin frees the twin's sequence.
func (s *Session) closeTwin() error {
	if s.twin == nil || s.twin.seq == nil {
		return nil
	}
	return s.twin.seq.Close()
}
