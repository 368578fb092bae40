package enginetest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/runtime/engine"
	"github.com/trimtab/trimtab/steer"
)

type fakeSequence struct {
	f      *Fake
	id     int
	cells  []int32
	tokens []decode.Token // -1 for an embedding
	plan   *steer.Plan
	closed bool

	epoch  uint64 // the Forward that the outputs belong to; 0 for none
	logits []float32
	sites  []steer.Site
	acts   [][]float32 // beside sites
}

var _ engine.Sequence = (*fakeSequence)(nil)

// NewSequence opens an empty sequence, a fork or a saved one.
func (f *Fake) NewSequence(ctx context.Context, from engine.Origin) (engine.Sequence, error) {
	if err := f.enter("new sequence"); err != nil {
		return nil, err
	}
	defer f.leave()
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("new sequence: %w", err)
	}
	if from.Fork != nil && from.Saved != nil {
		return nil, errors.New("new sequence: both Fork and Saved are set")
	}
	if from.Fork == nil && from.Len != 0 {
		return nil, errors.New("new sequence: Len is set without Fork")
	}
	s := &fakeSequence{f: f, id: f.nextID}
	if err := s.fill(from); err != nil {
		return nil, fmt.Errorf("new sequence: %w", err)
	}
	f.nextID++
	f.seqs[s.id] = s
	f.open.Add(1)
	return s, nil
}

func (s *fakeSequence) fill(from engine.Origin) error {
	f := s.f
	if from.Fork != nil && f.cfg.NoFork {
		return engine.Unsupported("fork", "switched off in FakeConfig")
	}
	if from.Saved != nil && f.cfg.NoSave {
		return engine.Unsupported("restore", "switched off in FakeConfig")
	}
	if len(f.seqs) >= f.cfg.MaxSequences {
		return fmt.Errorf("%w: %d are open", engine.ErrNoSequence, len(f.seqs))
	}
	switch {
	case from.Fork != nil:
		return s.fork(from.Fork, from.Len)
	case from.Saved != nil:
		return s.restore(from.Saved)
	}
	return nil
}

func (s *fakeSequence) fork(from engine.Sequence, n int) error {
	src, err := s.f.own(from)
	if err != nil {
		return fmt.Errorf("fork: %w", err)
	}
	if n < 1 || n > len(src.cells) {
		return fmt.Errorf("fork: Len is %d, must be 1 to %d", n, len(src.cells))
	}
	s.cells = slices.Clone(src.cells[:n])
	s.tokens = slices.Clone(src.tokens[:n])
	for _, c := range s.cells {
		s.f.cells.share(c)
	}
	return nil
}

// own checks that a sequence is open and belongs to this engine.
func (f *Fake) own(seq engine.Sequence) (*fakeSequence, error) {
	s, ok := seq.(*fakeSequence)
	if !ok || s == nil || s.f != f {
		return nil, errors.New("the sequence belongs to another engine")
	}
	if s.closed {
		return nil, fmt.Errorf("sequence: %w", engine.ErrClosed)
	}
	return s, nil
}

// Saved bytes: weights' fingerprint, number of rows, then per row its token,
// history hash and summaries, all little endian.
func (f *Fake) Save(seq engine.Sequence) ([]byte, error) {
	if err := f.enter("save"); err != nil {
		return nil, err
	}
	defer f.leave()
	if f.cfg.NoSave {
		return nil, engine.Unsupported("save", "switched off in FakeConfig")
	}
	s, err := f.own(seq)
	if err != nil {
		return nil, fmt.Errorf("save: %w", err)
	}
	b := binary.LittleEndian.AppendUint64(nil, f.net.fingerprint())
	b = binary.LittleEndian.AppendUint64(b, uint64(len(s.cells)))
	for i, c := range s.cells {
		b = binary.LittleEndian.AppendUint32(b, uint32(s.tokens[i]))
		b = binary.LittleEndian.AppendUint64(b, f.cells.hash[c])
		for _, x := range f.cells.state(c) {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
		}
	}
	return b, nil
}

