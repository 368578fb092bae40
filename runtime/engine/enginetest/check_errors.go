package enginetest

import (
	"context"
	"fmt"
	"time"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/runtime/engine"
	"github.com/trimtab/trimtab/steer"
)

// checkBadFeeds sends feeds that must fail, each beside a good one, and checks
// that neither sequence moved.
func checkBadFeeds(s *suite) {
	good, bad, closed := s.sequence(), s.sequence(), s.sequence()
	s.shut(closed)
	other := s.open()
	defer other.Close()
	foreign, err := other.NewSequence(s.ctx, engine.Origin{})
	if err != nil {
		s.Fatalf("new sequence of the second engine: %v", err)
	}
	prompt := s.tokens(5)
	s.forward(engine.Feed{Seq: good, Tokens: prompt}, engine.Feed{Seq: bad, Tokens: prompt})
	one := s.tokens(1)
	for _, c := range []struct {
		name string
		feed engine.Feed
		want error
	}{
		{"no sequence", engine.Feed{Tokens: one}, nil},
		{"a closed sequence", engine.Feed{Seq: closed, Tokens: one}, engine.ErrClosed},
		{"a sequence of another engine", engine.Feed{Seq: foreign, Tokens: one}, nil},
		{"a sequence twice", engine.Feed{Seq: good, Tokens: one}, nil},
		{"neither tokens nor embeddings", engine.Feed{Seq: bad}, nil},
		{"empty tokens", engine.Feed{Seq: bad, Tokens: []decode.Token{}}, nil},
		{"both tokens and embeddings", engine.Feed{Seq: bad, Tokens: one, Embeddings: make([]float32, s.info.Width)}, nil},
		{"embeddings of half a row", engine.Feed{Seq: bad, Embeddings: make([]float32, s.info.Width+s.info.Width/2)}, nil},
		{"a negative token", engine.Feed{Seq: bad, Tokens: []decode.Token{one[0], -1}}, nil},
		{"a token past the vocabulary", engine.Feed{Seq: bad, Tokens: []decode.Token{decode.Token(s.info.Vocab)}}, nil},
		{"a huge token", engine.Feed{Seq: bad, Tokens: []decode.Token{1<<31 - 1}}, nil},
		{"an unknown output", engine.Feed{Seq: bad, Tokens: one, Output: 77}, nil},
		{"a capture past the last layer", engine.Feed{Seq: bad, Tokens: one, Capture: []steer.Site{{Layer: s.info.Layers}}}, engine.ErrUnsupported},
		{"a capture at a negative layer", engine.Feed{Seq: bad, Tokens: one, Capture: []steer.Site{{Layer: -1}}}, engine.ErrUnsupported},
		{"a capture at an unknown point", engine.Feed{Seq: bad, Tokens: one, Capture: []steer.Site{{Point: 99}}}, engine.ErrUnsupported},
	} {
		s.refused("feed with "+c.name, s.eng.Forward(s.ctx, []engine.Feed{{Seq: good, Tokens: one}, c.feed}), c.want)
		s.length(good, len(prompt))
		s.length(bad, len(prompt))
		if good.Logits() != nil {
			s.Errorf("feed with %s: logits are still there after the error", c.name)
		}
	}
	if foreign.Len() != 0 {
		s.Errorf("the other engine's sequence has %d rows", foreign.Len())
	}
	s.goesOn("after bad feeds", prompt, good, bad)
}

// goesOn checks that sequences holding exactly the tokens continue like a
// fresh one.
func (s *suite) goesOn(what string, tokens []decode.Token, seqs ...engine.Sequence) {
	s.Helper()
	fresh := s.sequence()
	probe := s.tokens(1)
	if len(tokens) > 0 {
		s.forward(engine.Feed{Seq: fresh, Tokens: tokens, Output: engine.OutputNone})
	}
	s.forward(engine.Feed{Seq: fresh, Tokens: probe})
	want := s.logits(fresh, 1)
	for i, seq := range seqs {
		s.forward(engine.Feed{Seq: seq, Tokens: probe})
		s.near(fmt.Sprintf("%s, sequence %d", what, i), s.logits(seq, 1), want)
	}
	s.shut(fresh)
}

