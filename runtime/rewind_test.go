package runtime

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/monitors"
	"github.com/trimtab/trimtab/runtime/engine/enginetest"
	"github.com/trimtab/trimtab/steer"
)

// shy is a processor whose rows depend on every token that was accepted: a
// rewind that is not exact changes what follows.
type shy struct{ seen []decode.Token }

func (p *shy) Process(_ context.Context, l decode.Logits) error {
	for i, t := range p.seen {
		l[t] -= float32(i%7+1) / 4
	}
	return nil
}
func (p *shy) Accept(t decode.Token) error { p.seen = append(p.seen, t); return nil }
func (p *shy) Rewind(n int) error          { p.seen = p.seen[:len(p.seen)-n]; return nil }

// TestRandomWalk: whatever a policy throws away, splices in and removes, a
// greedy text is that of an undisturbed run, what left is never changed, and
// monitors and processor have seen exactly what was kept.
func TestRandomWalk(t *testing.T) {
	words := []string{"\xe2\x82", "\xac", "STOP", "ST", "the ", "of ", "\xf0\x9f", "\x98\x80"}
	for seed := range uint64(300) {
		eng := fake(t, enginetest.FakeConfig{Seed: seed % 5, Words: words})
		r := rand.New(rand.NewPCG(seed, 7))
		cfg := Config{Engine: eng, Prompt: prompt, MaxTokens: 60, HoldBack: r.IntN(12), Stop: []string{"STOP", "e of"},
			MaxRewinds: 40, MaxDiscarded: 10000, Logprobs: true}
		plain := cfg
		plain.Processor = &shy{}
		want, _, err := generate(t, plain)
		if err != nil {
			t.Fatal(err)
		}
		w, p := &seen{}, &shy{}
		cfg.Monitors, cfg.Processor = []monitors.Monitor{w.monitor("seen")}, p
		released := 0
		cfg.Policy = judge(func(s *Step) (Action, error) {
			if !slices.Equal(s.Tokens, w.tokens[:len(w.tokens)-1]) || !slices.Equal(s.Tokens, p.seen) {
				t.Fatalf("seed %d: watcher saw %v, processor %v, committed %v", seed, w.tokens, p.seen, s.Tokens)
			}
			if s.RewindsLeft > 0 && r.IntN(4) == 0 {
				return Action{Kind: Rewind, Rewind: r.IntN(15)}, nil
			}
			return Action{Release: r.IntN(10) == 0}, nil
		})
		cfg.Listener.Step = func(_ context.Context, e *Event) error {
			released += len(e.Text)
			return nil
		}
		got, streamed, err := generate(t, cfg)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if got.Text != want.Text || streamed != want.Text || got.FinishReason != want.FinishReason || released != len(streamed) {
			t.Fatalf("seed %d: %q (streamed %q, %s), undisturbed %q (%s)", seed, got.Text, streamed, got.FinishReason, want.Text, want.FinishReason)
		}
		if !cmp.Equal(got.Tokens, want.Tokens) || !cmp.Equal(got.Logprobs, want.Logprobs) {
			t.Fatalf("seed %d: tokens or log-probabilities differ", seed)
		}
		if seed < 3 && got.Rewinds == 0 {
			t.Errorf("seed %d: nothing was rewound, the test shows nothing", seed)
		}
	}
}

