package runtime

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/monitors"
	"github.com/trimtab/trimtab/runtime/engine/enginetest"
	"github.com/trimtab/trimtab/steer"
)

// wild is a policy that does everything at random, also what is wrong.
func wild(seed uint64) Policy {
	r := rand.New(rand.NewPCG(seed, 12))
	return judge(func(s *Step) (Action, error) {
		a := Action{Kind: Kind(max(0, r.IntN(12)-9)), Release: r.IntN(9) == 0, Yield: r.IntN(2) == 0}
		if a.Kind == Rewind {
			a.Rewind, a.Ban = r.IntN(6), []decode.Token{s.Token}
		}
		if a.Kind == Stop && s.Index < 30 {
			a.Kind = Commit
		}
		if a.Kind != Stop && r.IntN(5) == 0 {
			a.Force, a.Final = enginetest.Tokens("#$%&ST")[r.IntN(3):], s.Index > 25 && r.IntN(3) == 0
		}
		if r.IntN(7) == 0 {
			a.Guide, a.GuideSpan = enginetest.Tokens("(hm)")[:1+r.IntN(4)], r.IntN(6)
		}
		if r.IntN(90) == 0 {
			return a, errors.New("tired\nof it")
		}
		return a, nil
	})
}

func wildConfig(t testing.TB, seed uint64) Config {
	cfg := busy(t, seed)
	cfg.Policy, cfg.Stop, cfg.MaxRewinds, cfg.Logprobs = wild(seed), []string{"ST#"}, 20, seed%2 == 0
	return cfg
}

// TestRerun: every session runs again bit for bit, with the parts played, with
// the real ones, and as far as it goes when its trace breaks off.
func TestRerun(t *testing.T) {
	for seed := range uint64(20) {
		for name, make := range map[string]func() (Config, Policy){
			"busy": func() (Config, Policy) { return busy(t, seed), nervous(seed) },
			"wild": func() (Config, Policy) { return wildConfig(t, seed), wild(seed) },
		} {
			cfg, again := make()
			rows := traced(t, cfg, TraceOptions{Rows: true})
			lines := strings.SplitAfter(rows, "\n")
			plain, _ := make()
			for what, run := range map[string]func() error{
				"played": func() error { return Rerun(t.Context(), strings.NewReader(rows), Parts{}) },
				"without rows": func() error {
					return Rerun(t.Context(), strings.NewReader(traced(t, plain, TraceOptions{})), Parts{})
				},
				"with the real parts": func() error {
					return Rerun(t.Context(), strings.NewReader(rows), Parts{Processor: &shy{}, Sampler: decode.Categorical{}, Monitors: cfg.Monitors, Policy: again, Plan: cfg.Plan})
				},
				"half": func() error {
					return Rerun(t.Context(), strings.NewReader(strings.Join(lines[:len(lines)/2], "")), Parts{})
				},
			} {
				if err := run(); err != nil {
					t.Fatalf("seed %d, %s, %s: %.600v", seed, name, what, err)
				}
			}
		}
	}
}

// TestRerunDraws: with the sampling parameters in the trace the tokens are drawn
// again, and another logit, parameter or token is found.
func TestRerunDraws(t *testing.T) {
	params := decode.DefaultParams()
	params.Seed, params.Repeat, params.MinTokens, params.XTCProbability = 7, 1.3, 9, 0.5
	cfg := busy(t, 2)
	chain := must(params.Chain(decode.Vocab{Size: cfg.Engine.Info().Vocab, End: []decode.Token{enginetest.EOS, enginetest.EOT}}, cfg.Prompt))
	cfg.Processor, cfg.Sampler, cfg.Seed, cfg.Policy = chain, params.Sampler(), 7, wild(4)
	good := traced(t, cfg, TraceOptions{Rows: true, Params: &params})
	if err := Rerun(t.Context(), strings.NewReader(good), Parts{}); err != nil {
		t.Fatalf("%.600v", err)
	}
	for name, change := range map[string]string{
		`"seed":7,"sampler"`:   `"seed":8,"sampler"`,
		`"temperature":0.8`:    `"temperature":0.7`,
		`"repeat_penalty":1.3`: `"repeat_penalty":1.4`,
		`"top_k":40`:           `"topp_k":40`,
		`"top_p":0.95`:         `"top_p":7`,
	} {
		bad := strings.Replace(good, name, change, 1)
		if err := Rerun(t.Context(), strings.NewReader(bad), Parts{}); err == nil || bad == good {
			t.Errorf("%s is not found", change)
		}
	}
	params.Bias = map[decode.Token]float32{1: float32(math.Inf(-1))}
	cfg.Listener = NewTracer(io.Discard, TraceOptions{Rows: true, Params: &params})
	if _, err := NewSession(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "sampling parameters") {
		t.Errorf("parameters that cannot be written: %v", err)
	}
}

