package runtime

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/trimtab/trimtab/runtime/engine"
	"github.com/trimtab/trimtab/runtime/engine/enginetest"
)

// TestCancelFreesTheSlot cancels in every phase, from inside a Forward, and
// counts the Forwards that follow: none.
func TestCancelFreesTheSlot(t *testing.T) {
	for _, noInterrupt := range []bool{false, true} {
		for _, tt := range []struct {
			name string
			at   int // the Forward in which the context ends
			cfg  Config
		}{
			{"prefill", 2, Config{Prompt: slices.Repeat(prompt, 10)}},
			{"before the first token", 3, Config{Prompt: slices.Repeat(prompt, 3)}},
			{"mid-stream", 9, Config{Prompt: prompt}},
			{"in a hold", 9, Config{Prompt: prompt, HoldBack: 100}},
			{"in a rewind", 9, Config{Prompt: prompt, HoldBack: 100, MaxRewinds: 1000, MaxDiscarded: 1 << 20, Policy: judge(func(s *Step) (Action, error) {
				return Action{Kind: Kind(s.Index % 2), Rewind: s.Index % 2}, nil
			})}},
		} {
			ctx, cancel := context.WithCancel(context.Background())
			eng := fake(t, enginetest.FakeConfig{NoInterrupt: noInterrupt, Hooks: enginetest.Hooks{Before: func(_ context.Context, n int, _ []engine.Feed) error {
				if n == tt.at {
					cancel()
				}
				return nil
			}}})
			s := schedule(t, eng, Options{Slots: 1, BatchRows: 20, NoCache: true})
			st := must(s.Submit(ctx, tt.cfg))
			r, err := st.Wait(context.Background())
			if !errors.Is(err, context.Canceled) || r.FinishReason != FinishCancelled || eng.Forwards() != tt.at {
				t.Errorf("%s: %v, %+v after %d forwards", tt.name, err, r, eng.Forwards())
			}
			if stats := s.Stats(); stats.Active != 0 || stats.Reserved != 0 || stats.Cancelled != 1 {
				t.Errorf("%s: %+v", tt.name, stats)
			}
			next := must(s.Submit(context.Background(), Config{Prompt: prompt, MaxTokens: 1}))
			if r, err := next.Wait(context.Background()); err != nil || len(r.Tokens) != 1 {
				t.Errorf("%s: the next: %v", tt.name, err)
			}
			s.Close()
		}
	}
}

// TestCancelInterrupts: a Forward that nobody waits for any more is given up.
func TestCancelInterrupts(t *testing.T) {
	entered := make(chan struct{})
	eng := fake(t, enginetest.FakeConfig{Hooks: enginetest.Hooks{Before: enginetest.BlockAt(1, entered, nil)}})
	s := schedule(t, eng, Options{})
	st := must(s.Submit(t.Context(), Config{Prompt: prompt}))
	<-entered
	st.Close()
	if r, err := st.Wait(t.Context()); !errors.Is(err, context.Canceled) || r.FinishReason != FinishCancelled {
		t.Errorf("%v, %+v", err, r)
	}
}

// TestCancelOneOfMany: the others of the batch do not notice.
func TestCancelOneOfMany(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	eng := fake(t, enginetest.FakeConfig{Hooks: enginetest.Hooks{Before: func(_ context.Context, n int, _ []engine.Feed) error {
		if n == 5 {
			cancel()
		}
		return nil
	}}})
	s := schedule(t, eng, Options{})
	gone := must(s.Submit(ctx, Config{Prompt: prompt, MaxTokens: 50}))
	stays := must(s.Submit(t.Context(), Config{Prompt: prompt, MaxTokens: 50}))
	if r, err := stays.Wait(t.Context()); err != nil || len(r.Tokens) != 50 {
		t.Errorf("%v, %+v", err, r)
	}
	if r, err := gone.Wait(t.Context()); !errors.Is(err, context.Canceled) || r.FinishReason != FinishCancelled || len(r.Tokens) > 5 {
		t.Errorf("%v, %+v", err, r)
	}
}

func TestCancelQueuedAndUnread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		eng := fake(t, enginetest.FakeConfig{})
		s := schedule(t, eng, Options{Slots: 1, StreamBytes: 8})
		ctx, cancel := context.WithCancel(t.Context())
		unread := must(s.Submit(ctx, Config{Prompt: prompt, MaxTokens: 500}))
		waits := must(s.Submit(t.Context(), Config{Prompt: prompt, MaxTokens: 5}))
		synctest.Wait() // the first is blocked on its reader
		if n := eng.Forwards(); n != 8 || waits.Place() != 1 {
			t.Errorf("%d forwards, place %d", n, waits.Place())
		}
		if err := waits.Close(); err != nil {
			t.Error(err)
		}
		if r, err := waits.Wait(t.Context()); !errors.Is(err, context.Canceled) || r.FinishReason != FinishCancelled || s.Stats().Queued != 0 {
			t.Errorf("queued: %v, %+v", err, s.Stats())
		}
		cancel()
		synctest.Wait()
		if n := eng.Forwards(); n != 8 || s.Stats().Active != 0 {
			t.Errorf("blocked on a reader: %d forwards, %+v", n, s.Stats())
		}
		text, err := readAll(unread)
		if len(text) != 8 || !errors.Is(err, context.Canceled) {
			t.Errorf("%q, %v", text, err)
		}
		s.Close()
	})
}
