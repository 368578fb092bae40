package policy

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/monitors"
	"github.com/trimtab/trimtab/runtime"
	"github.com/trimtab/trimtab/runtime/engine/enginetest"
	"github.com/trimtab/trimtab/steer"
)

// after judges the token before the candidate, as a monitor of states does: its
// score is the place in set, later letters are worse.
func after(set string) monitors.Monitor {
	return monitors.Monitor{Name: "state", Start: func() monitors.Watcher { return &lastToken{set: set} }}
}

type lastToken struct {
	set  string
	seen []decode.Token
}

func (w *lastToken) Observe(_ context.Context, o *monitors.Observation) (v monitors.Verdict, err error) {
	if n := len(w.seen); n > 0 && w.seen[n-1] < 256 {
		i := strings.IndexByte(w.set, byte(w.seen[n-1]))
		v = monitors.Verdict{Score: float64(i + 1), Flag: i >= 0, Onset: 1}
	}
	w.seen = append(w.seen, o.Token)
	return v, nil
}

func (w *lastToken) Rewind(n int) error {
	w.seen = w.seen[:len(w.seen)-n]
	return nil
}

// ranked are the letters of each place, the likeliest first.
type ranked []string

// rankedConfig generates them, whatever came before.
func rankedConfig(t *testing.T, p ranked) runtime.Config {
	at := 0
	return runtime.Config{Engine: fake(t, enginetest.FakeConfig{}), HoldBack: 2, MaxTokens: len(p), MaxRewinds: 99,
		Processor: &ranker{p: p, n: &at}}
}

type ranker struct {
	p ranked
	n *int
}

func (r *ranker) Process(_ context.Context, l decode.Logits) error {
	for i := range l {
		if l[i] > -1e30 {
			l[i] = -100
		}
	}
	for i, c := range []byte(r.p[*r.n]) {
		if l[c] > -1e30 {
			l[c] = float32(-i)
		}
	}
	return nil
}
func (r *ranker) Accept(decode.Token) error { *r.n++; return nil }
func (r *ranker) Rewind(n int) error        { *r.n -= n; return nil }

func TestFiltered(t *testing.T) {
	for _, tt := range []struct {
		name  string
		texts ranked // letters of each place, best first
		bad   string // worse to the right
		o     FilteredOptions
		cfg   func(*runtime.Config)
		want  string
		calls int // rewinds
	}{
		{name: "nothing flagged", texts: ranked{"a", "b", "c"}, bad: "xyz", want: "abc"},
		{name: "the second is fine", texts: ranked{"a", "xb", "c"}, bad: "xyz", want: "abc", calls: 1},
		{name: "the third is fine", texts: ranked{"a", "xyb", "c"}, bad: "xyz", want: "abc", calls: 2},
		{name: "the best of those tried", texts: ranked{"a", "zxyb", "c"}, bad: "xyz", o: FilteredOptions{Top: 3}, want: "axc", calls: 3},
		{name: "the best is the last", texts: ranked{"a", "zyxb", "c"}, bad: "xyz", o: FilteredOptions{Top: 3}, want: "axc", calls: 2},
		{name: "two places", texts: ranked{"xa", "yb", "c"}, bad: "xyz", want: "abc", calls: 2},
		{name: "of the best a fallback", texts: ranked{"a", "xy", "c"}, bad: "xyz", o: FilteredOptions{Top: 2, Otherwise: StopOn()}, want: "a", calls: 2,
			cfg: func(c *runtime.Config) { c.HoldBack = 1 }},
		{name: "nothing is held", texts: ranked{"a", "xb", "c"}, bad: "xyz", want: "axc", cfg: func(c *runtime.Config) { c.HoldBack = 0 }},
		{name: "rewinds run out", texts: ranked{"a", "zxb", "c"}, bad: "xyz", want: "axc", calls: 1, cfg: func(c *runtime.Config) { c.MaxRewinds = 2 }},
		{name: "tokens run out", texts: ranked{"a", "zxb", "c"}, bad: "xyz", want: "axc", calls: 1, cfg: func(c *runtime.Config) { c.MaxDiscarded = 4 }},
		{name: "another monitor", texts: ranked{"a", "xb", "c"}, bad: "xyz", o: FilteredOptions{Monitors: []string{"other"}}, want: "axc"},
	} {
		cfg := rankedConfig(t, tt.texts)
		cfg.Monitors, cfg.Policy = []monitors.Monitor{after(tt.bad)}, must(NewFiltered(tt.o))
		if tt.cfg != nil {
			tt.cfg(&cfg)
		}
		r, actions, err := run(t, cfg)
		if err != nil || r.Text != tt.want || r.Rewinds != tt.calls {
			t.Errorf("%s: %v, %q with %d rewinds\n%s", tt.name, err, r.Text, r.Rewinds, strings.Join(actions, "\n"))
		}
	}
}

