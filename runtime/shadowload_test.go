package runtime

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/runtime/engine"
	"github.com/trimtab/trimtab/runtime/engine/enginetest"
	"github.com/trimtab/trimtab/steer"
)

// shadowed is a random generation, half of them with a shadow.
func shadowed(r *rand.Rand) Config {
	cfg := randomConfig(r)
	if r.IntN(4) > 0 {
		cfg.Plan = pick(r, plansOf(0.6))
	}
	if len(cfg.Prompt) > 2 && r.IntN(3) == 0 {
		cfg.PlanFrom = r.IntN(len(cfg.Prompt))
	}
	switch r.IntN(4) {
	case 0:
		cfg.Shadow = &Shadow{}
	case 1:
		cfg.Shadow = &Shadow{Mean: nats(r.Float64() * 0.1), Tries: r.IntN(4) - 1}
	}
	return cfg
}

// TestShadowsTogether: sixteen at once, with and without shadow, plans,
// rewinds, cached and shared prefixes; each gives what it gives alone.
func TestShadowsTogether(t *testing.T) {
	for seed := range uint64(12) {
		r := rand.New(rand.NewPCG(seed, 31))
		fc := enginetest.FakeConfig{Cells: 6000, MaxSequences: 16 + r.IntN(20), NoFork: seed%3 == 1}
		eng := fake(t, fc)
		s := schedule(t, eng, Options{Slots: 16, BatchRows: 16 + r.IntN(100), Queue: 100, Workers: 1 + r.IntN(3), NoCache: seed%5 == 4})
		var configs []Config
		var streams []*Stream
		for i := range uint64(40) {
			cfg := shadowed(r)
			configs = append(configs, cfg)
			cfg.Policy = restless(i)
			streams = append(streams, must(s.Submit(t.Context(), cfg)))
		}
		for i, st := range streams {
			text, err := readAll(st)
			if err != nil {
				t.Fatalf("seed %d, session %d: %v", seed, i, err)
			}
			got := *st.Result()
			cfg := configs[i]
			cfg.Engine, cfg.Policy = fake(t, enginetest.FakeConfig{NoFork: fc.NoFork}), restless(uint64(i))
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
		s.Close()
		if n, c := eng.OpenSequences(), eng.UsedCells(); n != 0 || c != 0 || s.taken != 0 || s.reserved != 0 {
			t.Errorf("seed %d: %d sequences, %d cells are left, %d and %d reserved", seed, n, c, s.taken, s.reserved)
		}
	}
}

// TestShadowReservation: as many run as the sequences and cells allow, and the
// engine never has more rows or sequences than it can.
func TestShadowReservation(t *testing.T) {
	for seed := range uint64(8) {
		r := rand.New(rand.NewPCG(seed, 32))
		fc := enginetest.FakeConfig{Cells: 700, MaxSequences: 2 + r.IntN(5), NoFork: seed%4 == 3}
		var eng *enginetest.Fake
		fc.Hooks.Before = func(context.Context, int, []engine.Feed) error {
			if eng.OpenSequences() > fc.MaxSequences {
				return fmt.Errorf("%d sequences", eng.OpenSequences())
			}
			return nil
		}
		eng = fake(t, fc)
		s := schedule(t, eng, Options{Slots: fc.MaxSequences, Queue: 100})
		var streams []*Stream
		for i := range uint64(40) {
			cfg := shadowed(r)
			cfg.Policy, cfg.MaxGuide = restless(i), 1
			streams = append(streams, must(s.Submit(t.Context(), cfg)))
			if s := s.Stats(); s.Reserved > fc.Cells {
				t.Fatalf("seed %d: %+v", seed, s)
			}
		}
		for i, st := range streams {
			if _, err := readAll(st); err != nil {
				t.Fatalf("seed %d, session %d: %v", seed, i, err)
			}
		}
		s.Close()
	}
}

// TestCancelFreesTheShadow: in whatever phase, both sequences are gone.
func TestCancelFreesTheShadow(t *testing.T) {
	for at := 1; at < 14; at++ {
		for name, plan := range plansOf(0.6) {
			eng := fake(t, enginetest.FakeConfig{Hooks: enginetest.Hooks{}})
			s := schedule(t, eng, Options{NoCache: true, BatchRows: 20, PrefillRows: 20})
			ctx, cancel := context.WithCancel(t.Context())
			steps := 0
			st := must(s.Submit(ctx, Config{Prompt: slices.Repeat(prompt, 4), Plan: plan, Shadow: &Shadow{Mean: nats(0.01)}, MaxTokens: 100,
				Listener: Listener{Step: func(context.Context, *Event) error {
					if steps++; steps == at {
						cancel()
					}
					return nil
				}}}))
			if _, err := st.Wait(t.Context()); !errors.Is(err, context.Canceled) {
				t.Errorf("%s, step %d: %v", name, at, err)
			}
			if stats := s.Stats(); stats.Active != 0 || stats.Reserved != 0 || eng.OpenSequences() != 0 || eng.UsedCells() != 0 {
				t.Errorf("%s, step %d: %+v, %d sequences", name, at, stats, eng.OpenSequences())
			}
			s.Close()
			cancel()
		}
	}
}

// TestShadowFails: an engine that fails ends the session and frees both.
func TestShadowFails(t *testing.T) {
	boom := errors.New("boom")
	for n := 1; n < 12; n++ {
		eng := fake(t, enginetest.FakeConfig{Hooks: enginetest.Hooks{Before: enginetest.FailAt(n, boom)}})
		s := schedule(t, eng, Options{})
		_, err := must(s.Submit(t.Context(), Config{Prompt: slices.Repeat(prompt, 3), Plan: plansOf(1)["answers"], Shadow: &Shadow{Mean: nats(0.05)}, MaxTokens: 50})).Wait(t.Context())
		if !errors.Is(err, boom) || eng.OpenSequences() != 0 {
			t.Errorf("forward %d: %v, %d sequences", n, err, eng.OpenSequences())
		}
		s.Close()
	}
}

// TestShadowServesLaterPrompts: its rows are as clean as those of no plan.
func TestShadowServesLaterPrompts(t *testing.T) {
	long := slices.Repeat(prompt, 4)
	for name, want := range map[string]struct{ steered, clean int }{
		"everywhere": {steered: -1, clean: -1}, "answers": {steered: -1, clean: -1}, "last rows": {steered: -1, clean: -1},
	} {
		plan := plansOf(0.5)[name]
		s := schedule(t, fake(t, enginetest.FakeConfig{}), Options{})
		first, err := must(s.Submit(t.Context(), Config{Prompt: long, Plan: plan, Shadow: &Shadow{}, MaxTokens: 40})).Wait(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		next := slices.Concat(long, first.Tokens, prompt)
		clean, err := must(s.Submit(t.Context(), Config{Prompt: next, MaxTokens: 20})).Wait(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_ = want
		if n := len(long) + len(first.Tokens) - 1; clean.Usage.CachedTokens != n {
			t.Errorf("%s: %d rows from the cache, want %d", name, clean.Usage.CachedTokens, n)
		}
		fresh, _, err := generate(t, Config{Engine: fake(t, enginetest.FakeConfig{}), Prompt: next, MaxTokens: 20})
		if err != nil || fresh.Text != clean.Text {
			t.Errorf("%s: %q, fresh %q, %v", name, clean.Text, fresh.Text, err)
		}
		s.Close()
	}
}

// TestLoweredRowsAreNotKept: rows made at a lower dose never serve prompts of
// the whole plan.
func TestLoweredRowsAreNotKept(t *testing.T) {
	plan := must(steer.NewPlan(intervention(0.9, steer.When{})))
	s := schedule(t, fake(t, enginetest.FakeConfig{}), Options{})
	first := Config{Prompt: slices.Repeat(prompt, 3), Plan: plan, MaxTokens: 50, Shadow: &Shadow{Mean: nats(0.01)}, End: []decode.Token{}}
	one, err := must(s.Submit(t.Context(), first)).Wait(t.Context())
	if err != nil || one.Shadow.Lowered < 30 {
		t.Fatalf("%v, %+v", err, one.Shadow)
	}
	next := Config{Prompt: slices.Concat(first.Prompt, one.Tokens, prompt), Plan: plan, MaxTokens: 20, Logprobs: true}
	got, err := must(s.Submit(t.Context(), next)).Wait(t.Context())
	if err != nil || got.Usage.CachedTokens < len(first.Prompt)-1 {
		t.Fatalf("%v, %+v", err, got.Usage)
	}
	next.Engine = fake(t, enginetest.FakeConfig{})
	if fresh, _, err := generate(t, next); err != nil || fresh.Text != got.Text || !cmp.Equal(fresh.Logprobs, got.Logprobs) {
		t.Errorf("%q, fresh %q, %v", got.Text, fresh.Text, err)
	}
}

// TestPlanFrom: rows before it are those of no plan, and steered ones begin
// where it says; with rows of the cache and without.
func TestPlanFrom(t *testing.T) {
	plan := must(steer.NewPlan(intervention(0.8, steer.When{})))
	for _, cached := range []bool{false, true} {
		for from := 0; from < 57; from += 7 {
			fc := enginetest.FakeConfig{Record: true}
			long := slices.Repeat(prompt, 3)
			eng := fake(t, fc)
			s := schedule(t, eng, Options{NoCache: !cached})
			if cached {
				if _, err := must(s.Submit(t.Context(), Config{Prompt: long, MaxTokens: 2})).Wait(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			got, err := must(s.Submit(t.Context(), Config{Prompt: long, Plan: plan, PlanFrom: from, MaxTokens: 30, Logprobs: true})).Wait(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if want := min(from, 56); cached && from >= blockTokens && got.Usage.CachedTokens != want {
				t.Errorf("from %d: %d rows from the cache", from, got.Usage.CachedTokens)
			}
			ref := fake(t, enginetest.FakeConfig{})
			seq := must(ref.NewSequence(t.Context(), engine.Origin{}))
			feed := func(tokens []decode.Token) {
				if len(tokens) == 0 {
					return
				}
				if err := ref.Forward(t.Context(), []engine.Feed{{Seq: seq, Tokens: tokens, PromptLen: len(long)}}); err != nil {
					t.Fatal(err)
				}
			}
			feed(long[:from])
			seq.Steer(plan)
			feed(long[from:])
			for i, tok := range got.Tokens {
				lp, _, err := decode.Logprobs(nil, seq.Logits(), tok, 0)
				if err != nil || lp.Logprob != got.Logprobs[i].Logprob {
					t.Fatalf("from %d, token %d: %v, want %v", from, i, got.Logprobs[i], lp)
				}
				feed([]decode.Token{tok})
			}
			seq.Close()
			s.Close()
		}
	}
}

// TestCleanTurns: after a steered turn the next one is that of a conversation
// with the same text that was never steered: with the rows fed again at the
// turn's end, at the next turn's start, or kept from the shadow.
func TestCleanTurns(t *testing.T) {
	plan := must(steer.NewPlan(intervention(0.8, steer.When{})))
	for _, tt := range []struct {
		name         string
		warm, shadow bool
		cached       int // of the second prompt, before its own rows
	}{{"at once", true, false, 0}, {"later", false, false, -1}, {"shadow", false, true, -1}, {"both", true, true, 0}} {
		s := schedule(t, fake(t, enginetest.FakeConfig{}), Options{})
		first := Config{Prompt: slices.Repeat(prompt, 2), Plan: plan, MaxTokens: 40, End: []decode.Token{}}
		if tt.shadow {
			first.Shadow = &Shadow{}
		}
		one, err := must(s.Submit(t.Context(), first)).Wait(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		turn := slices.Concat(first.Prompt, one.Tokens)
		if tt.warm {
			w, err := must(s.Warm(t.Context(), turn)).Wait(t.Context())
			if err != nil || w.Text != "" || len(w.Tokens) != 0 || w.FinishReason != FinishStop {
				t.Errorf("%s: %+v, %v", tt.name, w, err)
			}
		}
		for _, p := range []*steer.Plan{nil, plan} {
			second := Config{Prompt: slices.Concat(turn, prompt), Plan: p, PlanFrom: len(turn), MaxTokens: 30, Logprobs: true}
			two, err := must(s.Submit(t.Context(), second)).Wait(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			want := len(turn) + tt.cached
			if p == nil && tt.name == "later" {
				want = 0
			} else if p != nil {
				want = len(turn)
			}
			if two.Usage.CachedTokens != want {
				t.Errorf("%s: %d rows from the cache, want %d", tt.name, two.Usage.CachedTokens, want)
			}
			second.Engine = fake(t, enginetest.FakeConfig{})
			fresh, _, err := generate(t, second) // never steered before this turn
			if err != nil || fresh.Text != two.Text || !cmp.Equal(fresh.Logprobs, two.Logprobs) {
				t.Errorf("%s: %q, in a clean conversation %q, %v", tt.name, two.Text, fresh.Text, err)
			}
		}
		s.Close()
	}
}

// TestReplayFindsDoses: a trace whose doses are not those of the governor is
// noticed.
func TestReplayFindsDoses(t *testing.T) {
	cfg := Config{Engine: fake(t, enginetest.FakeConfig{Seed: 2}), Prompt: prompt, MaxTokens: 60, Plan: plansOf(0.9)["answers"], Shadow: &Shadow{Mean: nats(0.01)}, End: []decode.Token{}}
	tr := traced(t, cfg, TraceOptions{})
	if !strings.Contains(tr, `"tries":[{`) || !strings.Contains(tr, `"unsteered":true`) {
		t.Fatalf("the trace shows little: %s", tr)
	}
	if err := Replay(t.Context(), strings.NewReader(tr), nil, nil); err != nil {
		t.Fatal(err)
	}
	for _, old := range []string{`"dose":0.2`, `"dose":0.1`, `"mean":0.01`} {
		if !strings.Contains(tr, old) {
			t.Fatalf("no %s in %s", old, tr)
		}
		err := Replay(t.Context(), strings.NewReader(strings.Replace(tr, old, strings.Replace(old, "0.", "0.00", 1), 1)), nil, nil)
		var d *Difference
		if !errors.As(err, &d) || d.What != "shadow" {
			t.Errorf("%s: %v", old, err)
		}
	}
}

// TestReplayFollowsShadows: whatever a policy does, the doses of a trace are
// those that the governor chooses again; guidance that goes with a rewind of
// nothing gives the row anew.
func TestReplayFollowsShadows(t *testing.T) {
	gone := 0
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 23))
		plans := plansOf(float32(0.2 + r.Float64()))
		other, guided := pick(r, plans), false
		cfg := Config{Engine: fake(t, enginetest.FakeConfig{Seed: seed % 5}), Prompt: prompt, MaxTokens: 40, Seed: seed, Plan: pick(r, plans), Sampler: decode.Categorical{},
			Shadow: &Shadow{Mean: nats(r.Float64() * 0.1), Window: 1 + r.IntN(8)}, HoldBack: r.IntN(6), MaxRewinds: 30, MaxDiscarded: 1000, MaxGuide: 10}
		cfg.Policy = judge(func(s *Step) (a Action, _ error) {
			if s.RewindsLeft > 0 && r.IntN(4) == 0 {
				a.Kind, a.Rewind = Rewind, r.IntN(3)
			}
			if r.IntN(15) == 0 {
				a.Plan = other
			}
			if r.IntN(4) == 0 {
				a.Guide, a.GuideSpan = enginetest.Tokens("(hm)")[:1+r.IntN(3)], r.IntN(4)
			}
			if guided && a.Kind == Rewind && a.Rewind == 0 && a.Plan == nil && a.Guide == nil {
				gone++
			}
			guided = a.Guide != nil
			return a, nil
		})
		cfg.OnFault = FailOpen
		tr := traced(t, cfg, TraceOptions{})
		if err := Replay(t.Context(), strings.NewReader(tr), nil, nil); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
	}
	if gone < 20 {
		t.Errorf("guidance went with a rewind of nothing %d times only", gone)
	}
}
