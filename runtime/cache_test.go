package runtime

import (
	"context"
	"slices"
	"testing"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/runtime/engine/enginetest"
	"github.com/trimtab/trimtab/steer"
)

func intervention(scale float32, when steer.When) steer.Intervention {
	return steer.Intervention{Site: steer.Site{Layer: 1}, Vector: ones(16), Scale: scale, When: when}
}

func ptr(n int) *int { return &n }

// TestKeys: which rows may stand for which.
func TestKeys(t *testing.T) {
	plan := func(list ...steer.Intervention) *steer.Plan { return must(steer.NewPlan(list...)) }
	everywhere := plan(intervention(1, steer.When{}))
	for _, tt := range []struct {
		name   string
		a, b   *steer.Plan
		la, lb int // prompt lengths
		same   bool
		answer bool // rows of an answer under a serve prompts
	}{
		{"no plan", nil, plan(), 5, 9, true, true},
		{"zero dose", nil, plan(intervention(0, steer.When{From: ptr(-3)})), 5, 9, true, true},
		{"steered and not", everywhere, nil, 5, 5, false, true},
		{"equal plans", everywhere, plan(intervention(1, steer.When{})), 5, 9, true, true},
		{"another dose", everywhere, plan(intervention(2, steer.When{})), 5, 5, false, true},
		{"answers only", plan(intervention(1, steer.When{From: ptr(0)})), nil, 5, 9, true, false},
		{"answer phase only", plan(intervention(1, steer.When{Phases: steer.PhaseAnswer})), nil, 5, 9, true, false},
		{"prompt phase only", plan(intervention(1, steer.When{Phases: steer.PhasePrompt})), plan(intervention(1, steer.When{Phases: steer.PhasePrompt})), 5, 9, true, false},
		{"until row 5", plan(intervention(1, steer.When{To: ptr(5)})), plan(intervention(1, steer.When{To: ptr(5)})), 5, 9, true, false},
		{"last rows of the prompt", plan(intervention(1, steer.When{From: ptr(-3)})), plan(intervention(1, steer.When{From: ptr(-3)})), 5, 9, false, false},
		{"the same last rows", plan(intervention(1, steer.When{From: ptr(-3)})), plan(intervention(1, steer.When{From: ptr(-3)})), 9, 9, true, false},
		{"all but the last rows", plan(intervention(1, steer.When{To: ptr(-3)})), plan(intervention(1, steer.When{To: ptr(-3)})), 5, 9, false, false},
	} {
		a, b := keyOf(tt.a, tt.la), keyOf(tt.b, tt.lb)
		if (a.plan == b.plan) != tt.same || a.answer != tt.answer {
			t.Errorf("%s: %+v and %+v", tt.name, a, b)
		}
	}
}

// TestPrefixCache runs requests one after the other and states how many prompt
// rows each takes from the cache. Every text must be that of a fresh engine.
func TestPrefixCache(t *testing.T) {
	long := slices.Repeat(prompt, 10) // 190 tokens
	with := func(more string) []decode.Token { return append(slices.Clone(long), enginetest.Tokens(more)...) }
	other := append(enginetest.Tokens("X"), long...)
	steered := must(steer.NewPlan(intervention(0.7, steer.When{})))
	late := must(steer.NewPlan(intervention(0.7, steer.When{From: ptr(0)})))
	type request struct {
		prompt []decode.Token
		plan   *steer.Plan
		cached int
	}
	for _, tt := range []struct {
		name     string
		fake     enginetest.FakeConfig
		opt      Options
		requests []request
		kept     int
	}{
		{name: "the same prompt", requests: []request{{long, nil, 0}, {long, nil, 189}}, kept: 1},
		{name: "a longer prompt", requests: []request{{long, nil, 0}, {with(" And you?"), nil, 190}}, kept: 2},
		{name: "a common beginning", requests: []request{{with("abc"), nil, 0}, {with("xyz"), nil, 190}, {long[:100], nil, 99}}, kept: 3},
		{name: "without fork", fake: enginetest.FakeConfig{NoFork: true}, requests: []request{{with("abc"), nil, 0}, {with("xyz"), nil, 190}, {long[:100], nil, 99}}, kept: 1},
		{name: "without rewind", fake: enginetest.FakeConfig{NoRewind: true}, requests: []request{{with("abc"), nil, 0}, {with("xyz"), nil, 190}}, kept: 2},
		{name: "without both", fake: enginetest.FakeConfig{NoRewind: true, NoFork: true}, requests: []request{{long, nil, 0}, {long, nil, 0}}},
		{name: "switched off", opt: Options{NoCache: true}, requests: []request{{long, nil, 0}, {long, nil, 0}}},
		{name: "another beginning", requests: []request{{long, nil, 0}, {other, nil, 0}}, kept: 2},
		{name: "too short", requests: []request{{long[:20], nil, 0}, {long[:20], nil, 0}}, kept: 1},
		{name: "another plan", requests: []request{{long, steered, 0}, {long, nil, 0}, {long, steered, 189}}, kept: 2},
		{name: "a plan for answers", requests: []request{{long, late, 0}, {with("x"), nil, 190}}, kept: 1},
		{name: "few sequences", fake: enginetest.FakeConfig{MaxSequences: 1}, requests: []request{{long, nil, 0}, {other, nil, 0}, {long, nil, 0}, {with("x"), nil, 190}}, kept: 1},
		{name: "few cells", fake: enginetest.FakeConfig{Cells: 500}, requests: []request{{long, nil, 0}, {other, nil, 0}, {long, nil, 189}}, kept: 1},
		{name: "fewer cells", fake: enginetest.FakeConfig{Cells: 400}, requests: []request{{long, nil, 0}, {other, nil, 0}, {long, nil, 0}}, kept: 1},
	} {
		eng := fake(t, tt.fake)
		s := schedule(t, eng, tt.opt)
		for i, rq := range tt.requests {
			cfg := Config{Prompt: rq.prompt, Plan: rq.plan, MaxTokens: 40}
			r, err := must(s.Submit(t.Context(), cfg)).Wait(t.Context())
			if err != nil {
				t.Fatalf("%s, request %d: %v", tt.name, i, err)
			}
			if r.Usage.CachedTokens != rq.cached {
				t.Errorf("%s, request %d: %d rows from the cache, want %d", tt.name, i, r.Usage.CachedTokens, rq.cached)
			}
			cfg.Engine = fake(t, enginetest.FakeConfig{})
			if fresh, _, err := generate(t, cfg); err != nil || fresh.Text != r.Text {
				t.Errorf("%s, request %d: %q, fresh %q, %v", tt.name, i, r.Text, fresh.Text, err)
			}
		}
		stats := s.Stats()
		s.Close()
		if stats.KeptSequences != tt.kept {
			t.Errorf("%s: %+v", tt.name, stats)
		}
	}
}