// TestFilteredWithoutAlternative: where only one token is allowed, the bans give
// way and it stays.
func TestFilteredWithoutAlternative(t *testing.T) {
	only := rankedConfig(t, ranked{"a", "x", "c"})
	only.Processor = strict{only.Processor.(*ranker)}
	only.Monitors, only.Policy = []monitors.Monitor{after("xyz")}, must(NewFiltered(FilteredOptions{}))
	r, actions, err := run(t, only)
	if err != nil || r.Text != "axc" || r.Rewinds != 1 {
		t.Errorf("%v, %q, %q", err, r.Text, actions)
	}
	if _, err := NewFiltered(FilteredOptions{Top: 1}); err == nil {
		t.Error("no error for a choice of one")
	}
}

// strict allows the letters of the place only, as a grammar would.
type strict struct{ *ranker }

func (s strict) Process(ctx context.Context, l decode.Logits) error {
	if err := s.ranker.Process(ctx, l); err != nil {
		return err
	}
	for i := range l {
		if l[i] <= -100 {
			l[i] = float32(math.Inf(-1))
		}
	}
	return nil
}

// fixedPolicy returns one action and counts.
type fixedPolicy struct {
	a     runtime.Action
	asked int
}

func (p *fixedPolicy) Decide(context.Context, *runtime.Step) (runtime.Action, error) {
	p.asked++
	return p.a, nil
}

func TestChain(t *testing.T) {
	flagged := &runtime.Step{Index: 3, Verdicts: []runtime.Verdict{{Monitor: "m", Verdict: monitors.Verdict{Score: 2, Flag: true}}}}
	stop := &fixedPolicy{a: runtime.Action{Kind: runtime.Stop}}
	never := &fixedPolicy{}
	for _, tt := range []struct {
		name string
		p    runtime.Policy
		want runtime.Action
	}{
		{"empty", Chain{}, runtime.Action{}},
		{"the first decides", Chain{stop, never}, runtime.Action{Kind: runtime.Stop}},
		{"the second decides", Chain{Accept{}, Flag{}, StopOn("m")}, runtime.Action{Kind: runtime.Stop, Reason: "m: score 2"}},
		{"a mark", Chain{Flag{}, Accept{}}, runtime.Action{Reason: "m: score 2"}},
		{"no mark for others", Flag{Monitors: []string{"x"}}, runtime.Action{}},
	} {
		got, err := tt.p.Decide(t.Context(), flagged)
		if err != nil || !cmp.Equal(got, tt.want) {
			t.Errorf("%s: %v\n%s", tt.name, err, cmp.Diff(tt.want, got))
		}
	}
	if never.asked != 0 {
		t.Error("asked although it was decided")
	}
	if _, err := (Chain{&Threshold{}}).Decide(t.Context(), flagged); err == nil || !strings.Contains(err.Error(), "policy 1 of the chain") {
		t.Errorf("error %v", err)
	}
}