// TestRandomPolicies: sampled text, plans, bans and guidance; what leaves is
// valid, final, and every budget holds.
func TestRandomPolicies(t *testing.T) {
	plan := must(steer.NewPlan(steer.Intervention{Site: steer.Site{Layer: 1}, Vector: ones(16), Scale: 0.5}))
	none := must(steer.NewPlan())
	for seed := range uint64(300) {
		eng := fake(t, enginetest.FakeConfig{Seed: seed % 5, Words: []string{"\xe2\x82", "\xac", "STOP", "ST"}})
		r := rand.New(rand.NewPCG(seed, 8))
		cfg := Config{Engine: eng, Prompt: prompt, MaxTokens: 50, HoldBack: r.IntN(12), Stop: []string{"STOP"}, Seed: seed,
			Sampler: decode.Categorical{}, MaxRewinds: 1 + r.IntN(20), MaxDiscarded: 1 + r.IntN(100), MaxGuide: 10}
		cfg.Monitors = []monitors.Monitor{(&seen{}).monitor("seen")}
		cfg.Policy = judge(func(s *Step) (Action, error) {
			a := Action{Kind: Kind(max(0, r.IntN(20)-17)), Release: r.IntN(9) == 0}
			if a.Kind == Rewind {
				a.Rewind, a.Ban = r.IntN(9), []decode.Token{s.Token}
			}
			if a.Kind != Stop && r.IntN(9) == 0 {
				a.Plan = []*steer.Plan{plan, none}[r.IntN(2)]
			}
			if r.IntN(9) == 0 {
				a.Guide, a.GuideSpan = enginetest.Tokens("(hm)")[:1+r.IntN(4)], r.IntN(6)
			}
			return a, nil
		})
		cfg.OnFault = FaultMode(r.IntN(2))
		s := must(NewSession(t.Context(), cfg))
		var err error
		streamed := ""
		for err == nil {
			var c Chunk
			c, err = s.Next(t.Context())
			streamed += string(c.Text)
			if bad := s.inconsistent(); bad != "" {
				t.Fatalf("seed %d: %s", seed, bad)
			}
		}
		if err == io.EOF {
			err = nil
		}
		got := s.Result()
		s.Close()
		if err != nil && !errors.Is(err, ErrFault) {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if got.Text != streamed || strings.Contains(streamed, "STOP") || got.Rewinds > cfg.MaxRewinds || got.Discarded > cfg.MaxDiscarded {
			t.Fatalf("seed %d: %+v streamed %q", seed, got, streamed)
		}
	}
}

// inconsistent says what does not fit together in the session's books.
func (s *Session) inconsistent() string {
	visible := slices.Clone(s.rows[:s.prompt])
	next := s.prompt
	for i, m := range s.marks {
		if s.rows[m.row] != s.tokens[i] {
			return fmt.Sprintf("visible token %d is not in row %d", i, m.row)
		}
		for _, g := range s.guides {
			if g.at == next {
				next += g.n
			}
		}
		if m.row != next {
			return fmt.Sprintf("visible token %d is in row %d, not %d", i, m.row, next)
		}
		next++
		visible = append(visible, s.tokens[i])
	}
	if want := len(visible) + s.guided(math.MaxInt); len(s.rows) != want {
		return fmt.Sprintf("%d rows, want %d", len(s.rows), want)
	}
	if s.seq.Len() != s.fed+s.back {
		return fmt.Sprintf("the engine has %d rows, the books say %d and %d to go", s.seq.Len(), s.fed, s.back)
	}
	if t := s.twin; t != nil {
		if t.seq != nil && t.seq.Len() != t.fed+t.back {
			return fmt.Sprintf("the shadow has %d rows, the books say %d and %d to go", t.seq.Len(), t.fed, t.back)
		}
		if len(t.list) != len(s.tokens) {
			return fmt.Sprintf("%d divergences for %d tokens", len(t.list), len(s.tokens))
		}
	}
	if s.released < 0 || s.freed > len(s.tokens) {
		return fmt.Sprintf("%d tokens left, %d may, of %d", s.released, s.freed, len(s.tokens))
	}
	return ""
}

// TestPartlyReleased: a token of which the first bytes have left stays.
func TestPartlyReleased(t *testing.T) {
	eng := saying(t, "xabSTOxy", "abSTO")
	most := -1
	cfg := Config{Engine: eng, Prompt: prompt, Stop: []string{"STOP"}, Policy: judge(func(s *Step) (Action, error) {
		if s.Index == 2 && most < 0 {
			most = s.Rewindable
			return Action{Kind: Rewind, Rewind: 1}, nil
		}
		return Action{}, nil
	})}
	if r, _, err := generate(t, cfg); err != nil || r.Text != "xabSTOxy" || most != 0 {
		t.Errorf("%v, %+v, rewindable %d", err, r, most)
	}
}

// TestWindowAfterRelease: a release that a begun stop string kept back is over
// when the tokens it was meant for are taken back.
func TestWindowAfterRelease(t *testing.T) {
	eng := saying(t, "STxyzw")
	var held []int
	released, rewound := false, false
	cfg := Config{Engine: eng, Prompt: prompt, Stop: []string{"STOP"}, HoldBack: 3, Policy: judge(func(s *Step) (Action, error) {
		held = append(held, s.Rewindable)
		switch {
		case s.Index == 1 && !released:
			released = true
			return Action{Release: true}, nil
		case s.Index == 2 && !rewound:
			rewound = true
			return Action{Kind: Rewind, Rewind: 2}, nil
		}
		return Action{}, nil
	})}
	r, _, err := generate(t, cfg)
	if want := []int{0, 1, 2, 0, 1, 2, 3, 3, 3, 3}; err != nil || r.Text != "STxyzw" || !slices.Equal(held, want) {
		t.Errorf("%v, %q, could take back %v, want %v", err, r.Text, held, want)
	}
}

func ones(n int) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = 1
	}
	return v
}

