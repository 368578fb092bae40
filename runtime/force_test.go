package runtime

import (
	"bytes"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/monitors"
	"github.com/trimtab/trimtab/runtime/engine/enginetest"
)

// onceAt is a policy that acts at an index, once, and knows when it has.
func onceAt(index int, a Action) Policy {
	done := false
	return judge(func(s *Step) (Action, error) {
		if s.Index != index || done {
			return Action{}, nil
		}
		done = true
		return a, nil
	})
}

// steady says the letter of text at each place, whatever came before.
func steady(t testing.TB, text string) *enginetest.Fake {
	return fake(t, enginetest.FakeConfig{Script: func(x enginetest.Text) decode.Token {
		if n := len(x.Tokens) - x.PromptLen; n < len(text) {
			return decode.Token(text[n])
		}
		return enginetest.EOS
	}})
}

// TestForce drives forced tokens over "I am bad." and shows the text.
func TestForce(t *testing.T) {
	text := enginetest.Tokens
	end := append(text("no"), enginetest.EOS)
	for _, tt := range []struct {
		name   string
		a      Action
		at     int
		hold   int
		most   int
		stop   []string
		want   string
		finish FinishReason
	}{
		{name: "after a commit", at: 4, a: Action{Force: text(" no")}, want: "I am  no.", finish: FinishStop},
		{name: "in place of the candidate", at: 5, a: Action{Kind: Rewind, Force: text("good")}, want: "I am good", finish: FinishStop},
		{name: "after a rewind", at: 5, hold: 9, a: Action{Kind: Rewind, Rewind: 3, Force: text("was ")}, want: "I was ad.", finish: FinishStop},
		{name: "final", at: 5, hold: 9, a: Action{Kind: Rewind, Rewind: 5, Force: text("No."), Final: true}, want: "No.", finish: FinishFilter},
		{name: "final after a commit", at: 0, a: Action{Force: text("!"), Final: true}, want: "I!", finish: FinishFilter},
		{name: "final with an end token", at: 5, a: Action{Kind: Rewind, Force: end, Final: true}, want: "I am no", finish: FinishFilter},
		{name: "an end token", at: 5, a: Action{Kind: Rewind, Force: end}, want: "I am no", finish: FinishStop},
		{name: "a stop string", at: 5, a: Action{Kind: Rewind, Force: text("x STOP y"), Final: true}, stop: []string{"STOP"}, want: "I am x ", finish: FinishStop},
		{name: "cut by the length", at: 5, most: 7, a: Action{Kind: Rewind, Force: text("1234")}, want: "I am 12", finish: FinishLength},
		{name: "as long as the length", at: 5, most: 7, a: Action{Kind: Rewind, Force: text("12"), Final: true}, want: "I am 12", finish: FinishFilter},
		{name: "at the first place", at: 0, a: Action{Kind: Rewind, Force: text("U")}, want: "U am bad.", finish: FinishStop},
	} {
		for _, scheduled := range []bool{false, true} {
			w, p := &seen{}, &shy{}
			cfg := Config{Engine: steady(t, "I am bad."), Prompt: prompt, HoldBack: tt.hold, MaxTokens: tt.most, Stop: tt.stop,
				Monitors: []monitors.Monitor{w.monitor("seen")}, Processor: p, Policy: onceAt(tt.at, tt.a)}
			r := runEither(t, cfg, scheduled)
			if r.Text != tt.want || r.FinishReason != tt.finish {
				t.Errorf("%s (scheduled %v): %q, %s", tt.name, scheduled, r.Text, r.FinishReason)
			}
			if n := len(r.Tokens); !slices.Equal(p.seen[:n], r.Tokens) || !slices.Equal(w.tokens[:n], r.Tokens) {
				t.Errorf("%s: processor accepted %v, watcher saw %v, text %v", tt.name, p.seen, w.tokens, r.Tokens)
			}
		}
	}
}

