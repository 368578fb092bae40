package policy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/monitors"
	"github.com/trimtab/trimtab/runtime"
	"github.com/trimtab/trimtab/runtime/engine/enginetest"
	"github.com/trimtab/trimtab/steer"
)

var text = enginetest.Tokens

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// steady says the letter of says at each place, whatever came before.
func steady(t testing.TB, says string) *enginetest.Fake {
	t.Helper()
	return fake(t, enginetest.FakeConfig{Script: func(x enginetest.Text) decode.Token {
		if n := len(x.Tokens) - x.PromptLen; n < len(says) {
			return decode.Token(says[n])
		}
		return enginetest.EOS
	}})
}

func fake(t testing.TB, cfg enginetest.FakeConfig) *enginetest.Fake {
	t.Helper()
	eng, err := enginetest.NewFake(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if n := eng.OpenSequences(); n != 0 && !t.Failed() {
			t.Errorf("%d sequences are still open", n)
		}
		eng.Close()
	})
	return eng
}

// letters flags a candidate by its letter, and scores it by its place in the set.
func letters(name, set string) monitors.Monitor {
	return monitors.Monitor{Name: name, Start: func() monitors.Watcher { return byLetter(set) }}
}

type byLetter string

func (w byLetter) Observe(_ context.Context, o *monitors.Observation) (monitors.Verdict, error) {
	i := bytes.IndexByte([]byte(w), byte(o.Token))
	return monitors.Verdict{Score: float64(i + 1), Flag: i >= 0 && o.Token < 256}, nil
}
func (byLetter) Rewind(int) error { return nil }

