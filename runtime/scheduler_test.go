package runtime

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	goruntime "runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/runtime/engine"
	"github.com/trimtab/trimtab/runtime/engine/enginetest"
)

// schedule makes a scheduler that is closed with the test.
func schedule(t testing.TB, e engine.Engine, o Options) *Scheduler {
	t.Helper()
	s, err := NewScheduler(e, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// readAll reads a stream to its end.
func readAll(st *Stream) (string, error) {
	var b strings.Builder
	for {
		c, err := st.Next(context.Background())
		b.Write(c.Text)
		if err == io.EOF {
			return b.String(), nil
		} else if err != nil {
			return b.String(), err
		}
	}
}

// randomConfig is some generation, without live parts unless a policy is asked for.
func randomConfig(r *rand.Rand) Config {
	n := 1 + r.IntN(150)
	cfg := Config{MaxTokens: 1 + r.IntN(60), Seed: r.Uint64(), HoldBack: r.IntN(2) * r.IntN(9), Logprobs: r.IntN(2) == 0}
	base := byte('a' + r.IntN(3)) // so that prompts share beginnings
	for i := range n {
		cfg.Prompt = append(cfg.Prompt, decode.Token(base+byte(i%7)))
	}
	cfg.Prompt[n-1] = decode.Token('A' + r.IntN(26))
	if r.IntN(2) == 0 {
		cfg.Sampler = decode.Categorical{}
	}
	if r.IntN(3) == 0 {
		cfg.Stop = []string{"e", "the"}
	}
	return cfg
}

// restless is a deterministic policy that rewinds now and then.
func restless(seed uint64) Policy {
	r := rand.New(rand.NewPCG(seed, 3))
	return judge(func(s *Step) (Action, error) {
		if s.RewindsLeft > 0 && r.IntN(8) == 0 {
			return Action{Kind: Rewind, Rewind: r.IntN(4), Ban: []decode.Token{s.Token}}, nil
		}
		return Action{}, nil
	})
}

// TestBatchedEqualsAlone: whatever runs beside it, a session's result is the
// one it gives alone, with and without workers, prefix cache and capabilities.
func TestBatchedEqualsAlone(t *testing.T) {
	for seed := range uint64(12) {
		r := rand.New(rand.NewPCG(seed, 4))
		fc := enginetest.FakeConfig{Cells: 2048, MaxSequences: 10, NoFork: seed%3 == 1, NoRewind: seed%4 == 3}
		eng, alone := fake(t, fc), fake(t, fc)
		s := schedule(t, eng, Options{Slots: 1 + r.IntN(10), BatchRows: 10 + r.IntN(100), Queue: 100, Workers: 1 + r.IntN(3), NoCache: seed%5 == 4})
		var configs []Config
		var streams []*Stream
		for i := range uint64(40) {
			cfg := randomConfig(r)
			if fc.NoRewind {
				cfg.HoldBack = 0
			}
			cfg.Policy = restless(i)
			if fc.NoRewind {
				cfg.Policy = nil
			}
			streams = append(streams, must(s.Submit(t.Context(), cfg)))
			configs = append(configs, cfg)
		}
		for i, st := range streams {
			text, err := readAll(st)
			if err != nil {
				t.Fatalf("seed %d, session %d: %v", seed, i, err)
			}
			got := *st.Result()
			cfg := configs[i]
			cfg.Engine = alone
			if cfg.Policy != nil {
				cfg.Policy = restless(uint64(i))
			}
			r, _, err := generate(t, cfg)
			if err != nil {
				t.Fatal(err)
			}
			want := *r
			got.Timings, want.Timings = Timings{}, Timings{}
			got.Usage.CachedTokens, want.Usage.CachedTokens = 0, 0
			if text != want.Text || !cmp.Equal(got, want) {
				t.Fatalf("seed %d, session %d: streamed %q\n%s", seed, i, text, cmp.Diff(want, got))
			}
		}
		if st := s.Stats(); st.Finished != 40 || st.Active != 0 || st.Reserved != 0 || !fc.NoRewind && seed%5 != 4 && st.CachedTokens == 0 {
			t.Errorf("seed %d: %+v", seed, st)
		}
		s.Close()
	}
}

func TestQueueBound(t *testing.T) {
	entered, release := make(chan struct{}, 1), make(chan struct{})
	eng := fake(t, enginetest.FakeConfig{Hooks: enginetest.Hooks{Before: enginetest.BlockAt(1, entered, release)}})
	s := schedule(t, eng, Options{Slots: 2, Queue: 64})
	var mu sync.Mutex
	var streams []*Stream
	full := 0
	var all sync.WaitGroup
	for range 1000 {
		all.Go(func() {
			st, err := s.Submit(t.Context(), Config{Prompt: prompt, MaxTokens: 3})
			mu.Lock()
			defer mu.Unlock()
			if errors.Is(err, ErrQueueFull) {
				full++
			} else if err == nil {
				streams = append(streams, st)
			} else {
				t.Error(err)
			}
		})
	}
	all.Wait()
	<-entered
	st := s.Stats()
	if st.Active != 2 || st.Queued != 64 || full != 934 || st.Refused != 934 {
		t.Errorf("%+v, %d refused", st, full)
	}
	places := map[int]int{}
	for _, st := range streams {
		places[st.Place()]++
	}
	if places[0] != 2 || len(places) != 65 {
		t.Errorf("places %v", places)
	}
	close(release)
	for _, st := range streams {
		if r, err := st.Wait(t.Context()); err != nil || len(r.Tokens) != 3 {
			t.Errorf("%v, %+v", err, r)
		}
	}
}

// TestSlowReader: it stalls itself only, and loses nothing.
func TestSlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		eng := fake(t, enginetest.FakeConfig{})
		s := schedule(t, eng, Options{StreamBytes: 16})
		slow := must(s.Submit(t.Context(), Config{Prompt: prompt, MaxTokens: 100}))
		quick := must(s.Submit(t.Context(), Config{Prompt: prompt, MaxTokens: 200}))
		text, err := readAll(quick)
		if err != nil || len(text) != 200 {
			t.Errorf("quick: %d bytes, %v", len(text), err)
		}
		synctest.Wait()
		if stats := s.Stats(); stats.Active != 1 || stats.Finished != 1 {
			t.Errorf("%+v", stats)
		}
		late, err := readAll(slow)
		if err != nil || late != text[:100] {
			t.Errorf("slow: %q, %v", late, err)
		}
		s.Close()
	})
}