func runEither(t *testing.T, cfg Config, scheduled bool) *Result {
	t.Helper()
	if !scheduled {
		r, _, err := generate(t, cfg)
		if err != nil && !errors.Is(err, ErrFault) {
			t.Fatal(err)
		}
		return r
	}
	s := schedule(t, cfg.Engine, Options{})
	defer s.Close()
	st := must(s.Submit(t.Context(), cfg))
	r, err := st.Wait(t.Context())
	if err != nil && !errors.Is(err, ErrFault) {
		t.Fatal(err)
	}
	return r
}

// TestForceIsJudged: a policy sees what it forced, may reject it, and its
// rewind ends the rest; a later Force replaces it.
func TestForceIsJudged(t *testing.T) {
	var forcedAt []int
	cfg := Config{Engine: steady(t, "I am bad."), Prompt: prompt, HoldBack: 5}
	step := 0
	cfg.Policy = judge(func(s *Step) (Action, error) {
		step++
		if s.Forced {
			forcedAt = append(forcedAt, s.Index)
		}
		switch step {
		case 2:
			return Action{Force: enginetest.Tokens("12345")}, nil
		case 4: // '2': the rest of 12345 is over
			return Action{Kind: Rewind, Rewind: 1}, nil
		case 6:
			return Action{Force: enginetest.Tokens("xyz")}, nil
		case 8:
			return Action{Force: enginetest.Tokens("-")}, nil
		}
		return Action{}, nil
	})
	r, _, err := generate(t, cfg)
	if err != nil || r.Text != "I amxy-d." || !slices.Equal(forcedAt, []int{2, 3, 4, 5, 6}) {
		t.Errorf("%v, %q, forced at %v", err, r.Text, forcedAt)
	}
}

// limits bans what a grammar and a truncation would.
type limits struct {
	forbid decode.Token // never
	best   bool         // only the likeliest is left
}

func (p limits) Process(_ context.Context, l decode.Logits) error {
	if p.forbid != 0 {
		l[p.forbid] = float32(math.Inf(-1))
	}
	if p.best {
		most := slices.Max(l)
		for i := range l {
			if l[i] < most {
				l[i] = float32(math.Inf(-1))
			}
		}
	}
	return nil
}
func (limits) Accept(decode.Token) error { return nil }
func (limits) Rewind(int) error          { return nil }

func TestForceFaults(t *testing.T) {
	for _, tt := range []struct {
		name string
		p    decode.Processor
		a    Action
		want string // text in FailOpen
		err  string // "" for none
	}{
		{"truncation keeps it", limits{best: true}, Action{Force: enginetest.Tokens("x")}, "Ixam", ""},
		{"a grammar forbids it", limits{forbid: 'x'}, Action{Force: enginetest.Tokens("x")}, "I am", "the forced token 120 is banned or forbidden here"},
		{"both", limits{forbid: 'x', best: true}, Action{Force: enginetest.Tokens("yx")}, "Iyam", "forced token 120"},
		{"banned with it", nil, Action{Force: enginetest.Tokens("x"), Ban: enginetest.Tokens("x")}, "I am", "token 120 is both banned and forced"},
		{"too many", nil, Action{Force: make([]decode.Token, MaxForce+1)}, "I am", "1025 forced tokens, the limit is 1024"},
		{"outside the vocabulary", nil, Action{Force: []decode.Token{-1}}, "I am", "forced token -1"},
		{"final without a text", nil, Action{Final: true}, "I am", "final without forced tokens"},
		{"with a stop", nil, Action{Kind: Stop, Force: enginetest.Tokens("x")}, "I am", "a stopped text has none"},
		{"nothing left to sample", limits{best: true}, Action{Kind: Rewind, Ban: everyToken()}, "I am", "with 264 banned tokens nothing is left"},
	} {
		for _, mode := range []FaultMode{FailClosed, FailOpen} {
			cfg := Config{Engine: steady(t, "I am"), Prompt: prompt, Processor: tt.p, OnFault: mode}
			cfg.Policy = onceAt(0, tt.a)
			r, _, err := generate(t, cfg)
			if tt.err == "" || mode == FailOpen {
				if err != nil || !strings.HasPrefix(r.Text, tt.want) || (len(r.Faults) == 0) != (tt.err == "") {
					t.Errorf("%s, open: %v, %+v", tt.name, err, r)
				}
				continue
			}
			if !errors.Is(err, ErrFault) || !strings.Contains(err.Error(), tt.err) || len(r.Faults) != 1 {
				t.Errorf("%s, closed: %v, %+v", tt.name, err, r)
			}
		}
	}
}