// TestRerunCancelled: a session that was ended from outside runs again.
func TestRerunCancelled(t *testing.T) {
	var b bytes.Buffer
	cfg := busy(t, 3)
	ctx, cancel := context.WithCancel(t.Context())
	cfg.Policy = judge(func(s *Step) (Action, error) {
		if s.Index == 7 {
			cancel()
		}
		return Action{}, nil
	})
	cfg.Listener = NewTracer(&b, TraceOptions{})
	s := must(NewSession(ctx, cfg))
	if _, err := s.Run(ctx); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	s.Close()
	if err := Rerun(t.Context(), strings.NewReader(b.String()), Parts{}); err != nil {
		t.Error(err)
	}
}

// TestRerunFindsDifferences: whatever is changed in a trace is found.
func TestRerunFindsDifferences(t *testing.T) {
	cfg := Config{Engine: steady(t, "I am bad."), Prompt: prompt, HoldBack: 3, Monitors: []monitors.Monitor{letter('b')}, Seed: 1,
		Policy: onceAt(5, Action{Kind: Rewind, Rewind: 2, Reason: "rude", Guide: enginetest.Tokens("hm"), GuideSpan: 1})}
	good := traced(t, cfg, TraceOptions{})
	if err := Rerun(t.Context(), strings.NewReader(good), Parts{}); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, old, new, want string }{
		{"text that left", `"text":"I"`, `"text":"i"`, `step record 3 (index 3): text: recorded "i", replayed "I"`},
		{"tokens taken back", `"rewound":2`, `"rewound":1`, "rewound: recorded 1, replayed 2"},
		{"rewindable", `"rewindable":3`, `"rewindable":2`, "rewindable: recorded 2, replayed 3"},
		{"the hold-back", `"hold_back":3`, `"hold_back":2`, "replay: step"},
		{"the end", `"finish":"stop"`, `"finish":"length"`, `finish: recorded "length", replayed "stop"`},
		{"the discarded", `"discarded":3`, `"discarded":2`, "discarded: recorded 2, replayed 3"},
		{"a step", `"kind":"step","index":8`, `"kind":"step","index":7`, "index: recorded 7, replayed 8"},
	} {
		bad := strings.Replace(good, tt.old, tt.new, 1)
		if bad == good {
			t.Fatalf("%s: the trace has no %s\n%s", tt.name, tt.old, good)
		}
		err := Rerun(t.Context(), strings.NewReader(bad), Parts{})
		var d *Difference
		if !errors.As(err, &d) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	lines := strings.SplitAfter(good, "\n")
	for name, parts := range map[string]Parts{
		"step record 5":           {Policy: judge(func(*Step) (Action, error) { return Action{}, nil })},
		"needed together":         {Sampler: decode.Greedy{}},
		`has no monitor "other"`:  {Monitors: []monitors.Monitor{{Name: "other"}}},
		`session began with plan`: {Plan: must(steer.NewPlan(intervention(0.5, steer.When{})))},
		"step record 0":           {Monitors: []monitors.Monitor{letter('I')}},
	} {
		if err := Rerun(t.Context(), strings.NewReader(good), parts); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	short := strings.Join(append(lines[:5:5], lines[len(lines)-2]), "")
	if err := Rerun(t.Context(), strings.NewReader(short), Parts{}); err == nil || !strings.Contains(err.Error(), "goes no further") {
		t.Errorf("steps are missing: %v", err)
	}
}

// FuzzRerun: no trace from outside makes it panic or loop.
func FuzzRerun(f *testing.F) {
	f.Add(traced(f, busy(f, 1), TraceOptions{Rows: true}))
	f.Add(traced(f, wildConfig(f, 2), TraceOptions{}))
	f.Fuzz(func(t *testing.T, in string) {
		_ = Rerun(t.Context(), strings.NewReader(in), Parts{})
	})
}