func (s *fakeSequence) restore(b []byte) error {
	f := s.f
	if len(b) < 16 || binary.LittleEndian.Uint64(b) != f.net.fingerprint() {
		return errors.New("restore: these bytes were not saved by this model")
	}
	n, b := binary.LittleEndian.Uint64(b[8:]), b[16:]
	per := 12 + 4*f.cells.size
	if n != uint64(len(b)/per) || len(b)%per != 0 {
		return fmt.Errorf("restore: %d rows are announced, %d bytes follow", n, len(b))
	}
	if int(n) > f.cfg.Context || int(n) > f.cells.room() {
		return fmt.Errorf("restore: %w: %d rows, context %d, free cells %d", engine.ErrContextFull, n, f.cfg.Context, f.cells.room())
	}
	for ; len(b) > 0; b = b[per:] {
		c := f.cells.take()
		s.cells = append(s.cells, c)
		s.tokens = append(s.tokens, decode.Token(binary.LittleEndian.Uint32(b)))
		f.cells.hash[c] = binary.LittleEndian.Uint64(b[4:])
		state := f.cells.state(c)
		for i := range state {
			state[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[12+4*i:]))
		}
	}
	return nil
}

func (s *fakeSequence) Len() int { return len(s.cells) }

func (s *fakeSequence) Logits() decode.Logits {
	if s.closed || s.epoch == 0 || s.epoch != s.f.epoch || len(s.logits) == 0 {
		return nil
	}
	return s.logits
}

func (s *fakeSequence) Activation(site steer.Site) ([]float32, error) {
	if s.closed {
		return nil, fmt.Errorf("activation: sequence: %w", engine.ErrClosed)
	}
	if err := s.f.info.Caps.CanCapture(site); err != nil {
		return nil, fmt.Errorf("activation: %w", err)
	}
	if s.epoch != 0 && s.epoch == s.f.epoch {
		if i := slices.Index(s.sites, site); i >= 0 {
			return s.acts[i], nil
		}
	}
	return nil, fmt.Errorf("activation: %s was not captured by the last forward", site)
}

func (s *fakeSequence) Steer(plan *steer.Plan) error {
	if err := s.f.enter("steer"); err != nil {
		return err
	}
	defer s.f.leave()
	if s.closed {
		return fmt.Errorf("steer: sequence: %w", engine.ErrClosed)
	}
	if err := plan.Check(s.f.cfg.Layers, s.f.cfg.Width); err != nil {
		return fmt.Errorf("steer: %w", err)
	}
	for i := range plan.Len() {
		iv := plan.At(i)
		err := s.f.info.Caps.CanEdit(iv.Site, iv.Op)
		if err == nil && iv.Gate != nil {
			err = s.f.info.Caps.CanCapture(iv.Gate.Site)
		}
		if err != nil {
			return fmt.Errorf("steer: intervention %d: %w", i, err)
		}
	}
	s.plan = plan
	return nil
}

func (s *fakeSequence) Rewind(n int) error {
	if err := s.f.enter("rewind"); err != nil {
		return err
	}
	defer s.f.leave()
	if s.closed {
		return fmt.Errorf("rewind: sequence: %w", engine.ErrClosed)
	}
	if n < 0 || n > len(s.cells) {
		return fmt.Errorf("rewind: %d rows of %d", n, len(s.cells))
	}
	if n == 0 {
		return nil
	}
	if s.f.cfg.NoRewind {
		return engine.Unsupported("rewind", "switched off in FakeConfig")
	}
	s.truncate(len(s.cells) - n)
	s.forget()
	return nil
}

func (s *fakeSequence) Close() error {
	if s.closed {
		return nil
	}
	if err := s.f.enter("close sequence"); err != nil {
		return err
	}
	defer s.f.leave()
	s.release()
	return nil
}

func (s *fakeSequence) release() {
	s.truncate(0)
	s.forget()
	s.closed = true
	delete(s.f.seqs, s.id)
	s.f.open.Add(-1)
}

func (s *fakeSequence) truncate(n int) {
	for _, c := range s.cells[n:] {
		s.f.cells.drop(c)
	}
	s.cells, s.tokens = s.cells[:n], s.tokens[:n]
}

// forget ends the validity of the outputs and spoils their memory, so that a
// test notices whoever still reads them.
func (s *fakeSequence) forget() {
	if s.epoch == 0 {
		return
	}
	s.epoch = 0
	spoil(s.logits)
	s.logits = s.logits[:0]
	for i := range s.acts {
		spoil(s.acts[i])
	}
	s.sites = s.sites[:0]
}

func spoil(row []float32) {
	nan := float32(math.NaN())
	for i := range row {
		row[i] = nan
	}
}
