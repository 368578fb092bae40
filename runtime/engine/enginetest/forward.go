package enginetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/runtime/engine"
	"github.com/trimtab/trimtab/steer"
)

// FeedRecord is what one feed of one Forward looked like.
type FeedRecord struct {
	Forward int // counted from 1
	Seq     int // counts the sequences of the engine from 0
	Start   int // position of the first row
	Rows    int
	Tokens  []decode.Token // nil for embeddings
	Output  engine.Output
	Phase   steer.Phase
	Prompt  int    // Feed.PromptLen
	Plan    uint64 // fingerprint
}

// Log returns the feeds of all Forwards so far, in order, if FakeConfig.Record
// is set. It must not be called while a Forward runs.
func (f *Fake) Log() []FeedRecord { return slices.Clone(f.log) }

// Forward appends every feed to its sequence, or fails and appends nothing.
func (f *Fake) Forward(ctx context.Context, feeds []engine.Feed) error {
	if err := f.enter("forward"); err != nil {
		return err
	}
	defer f.leave()
	for _, s := range f.seqs {
		s.forget()
	}
	f.epoch++
	if err := f.check(feeds); err != nil {
		return fmt.Errorf("forward: %w", err)
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("forward: %w", err)
	}
	n := int(f.forwards.Add(1))
	if err := f.hooks(ctx, n, feeds); err != nil {
		return fmt.Errorf("forward: %w", err)
	}
	for i := range feeds {
		if err := f.run(ctx, &feeds[i]); err != nil {
			f.undo(feeds[:i])
			return fmt.Errorf("forward: %w", err)
		}
	}
	f.record(n, feeds)
	return nil
}

func (f *Fake) check(feeds []engine.Feed) error {
	total := 0
	for i := range feeds {
		fd := &feeds[i]
		s, err := f.own(fd.Seq)
		if err == nil {
			err = f.checkFeed(s, fd)
		}
		for j := 0; err == nil && j < i; j++ {
			if feeds[j].Seq == fd.Seq {
				err = fmt.Errorf("its sequence is also in feed %d", j)
			}
		}
		if err != nil {
			return fmt.Errorf("feed %d: %w", i, err)
		}
		total += fd.Rows(f.cfg.Width)
	}
	if total > f.cells.room() {
		return fmt.Errorf("%w: %d rows for %d free cells of %d", engine.ErrContextFull, total, f.cells.room(), f.cfg.Cells)
	}
	return nil
}

func (f *Fake) checkFeed(s *fakeSequence, fd *engine.Feed) error {
	if err := f.checkRows(fd); err != nil {
		return err
	}
	if fd.Output > engine.OutputAll {
		return fmt.Errorf("unknown output %d", fd.Output)
	}
	for _, site := range fd.Capture {
		if err := f.info.Caps.CanCapture(site); err != nil {
			return err
		}
	}
	if n := fd.Rows(f.cfg.Width); len(s.cells)+n > f.cfg.Context {
		return fmt.Errorf("%w: %d rows after %d in a context of %d", engine.ErrContextFull, n, len(s.cells), f.cfg.Context)
	}
	return nil
}

func (f *Fake) checkRows(fd *engine.Feed) error {
	switch {
	case fd.Tokens != nil && fd.Embeddings != nil:
		return errors.New("both tokens and embeddings are set")
	case len(fd.Tokens) == 0 && len(fd.Embeddings) == 0:
		return errors.New("neither tokens nor embeddings are set")
	case fd.Embeddings != nil && f.cfg.NoEmbeddings:
		return engine.Unsupported("embeddings", "switched off in FakeConfig")
	case len(fd.Embeddings)%f.cfg.Width != 0:
		return fmt.Errorf("%d embedding values are no multiple of the width %d", len(fd.Embeddings), f.cfg.Width)
	}
	for i, t := range fd.Tokens {
		if t < 0 || int(t) >= f.cfg.Vocab {
			return fmt.Errorf("token %d at row %d is outside the vocabulary of %d", t, i, f.cfg.Vocab)
		}
	}
	return nil
}

// run computes one feed. On error the sequence is as it was.
func (f *Fake) run(ctx context.Context, fd *engine.Feed) error {
	s := fd.Seq.(*fakeSequence)
	start, rows := len(s.cells), fd.Rows(f.cfg.Width)
	s.expect(fd, rows)
	for r := range rows {
		if err := f.pause(ctx); err != nil {
			s.truncate(start)
			s.forget()
			return err
		}
		token := decode.Token(-1)
		if fd.Embeddings == nil {
			token = fd.Tokens[r]
		}
		f.row(s, fd, r, token)
	}
	f.rows.Add(int64(rows))
	return nil
}