// TestActions drives scripted actions over "I am bad. Truly bad." and shows
// what the engine was fed.
func TestActions(t *testing.T) {
	const says = "I am bad."
	at := func(index int, a Action) func(*Step) (Action, error) {
		done := false
		return func(s *Step) (Action, error) {
			if s.Index != index || done {
				return Action{}, nil
			}
			done = true
			return a, nil
		}
	}
	plan := must(steer.NewPlan(steer.Intervention{Site: steer.Site{Layer: 1}, Vector: ones(16), Scale: 1e-6}))
	for _, tt := range []struct {
		name       string
		hold       int
		at         int
		a          Action
		want       string
		finish     FinishReason
		rewinds    int
		discarded  int
		forwards   int    // beyond the 10 of an undisturbed run
		feeds      string // tokens fed at and after the action
		heldAtStop string
	}{
		{name: "commit", at: 5, want: says, finish: FinishStop},
		{name: "resample", at: 5, a: Action{Kind: Rewind}, want: says, finish: FinishStop, rewinds: 1, discarded: 1},
		{name: "rewind released text", at: 5, a: Action{Kind: Rewind, Rewind: 4}, want: says, finish: FinishStop, rewinds: 1, discarded: 1},
		{name: "rewind 3", hold: 8, at: 5, a: Action{Kind: Rewind, Rewind: 3}, want: says, finish: FinishStop, rewinds: 1, discarded: 4, forwards: 4},
		{name: "rewind limited by the window", hold: 2, at: 5, a: Action{Kind: Rewind, Rewind: 5}, want: says, finish: FinishStop, rewinds: 1, discarded: 3, forwards: 3},
		{name: "rewind to the prompt", hold: 8, at: 5, a: Action{Kind: Rewind, Rewind: 99}, want: says, finish: FinishStop, rewinds: 1, discarded: 6, forwards: 6},
		{name: "resample under a plan", hold: 8, at: 5, a: Action{Kind: Rewind, Plan: plan}, want: says, finish: FinishStop, rewinds: 1, discarded: 1, forwards: 1},
		{name: "plan at a commit", at: 5, a: Action{Plan: plan}, want: says, finish: FinishStop},
		{name: "stop", at: 5, a: Action{Kind: Stop}, want: "I am ", finish: FinishFilter},
		{name: "stop drops what is held", hold: 2, at: 5, a: Action{Kind: Stop}, want: "I a", finish: FinishFilter},
		{name: "stop releases", hold: 2, at: 5, a: Action{Kind: Stop, Release: true}, want: "I am ", finish: FinishFilter},
	} {
		eng := saying(t, says)
		cfg := Config{Engine: eng, Prompt: prompt, HoldBack: tt.hold, Policy: judge(at(tt.at, tt.a))}
		r, streamed, err := generate(t, cfg)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if r.Text != tt.want || streamed != tt.want || r.FinishReason != tt.finish || r.Rewinds != tt.rewinds || r.Discarded != tt.discarded {
			t.Errorf("%s: %+v, streamed %q", tt.name, r, streamed)
		}
		if n := eng.Forwards() - 10; tt.finish == FinishStop && n != tt.forwards {
			t.Errorf("%s: %d more forwards, want %d", tt.name, n, tt.forwards)
		}
	}
}