// TestChainFading: a policy whose plan fades with every token hides no flag from
// those behind it, and its plan is not lost beside what they decide.
func TestChainFading(t *testing.T) {
	v := make([]float32, 16)
	v[3] = 1
	plan := must(steer.NewPlan(steer.Intervention{Site: steer.Site{Layer: 1}, Vector: v, Scale: 1}))
	says := func(monitor string) []runtime.Verdict {
		return []runtime.Verdict{{Monitor: monitor, Verdict: monitors.Verdict{Score: 2, Flag: true}}}
	}
	step := func(index int, list []runtime.Verdict) *runtime.Step {
		return &runtime.Step{Index: index, Tokens: text("0123456789")[:index], Verdicts: list, Rewindable: index, RewindsLeft: 9, DiscardLeft: 99}
	}
	for _, last := range []runtime.Policy{StopOn("b"), &Threshold{Monitors: []string{"b"}, Do: runtime.Rewind}} {
		c := Chain{must(NewBacktrack(BacktrackOptions{Monitors: []string{"a"}, Plan: plan})), Flag{Monitors: []string{"c"}}, last}
		if a := must(c.Decide(t.Context(), step(5, says("a")))); a.Kind != runtime.Rewind || a.Plan == nil {
			t.Fatalf("at the flag of a: %+v", a)
		}
		if a := must(c.Decide(t.Context(), step(5, says("c")))); a.Kind != runtime.Commit || a.Plan == nil || a.Reason != "c: score 2" {
			t.Errorf("while the plan fades: %+v", a)
		}
		if a := must(c.Decide(t.Context(), step(6, says("b")))); a.Kind == runtime.Commit || (a.Plan == nil) != (a.Kind == runtime.Stop) {
			t.Errorf("at the flag of b while the plan fades: %+v", a)
		}
	}
}

func TestCascade(t *testing.T) {
	then := &fixedPolicy{}
	c := &Cascade{Cheap: []string{"m"}, Span: 2, Then: then}
	var asked []int
	flags := map[int]bool{3: true, 9: true}
	for _, i := range []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 2, 3, 4} {
		before := then.asked
		s := &runtime.Step{Index: i, Verdicts: []runtime.Verdict{{Monitor: "m", Verdict: monitors.Verdict{Flag: flags[i]}}}}
		if i == 3 {
			flags[3] = false
		}
		if _, err := c.Decide(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		if then.asked > before {
			asked = append(asked, i)
		}
	}
	// After the rewind to 2 the worry of 9 lasts Span tokens at most.
	if want := []int{3, 4, 5, 9, 10, 2, 3, 4}; !slices.Equal(asked, want) {
		t.Errorf("asked at %v, want %v", asked, want)
	}
	if _, err := (&Cascade{}).Decide(t.Context(), &runtime.Step{}); err == nil {
		t.Error("no error without a policy")
	}
}

func TestBudget(t *testing.T) {
	again := &fixedPolicy{a: runtime.Action{Kind: runtime.Rewind, Rewind: 3}}
	for _, tt := range []struct {
		name string
		b    *Budget
		want int // rewinds before the budget is spent
		then runtime.Kind
	}{
		{"rewinds", &Budget{Policy: again, Rewinds: 2, Discard: 99}, 2, runtime.Stop},
		{"tokens", &Budget{Policy: again, Rewinds: 9, Discard: 7}, 2, runtime.Stop},
		{"none", &Budget{Policy: again}, 0, runtime.Stop},
		{"then commit", &Budget{Policy: again, Rewinds: 1, Discard: 9, Then: Accept{}}, 1, runtime.Commit},
	} {
		n := 0
		for n < 20 {
			a, err := tt.b.Decide(t.Context(), &runtime.Step{Rewindable: 2})
			if err != nil {
				t.Fatal(err)
			}
			if a.Kind != runtime.Rewind {
				if a.Kind != tt.then {
					t.Errorf("%s: then %s", tt.name, a.Kind)
				}
				break
			}
			n++
		}
		if n != tt.want {
			t.Errorf("%s: %d rewinds, want %d", tt.name, n, tt.want)
		}
	}
	if _, err := (&Budget{}).Decide(t.Context(), &runtime.Step{}); err == nil {
		t.Error("no error without a policy")
	}
}
