package enginetest

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/runtime/engine"
	"github.com/trimtab/trimtab/steer"
)

// mutants each break one promise; the check named must notice.
var mutants = []struct {
	name, caught string
	make         func(m *mutant)
}{
	{"steers the whole batch", "isolation", func(m *mutant) {
		m.steer = func(q *mutantSequence, p *steer.Plan) error {
			for _, other := range m.seqs {
				if p.Len() > 0 && other != q {
					other.Sequence.Steer(p)
				}
			}
			return q.Sequence.Steer(p)
		}
	}},
	{"ignores plans", "edits", func(m *mutant) {
		m.steer = func(q *mutantSequence, p *steer.Plan) error { return nil }
	}},
	{"ignores plans that it cannot apply", "bad plans", func(m *mutant) {
		m.steer = func(q *mutantSequence, p *steer.Plan) error { q.Sequence.Steer(p); return nil }
	}},
	{"drops the old plan with a bad one", "bad plans", func(m *mutant) {
		m.steer = func(q *mutantSequence, p *steer.Plan) error {
			err := q.Sequence.Steer(p)
			if err != nil {
				q.Sequence.Steer(nil)
			}
			return err
		}
	}},
	{"edits prompts only", "edits of generated rows", func(m *mutant) {
		m.steer = func(q *mutantSequence, p *steer.Plan) error { return q.Sequence.Steer(p) }
		m.forward = func(m *mutant, ctx context.Context, feeds []engine.Feed) error {
			for i, fd := range feeds {
				for _, q := range m.seqs {
					if q.Sequence == fd.Seq && fd.Rows(m.info.Width) == 1 {
						feeds[i].Seq.Steer(nil)
					}
				}
			}
			return m.Fake.Forward(ctx, feeds)
		}
	}},
	{"edits one layer above", "edits", func(m *mutant) {
		m.steer = rewrite(func(iv *steer.Intervention) { iv.Site.Layer = min(iv.Site.Layer+1, m.info.Layers-1) })
	}},
	{"edits one layer below", "edits", func(m *mutant) {
		m.steer = rewrite(func(iv *steer.Intervention) { iv.Site.Layer = max(iv.Site.Layer-1, 0) })
	}},
	{"edits the row after", "edits of generated rows", func(m *mutant) { m.forward = feedsEdited(func(fd *engine.Feed) { fd.PromptLen++ }) }},
	{"edits the row before", "edits", func(m *mutant) { m.forward = feedsEdited(func(fd *engine.Feed) { fd.PromptLen-- }) }},
	{"forgets the phase", "edits", func(m *mutant) { m.forward = feedsEdited(func(fd *engine.Feed) { fd.Phase = 0 }) }},
	{"ignores phases", "edits", func(m *mutant) { m.steer = rewrite(func(iv *steer.Intervention) { iv.When.Phases = 0 }) }},
	{"ignores windows", "edits", func(m *mutant) {
		m.steer = rewrite(func(iv *steer.Intervention) { iv.When.From, iv.When.To = nil, nil })
	}},
	{"ignores token triggers", "edits", func(m *mutant) { m.steer = rewrite(func(iv *steer.Intervention) { iv.When.Tokens = nil }) }},
	{"takes every edit for an add", "edits", func(m *mutant) { m.steer = rewrite(func(iv *steer.Intervention) { iv.Op = steer.Add }) }},
	{"does not keep the norm", "edits", func(m *mutant) { m.steer = rewrite(func(iv *steer.Intervention) { iv.Renorm = false }) }},
	{"is a thousandth off", "edits", func(m *mutant) { m.steer = rewrite(func(iv *steer.Intervention) { iv.Scale *= 1.001 }) }},
	{"ignores gates", "edits", func(m *mutant) { m.steer = rewrite(func(iv *steer.Intervention) { iv.Gate = nil }) }},
	{"closes every gate", "edits", func(m *mutant) {
		m.steer = rewriteGates(func(_ *steer.Intervention, g *steer.Gate) { g.Bias, g.Kind, g.Below = -1e6, steer.Logistic, false })
	}},
	{"opens gates for the others", "edits", func(m *mutant) {
		m.steer = rewriteGates(func(_ *steer.Intervention, g *steer.Gate) { g.Below = !g.Below })
	}},
	{"asks every gate at the edit", "edits", func(m *mutant) {
		m.steer = rewriteGates(func(iv *steer.Intervention, g *steer.Gate) { g.Site = iv.Site })
	}},
	{"asks gates a block lower", "edits", func(m *mutant) {
		m.steer = rewriteGates(func(_ *steer.Intervention, g *steer.Gate) { g.Site.Layer = max(g.Site.Layer-1, 0) })
	}},
	{"takes probes for cosines", "edits", func(m *mutant) {
		m.steer = rewriteGates(func(_ *steer.Intervention, g *steer.Gate) { g.Kind, g.Bias = steer.Cosine, 0 })
	}},
	{"edits behind closed gates", "exact zero", func(m *mutant) { m.steer = rewrite(func(iv *steer.Intervention) { iv.Gate = nil }) }},
	{"gates before the edits below", "composition", func(m *mutant) {
		m.steer = rewriteGates(func(iv *steer.Intervention, g *steer.Gate) {
			if g.Site != iv.Site {
				iv.Gate = nil
			}
		})
	}},
	{"climbs from every row", "edits", func(m *mutant) {
		m.steer = rewriteAscents(func(a *steer.Ascent) { a.Always = true })
	}},
	{"climbs where it need not", "exact zero", func(m *mutant) {
		m.steer = rewriteAscents(func(a *steer.Ascent) { a.Threshold = 1e9 })
	}},
	{"never climbs", "edits", func(m *mutant) {
		m.steer = rewriteAscents(func(a *steer.Ascent) { a.Threshold = -1e9 })
	}},
	{"climbs too far", "edits", func(m *mutant) {
		m.steer = rewriteAscents(func(a *steer.Ascent) { a.Radius *= 1.1; a.Margin *= 1.1 })
	}},
	{"ignores schedules", "edits of generated rows", func(m *mutant) {
		m.steer = rewrite(func(iv *steer.Intervention) { iv.Schedule = steer.Schedule{} })
	}},
	{"schedules one row late", "edits of generated rows", func(m *mutant) {
		m.steer = rewrite(func(iv *steer.Intervention) {
			if iv.Schedule.Kind != steer.Constant {
				iv.Schedule.Over++
			}
		})
	}},
	{"starts schedules that have not begun", "exact zero", func(m *mutant) {
		m.steer = rewrite(func(iv *steer.Intervention) { iv.Schedule = steer.Schedule{} })
	}},
	{"never stands back", "composition", func(m *mutant) { m.steer = rewrite(func(iv *steer.Intervention) { iv.Group = 0 }) }},
	{"stands back for silent edits", "composition", func(m *mutant) {
		m.steer = func(q *mutantSequence, p *steer.Plan) error {
			if p.Len() < 3 {
				return q.Sequence.Steer(p)
			}
			return q.Sequence.Steer(must(steer.NewPlan(*p.At(0))))
		}
	}},
	{"mixes plans up from the fifth sequence on", "many plans", func(m *mutant) {
		m.steer = func(q *mutantSequence, p *steer.Plan) error {
			switch i := slices.Index(m.seqs, q); { // 8 play without plans, then 8 with
			case i == 12:
				m.last = p
			case i > 12 && i < 16:
				p = m.last
			}
			return q.Sequence.Steer(p)
		}
	}},
	{"turns the other way", "edits", func(m *mutant) {
		m.steer = rewrite(func(iv *steer.Intervention) {
			if iv.Op == steer.Rotate {
				iv.Scale = -iv.Scale
			}
		})
	}},
	{"forgets the bias of a map", "edits", func(m *mutant) {
		m.steer = rewrite(func(iv *steer.Intervention) {
			if iv.Op == steer.Affine {
				iv.Vector = nil
			}
		})
	}},
	{"replaces with nothing", "edits", func(m *mutant) { m.steer = rewrite(func(iv *steer.Intervention) { iv.Value = 0 }) }},
	{"applies plans backwards", "plans in order", func(m *mutant) {
		m.steer = func(q *mutantSequence, p *steer.Plan) error {
			var list []steer.Intervention
			for i := range p.Len() {
				list = append([]steer.Intervention{*p.At(i)}, list...)
			}
			return q.Sequence.Steer(must(steer.NewPlan(list...)))
		}
	}},
	{"applies only the first intervention", "plans in order", func(m *mutant) {
		m.steer = func(q *mutantSequence, p *steer.Plan) error {
			if p.Len() < 2 {
				return q.Sequence.Steer(p)
			}
			return q.Sequence.Steer(must(steer.NewPlan(*p.At(0))))
		}
	}},
	{"adds a trace at scale 0", "exact zero", func(m *mutant) {
		m.steer = rewrite(func(iv *steer.Intervention) {
			if iv.Scale == 0 {
				iv.Scale = 1e-4
			}
		})
	}},
	{"leaves a shared plan behind", "shared plan", func(m *mutant) {
		m.steer = func(q *mutantSequence, p *steer.Plan) error {
			if p.Len() > 1 {
				m.last = p
			}
			return q.Sequence.Steer(p)
		}
		m.newSeq = plansSurvive
	}},
	{"hands a closed sequence's plan on", "reuse", func(m *mutant) {
		m.steer = func(q *mutantSequence, p *steer.Plan) error { m.last = p; return q.Sequence.Steer(p) }
		m.newSeq = plansSurvive
	}},
	{"shows activations before the edit", "edits", func(m *mutant) {
		m.steer = rewrite(func(iv *steer.Intervention) {
			iv.Site.Layer++
			if iv.Site.Layer == m.info.Layers {
				iv.Scale = 0
			}
		})
	}},
	{"swaps the outputs of a batch", "batches", func(m *mutant) {
		m.logits = func(q *mutantSequence) decode.Logits {
			for _, other := range m.seqs {
				if other != q && len(other.Sequence.Logits()) == len(q.Sequence.Logits()) && other.Sequence.Logits() != nil {
					return other.Sequence.Logits()
				}
			}
			return q.Sequence.Logits()
		}
	}},
	{"computes otherwise in batches", "batches", func(m *mutant) {
		m.forward = func(m *mutant, ctx context.Context, feeds []engine.Feed) error {
			err := m.Fake.Forward(ctx, feeds)
			for i := range feeds {
				if l := feeds[i].Seq.Logits(); err == nil && len(l) > 0 && len(feeds) > 1 {
					l[0] += 1e-3
				}
			}
			return err
		}
	}},
	{"swaps the last two rows of a prompt", "batches", func(m *mutant) {
		m.forward = feedsEdited(func(fd *engine.Feed) {
			if n := len(fd.Tokens); n > 2 && fd.Output == engine.OutputLast && fd.PromptLen > 0 {
				fd.Tokens = append(slices.Clone(fd.Tokens[:n-2]), fd.Tokens[n-1], fd.Tokens[n-2])
			}
		})
	}},
	{"takes all embeddings alike", "embeddings", func(m *mutant) {
		m.forward = feedsEdited(func(fd *engine.Feed) {
			if fd.Embeddings != nil {
				fd.Embeddings = make([]float32, len(fd.Embeddings))
			}
		})
	}},
	{"gives logits nobody asked for", "outputs", func(m *mutant) {
		m.forward = feedsEdited(func(fd *engine.Feed) {
			if fd.Output == engine.OutputNone {
				fd.Output = engine.OutputLast
			}
		})
	}},
	{"gives the last row for all", "outputs", func(m *mutant) {
		m.logits = func(q *mutantSequence) decode.Logits {
			l := slices.Clone(q.Sequence.Logits())
			for at := 0; at < len(l); at += m.info.Vocab {
				copy(l[at:], l[len(l)-m.info.Vocab:])
			}
			return l
		}
	}},
	{"loses rows of a long feed", "long feed", func(m *mutant) {
		m.activate = func(q *mutantSequence, site steer.Site) ([]float32, error) {
			a, err := q.Sequence.Activation(site)
			if n := m.info.MaxBatch * m.info.Width; err == nil && len(a) > n {
				a = append(slices.Clone(a[len(a)-n:]), a[:len(a)-n]...)
			}
			return a, err
		}
	}},
	{"keeps logits after a rewind", "lifetime", func(m *mutant) {
		var old decode.Logits
		m.rewind = func(q *mutantSequence, n int) error {
			old = slices.Clone(q.Sequence.Logits())
			return q.Sequence.Rewind(n)
		}
		m.logits = func(q *mutantSequence) decode.Logits {
			if l := q.Sequence.Logits(); l != nil {
				return l
			}
			return old
		}
	}},
	{"shows what was not captured", "lifetime", func(m *mutant) {
		m.activate = func(q *mutantSequence, site steer.Site) ([]float32, error) {
			return make([]float32, m.info.Width), nil
		}
	}},
	{"changes what it captures", "lifetime", func(m *mutant) {
		m.forward = func(m *mutant, ctx context.Context, feeds []engine.Feed) error {
			err := m.Fake.Forward(ctx, feeds)
			for i := range feeds {
				if l := feeds[i].Seq.Logits(); err == nil && len(l) > 0 && len(feeds[i].Capture) > 0 {
					l[3]++
				}
			}
			return err
		}
	}},
	{"keeps the wrong row in a rewind", "walk", func(m *mutant) {
		m.rewind = func(q *mutantSequence, n int) error {
			held := slices.Clone(q.Sequence.(*fakeSequence).tokens)
			if n < 1 || n >= len(held) || held[len(held)-n] < 0 {
				return q.Sequence.Rewind(n)
			}
			stale := held[len(held)-n : len(held)-n+1]
			if err := q.Sequence.Rewind(n + 1); err != nil {
				return err
			}
			return m.Fake.Forward(context.Background(), []engine.Feed{{Seq: q.Sequence, Tokens: stale}})
		}
	}},
	{"forgets edits in forks", "walk", func(m *mutant) {
		m.newSeq = func(m *mutant, ctx context.Context, o engine.Origin) (engine.Sequence, error) {
			if o.Fork == nil {
				return m.Fake.NewSequence(ctx, o)
			}
			return refed(m, ctx, o.Fork.(*fakeSequence).tokens[:o.Len])
		}
	}},
	{"restores another text", "walk", func(m *mutant) {
		m.newSeq = func(m *mutant, ctx context.Context, o engine.Origin) (engine.Sequence, error) {
			s, err := m.Fake.NewSequence(ctx, o)
			if err != nil || o.Saved == nil || s.Len() == 0 {
				return s, err
			}
			n := s.Len()
			if err := s.Rewind(n); err != nil {
				return nil, err
			}
			return s, m.Fake.Forward(ctx, []engine.Feed{{Seq: s, Tokens: make([]decode.Token, n), Output: engine.OutputNone}})
		}
	}},
	{"forks one row short", "walk", func(m *mutant) {
		m.newSeq = func(m *mutant, ctx context.Context, o engine.Origin) (engine.Sequence, error) {
			if o.Fork != nil && o.Len > 1 && o.Len <= o.Fork.Len() {
				o.Len--
			}
			return m.Fake.NewSequence(ctx, o)
		}
	}},
	{"denies what it does", "denied", func(m *mutant) { m.info.Caps.Rewind = false }},
	{"denies captures that it shows", "denied", func(m *mutant) { m.info.Caps.Capture = nil }},
	{"denies edits that it makes", "denied", func(m *mutant) { m.info.Caps.Edit = nil }},
	{"claims to save", "walk", func(m *mutant) { m.Fake.cfg.NoSave = true }},
	{"claims embeddings", "embeddings", func(m *mutant) { m.Fake.cfg.NoEmbeddings = true }},
	{"claims layers it has not", "info", func(m *mutant) { m.info.Caps.Edit = func(steer.Site, steer.Op) error { return nil } }},
	{"says unsupported without the word", "denied", func(m *mutant) {
		m.info.Caps.Fork = false
		m.newSeq = func(m *mutant, ctx context.Context, o engine.Origin) (engine.Sequence, error) {
			if o.Fork != nil {
				return nil, errors.New("cannot fork")
			}
			return m.Fake.NewSequence(ctx, o)
		}
	}},
	{"has no hash", "info", func(m *mutant) { m.info.Hash = "" }},
	{"takes invalid text", "tokenizer", func(m *mutant) { m.info.Tokenizer = anyText{m.info.Tokenizer} }},
	{"keeps the good half of a bad batch", "bad feeds", func(m *mutant) {
		m.forward = func(m *mutant, ctx context.Context, feeds []engine.Feed) error {
			err := m.Fake.Forward(ctx, feeds)
			if err != nil && len(feeds) > 1 {
				m.Fake.Forward(ctx, feeds[:1])
			}
			return err
		}
	}},
	{"wraps tokens around", "bad feeds", func(m *mutant) {
		m.forward = feedsEdited(func(fd *engine.Feed) {
			fd.Tokens = slices.Clone(fd.Tokens)
			for i, t := range fd.Tokens {
				fd.Tokens[i] = (t%decode.Token(m.info.Vocab) + decode.Token(m.info.Vocab)) % decode.Token(m.info.Vocab)
			}
		})
	}},
	{"panics without a sequence", "bad feeds", func(m *mutant) {
		m.forward = feedsEdited(func(fd *engine.Feed) { fd.Seq.Len() })
	}},
	{"serves other engines' sequences", "bad feeds", func(m *mutant) {
		m.forward = func(m *mutant, ctx context.Context, feeds []engine.Feed) error {
			feeds = slices.DeleteFunc(feeds, func(fd engine.Feed) bool {
				s, ok := fd.Seq.(*fakeSequence)
				return ok && s.f != m.Fake
			})
			return m.Fake.Forward(ctx, feeds)
		}
	}},
	{"shortens a fork silently", "bad origins", func(m *mutant) {
		m.newSeq = func(m *mutant, ctx context.Context, o engine.Origin) (engine.Sequence, error) {
			if o.Fork != nil {
				o.Len = min(o.Len, o.Fork.Len())
			}
			return m.Fake.NewSequence(ctx, o)
		}
	}},
	{"loses a slot with each failure", "bad origins", func(m *mutant) {
		m.newSeq = func(m *mutant, ctx context.Context, o engine.Origin) (engine.Sequence, error) {
			s, err := m.Fake.NewSequence(ctx, o)
			if err != nil {
				m.Fake.NewSequence(ctx, engine.Origin{})
			}
			return s, err
		}
	}},
	{"rewinds as far as it goes", "bad rewinds", func(m *mutant) {
		m.rewind = func(q *mutantSequence, n int) error { return q.Sequence.Rewind(min(n, q.Sequence.Len())) }
	}},
	{"cuts what does not fit", "context full", func(m *mutant) {
		m.forward = feedsEdited(func(fd *engine.Feed) {
			if s, ok := fd.Seq.(*fakeSequence); ok && s.Len() < m.info.Context {
				fd.Tokens = fd.Tokens[:min(len(fd.Tokens), m.info.Context-s.Len())]
			}
		})
	}},
	{"drops the oldest rows", "context full", func(m *mutant) {
		m.forward = feedsEdited(func(fd *engine.Feed) {
			if s, ok := fd.Seq.(*fakeSequence); ok && s.Len()+len(fd.Tokens) > m.info.Context && len(fd.Tokens) < 4 {
				s.Rewind(len(fd.Tokens))
			}
		})
	}},
	{"never frees cells", "cells full", func(m *mutant) {
		m.shut = func(q *mutantSequence) error { return nil }
	}},
	{"names a full cache otherwise", "cells full", func(m *mutant) {
		m.forward = func(m *mutant, ctx context.Context, feeds []engine.Feed) error {
			err := m.Fake.Forward(ctx, feeds)
			if errors.Is(err, engine.ErrContextFull) {
				return errors.New("full")
			}
			return err
		}
	}},
	{"counts shared rows twice", "cells full", func(m *mutant) {
		m.newSeq = func(m *mutant, ctx context.Context, o engine.Origin) (engine.Sequence, error) {
			if o.Fork == nil {
				return m.Fake.NewSequence(ctx, o)
			}
			return refed(m, ctx, o.Fork.(*fakeSequence).tokens[:o.Len])
		}
	}},
	{"opens one sequence less", "no sequence", func(m *mutant) { m.info.MaxSequences++ }},
	{"goes on when cancelled", "cancel", func(m *mutant) {
		m.forward = func(m *mutant, _ context.Context, feeds []engine.Feed) error {
			return m.Fake.Forward(context.Background(), feeds)
		}
	}},
	{"keeps rows of a cancelled feed", "cancel", func(m *mutant) {
		m.forward = func(m *mutant, ctx context.Context, feeds []engine.Feed) error {
			err := m.Fake.Forward(ctx, feeds)
			if errors.Is(err, context.DeadlineExceeded) {
				m.Fake.Forward(context.Background(), feeds[1:])
			}
			return err
		}
	}},
	{"fails to close twice", "close", func(m *mutant) {
		m.shut = func(q *mutantSequence) error {
			if q.shuts++; q.shuts > 1 {
				return engine.ErrClosed
			}
			return q.Sequence.Close()
		}
	}},
	{"serves closed sequences", "close", func(m *mutant) {
		m.shut = func(q *mutantSequence) error { return nil }
	}},
}

func plansSurvive(m *mutant, ctx context.Context, o engine.Origin) (engine.Sequence, error) {
	s, err := m.Fake.NewSequence(ctx, o)
	if err == nil && m.last != nil {
		s.Steer(m.last)
	}
	return s, err
}

// refed opens a sequence by feeding tokens anew, without any plan.
func refed(m *mutant, ctx context.Context, tokens []decode.Token) (engine.Sequence, error) {
	s, err := m.Fake.NewSequence(ctx, engine.Origin{})
	if err != nil {
		return nil, err
	}
	tokens = slices.Clone(tokens)
	for i := range tokens {
		tokens[i] = max(tokens[i], 0)
	}
	return s, m.Fake.Forward(ctx, []engine.Feed{{Seq: s, Tokens: tokens, Output: engine.OutputNone}})
}

type anyText struct{ engine.Tokenizer }

func (a anyText) Encode(text string, o engine.EncodeOptions) ([]decode.Token, error) {
	return a.Tokenizer.Encode(strings.ToValidUTF8(text, "?"), o)
}
