package audit

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/monitors"
	"github.com/trimtab/trimtab/runtime"
	"github.com/trimtab/trimtab/runtime/engine/enginetest"
	"github.com/trimtab/trimtab/runtime/policy"
)

var update = flag.Bool("update", false, "write the golden logs again")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var text = enginetest.Tokens

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// saying is an engine that says the letter of says at each place.
func saying(t testing.TB, says string) *enginetest.Fake {
	t.Helper()
	eng, err := enginetest.NewFake(enginetest.FakeConfig{Script: func(x enginetest.Text) decode.Token {
		if n := len(x.Tokens) - x.PromptLen; n < len(says) {
			return decode.Token(says[n])
		}
		return enginetest.EOS
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { eng.Close() })
	return eng
}

// watcher is a monitor from a function of the candidate.
type watcher func(o *monitors.Observation) (monitors.Verdict, error)

func (w watcher) Observe(_ context.Context, o *monitors.Observation) (monitors.Verdict, error) {
	return w(o)
}
func (watcher) Rewind(int) error { return nil }

func (w watcher) monitor(name string) monitors.Monitor {
	return monitors.Monitor{Name: name, Doc: "of a test", Start: func() monitors.Watcher { return w }}
}

func letter(c byte) monitors.Monitor {
	return watcher(func(o *monitors.Observation) (monitors.Verdict, error) {
		if o.Token == decode.Token(c) {
			return monitors.Verdict{Score: 1, Flag: true, Note: "rude"}, nil
		}
		return monitors.Verdict{}, nil
	}).monitor("letter")
}

// logged runs a session and returns its log as text and read.
func logged(t testing.TB, cfg runtime.Config) (string, *Log) {
	t.Helper()
	var b bytes.Buffer
	if cfg.Listener = New(&b, ""); cfg.Prompt == nil {
		cfg.Prompt = text("?")
	}
	s, err := runtime.NewSession(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Run(t.Context())
	s.Close()
	if err != nil && !errors.Is(err, runtime.ErrFault) {
		t.Fatal(err)
	}
	r := NewReader(strings.NewReader(b.String()))
	g, err := r.Next()
	if err != nil {
		t.Fatalf("%v\n%s", err, b.String())
	}
	if _, err := r.Next(); err != io.EOF {
		t.Errorf("behind the log: %v", err)
	}
	return b.String(), g
}

// script is a policy that acts at given steps of the session.
type script map[int]runtime.Action

func (p script) Decide(_ context.Context, s *runtime.Step) (runtime.Action, error) {
	a := p[s.RewindsLeft*100+s.Index]
	return a, nil
}

func TestGolden(t *testing.T) {
	cfg := runtime.Config{Engine: saying(t, "I am bad. \xc3\xa9"), HoldBack: 6, Seed: 7, MaxRewinds: 9, MaxGuide: 8, OnFault: runtime.FailOpen,
		Monitors: []monitors.Monitor{letter('b'), watcher(func(o *monitors.Observation) (monitors.Verdict, error) {
			if o.Step == 3 {
				return monitors.Verdict{}, errors.New("a bad day")
			}
			return monitors.Verdict{Score: 0.5}, nil
		}).monitor("other")},
	}
	cfg.Policy = script{
		900 + 1: {Reason: "a remark"},
		900 + 5: {Kind: runtime.Rewind, Rewind: 9, Guide: text("[hm]"), GuideSpan: 2, Ban: text("I"), Reason: "rude"},
		800 + 4: {Kind: runtime.Rewind, Rewind: 2, Reason: "again"},
		700 + 8: {Kind: runtime.Rewind, Rewind: 8, Force: text("No."), Final: true, Reason: "enough"},
	}
	got, _ := logged(t, cfg)
	const file = "testdata/golden.jsonl"
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

// TestOutcomes: every way for an intervention to come out.
func TestOutcomes(t *testing.T) {
	back := func(o policy.BacktrackOptions) runtime.Policy { return must(policy.NewBacktrack(o)) }
	for _, tt := range []struct {
		name   string
		p      runtime.Policy
		most   int // rewinds
		want   []Result
		finish string
	}{
		{"safe", back(policy.BacktrackOptions{Ban: true}), 0, []Result{Safe}, "stop"},
		{"violated again", back(policy.BacktrackOptions{Point: policy.Fixed(2), Most: 1}), 0, []Result{Violated, Stopped}, "content_filter"},
		{"refused", back(policy.BacktrackOptions{Point: policy.Fixed(2), Most: 1, Refusal: text("No.")}), 0, []Result{Violated, Refused}, "content_filter"},
		{"exhausted", &policy.Threshold{Do: runtime.Rewind, Back: 2}, 2, []Result{Violated, Violated, Exhausted}, "content_filter"},
		{"stopped", policy.StopOn(), 0, []Result{Stopped}, "content_filter"},
		{"accepted", &policy.Budget{Policy: &policy.Threshold{Do: runtime.Rewind, Back: 2}, Rewinds: 1, Discard: 9, Then: policy.Flag{}}, 0, []Result{Accepted}, "stop"},
	} {
		_, g := logged(t, runtime.Config{Engine: saying(t, "I am bad."), HoldBack: 4, MaxRewinds: tt.most, Policy: tt.p, Monitors: []monitors.Monitor{letter('b')}})
		var got []Result
		for _, e := range g.Entries {
			if e.Intervention != nil {
				got = append(got, e.Outcome)
			}
		}
		if !cmp.Equal(got, tt.want) || g.Footer.Finish != tt.finish {
			t.Errorf("%s: %v, %s", tt.name, got, g.Footer.Finish)
		}
	}
}

// TestFaults: whatever fails is in the log, in both modes, and nothing crashes
// or hangs.
func TestFaults(t *testing.T) {
	bad := func(v monitors.Verdict, err error) []monitors.Monitor {
		return []monitors.Monitor{watcher(func(o *monitors.Observation) (monitors.Verdict, error) {
			if o.Step == 2 {
				return v, err
			}
			return monitors.Verdict{}, nil
		}).monitor("bad")}
	}
	until := make(chan struct{})
	defer close(until)
	stalls := watcher(func(o *monitors.Observation) (monitors.Verdict, error) {
		if o.Step == 2 {
			<-until
		}
		return monitors.Verdict{}, nil
	}).monitor("bad")
	panics := watcher(func(o *monitors.Observation) (monitors.Verdict, error) { panic("ouch") }).monitor("bad")
	acts := func(a runtime.Action) runtime.Policy { return script{1602: a} }
	for _, tt := range []struct {
		name string
		cfg  runtime.Config
		want Fault
	}{
		{"a score that is no number", runtime.Config{Monitors: bad(monitors.Verdict{Score: math.NaN()}, nil)}, Fault{Step: 2, Part: "monitor", Name: "bad", Error: "score is NaN"}},
		{"a watcher that errors", runtime.Config{Monitors: bad(monitors.Verdict{}, errors.New("boom"))}, Fault{Step: 2, Part: "monitor", Name: "bad", Error: "boom"}},
		{"a watcher that panics", runtime.Config{Monitors: []monitors.Monitor{panics}}, Fault{Part: "monitor", Name: "bad", Error: "panic: ouch"}},
		{"a watcher that stalls", runtime.Config{Monitors: []monitors.Monitor{stalls}, ObserveTimeout: 20 * time.Millisecond},
			Fault{Step: 2, Part: "monitor", Name: "bad", Error: "stalled: no answer within 20ms"}},
		{"guidance longer than it may be", runtime.Config{Policy: acts(runtime.Action{Kind: runtime.Rewind, Guide: make([]decode.Token, 65)})},
			Fault{Step: 2, Part: "policy", Error: "65 hidden tokens at once, the limit is 64 (Config.MaxGuide)"}},
		{"guidance longer than the context", runtime.Config{Policy: acts(runtime.Action{Guide: make([]decode.Token, 5000)})},
			Fault{Step: 2, Part: "policy", Error: "5000 hidden tokens at once, the limit is 64 (Config.MaxGuide)"}},
		{"an impossible rollback", runtime.Config{Monitors: []monitors.Monitor{letter('r')},
			Policy: must(policy.NewBacktrack(policy.BacktrackOptions{Point: policy.Fixed(2), Strict: true}))},
			Fault{Step: 2, Part: "policy", Error: "backtrack policy: rollback point out of reach: letter asks for 2 tokens, 0 can be taken back"}},
		{"a forced token that is banned", runtime.Config{Policy: acts(runtime.Action{Kind: runtime.Rewind, Ban: text("x"), Force: text("x")})},
			Fault{Step: 2, Part: "policy", Error: "action rewind: token 120 is both banned and forced"}},
	} {
		for _, mode := range []runtime.FaultMode{runtime.FailClosed, runtime.FailOpen} {
			cfg, want := tt.cfg, tt.want
			if p, ok := cfg.Policy.(*policy.Backtrack); ok {
				again := *p
				cfg.Policy = &again
			}
			cfg.Engine, cfg.OnFault = saying(t, "hors"), mode
			_, g := logged(t, cfg)
			want.Kind, want.Mode = "fault", Open
			finish := "stop"
			if mode == runtime.FailClosed {
				want.Mode, finish = Closed, "error"
			}
			var got []Fault
			for _, e := range g.Entries {
				if e.Fault != nil {
					got = append(got, *e.Fault)
				}
			}
			if d := cmp.Diff([]Fault{want}, got); d != "" || g.Footer.Finish != finish || g.Header.OnFault != want.Mode {
				t.Errorf("%s, %s: finish %s, %s", tt.name, want.Mode, g.Footer.Finish, d)
			}
		}
	}
}

// TestReachIsLogged: without a strict policy an impossible rollback goes as far
// as it can, and the log holds both numbers.
func TestReachIsLogged(t *testing.T) {
	_, g := logged(t, runtime.Config{Engine: saying(t, "hors"), Monitors: []monitors.Monitor{letter('r')},
		Policy: must(policy.NewBacktrack(policy.BacktrackOptions{Point: policy.Fixed(2), Ban: true}))})
	i := g.Entries[0].Intervention
	if i == nil || i.Wanted != 2 || i.Rewound != 0 || i.Point != 2 || string(i.Discarded.Text) != "r" || g.Entries[0].Outcome != Safe {
		t.Errorf("%+v", g.Entries[0])
	}
}

// TestStopIsLogged: what was held back at a stop is in the log.
func TestStopIsLogged(t *testing.T) {
	for _, release := range []bool{false, true} {
		_, g := logged(t, runtime.Config{Engine: saying(t, "I am bad."), HoldBack: 3, Monitors: []monitors.Monitor{letter('b')},
			Policy: &policy.Threshold{Do: runtime.Stop, Release: release}})
		want := map[bool]string{false: "am b", true: "b"}[release]
		if i := g.Entries[0].Intervention; i == nil || string(i.Discarded.Text) != want {
			t.Errorf("release %v: %+v", release, g.Entries[0])
		}
	}
}

// TestHeader: what changes the course changes the hash, the seed does not.
func TestHeader(t *testing.T) {
	header := func(change func(*runtime.Config)) Header {
		cfg := runtime.Config{Engine: saying(t, "x"), Seed: 1, Monitors: []monitors.Monitor{letter('b')}}
		change(&cfg)
		_, g := logged(t, cfg)
		return g.Header
	}
	base := header(func(*runtime.Config) {})
	if other := header(func(c *runtime.Config) { c.Seed = 2 }); other.Config != base.Config || other.Seed != 2 {
		t.Errorf("another seed: %+v", other)
	}
	for name, change := range map[string]func(*runtime.Config){
		"hold-back": func(c *runtime.Config) { c.HoldBack = 3 },
		"stop":      func(c *runtime.Config) { c.Stop = []string{"x"} },
		"policy":    func(c *runtime.Config) { c.Policy = policy.Flag{} },
		"monitor":   func(c *runtime.Config) { c.Monitors[0].Doc = "another" },
		"sampler":   func(c *runtime.Config) { c.Sampler = decode.Categorical{} },
		"plan from": func(c *runtime.Config) { c.Prompt, c.PlanFrom = text("??"), 1 },
		"shadow":    func(c *runtime.Config) { c.Shadow = &runtime.Shadow{} },
		"limit":     func(c *runtime.Config) { c.Shadow = &runtime.Shadow{Mean: new(math.Inf(1))} },
	} {
		if other := header(change); other.Config == base.Config {
			t.Errorf("%s: the same hash", name)
		}
	}
}

// TestWriteFails: what cannot be logged is not done.
func TestWriteFails(t *testing.T) {
	for n := range 3 {
		w := &full{left: n}
		s, err := runtime.NewSession(t.Context(), runtime.Config{Engine: saying(t, "bad"), Prompt: text("?"), Monitors: []monitors.Monitor{letter('b')},
			Policy: policy.StopOn(), Listener: New(w, "")})
		if err == nil {
			_, err = s.Run(t.Context())
			s.Close()
		}
		if err == nil || !strings.Contains(err.Error(), "audit: disk full") {
			t.Errorf("after %d records: %v", n, err)
		}
	}
}

type full struct{ left int }

func (w *full) Write(p []byte) (int, error) {
	if w.left--; w.left < 0 {
		return 0, errors.New("disk full")
	}
	return len(p), nil
}

func TestReader(t *testing.T) {
	good, _ := logged(t, runtime.Config{Engine: saying(t, "I am bad."), Monitors: []monitors.Monitor{letter('b')}, Policy: &policy.Threshold{Do: runtime.Rewind, Ban: true}})
	lines := strings.SplitAfter(strings.TrimSuffix(good, "\n"), "\n")
	if len(lines) != 4 {
		t.Fatalf("%d lines\n%s", len(lines), good)
	}
	for _, tt := range []struct{ name, in, want string }{
		{"no header", lines[1], `line 1: record "intervention" where a log must start`},
		{"version", strings.Replace(good, `"version":1`, `"version":2`, 1), "version 2, this program reads version 1"},
		{"fault mode", strings.Replace(good, `"on_fault":"closed"`, `"on_fault":"maybe"`, 1), `unknown fault mode "maybe"`},
		{"unknown field", strings.Replace(good, `"action"`, `"actoin"`, 1), "line 2: not a valid record"},
		{"unknown record", lines[0] + `{"kind":"what"}`, `line 2: unknown record "what"`},
		{"unknown outcome", strings.Replace(good, `"outcome":"safe"`, `"outcome":"fine"`, 1), `line 3: unknown outcome "fine"`},
		{"numbers", strings.Replace(good, `"n":1`, `"n":2`, 1), "intervention 2 where 1 must come"},
		{"outcome of none", lines[0] + lines[2], "an outcome of intervention 1, which there is not"},
		{"two outcomes", lines[0] + lines[1] + lines[2] + lines[2], "which there is not or which has one"},
		{"no outcome", lines[0] + lines[1] + lines[3], "1 interventions have no outcome"},
		{"counts", strings.Replace(good, `"faults":0`, `"faults":1`, 1), "the footer counts 1 and 1"},
		{"no JSON", lines[0] + "what", "line 2: unknown record"},
	} {
		if _, err := NewReader(strings.NewReader(tt.in)).Next(); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	g, err := NewReader(strings.NewReader(lines[0] + lines[1])).Next()
	if !errors.Is(err, ErrBreaksOff) || len(g.Entries) != 1 || g.Entries[0].Outcome != "" {
		t.Errorf("broken off: %v, %+v", err, g)
	}
	r := NewReader(strings.NewReader(lines[0] + good))
	if _, err := r.Next(); !errors.Is(err, ErrBreaksOff) {
		t.Errorf("a log in front that breaks off: %v", err)
	}
	if g, err := r.Next(); err != nil || len(g.Entries) != 1 {
		t.Errorf("behind one that breaks off: %v", err)
	}
	r = NewReader(strings.NewReader(good + "\n" + good))
	for n := range 3 {
		if _, err := r.Next(); (err == nil) != (n < 2) || n == 2 && err != io.EOF {
			t.Errorf("log %d of a file with two: %v", n, err)
		}
	}
}

// FuzzReader: nothing from outside makes it panic, and what it takes it takes
// again when written anew.
func FuzzReader(f *testing.F) {
	seed, err := os.ReadFile("testdata/golden.jsonl")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(seed))
	f.Add(`{"kind":"audit","version":1,"on_fault":"open"}`)
	f.Fuzz(func(t *testing.T, in string) {
		g, err := NewReader(strings.NewReader(in)).Next()
		if err != nil {
			return
		}
		again, err := NewReader(strings.NewReader(anew(t, g))).Next()
		if err != nil || fmt.Sprintf("%+v", again.Footer) != fmt.Sprintf("%+v", g.Footer) || len(again.Entries) != len(g.Entries) {
			t.Fatalf("%v in %q", err, anew(t, g))
		}
	})
}

// anew writes a log that was read.
func anew(t *testing.T, g *Log) string {
	var b bytes.Buffer
	records := []any{g.Header}
	for _, e := range g.Entries {
		switch {
		case e.Intervention != nil:
			records = append(records, e.Intervention, Outcome{"outcome", e.Intervention.N, 0, e.Outcome})
		case e.Mark != nil:
			records = append(records, e.Mark)
		default:
			records = append(records, e.Fault)
		}
	}
	for _, r := range append(records, g.Footer) {
		if err := write(&b, r); err != nil {
			t.Fatal(err)
		}
	}
	return b.String()
}