func everyToken() []decode.Token {
	list := make([]decode.Token, 264)
	for i := range list {
		list[i] = decode.Token(i)
	}
	return list
}

// TestYield: bans that leave nothing give way where the policy says so.
func TestYield(t *testing.T) {
	yielded := 0
	cfg := Config{Engine: steady(t, "I am"), Prompt: prompt}
	once := false
	cfg.Policy = judge(func(s *Step) (Action, error) {
		if s.Yielded {
			yielded++
		}
		if s.Index == 2 && !once {
			once = true
			return Action{Kind: Rewind, Ban: everyToken(), Yield: true}, nil
		}
		return Action{}, nil
	})
	r, _, err := generate(t, cfg)
	if err != nil || r.Text != "I am" || yielded != 1 {
		t.Errorf("%v, %+v, yielded %d times", err, r, yielded)
	}
}

// TestForceReplays: sessions that force at random keep their books, leave only
// final text, give equal traces alone and in a batch, and replay.
func TestForceReplays(t *testing.T) {
	forcedTokens := 0
	for seed := range uint64(60) {
		pushy := func() Policy {
			r := rand.New(rand.NewPCG(seed, 9))
			return judge(func(s *Step) (Action, error) {
				if s.Forced {
					forcedTokens++
				}
				a := Action{Kind: Kind(max(0, r.IntN(9)-7)), Release: r.IntN(9) == 0, Yield: r.IntN(2) == 0}
				if a.Kind == Rewind {
					a.Rewind, a.Ban = r.IntN(6), []decode.Token{s.Token}
				}
				if r.IntN(4) == 0 {
					a.Force = enginetest.Tokens("#$%&ST")[r.IntN(3):]
					a.Final = s.Index > 25 && r.IntN(3) == 0
				}
				return a, nil
			})
		}
		config := func() Config {
			return Config{Engine: fake(t, enginetest.FakeConfig{Seed: seed % 5}), Prompt: prompt, MaxTokens: 40, HoldBack: int(seed % 7), Seed: seed,
				Stop: []string{"STOP"}, Sampler: decode.Categorical{}, Processor: &shy{}, Monitors: []monitors.Monitor{letter('e')}, OnFault: FailOpen,
				Policy: pushy(), MaxRewinds: 30}
		}
		cfg := config()
		alone := traced(t, cfg, TraceOptions{})
		if err := Replay(t.Context(), strings.NewReader(alone), []monitors.Monitor{letter('e')}, pushy()); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		var b bytes.Buffer
		cfg = config()
		cfg.Listener = NewTracer(&b, TraceOptions{})
		runEither(t, cfg, true)
		if b.String() != alone {
			t.Fatalf("seed %d: %s", seed, cmp.Diff(alone, b.String()))
		}
	}
	if forcedTokens < 500 {
		t.Errorf("%d forced tokens only", forcedTokens)
	}
}

// TestForceLiftsBans: a refusal does not fail for what was banned at its place
// while there was hope.
func TestForceLiftsBans(t *testing.T) {
	tries := 0
	cfg := Config{Engine: steady(t, "I am"), Prompt: prompt}
	cfg.Policy = judge(func(s *Step) (Action, error) {
		if s.Index != 2 || s.Forced {
			return Action{}, nil
		}
		if tries++; tries == 1 {
			return Action{Kind: Rewind, Ban: enginetest.Tokens("aN")}, nil
		}
		return Action{Kind: Rewind, Force: enginetest.Tokens("No."), Final: true}, nil
	})
	r, _, err := generate(t, cfg)
	if err != nil || r.Text != "I No." || tries != 2 {
		t.Errorf("%v, %+v after %d tries", err, r, tries)
	}
}