func (f *Fake) pause(ctx context.Context) error {
	if d := f.cfg.Hooks.RowDelay; d > 0 {
		if f.cfg.NoInterrupt {
			time.Sleep(d)
		} else if err := sleep(ctx, d); err != nil {
			return err
		}
	}
	if f.cfg.NoInterrupt {
		return nil
	}
	return ctx.Err()
}

// expect sizes the output buffers for a feed.
func (s *fakeSequence) expect(fd *engine.Feed, rows int) {
	s.epoch = s.f.epoch
	wanted := [...]int{engine.OutputLast: 1, engine.OutputNone: 0, engine.OutputAll: rows}[fd.Output]
	s.logits = resize(s.logits, wanted*s.f.cfg.Vocab)
	for _, site := range fd.Capture {
		if slices.Contains(s.sites, site) {
			continue
		}
		i := len(s.sites)
		s.sites = append(s.sites, site)
		if i == len(s.acts) {
			s.acts = append(s.acts, nil)
		}
		s.acts[i] = resize(s.acts[i], rows*s.f.cfg.Width)
	}
}

func resize(b []float32, n int) []float32 {
	if cap(b) < n {
		return make([]float32, n)
	}
	return b[:n]
}

// row computes row r of a feed and appends it to the sequence.
func (f *Fake) row(s *fakeSequence, fd *engine.Feed, r int, token decode.Token) {
	w := f.cfg.Width
	x := f.net.scratch
	if token < 0 {
		copy(x, fd.Embeddings[r*w:(r+1)*w])
	} else {
		f.net.embed(x, int32(token))
	}
	cell, before, hash := f.append(s, x, token)
	f.net.enterRow(x, hash)
	var verdicts steer.Verdicts
	where := steer.Row{Offset: len(s.cells) - 1 - fd.PromptLen, Token: int32(token), Phase: fd.Phase}
	for l := range f.cfg.Layers {
		var b []float32
		if before != nil {
			b = before[l*w : (l+1)*w]
		}
		f.net.block(l, x, b, cell[l*w:(l+1)*w])
		site := steer.Site{Layer: l, Point: steer.ResidPost}
		s.plan.Edit(site, where, x, &verdicts)
		if i := slices.Index(s.sites, site); i >= 0 {
			copy(s.acts[i][r*w:], x)
		}
	}
	f.output(s, fd, r, x, hash)
}

// append takes a cell for the input row and returns its state, the state of
// the row before it (nil for the first) and the history's hash.
func (f *Fake) append(s *fakeSequence, x []float32, token decode.Token) (cell, before []float32, hash uint64) {
	id := f.cells.take()
	if n := len(s.cells); n > 0 {
		before, hash = f.cells.state(s.cells[n-1]), f.cells.hash[s.cells[n-1]]
	}
	hash = f.net.history(hash, x)
	f.cells.hash[id] = hash
	s.cells = append(s.cells, id)
	s.tokens = append(s.tokens, token)
	return f.cells.state(id), before, hash
}

func (f *Fake) output(s *fakeSequence, fd *engine.Feed, r int, x []float32, hash uint64) {
	v := f.cfg.Vocab
	at := 0
	if fd.Output == engine.OutputAll {
		at = r * v
	} else if fd.Output == engine.OutputNone || r+1 < fd.Rows(f.cfg.Width) {
		return
	}
	scripted := decode.Token(-1)
	if f.cfg.Script != nil {
		scripted = f.cfg.Script(Text{Tokens: s.tokens, PromptLen: fd.PromptLen})
	}
	f.net.logits(s.logits[at:at+v], x, hash, scripted)
}

// undo takes back feeds that had already run when a later one failed.
func (f *Fake) undo(feeds []engine.Feed) {
	for i := range feeds {
		s, rows := feeds[i].Seq.(*fakeSequence), feeds[i].Rows(f.cfg.Width)
		s.truncate(len(s.cells) - rows)
		s.forget()
		f.rows.Add(-int64(rows))
	}
}

func (f *Fake) record(n int, feeds []engine.Feed) {
	if !f.cfg.Record {
		return
	}
	for i := range feeds {
		fd, s := &feeds[i], feeds[i].Seq.(*fakeSequence)
		rows := fd.Rows(f.cfg.Width)
		f.log = append(f.log, FeedRecord{
			Forward: n, Seq: s.id, Start: len(s.cells) - rows, Rows: rows, Tokens: slices.Clone(fd.Tokens),
			Output: fd.Output, Phase: fd.Phase, Prompt: fd.PromptLen, Plan: s.plan.Fingerprint(),
		})
	}
}
