package enginetest

import (
	"fmt"
	"slices"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/runtime/engine"
	"github.com/trimtab/trimtab/steer"
)

const decodeSteps = 6

// story is one sequence's inputs and what a run of it alone gave: the prompt's
// last row, then one row per decode step.
type story struct {
	tokens []decode.Token
	embeds []float32 // instead of tokens
	rows   []decode.Logits
	answer []decode.Token
}

// alone runs the story by itself, prompt in one piece, and fills rows and answer.
func (s *suite) alone(st *story) {
	s.Helper()
	seq := s.sequence()
	s.forward(engine.Feed{Seq: seq, Tokens: st.tokens, Embeddings: st.embeds})
	for {
		row := s.logits(seq, 1)
		st.rows = append(st.rows, row)
		if len(st.answer) == decodeSteps {
			break
		}
		t := greedy(row)
		st.answer = append(st.answer, t)
		s.forward(engine.Feed{Seq: seq, Tokens: []decode.Token{t}})
	}
	s.shut(seq)
}

// together runs the stories in shared batches, each starting a step after the
// one before with its prompt in pieces, and checks every row.
func (s *suite) together(stories []*story) {
	s.Helper()
	seqs := make([]engine.Sequence, len(stories))
	for i := range seqs {
		seqs[i] = s.sequence()
	}
	for step, busy := 0, true; busy; step++ {
		busy = false
		var feeds []engine.Feed
		var of []int
		for i, st := range stories {
			if fd := st.nextFeed(s, seqs[i]); fd.Seq != nil {
				busy = true
				if step >= i {
					feeds, of = append(feeds, fd), append(of, i)
				}
			}
		}
		s.rng.Shuffle(len(feeds), func(a, b int) {
			feeds[a], feeds[b] = feeds[b], feeds[a]
			of[a], of[b] = of[b], of[a]
		})
		if len(feeds) > 0 {
			s.forward(feeds...)
		}
		for k := range feeds {
			s.checkStory(stories[of[k]], feeds[k], of[k])
		}
	}
	s.shut(seqs...)
}

// nextFeed is what the story wants to be fed now; none when it is told.
func (st *story) nextFeed(s *suite, seq engine.Sequence) engine.Feed {
	prompt := len(st.tokens) + len(st.embeds)/s.info.Width
	at := seq.Len()
	fd := engine.Feed{Seq: seq, PromptLen: prompt}
	switch {
	case at >= prompt+len(st.answer):
		return engine.Feed{}
	case at >= prompt:
		fd.Tokens = st.answer[at-prompt : at-prompt+1]
		return fd
	}
	n := 1 + s.rng.IntN(prompt-at)
	if at+n < prompt {
		fd.Output = engine.OutputNone
	}
	if st.tokens != nil {
		fd.Tokens = st.tokens[at : at+n]
	} else {
		fd.Embeddings = st.embeds[at*s.info.Width : (at+n)*s.info.Width]
	}
	return fd
}

func (s *suite) checkStory(st *story, fd engine.Feed, i int) {
	s.Helper()
	if fd.Output == engine.OutputNone {
		if l := fd.Seq.Logits(); len(l) != 0 {
			s.Fatalf("sequence %d: %d logits where none were asked", i, len(l))
		}
		return
	}
	row := fd.Seq.Len() - fd.PromptLen
	s.near(fmt.Sprintf("sequence %d, generated row %d, batch against alone", i, row), s.logits(fd.Seq, 1), st.rows[row])
}

func checkBatches(s *suite) {
	for range 3 {
		stories := make([]*story, minSequences-1)
		for i := range stories {
			stories[i] = &story{tokens: s.tokens(1 + s.rng.IntN(20))}
			s.alone(stories[i])
		}
		s.together(stories)
	}
}

func checkEmbeddings(s *suite) {
	if !s.info.Caps.Embeddings {
		return // checkDenied has asked
	}
	stories := make([]*story, minSequences-1)
	for i := range stories {
		stories[i] = &story{tokens: s.tokens(1 + s.rng.IntN(20))}
		if i%2 == 0 {
			stories[i] = &story{embeds: s.noise(s.info.Width*(1+s.rng.IntN(12)), 0.5)}
		}
		s.alone(stories[i])
	}
	s.together(stories)
	a, b := *stories[0], *stories[0]
	b.embeds = s.noise(len(a.embeds), 0.5)
	a.rows, a.answer, b.rows, b.answer = nil, nil, nil, nil
	s.alone(&a)
	s.alone(&b)
	if equalBits(a.rows[0], b.rows[0]) {
		s.Errorf("two different embeddings gave the same logits")
	}
}