// TestBan: what is banned at a place is not sampled there, bans of one place
// add up, and they end with the place.
func TestBan(t *testing.T) {
	eng := saying(t, "aaaa")
	var tried []decode.Token
	cfg := Config{Engine: eng, Prompt: prompt, MaxTokens: 4, Policy: judge(func(s *Step) (Action, error) {
		if s.Index == 2 && len(tried) < 5 {
			tried = append(tried, s.Token)
			return Action{Kind: Rewind, Ban: []decode.Token{s.Token}}, nil
		}
		return Action{}, nil
	})}
	r, _, err := generate(t, cfg)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(tried)
	if len(slices.Compact(tried)) != 5 || slices.Contains(tried, r.Tokens[2]) {
		t.Errorf("tried %v, then committed %v", tried, r.Tokens)
	}
}

// TestGuide: guidance is fed, changes what follows, is no part of the text, and
// its rows are gone afterwards.
func TestGuide(t *testing.T) {
	guide := enginetest.Tokens("[be kind]")
	for _, tt := range []struct {
		name string
		kind Kind
		span int
	}{{"with commit", Commit, 0}, {"with rewind", Rewind, 0}, {"for a span", Rewind, 3}} {
		eng := fake(t, enginetest.FakeConfig{Record: true, Script: enginetest.After(guide, enginetest.Tokens(" sorry"), 'x')})
		once := false
		cfg := Config{Engine: eng, Prompt: prompt, MaxTokens: 30, HoldBack: 10, Policy: judge(func(s *Step) (Action, error) {
			if s.Index != 8 || once {
				return Action{}, nil
			}
			once = true
			a := Action{Kind: tt.kind, Guide: guide, GuideSpan: tt.span}
			if tt.kind == Rewind {
				a.Rewind = 2
			}
			return a, nil
		})}
		s := must(NewSession(context.Background(), cfg))
		r, err := s.Run(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		at := map[Kind]int{Commit: 9, Rewind: 6}[tt.kind]
		want := " sorry"
		if tt.span > 0 {
			want = want[:tt.span] // without the guide's rows the script is silent
		}
		if !strings.HasPrefix(r.Text[at:], want) || strings.Contains(r.Text, "kind") || len(r.Tokens) != 30 {
			t.Errorf("%s: %q", tt.name, r.Text)
		}
		if hidden := s.fed + 1 - len(prompt) - 30; (tt.span == 0) != (hidden == len(guide)) || tt.span > 0 && hidden != 0 {
			t.Errorf("%s: %d hidden rows at the end", tt.name, hidden)
		}
		if tt.span > 0 && !slices.Equal(s.rows, slices.Concat(prompt, r.Tokens)) {
			t.Errorf("%s: rows %v are not prompt and text", tt.name, s.rows)
		}
		if s.clean != len(prompt)+at {
			t.Errorf("%s: %d clean rows, want %d", tt.name, s.clean, len(prompt)+at)
		}
		s.Close()
	}
}

func TestBudgets(t *testing.T) {
	for _, tt := range []struct {
		name               string
		rewinds, discarded int
		back               int
		want               string
	}{
		{"no rewinds", -1, 0, 0, "all 0 rewinds are spent"},
		{"two rewinds", 2, 0, 0, "all 2 rewinds are spent"},
		{"defaults", 0, 0, 0, "all 16 rewinds are spent"},
		{"discarded", 0, 7, 2, "3 tokens to discard, 1 of 7 left"},
	} {
		exhausted := ""
		cfg := Config{Engine: fake(t, enginetest.FakeConfig{}), Prompt: prompt, MaxTokens: 30, HoldBack: 20, MaxRewinds: tt.rewinds, MaxDiscarded: tt.discarded}
		cfg.Policy = judge(func(s *Step) (Action, error) {
			if s.Index < 10 {
				return Action{}, nil
			}
			return Action{Kind: Rewind, Rewind: tt.back, Release: true}, nil // Release means nothing here
		})
		cfg.Listener.Step = func(_ context.Context, e *Event) error {
			if e.Exhausted != "" {
				exhausted = e.Exhausted
			}
			return nil
		}
		r, _, err := generate(t, cfg)
		if err != nil || r.FinishReason != FinishFilter || exhausted != tt.want || r.Text != "" {
			t.Errorf("%s: %v, %+v, %q", tt.name, err, r, exhausted)
		}
	}
}