// run generates and keeps the events.
func run(t testing.TB, cfg runtime.Config) (*runtime.Result, []string, error) {
	t.Helper()
	var actions []string
	cfg.Prompt = text("?")
	cfg.Listener.Step = func(_ context.Context, e *runtime.Event) error {
		if a := &e.Action; a.Kind != runtime.Commit {
			actions = append(actions, fmt.Sprintf("%d %s %d/%d %s", e.Index, a.Kind, e.Rewound, a.Rewind, a.Reason))
		}
		return nil
	}
	s, err := runtime.NewSession(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	r, err := s.Run(t.Context())
	return r, actions, err
}

func TestBacktrack(t *testing.T) {
	says := "So. I am bad. Bye."
	for _, tt := range []struct {
		name    string
		o       BacktrackOptions
		cfg     runtime.Config
		want    string
		finish  runtime.FinishReason
		actions []string
	}{
		{name: "ban", o: BacktrackOptions{Ban: true}, cfg: runtime.Config{HoldBack: 9}, want: "So. I am ?ad. Bye.", finish: runtime.FinishStop,
			actions: []string{"9 rewind 0/0 letters: score 1, intervention 1 of 3"}},
		{name: "without a ban it comes again", o: BacktrackOptions{Point: Fixed(3)}, cfg: runtime.Config{HoldBack: 9}, want: "", finish: runtime.FinishFilter,
			actions: []string{
				"9 rewind 3/3 letters: score 1, intervention 1 of 3", "9 rewind 3/3 letters: score 1, intervention 2 of 3",
				"9 rewind 3/3 letters: score 1, intervention 3 of 3", "9 stop 0/0 letters: score 1, all 3 interventions are spent"}},
		{name: "a refusal in place of what is held", o: BacktrackOptions{Point: Fixed(3), Most: 1, Refusal: text("No.")}, cfg: runtime.Config{HoldBack: 7}, want: "SoNo.", finish: runtime.FinishFilter,
			actions: []string{"9 rewind 3/3 letters: score 1, intervention 1 of 1", "9 rewind 7/7 letters: score 1, all 1 interventions are spent"}},
		{name: "a refusal is not judged", o: BacktrackOptions{Most: -1, Refusal: text("bad")}, cfg: runtime.Config{HoldBack: 99}, want: "bad", finish: runtime.FinishFilter,
			actions: []string{"9 rewind 9/9 letters: score 1, all 0 interventions are spent"}},
		{name: "the sentence, then the one before", o: BacktrackOptions{Point: Beginning{}, Ban: true}, cfg: runtime.Config{HoldBack: 99}, want: "", finish: runtime.FinishFilter,
			actions: []string{
				"9 rewind 5/5 letters: score 1, intervention 1 of 3", "9 rewind 5/5 letters: score 1, intervention 2 of 3",
				"9 rewind 9/9 letters: score 1, intervention 3 of 3", "9 stop 0/0 letters: score 1, all 3 interventions are spent"}},
		{name: "another monitor", o: BacktrackOptions{Monitors: []string{"x"}}, want: says, finish: runtime.FinishStop},
		{name: "no hold-back", o: BacktrackOptions{Point: Fixed(5), Ban: true}, want: "So. I am ?ad. Bye.", finish: runtime.FinishStop,
			actions: []string{"9 rewind 0/5 letters: score 1, intervention 1 of 3"}},
		{name: "its own tokens", o: BacktrackOptions{Point: Fixed(3), Discard: 7}, cfg: runtime.Config{HoldBack: 3}, want: "So. I ", finish: runtime.FinishFilter,
			actions: []string{"9 rewind 3/3 letters: score 1, intervention 1 of 3", "9 stop 0/0 letters: score 1, 4 tokens to discard, 3 of 7 left"}},
		{name: "the session's rewinds", o: BacktrackOptions{Point: Fixed(3), Refusal: text("No.")}, cfg: runtime.Config{HoldBack: 4, MaxRewinds: 2}, want: "So. INo.", finish: runtime.FinishFilter,
			actions: []string{"9 rewind 3/3 letters: score 1, intervention 1 of 3", "9 rewind 4/4 letters: score 1, 1 rewinds of the session are left"}},
		{name: "the session's tokens", o: BacktrackOptions{Point: Fixed(3), Refusal: text("No.")}, cfg: runtime.Config{HoldBack: 4, MaxDiscarded: 5}, want: "So. I", finish: runtime.FinishFilter,
			actions: []string{"9 rewind 3/3 letters: score 1, intervention 1 of 3", "9 stop 0/0 letters: score 1, 1 tokens of the session are left to discard"}},
		{name: "too few tokens for the refusal", o: BacktrackOptions{Refusal: text("No.")}, cfg: runtime.Config{HoldBack: 4, MaxDiscarded: 1}, want: "So. I", finish: runtime.FinishFilter,
			actions: []string{"9 stop 0/0 letters: score 1, 1 tokens of the session are left to discard"}},
	} {
		cfg := tt.cfg
		cfg.Engine, cfg.Monitors, cfg.Policy = steady(t, says), []monitors.Monitor{letters("letters", "b")}, must(NewBacktrack(tt.o))
		r, actions, err := run(t, cfg)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if !like(r.Text, tt.want) || r.FinishReason != tt.finish {
			t.Errorf("%s: %q, %s", tt.name, r.Text, r.FinishReason)
		}
		if d := cmp.Diff(tt.actions, actions); d != "" && len(tt.actions) > 0 {
			t.Errorf("%s: %s", tt.name, d)
		}
	}
}

// like compares a text with one in which ? stands for any character.
func like(got, want string) bool {
	if len(got) != len(want) {
		return false
	}
	for i := range want {
		if want[i] != '?' && want[i] != got[i] {
			return false
		}
	}
	return true
}

func TestBacktrackOutOfReach(t *testing.T) {
	for _, mode := range []runtime.FaultMode{runtime.FailClosed, runtime.FailOpen} {
		r, _, err := run(t, runtime.Config{Engine: steady(t, "abc"), OnFault: mode, Monitors: []monitors.Monitor{letters("m", "c")},
			HoldBack: 1, Policy: must(NewBacktrack(BacktrackOptions{Point: Fixed(2), Strict: true}))})
		switch {
		case len(r.Faults) != 1 || !errors.Is(r.Faults[0], ErrOutOfReach):
			t.Errorf("mode %d: faults %v", mode, r.Faults)
		case mode == runtime.FailOpen && (err != nil || r.Text != "abc"):
			t.Errorf("open: %v, %q", err, r.Text)
		case mode == runtime.FailClosed && (!errors.Is(err, ErrOutOfReach) || r.Text != "a"):
			t.Errorf("closed: %v, %q", err, r.Text)
		}
	}
}

// TestBacktrackGuides: guidance is spliced at the place, one at a time, and
// chosen by the verdict where that is asked for.
func TestBacktrackGuides(t *testing.T) {
	kind := text("[be kind]")
	reply := func(x enginetest.Text) decode.Token {
		if bytes.Contains(bytesOf(x.Tokens), bytesOf(kind)) {
			return decode.Token("good one"[min(len(x.Tokens)-x.PromptLen-len(kind)-3, 7)])
		}
		if n := len(x.Tokens) - x.PromptLen; n < 6 {
			return decode.Token("It bad"[n])
		}
		return enginetest.EOS
	}
	for _, tt := range []struct {
		name string
		o    BacktrackOptions
	}{
		{"given", BacktrackOptions{Guide: kind}},
		{"by the verdict", BacktrackOptions{GuideFor: func(v runtime.Verdict) []decode.Token {
			if v.Monitor == "m" {
				return kind
			}
			return nil
		}}},
	} {
		p := must(NewBacktrack(tt.o))
		r, _, err := run(t, runtime.Config{Engine: fake(t, enginetest.FakeConfig{Script: reply}), MaxTokens: 11, HoldBack: 9, MaxGuide: 9, Policy: p,
			Monitors: []monitors.Monitor{letters("m", "be")}})
		// The e of "one" is flagged as well: a second guidance is neither needed nor fits.
		if err != nil || r.FinishReason != runtime.FinishFilter || len(r.Faults) > 0 {
			t.Errorf("%s: %v, %+v", tt.name, err, r)
		}
		if p.done != 3 {
			t.Errorf("%s: %d interventions", tt.name, p.done)
		}
	}
}

func bytesOf(tokens []decode.Token) []byte {
	out := make([]byte, len(tokens))
	for i, t := range tokens {
		out[i] = byte(t)
	}
	return out
}

// TestBacktrackStrength: the plan comes with the first intervention, grows with
// new violations up to the cap, fades on safe tokens, and leaves the base.
func TestBacktrackStrength(t *testing.T) {
	plan := func(doses ...float32) *steer.Plan {
		var list []steer.Intervention
		for i, d := range doses {
			v := make([]float32, 16)
			v[i] = 1
			list = append(list, steer.Intervention{Site: steer.Site{Layer: 1}, Vector: v, Scale: d})
		}
		return must(steer.NewPlan(list...))
	}
	p := must(NewBacktrack(BacktrackOptions{Plan: must(steer.NewPlan(*plan(0, 2).At(1))), Base: plan(1), Most: 99,
		Strength: Strength{First: 1, Grow: 1.5, Most: 2, Shrink: 0.5, Least: 0.3}}))
	want := []struct {
		flag bool
		dose float32 // of the plan in the action; -1 for none
	}{{false, -1}, {true, 1}, {true, 1.5}, {true, 2}, {true, 2}, {false, 1}, {true, 1.5}, {false, 0.75}, {false, 0.375}, {false, 0}, {false, -1}, {true, 1}}
	for i, w := range want {
		s := &runtime.Step{Index: 5, Tokens: text("abcde"), RewindsLeft: 50, DiscardLeft: 50,
			Verdicts: []runtime.Verdict{{Monitor: "m", Verdict: monitors.Verdict{Flag: w.flag}}}}
		a, err := p.Decide(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		if (a.Plan == nil) != (w.dose < 0) {
			t.Fatalf("step %d: plan %v", i, a.Plan)
		}
		if a.Plan == nil {
			continue
		}
		got := float32(0)
		if a.Plan.Len() == 2 {
			got = a.Plan.At(1).Scale / 2
		}
		if math.Abs(float64(got-w.dose)) > 1e-6 || a.Plan.At(0).Scale != 1 {
			t.Errorf("step %d: dose %v, want %v on the base", i, got, w.dose)
		}
	}
}

func TestBacktrackOptions(t *testing.T) {
	wide := steer.Intervention{Site: steer.Site{Layer: 1}, Vector: []float32{1}, Scale: 1, Op: steer.Project}
	o := BacktrackOptions{GuideSpan: -1, Refusal: make([]decode.Token, runtime.MaxForce+1), Strength: Strength{Grow: 0.5, Shrink: 2}}
	_, err := NewBacktrack(o)
	for _, want := range []string{"guide span -1", "refusal of 1025", "grow 0.5", "shrink 2"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
	if d := must(NewBacktrack(BacktrackOptions{Plan: must(steer.NewPlan(wide))})).dose; d.rule.Most != 1 {
		t.Errorf("a projection may grow to %v", d.rule.Most)
	}
}
