package runtime

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/runtime/engine"
	"github.com/trimtab/trimtab/runtime/engine/enginetest"
	"github.com/trimtab/trimtab/steer"
)

// instant is an engine that costs nothing: what is left is the loop.
type instant struct {
	engine.Engine
	info engine.Info
	row  decode.Logits
}

type instantSeq struct {
	e *instant
	n int
}

func newInstant(vocab int) *instant {
	e := &instant{info: engine.Info{Vocab: vocab, Width: 8, Layers: 1, Context: 1 << 40, Cells: 1 << 50, MaxSequences: 64, MaxBatch: 512}}
	e.info.Caps.Rewind = true
	e.row = make(decode.Logits, vocab)
	for i := range e.row {
		e.row[i] = float32(i*7919%vocab) / float32(vocab)
	}
	return e
}

func (e *instant) Info() *engine.Info { return &e.info }
func (e *instant) NewSequence(context.Context, engine.Origin) (engine.Sequence, error) {
	return &instantSeq{e: e}, nil
}
func (e *instant) Forward(_ context.Context, feeds []engine.Feed) error {
	for i := range feeds {
		feeds[i].Seq.(*instantSeq).n += len(feeds[i].Tokens)
	}
	return nil
}
func (s *instantSeq) Len() int                                 { return s.n }
func (s *instantSeq) Logits() decode.Logits                    { return s.e.row }
func (s *instantSeq) Activation(steer.Site) ([]float32, error) { return nil, nil }
func (s *instantSeq) Steer(*steer.Plan) error                  { return nil }
func (s *instantSeq) Rewind(n int) error                       { s.n -= n; return nil }
func (s *instantSeq) Close() error                             { return nil }

func benchConfig(b testing.TB, vocab int) Config {
	e := newInstant(vocab)
	e.info.Tokenizer = fake(b, enginetest.FakeConfig{}).Info().Tokenizer
	return Config{Engine: e, Prompt: enginetest.Tokens("hello"), End: []decode.Token{}, MaxTokens: 1 << 30}
}

func BenchmarkToken(b *testing.B) {
	for _, bb := range []struct {
		name string
		cfg  func(*Config)
	}{
		{"greedy", func(*Config) {}},
		{"hold", func(c *Config) { c.HoldBack, c.Stop = 16, []string{"###", "</s>"} }},
		{"policy", func(c *Config) { c.Policy = judge(func(*Step) (Action, error) { return Action{}, nil }) }},
		{"logprobs", func(c *Config) { c.Logprobs = true }},
		{"shadow", func(c *Config) { c.Shadow = &Shadow{Mean: nats(1)} }},
	} {
		b.Run(bb.name, func(b *testing.B) {
			cfg := benchConfig(b, 768)
			bb.cfg(&cfg)
			s := must(NewSession(b.Context(), cfg))
			defer s.Close()
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.Next(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkBatch is a whole round of the scheduler, per token, with readers.
func BenchmarkBatch(b *testing.B) {
	for _, n := range []int{1, 4, 16} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			cfg := benchConfig(b, 768)
			cfg.MaxTokens = b.N/n + 1
			s := must(NewScheduler(cfg.Engine, Options{NoCache: true}))
			defer s.Close()
			b.ReportAllocs()
			b.ResetTimer()
			var all sync.WaitGroup
			for range n {
				st := must(s.Submit(b.Context(), cfg))
				all.Go(func() { must(readAll(st)) })
			}
			all.Wait()
		})
	}
}

// TestAllocations: a steady step makes no garbage.
func TestAllocations(t *testing.T) {
	for name, edit := range map[string]func(*Config){
		"bare": func(*Config) {},
		"full": func(c *Config) {
			c.HoldBack, c.Stop, c.Processor = 4, []string{"###"}, broken{}
			c.Policy = judge(func(*Step) (Action, error) { return Action{}, nil })
			c.Logprobs = true
		},
		"shadow": func(c *Config) { c.Shadow = &Shadow{Mean: nats(1)} },
	} {
		cfg := benchConfig(t, 768)
		edit(&cfg)
		s := must(NewSession(t.Context(), cfg))
		for range 100 {
			must(s.Next(t.Context()))
		}
		ctx := t.Context()
		if n := testing.AllocsPerRun(1000, func() { must(s.Next(ctx)) }); n > 0 {
			t.Errorf("%s: %v allocations per token", name, n)
		}
		s.Close()
	}
}