func checkBadOrigins(s *suite) {
	seq, closed := s.sequence(), s.sequence()
	s.shut(closed)
	prompt := s.tokens(6)
	s.forward(engine.Feed{Seq: seq, Tokens: prompt})
	n := seq.Len()
	origins := map[string]engine.Origin{
		"fork of a closed sequence": {Fork: closed, Len: 1},
		"fork of no rows":           {Fork: seq, Len: 0},
		"fork of a negative length": {Fork: seq, Len: -1},
		"fork longer than it is":    {Fork: seq, Len: n + 1},
		"fork and saved":            {Fork: seq, Len: n, Saved: []byte("x")},
		"saved rubbish":             {Saved: []byte("no engine ever saved this, and none should crash on it")},
		"saved nothing":             {Saved: []byte{}},
	}
	if s.info.Caps.Save {
		saved, err := s.eng.Save(seq)
		if err != nil {
			s.Fatalf("save: %v", err)
		}
		origins["saved bytes cut off"] = engine.Origin{Saved: saved[:len(saved)/2]}
		origins["saved bytes with more behind"] = engine.Origin{Saved: append(saved[:len(saved):len(saved)], 1, 2, 3)}
	}
	if _, err := s.eng.Save(closed); err == nil {
		s.Errorf("a closed sequence was saved")
	}
	for name, o := range origins {
		_, err := s.eng.NewSequence(s.ctx, o)
		s.refused("new sequence from "+name, err, nil)
	}
	// None of the failures may have used up a sequence.
	var all []engine.Sequence
	for range s.info.MaxSequences - 1 {
		all = append(all, s.sequence())
	}
	s.shut(all...)
	s.goesOn("after bad origins", prompt, seq)
}

func checkBadRewinds(s *suite) {
	seq := s.sequence()
	prompt := s.tokens(6)
	s.forward(engine.Feed{Seq: seq, Tokens: prompt})
	if err := seq.Rewind(0); err != nil {
		s.Errorf("rewind by 0: %v", err)
	}
	for _, n := range []int{-1, len(prompt) + 1, 1 << 40, -1 << 40} {
		s.refused(fmt.Sprintf("rewind %d of %d rows", n, len(prompt)), seq.Rewind(n), nil)
		s.length(seq, len(prompt))
	}
	s.goesOn("after bad rewinds", prompt, seq)
	if !s.info.Caps.Rewind {
		return
	}
	if err := seq.Rewind(seq.Len()); err != nil {
		s.Fatalf("rewind of everything: %v", err)
	}
	s.length(seq, 0)
	s.goesOn("after a rewind of everything", nil, seq)
}

// checkContextFull fills one sequence to the last row.
func checkContextFull(s *suite) {
	if s.info.Cells < s.info.Context+2 {
		return // checkCellsFull meets the limit first
	}
	n := s.info.Context
	seq, empty := s.sequence(), s.sequence()
	long := s.tokens(n + 1)
	s.refused("one feed longer than the context", s.eng.Forward(s.ctx, []engine.Feed{{Seq: empty, Tokens: long}}), engine.ErrContextFull)
	s.length(empty, 0)
	s.forward(engine.Feed{Seq: seq, Tokens: long[:n-1], Output: engine.OutputNone})
	two := []engine.Feed{{Seq: empty, Tokens: long[:2]}, {Seq: seq, Tokens: long[:2]}}
	s.refused("two rows where one is left", s.eng.Forward(s.ctx, two), engine.ErrContextFull)
	s.length(seq, n-1)
	s.length(empty, 0)
	s.forward(engine.Feed{Seq: seq, Tokens: long[n-1 : n]})
	s.logits(seq, 1)
	s.refused("a row more than the context", s.eng.Forward(s.ctx, []engine.Feed{{Seq: seq, Tokens: long[:1]}}), engine.ErrContextFull)
	s.length(seq, n)
	s.goesOn("after another sequence's context was full", nil, empty)
}

// checkCellsFull fills the cache that all sequences share.
func checkCellsFull(s *suite) {
	var seqs []engine.Sequence
	left := s.info.Cells
	for left > 0 && len(seqs) < s.info.MaxSequences-1 {
		n := min(left, s.info.Context-1)
		seqs = append(seqs, s.sequence())
		s.forward(engine.Feed{Seq: seqs[len(seqs)-1], Tokens: s.tokens(n), Output: engine.OutputNone})
		left -= n
	}
	if left > 0 {
		s.shut(seqs...)
		return // every sequence can be full at once
	}
	last := seqs[len(seqs)-1]
	n := last.Len()
	one := s.tokens(1)
	s.refused("a row more than the cells", s.eng.Forward(s.ctx, []engine.Feed{{Seq: last, Tokens: one}}), engine.ErrContextFull)
	s.length(last, n)
	extra := s.sequence()
	s.refused("a row for a new sequence when cells are full", s.eng.Forward(s.ctx, []engine.Feed{{Seq: extra, Tokens: one}}), engine.ErrContextFull)
	s.length(extra, 0)
	s.shut(seqs...)
	s.goesOn("after the cells were full", nil, extra)
	s.shut(extra)
	s.sharedCells()
}

