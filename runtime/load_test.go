package runtime

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/monitors"
	"github.com/trimtab/trimtab/runtime/engine"
	"github.com/trimtab/trimtab/runtime/engine/enginetest"
)

// TestLoad: hundreds of sessions with random windows and policies, readers
// that are slow, vanish or cancel, and an engine that fails now and then. What
// a reader got is the final text or a beginning of it, and belongs to nobody
// else; afterwards everything is free.
func TestLoad(t *testing.T) {
	for seed := range uint64(6) {
		boom := errors.New("boom")
		eng := fake(t, enginetest.FakeConfig{Cells: 3000, Context: 1000, MaxSequences: 12, NoInterrupt: seed%2 == 1,
			Script: canary, Hooks: enginetest.Hooks{Before: func(_ context.Context, n int, _ []engine.Feed) error {
				if seed >= 4 && n%97 == 0 {
					return boom
				}
				return nil
			}}})
		s := schedule(t, eng, Options{Slots: 8, Queue: 500, StreamBytes: 16, BatchRows: 64, PrefillRows: 32, Workers: int(seed%3) + 1})
		var all sync.WaitGroup
		for i := range uint64(200) {
			r := rand.New(rand.NewPCG(seed, i))
			all.Go(func() { visit(t, s, r, i, boom) })
		}
		all.Wait()
		for s.Stats().Active+s.Stats().Queued > 0 { // those that vanished without waiting
			s.poke()
		}
		stats := s.Stats()
		if stats.Reserved != 0 || stats.Finished+stats.Cancelled+stats.Failed != 200 || stats.KeptRows > 3000 || seed < 4 && stats.Failed != 0 {
			t.Errorf("seed %d: %+v", seed, stats)
		}
		s.Close()
		if eng.OpenSequences() != 0 || eng.UsedCells() != 0 {
			t.Errorf("seed %d: %d sequences, %d cells are left", seed, eng.OpenSequences(), eng.UsedCells())
		}
	}
}

// canary repeats the prompt's last five tokens over and over.
func canary(t enginetest.Text) decode.Token {
	return t.Tokens[t.PromptLen-5+(len(t.Tokens)-t.PromptLen)%5]
}

func visit(t *testing.T, s *Scheduler, r *rand.Rand, i uint64, boom error) {
	word := fmt.Sprintf("<%03d>", i)
	cfg := Config{Prompt: enginetest.Tokens(strings.Repeat("shared ", r.IntN(20)) + word), MaxTokens: 1 + r.IntN(80), HoldBack: r.IntN(10)}
	cfg.Monitors = []monitors.Monitor{(&seen{}).monitor("seen")}
	cfg.MaxRewinds, cfg.MaxDiscarded = 1000, 100000
	back := rand.New(rand.NewPCG(i, 5))
	cfg.Policy = judge(func(s *Step) (Action, error) {
		if back.IntN(6) == 0 {
			return Action{Kind: Rewind, Rewind: back.IntN(12)}, nil
		}
		return Action{Release: back.IntN(20) == 0}, nil
	})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	st, err := s.Submit(ctx, cfg)
	if err != nil {
		t.Error(err)
		return
	}
	full := strings.Repeat(word, 20)[:cfg.MaxTokens]
	most := 1 << 20
	if r.IntN(4) == 0 {
		most = r.IntN(60) // then it goes away
	}
	got := ""
	for len(got) < most {
		c, err := st.Next(context.Background())
		got += string(c.Text)
		if r.IntN(3) == 0 {
			for range r.IntN(2000) {
				_ = r.Uint64() // slow
			}
		}
		if err == io.EOF {
			if got != full || st.Result().Text != full {
				t.Errorf("session %d: %q, result %q, want %q", i, got, st.Result().Text, full)
			}
			return
		}
		if err != nil {
			if !errors.Is(err, boom) || st.Result().Text != got {
				t.Errorf("session %d: %v", i, err)
			}
			return
		}
	}
	if !strings.HasPrefix(full, got) {
		t.Errorf("session %d: %q is no beginning of %q", i, got, full)
	}
	if r.IntN(2) == 0 {
		return // vanishes; the context ends with it
	}
	st.Close()
	if r, err := st.Wait(context.Background()); err == nil && r.Text != full || r != nil && !strings.HasPrefix(r.Text, got) {
		t.Errorf("session %d: %v, %q", i, err, r.Text)
	}
}