// TestConversation: the answer's rows serve the next turn.
func TestConversation(t *testing.T) {
	eng := fake(t, enginetest.FakeConfig{})
	s := schedule(t, eng, Options{})
	text := slices.Repeat(prompt, 2)
	for turn := range 5 {
		r, err := must(s.Submit(t.Context(), Config{Prompt: text, MaxTokens: 50})).Wait(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if want := len(text) - len(prompt) - 1; turn > 0 && r.Usage.CachedTokens != want {
			t.Errorf("turn %d: %d rows from the cache, want %d", turn, r.Usage.CachedTokens, want)
		}
		text = slices.Concat(text, r.Tokens, prompt)
	}
	if stats := s.Stats(); stats.KeptSequences != 1 {
		t.Errorf("%+v", stats)
	}
}

// TestNeighbour: a prompt that a running session has begins where that ends.
func TestNeighbour(t *testing.T) {
	var second *Stream
	var s *Scheduler
	long := slices.Repeat(prompt, 10)
	eng := fake(t, enginetest.FakeConfig{})
	s = schedule(t, eng, Options{})
	first := must(s.Submit(t.Context(), Config{Prompt: long, MaxTokens: 50, Listener: Listener{Step: func(_ context.Context, e *Event) error {
		if e.Index == 10 {
			second = must(s.Submit(context.Background(), Config{Prompt: long, MaxTokens: 50}))
		}
		return nil
	}}}))
	a, err := first.Wait(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	b, err := second.Wait(t.Context())
	if err != nil || b.Text != a.Text || b.Usage.CachedTokens != len(long)-1 {
		t.Errorf("%v, %q and %q, %+v", err, a.Text, b.Text, b.Usage)
	}
}

// TestGuidedRowsAreNotKept: what was made under hidden rows or another plan
// never serves others.
func TestGuidedRowsAreNotKept(t *testing.T) {
	eng := fake(t, enginetest.FakeConfig{})
	s := schedule(t, eng, Options{})
	plan := must(steer.NewPlan(intervention(0.7, steer.When{})))
	for name, a := range map[string]Action{"guide": {Guide: enginetest.Tokens("(hm)")}, "plan": {Plan: plan}} {
		start := append(enginetest.Tokens(name), slices.Repeat(prompt, 3)...)
		r, err := must(s.Submit(t.Context(), Config{Prompt: start, MaxTokens: 60, Policy: judge(func(s *Step) (Action, error) {
			if s.Index == 19 {
				return a, nil
			}
			return Action{}, nil
		})})).Wait(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		again, err := must(s.Submit(t.Context(), Config{Prompt: slices.Concat(start, r.Tokens), MaxTokens: 1})).Wait(t.Context())
		want := len(start) + 20
		if name == "plan" {
			want-- // the row of the token it came with is the first under the plan
		}
		if err != nil || again.Usage.CachedTokens != want {
			t.Errorf("%s: %d rows from the cache, want %d, %v", name, again.Usage.CachedTokens, want, err)
		}
	}
}

// TestCollision: equal hashes alone never show one text to another.
func TestCollision(t *testing.T) {
	a, b := slices.Repeat(prompt, 4), slices.Repeat(enginetest.Tokens("something else here"), 4)
	blocks := hashBlocks(a)
	if n := agree(blocks, a, blocks, b); n != 0 {
		t.Errorf("%d rows agree", n)
	}
	if n := agree(blocks, a, blocks, a); n != len(a) {
		t.Errorf("%d rows agree of %d", n, len(a))
	}
}