// sharedCells fills more than half of the cells and forks every sequence, which
// fits only where forks share their rows.
func (s *suite) sharedCells() {
	left, each := s.info.Cells/2+1, s.info.Context-2
	if !s.info.Caps.Fork || 2*(left/each+1) > s.info.MaxSequences {
		return
	}
	var all []engine.Sequence
	var feeds []engine.Feed
	for left > 0 {
		n := min(left, each)
		left -= n
		seq := s.sequence()
		s.forward(engine.Feed{Seq: seq, Tokens: s.tokens(n), Output: engine.OutputNone})
		fork := s.from(engine.Origin{Fork: seq, Len: n})
		all = append(all, seq, fork)
		feeds = append(feeds, engine.Feed{Seq: seq, Tokens: s.tokens(1)}, engine.Feed{Seq: fork, Tokens: s.tokens(1)})
	}
	s.forward(feeds...)
	s.shut(all...)
}

func checkNoSequence(s *suite) {
	for range 3 {
		var all []engine.Sequence
		for range s.info.MaxSequences {
			all = append(all, s.sequence())
		}
		_, err := s.eng.NewSequence(s.ctx, engine.Origin{})
		s.refused("one sequence too many", err, engine.ErrNoSequence)
		s.shut(all...)
	}
}

// checkCancel ends contexts before and during Forward. Whether a running one
// stops is up to timing, so only its effect is checked: all or nothing.
func checkCancel(s *suite) {
	seq := s.sequence()
	prompt := s.tokens(4)
	s.forward(engine.Feed{Seq: seq, Tokens: prompt})
	ended, cancel := context.WithCancel(s.ctx)
	cancel()
	s.refused("forward with an ended context", s.eng.Forward(ended, []engine.Feed{{Seq: seq, Tokens: s.tokens(2)}}), context.Canceled)
	s.length(seq, len(prompt))
	_, err := s.eng.NewSequence(ended, engine.Origin{})
	s.refused("new sequence with an ended context", err, context.Canceled)
	s.goesOn("after an ended context", prompt, seq)
	s.shut(seq)
	n := min(s.info.Context-2, s.info.Cells/4)
	for i := range 8 {
		s.interrupt(s.tokens(n), time.Duration(i*i*i)*20*time.Microsecond)
	}
}

func (s *suite) interrupt(long []decode.Token, after time.Duration) {
	a, b := s.sequence(), s.sequence()
	ctx, cancel := context.WithTimeout(s.ctx, after)
	defer cancel()
	err := s.eng.Forward(ctx, []engine.Feed{{Seq: a, Tokens: long}, {Seq: b, Tokens: long[:3]}})
	if err == nil {
		s.length(a, len(long))
		s.length(b, 3)
		s.goesOn("after a context ended too late", long[:3], b)
	} else {
		s.refused("interrupted forward", err, context.DeadlineExceeded)
		s.length(a, 0)
		s.length(b, 0)
		s.goesOn("after an interrupted forward", nil, a, b)
	}
	s.shut(a, b)
}

func checkClose(s *suite) {
	one := s.tokens(1)
	seq, left := s.sequence(), s.sequence()
	s.forward(engine.Feed{Seq: seq, Tokens: one}, engine.Feed{Seq: left, Tokens: one})
	s.shut(seq)
	s.shut(seq) // twice is fine
	s.closedSequence(seq, "closed sequence")
	s.refused("forward with a closed sequence", s.eng.Forward(s.ctx, []engine.Feed{{Seq: seq, Tokens: one}}), engine.ErrClosed)
	s.goesOn("after another sequence was closed", one, left)
	for range 2 {
		if err := s.eng.Close(); err != nil {
			s.Fatalf("close engine: %v", err)
		}
	}
	s.closedSequence(left, "sequence of a closed engine")
	_, err := s.eng.NewSequence(s.ctx, engine.Origin{})
	s.refused("new sequence of a closed engine", err, engine.ErrClosed)
	s.refused("forward of a closed engine", s.eng.Forward(s.ctx, []engine.Feed{{Seq: left, Tokens: one}}), engine.ErrClosed)
	if s.info.Caps.Save {
		_, err = s.eng.Save(left)
		s.refused("save of a closed engine", err, engine.ErrClosed)
	}
	s.shut(left)
}

func (s *suite) closedSequence(seq engine.Sequence, what string) {
	s.Helper()
	seq.Len()
	if seq.Logits() != nil {
		s.Errorf("%s: it has logits", what)
	}
	_, err := seq.Activation(steer.Site{})
	s.refused(what+": activation", err, nil)
	s.refused(what+": steer", seq.Steer(nil), engine.ErrClosed)
	if s.info.Caps.Rewind {
		s.refused(what+": rewind", seq.Rewind(1), engine.ErrClosed)
	}
}