// checkOutputs compares OutputAll with the last rows of every prefix.
func checkOutputs(s *suite) {
	prompt := s.tokens(12)
	v := s.info.Vocab
	seq := s.sequence()
	s.forward(engine.Feed{Seq: seq, Tokens: prompt, Output: engine.OutputAll})
	all := s.logits(seq, len(prompt))
	for k := 1; k <= len(prompt); k += 1 + s.rng.IntN(3) {
		prefix := s.sequence()
		s.forward(engine.Feed{Seq: prefix, Tokens: prompt[:k]})
		s.near(fmt.Sprintf("row %d of all against the last row of its prefix", k-1), s.logits(prefix, 1), all[(k-1)*v:k*v])
		s.shut(prefix)
	}
	parts := s.sequence()
	s.forward(engine.Feed{Seq: parts, Tokens: prompt[:5], Output: engine.OutputNone})
	if parts.Logits() != nil {
		s.Errorf("logits after OutputNone")
	}
	other := s.sequence()
	s.forward(engine.Feed{Seq: other, Tokens: s.tokens(3), Output: engine.OutputAll}, engine.Feed{Seq: parts, Tokens: prompt[5:], Output: engine.OutputAll})
	s.logits(other, 3)
	s.near("all rows of the second part", s.logits(parts, len(prompt)-5), all[5*v:])
}

// checkLongFeed feeds more rows than one pass takes.
func checkLongFeed(s *suite) {
	n := min(s.info.MaxBatch+7, s.info.Context, s.info.Cells/3, 1+(1<<24)/s.info.Vocab)
	prompt := s.tokens(n)
	var capture []steer.Site
	for layer := range s.info.Layers {
		if site := (steer.Site{Layer: layer}); s.info.Caps.CanCapture(site) == nil {
			capture = append(capture, site)
		}
	}
	whole, parts := s.sequence(), s.sequence()
	s.forward(engine.Feed{Seq: whole, Tokens: prompt, Output: engine.OutputAll, Capture: capture})
	all := s.logits(whole, n)
	var acts [][]float32
	for _, site := range capture {
		acts = append(acts, s.activation(whole, site, n))
	}
	for at := 0; at < n; {
		k := min(n-at, 1+s.rng.IntN(n/2))
		s.forward(engine.Feed{Seq: parts, Tokens: prompt[at : at+k], Output: engine.OutputAll, Capture: capture})
		s.near(fmt.Sprintf("rows %d to %d in parts against one feed of %d", at, at+k-1, n), s.logits(parts, k), all[at*s.info.Vocab:(at+k)*s.info.Vocab])
		for i, site := range capture {
			got, want := s.activation(parts, site, k), acts[i][at*s.info.Width:(at+k)*s.info.Width]
			if d := distance(got, want); d > max(s.o.Tolerance, s.o.EditTolerance) {
				s.Fatalf("activations at %s, rows %d to %d, differ from one feed's by %.3g of their size", site, at, at+k-1, d)
			}
		}
		at += k
	}
}

// checkLifetime holds the engine to when outputs are there and when not.
func checkLifetime(s *suite) {
	a, b := s.sequence(), s.sequence()
	if a.Logits() != nil {
		s.Errorf("logits before the first forward")
	}
	s.forward(engine.Feed{Seq: a, Tokens: s.tokens(3)}, engine.Feed{Seq: b, Tokens: s.tokens(4)})
	mine := a.Logits()
	kept := s.logits(a, 1)
	s.logits(b, 1)
	s.same("logits after the other sequence's were read", mine, kept)
	s.same("logits read twice", a.Logits(), kept)
	for layer := range s.info.Layers {
		if _, err := a.Activation(steer.Site{Layer: layer}); err == nil {
			s.Errorf("activation at layer %d, which was not captured", layer)
		}
	}
	if _, err := a.Activation(steer.Site{Layer: s.info.Layers}); err == nil {
		s.Errorf("activation of a layer the model has not")
	}
	if s.info.Caps.Fork {
		f := s.from(engine.Origin{Fork: a, Len: a.Len()})
		if f.Logits() != nil {
			s.Errorf("a fork has logits before its first forward")
		}
	}
	if s.info.Caps.Rewind {
		if err := a.Rewind(1); err != nil {
			s.Fatalf("rewind: %v", err)
		}
		if a.Logits() != nil {
			s.Errorf("logits after a rewind")
		}
	}
	checkCaptureIsRead(s)
}

// checkCaptureIsRead checks that capturing changes nothing.
func checkCaptureIsRead(s *suite) {
	prompt := s.tokens(8)
	plain := s.sequence()
	s.forward(engine.Feed{Seq: plain, Tokens: prompt})
	want := s.logits(plain, 1)
	for layer := range s.info.Layers {
		site := steer.Site{Layer: layer}
		if s.info.Caps.CanCapture(site) != nil {
			continue
		}
		seq := s.sequence()
		s.forward(engine.Feed{Seq: seq, Tokens: prompt, Capture: []steer.Site{site, site}})
		s.near("logits with a capture at "+site.String(), s.logits(seq, 1), want)
		a := s.activation(seq, site, len(prompt))
		if slices.Max(a) == slices.Min(a) {
			s.Errorf("activation at %s is constant", site)
		}
		s.shut(seq)
	}
}
