package runtime

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/monitors"
	"github.com/trimtab/trimtab/monitors/entropy"
	"github.com/trimtab/trimtab/runtime/engine/enginetest"
	"github.com/trimtab/trimtab/steer"
)

var update = flag.Bool("update", false, "write the golden traces again")

// traced runs a config and returns its trace.
func traced(t testing.TB, cfg Config, o TraceOptions) string {
	t.Helper()
	var b bytes.Buffer
	cfg.Listener = NewTracer(&b, o)
	if _, _, err := generate(t, cfg); err != nil && !errors.Is(err, ErrFault) {
		t.Fatal(err)
	}
	return b.String()
}

func TestGoldenTrace(t *testing.T) {
	plan := must(steer.NewPlan(intervention(1e-6, steer.When{})))
	cfg := Config{Engine: saying(t, "I am rude. ✓", "I am ", "\xe2\x9c", "\x93"), Prompt: prompt, HoldBack: 4, Seed: 7, MaxGuide: 8,
		Monitors: []monitors.Monitor{letter('u')}, OnFault: FailOpen}
	first := true
	cfg.Policy = judge(func(s *Step) (Action, error) {
		if len(s.Verdicts) > 0 && s.Verdicts[0].Flag && first {
			first = false
			return Action{Kind: Rewind, Rewind: 9, Ban: s.Tokens[len(s.Tokens)-1:], Plan: plan, Reason: "rude"}, nil
		}
		return Action{Release: s.Index == 3}, nil
	})
	got := traced(t, cfg, TraceOptions{})
	const file = "testdata/rewind.trace"
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil || got != string(want) {
		t.Errorf("%v, run with -update and look at the difference\n%s", err, cmp.Diff(string(want), got))
	}
}

// letter flags a byte and fails on 'z'.
func letter(b byte) monitors.Monitor {
	return monitors.Monitor{Name: "letter", Start: func() monitors.Watcher {
		w := &seen{}
		w.flag = func(o *monitors.Observation) (monitors.Verdict, error) {
			if o.Token == 'z' {
				return monitors.Verdict{}, errors.New("a z")
			}
			return monitors.Verdict{Score: float64(len(w.tokens)), Flag: bytes.IndexByte(o.Piece, b) >= 0}, nil
		}
		return w
	}}
}

// busy is a session with everything in it.
func busy(t testing.TB, seed uint64) Config {
	r := rand.New(rand.NewPCG(seed, 6))
	site := steer.Site{Layer: 2}
	watch := monitors.Monitor{Name: "activation", Sites: []steer.Site{site}, Start: func() monitors.Watcher {
		return &seen{flag: func(o *monitors.Observation) (monitors.Verdict, error) {
			a, err := o.Activation(site)
			if err != nil {
				return monitors.Verdict{}, err
			}
			return monitors.Verdict{Score: float64(a[3]), Flag: a[3] > 0.5, Note: "third"}, nil
		}}
	}}
	return Config{
		Engine: fake(t, enginetest.FakeConfig{Seed: seed}), Prompt: prompt, MaxTokens: 40, HoldBack: r.IntN(6), Seed: seed,
		Sampler: decode.Categorical{}, Processor: &shy{}, OnFault: FaultMode(r.IntN(2)), Plan: must(steer.NewPlan(intervention(0.1, steer.When{}))),
		Monitors: []monitors.Monitor{letter('e'), must(entropy.New(entropy.Options{Threshold: 2, Run: 2})), watch},
		Policy:   nervous(seed), MaxRewinds: 10, Shadow: shadows(r),
	}
}

// shadows are of every kind: none, one that measures, and one with limits.
func shadows(r *rand.Rand) *Shadow {
	switch r.IntN(3) {
	case 0:
		return nil
	case 1:
		return &Shadow{Mean: nats(r.Float64() * 0.1), Token: nats(math.Inf(1)), Tries: r.IntN(5)}
	}
	return &Shadow{}
}

func nervous(seed uint64) Policy {
	plans := []*steer.Plan{must(steer.NewPlan()), must(steer.NewPlan(intervention(0.2, steer.When{})))}
	return judge(func(s *Step) (Action, error) {
		for i, v := range s.Verdicts {
			if v.Flag && s.RewindsLeft > 0 && s.Index%3 == i {
				return Action{Kind: Rewind, Rewind: i + 1, Ban: []decode.Token{s.Token}, Plan: plans[s.Index%2], Guide: []decode.Token{'.'}}, nil
			}
		}
		if s.Plan != 0 && s.Index == 38 && seed%4 == 0 {
			return Action{}, errors.New("tired")
		}
		return Action{}, nil
	})
}

