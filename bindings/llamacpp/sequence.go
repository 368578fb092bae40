package llamacpp

import (
	"fmt"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/runtime/engine"
	"github.com/trimtab/trimtab/steer"
)

var _ engine.Sequence = (*Sequence)(nil)

// Sequence is one llama.cpp sequence id and the results of its last Forward.
type Sequence struct {
	engine *Engine
	id     int
	len    int
	closed bool

	plan      *steer.Plan
	lowerable bool // see lowerable
	lost      bool // a failed Forward destroyed the recurrent state

	epoch    uint64 // of the Forward that made the results below
	logits   decode.Logits
	copied   decode.Logits // backing of logits that outlived a llama_decode call
	captures []capture
}

// capture is the residual at one site for every row of the last feed.
type capture struct {
	site steer.Site
	data []float32 // row-major, Info.Width wide
	on   bool      // asked for by the last feed
}

// Len is the number of rows in the sequence.
func (s *Sequence) Len() int { return s.len }

// Logits are the rows computed by the last Forward; see engine.Sequence. The
// memory is llama.cpp's own.
func (s *Sequence) Logits() decode.Logits {
	if s.closed || s.epoch != s.engine.epoch {
		return nil
	}
	return s.logits
}

// Activation returns the residual rows at the site; see engine.Sequence.
func (s *Sequence) Activation(site steer.Site) ([]float32, error) {
	if s.closed {
		return nil, fmt.Errorf("activation: %w", engine.ErrClosed)
	}
	if s.epoch == s.engine.epoch {
		for i := range s.captures {
			if c := &s.captures[i]; c.on && c.site == site {
				return c.data, nil
			}
		}
	}
	return nil, fmt.Errorf("activation: site %s was not captured by the last forward", site)
}

// Steer sets the plan for later feeds; see engine.Sequence. Plans come compiled,
// so switching costs microseconds.
func (s *Sequence) Steer(plan *steer.Plan) error {
	if s.closed {
		return fmt.Errorf("steer: %w", engine.ErrClosed)
	}
	info := &s.engine.info
	if err := plan.Check(info.Layers, info.Width); err != nil {
		return fmt.Errorf("steer: %w", err)
	}
	for i := range plan.Len() {
		iv := plan.At(i)
		err := info.Caps.CanEdit(iv.Site, iv.Op)
		if err == nil && iv.Gate != nil {
			err = info.Caps.CanCapture(iv.Gate.Site)
		}
		if err != nil {
			return fmt.Errorf("steer: intervention %d: %w", i, err)
		}
	}
	s.plan, s.lowerable = plan, lowerable(info.Arch, plan)
	return nil
}

// Rewind drops the last n rows; see engine.Sequence.
func (s *Sequence) Rewind(n int) error {
	switch {
	case s.closed:
		return fmt.Errorf("rewind: %w", engine.ErrClosed)
	case n < 0 || n > s.len:
		return fmt.Errorf("rewind %d rows of a sequence of %d", n, s.len)
	case n == 0:
		return nil
	case !s.engine.info.Caps.Rewind:
		return engine.Unsupported("rewind", "a recurrent state cannot be taken back, a canvas model has none")
	}
	if err := s.truncate(s.len - n); err != nil {
		return fmt.Errorf("rewind: %w", err)
	}
	return nil
}

// truncate keeps the first n rows in llama.cpp's memory and here, and
// invalidates the results of the last Forward.
func (s *Sequence) truncate(n int) error {
	e := s.engine
	s.epoch = 0
	if e.frame.call(e.lib.memorySeqRm, e.memory, uintptr(s.id), uintptr(n), minusOne)&0xff == 0 {
		return fmt.Errorf("llama.cpp cannot cut the sequence to %d rows", n)
	}
	s.len = n
	return nil
}

// Close frees the sequence's cells and its id. It may be called twice.
func (s *Sequence) Close() error {
	if s.closed {
		return nil
	}
	s.closed = true
	e := s.engine
	if e.closed {
		return nil
	}
	if !e.canvas {
		call(e.lib.memorySeqRm, e.memory, uintptr(s.id), 0, minusOne)
	}
	e.slots[s.id] = nil
	return nil
}