// TestLongPrompt: a prompt of thousands of tokens among 20 chats; each Forward
// takes every chat along and few prompt rows.
func TestLongPrompt(t *testing.T) {
	eng := fake(t, enginetest.FakeConfig{Record: true, Context: 10000})
	s := schedule(t, eng, Options{Slots: 24, PrefillRows: 48, Queue: 100})
	long := must(s.Submit(t.Context(), Config{Prompt: slices.Repeat(prompt, 300), MaxTokens: 1}))
	var chats []*Stream
	for range 20 {
		chats = append(chats, must(s.Submit(t.Context(), Config{Prompt: prompt, MaxTokens: 30})))
	}
	for _, st := range append(chats, long) {
		if _, err := st.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	s.Close()
	texts, prompts, last := map[int]int{}, map[int]int{}, map[int]int{}
	for _, f := range eng.Log() {
		if f.Phase == 1 {
			prompts[f.Forward] += f.Rows
			continue
		}
		texts[f.Forward]++
		if at := last[f.Seq]; at != 0 && f.Forward != at+1 {
			t.Errorf("sequence %d got no token from forward %d to %d", f.Seq, at, f.Forward)
		}
		last[f.Seq] = f.Forward
	}
	for n, rows := range prompts {
		if texts[n] > 0 && rows > 48 {
			t.Errorf("forward %d carries %d texts and %d prompt rows", n, texts[n], rows)
		}
	}
	if len(prompts) < 20 {
		t.Errorf("the long prompt took %d forwards only", len(prompts))
	}
}

func TestEngineFaults(t *testing.T) {
	boom := errors.New("boom")
	for _, tt := range []struct {
		name   string
		before func(context.Context, int, []engine.Feed) error
		want   string
	}{
		{"error", enginetest.FailAt(4, boom), "batch of 2 sequences: forward: boom"},
		{"panic", enginetest.PanicAt(4, "ouch"), "batch of 2 sequences: panic: ouch"},
	} {
		release := make(chan struct{})
		first := enginetest.BlockAt(1, nil, release)
		eng := must(enginetest.NewFake(enginetest.FakeConfig{Hooks: enginetest.Hooks{Before: func(ctx context.Context, n int, feeds []engine.Feed) error {
			return errors.Join(first(ctx, n, feeds), tt.before(ctx, n, feeds))
		}}}))
		s := schedule(t, eng, Options{Slots: 2})
		a := must(s.Submit(t.Context(), Config{Prompt: prompt, MaxTokens: 9}))
		b := must(s.Submit(t.Context(), Config{Prompt: prompt, MaxTokens: 9}))
		c := must(s.Submit(t.Context(), Config{Prompt: prompt, MaxTokens: 9}))
		close(release)
		for _, st := range []*Stream{a, b} {
			r, err := st.Wait(t.Context())
			if err == nil || !strings.Contains(err.Error(), tt.want) || r.FinishReason != FinishError || len(r.Tokens) < 2 {
				t.Errorf("%s: %v, %+v", tt.name, err, r)
			}
		}
		if tt.name == "panic" {
			s.Close() // a Fake that panicked stays claimed
			continue
		}
		if r, err := c.Wait(t.Context()); err != nil || len(r.Tokens) != 9 {
			t.Errorf("%s: the next: %v", tt.name, err)
		}
	}
}

func TestEngineClosed(t *testing.T) {
	eng := fake(t, enginetest.FakeConfig{Hooks: enginetest.Hooks{Before: enginetest.FailAt(3, fmt.Errorf("gone: %w", engine.ErrClosed))}})
	s := schedule(t, eng, Options{Slots: 1})
	a := must(s.Submit(t.Context(), Config{Prompt: prompt}))
	b := must(s.Submit(t.Context(), Config{Prompt: prompt}))
	if _, err := a.Wait(t.Context()); !errors.Is(err, engine.ErrClosed) {
		t.Error(err)
	}
	if _, err := b.Wait(t.Context()); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	<-s.done
	if _, err := s.Submit(t.Context(), Config{Prompt: prompt}); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}

// TestBadNeighbour: what panics in one session leaves the others alone.
func TestBadNeighbour(t *testing.T) {
	eng := fake(t, enginetest.FakeConfig{})
	s := schedule(t, eng, Options{Workers: 3})
	ouch := func(s *Step) (Action, error) {
		if s.Index == 4 {
			panic("ouch")
		}
		return Action{}, nil
	}
	bad := []Config{
		{Policy: judge(ouch)},
		{Processor: broken{panics: true}},
		{Listener: Listener{Step: func(context.Context, *Event) error { panic("ouch") }}},
		{Listener: Listener{Start: func(context.Context, *Begin) error { panic("ouch") }}},
	}
	var failing []*Stream
	for _, cfg := range bad {
		cfg.Prompt = prompt
		failing = append(failing, must(s.Submit(t.Context(), cfg)))
	}
	good := must(s.Submit(t.Context(), Config{Prompt: prompt, MaxTokens: 50}))
	for i, st := range failing {
		if r, err := st.Wait(t.Context()); err == nil || !strings.Contains(err.Error(), "ouch") || r.FinishReason != FinishError {
			t.Errorf("bad %d: %v, %+v", i, err, r)
		}
	}
	if r, err := good.Wait(t.Context()); err != nil || len(r.Tokens) != 50 {
		t.Errorf("%v, %+v", err, r)
	}
	if stats := s.Stats(); stats.Failed != 4 || stats.Finished != 1 || stats.Active != 0 {
		t.Errorf("%+v", stats)
	}
}

func TestSubmitFaults(t *testing.T) {
	eng, other := fake(t, enginetest.FakeConfig{Context: 100, Cells: 80}), fake(t, enginetest.FakeConfig{})
	s := schedule(t, eng, Options{})
	done, cancel := context.WithCancel(context.Background())
	cancel()
	for _, tt := range []struct {
		name string
		ctx  context.Context
		cfg  Config
		is   error
	}{
		{"another engine", t.Context(), Config{Engine: other, Prompt: prompt}, nil},
		{"no prompt", t.Context(), Config{}, nil},
		{"never fits", t.Context(), Config{Prompt: prompt, MaxTokens: 81 - len(prompt)}, engine.ErrContextFull},
		{"cancelled", done, Config{Prompt: prompt}, context.Canceled},
	} {
		if _, err := s.Submit(tt.ctx, tt.cfg); err == nil || tt.is != nil && !errors.Is(err, tt.is) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	for name, o := range map[string]Options{"slots": {Slots: 65}, "negative": {Slots: -1}, "batch": {Slots: 8, BatchRows: 4}, "workers": {Workers: -1}} {
		if _, err := NewScheduler(other, o); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := NewScheduler(nil, Options{}); err == nil {
		t.Error("no engine: no error")
	}
}

// TestFirstComeFirstServed: a large request waits for its cells and is not
// passed by small ones.
func TestFirstComeFirstServed(t *testing.T) {
	eng := fake(t, enginetest.FakeConfig{Cells: 200, Context: 200})
	s := schedule(t, eng, Options{Slots: 4})
	var mu sync.Mutex
	var order []string
	submit := func(name string, max int) *Stream {
		return must(s.Submit(t.Context(), Config{Prompt: prompt, MaxTokens: max, Listener: Listener{Start: func(context.Context, *Begin) error {
			mu.Lock()
			defer mu.Unlock()
			order = append(order, name)
			return nil
		}}}))
	}
	streams := []*Stream{submit("first", 100), submit("large", 180), submit("small", 5)}
	for _, st := range streams {
		if _, err := st.Wait(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if want := []string{"first", "large", "small"}; !slices.Equal(order, want) {
		t.Errorf("order %v", order)
	}
}

func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		eng := fake(t, enginetest.FakeConfig{})
		s := schedule(t, eng, Options{Slots: 1, StreamBytes: 10})
		a := must(s.Submit(t.Context(), Config{Prompt: prompt, MaxTokens: 30}))
		b := must(s.Submit(t.Context(), Config{Prompt: prompt, MaxTokens: 30}))
		drained := make(chan error)
		go func() { drained <- s.Drain(context.Background()) }()
		synctest.Wait()
		if _, err := s.Submit(t.Context(), Config{Prompt: prompt}); !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
		for _, st := range []*Stream{a, b} {
			if text, err := readAll(st); err != nil || len(text) != 30 {
				t.Errorf("%q, %v", text, err)
			}
		}
		if err := <-drained; err != nil {
			t.Error(err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		eng := fake(t, enginetest.FakeConfig{})
		s := schedule(t, eng, Options{Slots: 1, StreamBytes: 10})
		a := must(s.Submit(t.Context(), Config{Prompt: prompt, MaxTokens: 30}))
		b := must(s.Submit(t.Context(), Config{Prompt: prompt, MaxTokens: 30}))
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := s.Drain(ctx); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		for _, st := range []*Stream{a, b} {
			if r, err := st.Wait(t.Context()); !errors.Is(err, ErrClosed) || r.FinishReason != FinishCancelled {
				t.Errorf("%v, %+v", err, r)
			}
		}
		if eng.OpenSequences() != 0 {
			t.Error("a sequence is open after Drain")
		}
	})
}

// TestThousandSessions: nothing is left behind.
func TestThousandSessions(t *testing.T) {
	eng := fake(t, enginetest.FakeConfig{})
	s := schedule(t, eng, Options{Queue: 1000})
	before := goruntime.NumGoroutine()
	var all []*Stream
	for range 1000 {
		all = append(all, must(s.Submit(t.Context(), Config{Prompt: prompt, MaxTokens: 3})))
	}
	for _, st := range all {
		if _, err := st.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if n := goruntime.NumGoroutine(); n > before {
		t.Errorf("%d goroutines, before %d", n, before)
	}
	s.Close()
	for range 1000 {
		if r, _, err := generate(t, Config{Engine: eng, Prompt: prompt, MaxTokens: 1}); err != nil || len(r.Tokens) != 1 {
			t.Fatal(err)
		}
	}
	if eng.UsedCells() != 0 {
		t.Errorf("%d cells are in use", eng.UsedCells())
	}
}