// TestEqualRuns: equal engine, seed, config and prompt give equal bytes, and
// alone or in a batch makes no difference.
func TestEqualRuns(t *testing.T) {
	for seed := range uint64(30) {
		o := TraceOptions{Rows: seed%2 == 0}
		a, b := traced(t, busy(t, seed), o), traced(t, busy(t, seed), o)
		if a != b {
			t.Fatalf("seed %d: %s", seed, cmp.Diff(a, b))
		}
		var buf bytes.Buffer
		cfg := busy(t, seed)
		cfg.Listener = NewTracer(&buf, o)
		s := schedule(t, cfg.Engine, Options{BatchRows: 20, Slots: 4})
		others := must(s.Submit(t.Context(), Config{Prompt: prompt[3:], MaxTokens: 50}))
		st := must(s.Submit(t.Context(), cfg))
		if _, err := st.Wait(t.Context()); err != nil && !errors.Is(err, ErrFault) {
			t.Fatal(err)
		}
		if _, err := others.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.Close()
		if buf.String() != a {
			t.Fatalf("seed %d, batched: %s", seed, cmp.Diff(a, buf.String()))
		}
	}
}

func TestReplay(t *testing.T) {
	rewinds := 0
	for seed := range uint64(30) {
		cfg := busy(t, seed)
		tr := traced(t, cfg, TraceOptions{Rows: true})
		rewinds += strings.Count(tr, `"kind":"rewind"`)
		if err := Replay(t.Context(), strings.NewReader(tr), cfg.Monitors, nervous(seed)); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
		lines := strings.SplitAfter(tr, "\n")
		if err := Replay(t.Context(), strings.NewReader(strings.Join(lines[:len(lines)/2], "")), cfg.Monitors, nervous(seed)); err != nil {
			t.Errorf("seed %d, half: %v", seed, err)
		}
		if err := Replay(t.Context(), strings.NewReader(traced(t, busy(t, seed), TraceOptions{})), cfg.Monitors[:1], nervous(seed)); err != nil {
			t.Errorf("seed %d, without rows: %v", seed, err)
		}
	}
	if rewinds < 30 {
		t.Errorf("%d rewinds only, the test shows little", rewinds)
	}
}

// TestReplayFindsDifferences: a replay can fail.
func TestReplayFindsDifferences(t *testing.T) {
	cfg := busy(t, 1)
	rows := traced(t, cfg, TraceOptions{Rows: true})
	bare := traced(t, busy(t, 1), TraceOptions{})
	other := must(entropy.New(entropy.Options{Threshold: 1}))
	for _, tt := range []struct {
		name, trace string
		monitors    []monitors.Monitor
		policy      Policy
		want        string
	}{
		{"another policy", bare, nil, judge(func(*Step) (Action, error) { return Action{}, nil }), "policy: recorded {Kind:rewind"},
		{"a policy that fails", bare, nil, judge(func(s *Step) (Action, error) { panic("ouch") }), "replayed fault: panic: ouch"},
		{"another threshold", rows, []monitors.Monitor{other}, nil, "monitor surprise: recorded"},
		{"no rows", bare, cfg.Monitors, nil, "monitor surprise: recorded"},
		{"unknown monitor", bare, []monitors.Monitor{{Name: "what"}}, nil, `no monitor "what"`},
		{"no trace", "what", nil, nil, "where the trace must start"},
	} {
		err := Replay(t.Context(), strings.NewReader(tt.trace), tt.monitors, tt.policy)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", tt.name, err)
		}
		var d *Difference
		if strings.Contains(tt.want, "recorded") && !errors.As(err, &d) {
			t.Errorf("%s: %T is no Difference", tt.name, err)
		}
	}
	done, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Replay(done, strings.NewReader(bare), nil, nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, _, err := generate(t, Config{Engine: saying(t, "hello"), Prompt: prompt, Listener: NewTracer(full{}, TraceOptions{})}); err == nil {
		t.Error("a tracer that cannot write is silent")
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("disk full") }

// FuzzReplay: no trace from outside makes it panic.
func FuzzReplay(f *testing.F) {
	f.Add(traced(f, busy(f, 1), TraceOptions{Rows: true}))
	f.Add(traced(f, busy(f, 2), TraceOptions{}))
	f.Fuzz(func(t *testing.T, in string) {
		_ = Replay(t.Context(), strings.NewReader(in), []monitors.Monitor{letter('e')}, nervous(1))
	})
}

// TestReplayRewindFault: a watcher that failed to rewind fails again, which is
// no difference.
func TestReplayRewindFault(t *testing.T) {
	list := []monitors.Monitor{{Name: "stuck", Start: func() monitors.Watcher { return stuck{} }}, letter('e')}
	policy := func() Policy {
		return judge(func(s *Step) (Action, error) {
			if s.Index == 4 && s.RewindsLeft > 14 {
				return Action{Kind: Rewind, Rewind: 1}, nil
			}
			return Action{}, nil
		})
	}
	tr := traced(t, Config{Engine: saying(t, "one, two"), Prompt: prompt, HoldBack: 4, Monitors: list, Policy: policy(), OnFault: FailOpen}, TraceOptions{})
	if !strings.Contains(tr, `"part":"monitor","name":"stuck"`) {
		t.Fatalf("no fault in %s", tr)
	}
	if err := Replay(t.Context(), strings.NewReader(tr), list, policy()); err != nil {
		t.Error(err)
	}
	if err := Rerun(t.Context(), strings.NewReader(tr), Parts{Monitors: list, Policy: policy()}); err != nil {
		t.Error(err)
	}
}
