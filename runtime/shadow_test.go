package runtime

import (
	"context"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/monitors"
	"github.com/trimtab/trimtab/runtime/engine"
	"github.com/trimtab/trimtab/runtime/engine/enginetest"
	"github.com/trimtab/trimtab/steer"
)

func nats(x float64) *float64 { return &x }

// plans that act on all rows, on answers, on the last rows of the prompt, and
// on the prompt only.
func plansOf(scale float32) map[string]*steer.Plan {
	return map[string]*steer.Plan{
		"everywhere":   must(steer.NewPlan(intervention(scale, steer.When{}))),
		"answers":      must(steer.NewPlan(intervention(scale, steer.When{From: ptr(0)}))),
		"last rows":    must(steer.NewPlan(intervention(scale, steer.When{From: ptr(-3)}))),
		"prompt":       must(steer.NewPlan(intervention(scale, steer.When{Phases: steer.PhasePrompt}))),
		"no row":       must(steer.NewPlan(intervention(0, steer.When{}))),
		"one by one":   must(steer.NewPlan(intervention(scale, steer.When{From: ptr(0)}), steer.Intervention{Site: steer.Site{Layer: 2}, Op: steer.Project, Vector: ones(16), Scale: 1})),
		"only letters": must(steer.NewPlan(intervention(scale, steer.When{Tokens: []int32{'e', 'a', 'o', ' '}}))),
	}
}

// TestShadowMeasures: the text is that of a session without shadow, to the
// byte, and every value is the divergence of a run of the same tokens that was
// never steered.
func TestShadowMeasures(t *testing.T) {
	for name, plan := range plansOf(0.7) {
		for _, noFork := range []bool{false, true} {
			fc := enginetest.FakeConfig{Seed: 4, NoFork: noFork}
			cfg := Config{Engine: fake(t, fc), Prompt: slices.Repeat(prompt, 3), MaxTokens: 40, Plan: plan}
			want, _, err := generate(t, cfg)
			if err != nil {
				t.Fatal(err)
			}
			clean := must(cfg.Engine.NewSequence(t.Context(), engine.Origin{}))
			defer clean.Close()
			text := slices.Clone(cfg.Prompt)
			cfg.Shadow = &Shadow{}
			cfg.Engine = fake(t, fc)
			var values []float64
			cfg.Listener.Step = func(_ context.Context, e *Event) error {
				row, _ := unsteeredRow(t, fc, text)
				if kl := decode.Divergence(e.Raw, row); kl != e.Shadow.KL || e.Shadow.Dose != 1 || e.Shadow.Unsteered || len(e.Shadow.Tries) != 0 {
					t.Fatalf("%s, token %d: %+v, want %v nats", name, e.Index, e.Shadow, kl)
				}
				text = append(text, e.Token)
				if !e.End {
					values = append(values, e.Shadow.KL)
				}
				return nil
			}
			got, _, err := generate(t, cfg)
			if err != nil {
				t.Fatal(err)
			}
			if got.Text != want.Text {
				t.Errorf("%s: %q beside a shadow, alone %q", name, got.Text, want.Text)
			}
			d := got.Shadow
			if !cmp.Equal(d.KL, values) || d.Max != slices.Max(values) || d.KL[d.Worst] != d.Max || d.LeastDose != 1 || d.Tries != 0 ||
				math.Abs(d.Mean*float64(len(values))-d.Total) > 1e-9 {
				t.Errorf("%s: %+v of %v", name, d, values)
			}
			if moves := name != "no row"; moves != (d.Total > 0) {
				t.Errorf("%s: %v nats", name, d.Total)
			}
		}
	}
}

// unsteeredRow is what an engine of its own says after a text, and shows at the
// first of the sites.
func unsteeredRow(t testing.TB, fc enginetest.FakeConfig, text []decode.Token, sites ...steer.Site) (row decode.Logits, act []float32) {
	e := must(enginetest.NewFake(fc))
	defer e.Close()
	seq := must(e.NewSequence(t.Context(), engine.Origin{}))
	if err := e.Forward(t.Context(), []engine.Feed{{Seq: seq, Tokens: text, PromptLen: len(text), Capture: sites}}); err != nil {
		t.Fatal(err)
	}
	if len(sites) > 0 {
		a := must(seq.Activation(sites[0]))
		act = slices.Clone(a[len(a)-e.Info().Width:])
	}
	return slices.Clone(seq.Logits()), act
}

// TestShadowShares counts the rows: those that the plan leaves alone are fed once.
func TestShadowShares(t *testing.T) {
	long := slices.Repeat(prompt, 3) // 57 rows
	for _, tt := range []struct {
		plan   string
		from   int
		noFork bool
		rows   int // beyond those of the text alone
	}{
		{plan: "answers", rows: 9},
		{plan: "no row", rows: 9},
		{plan: "everywhere", rows: 57 + 9},
		{plan: "everywhere", from: 50, rows: 7 + 9},
		{plan: "everywhere", from: 10, rows: 57 + 9}, // too few to share
		{plan: "last rows", rows: 3 + 9},
		{plan: "answers", noFork: true, rows: 57 + 9},
	} {
		fc := enginetest.FakeConfig{NoFork: tt.noFork, Record: true}
		cfg := Config{Engine: fake(t, fc), Prompt: long, MaxTokens: 10, Plan: plansOf(0.4)[tt.plan], PlanFrom: tt.from, Shadow: &Shadow{}}
		if _, _, err := generate(t, cfg); err != nil {
			t.Fatal(err)
		}
		if n := cfg.Engine.(*enginetest.Fake).RowsFed() - 57 - 9; n != tt.rows {
			t.Errorf("%+v: %d more rows", tt, n)
		}
		if n := cfg.Engine.(*enginetest.Fake).Forwards(); n > 13 {
			t.Errorf("%+v: %d forwards: the shadow has none of its own", tt, n)
		}
	}
}

// TestBudgetEnds: a limit of 0 is no plan, a limit that is never reached is no
// limit, to the byte: greedy and sampled, whatever rows the plan acts on.
func TestBudgetEnds(t *testing.T) {
	inf := math.Inf(1)
	for name, plan := range plansOf(0.9) {
		for seed := range uint64(8) {
			cfg := Config{Engine: fake(t, enginetest.FakeConfig{Seed: seed, NoFork: seed%3 == 2}), Prompt: prompt, MaxTokens: 40, Seed: seed, Logprobs: true}
			if seed%2 == 1 {
				cfg.Sampler = decode.Categorical{}
			}
			base, _, err := generate(t, cfg)
			if err != nil {
				t.Fatal(err)
			}
			cfg.Plan = plan
			steered, _, err := generate(t, cfg)
			if err != nil {
				t.Fatal(err)
			}
			for _, tt := range []struct {
				name   string
				shadow Shadow
				want   *Result
			}{
				{"0 a token", Shadow{Token: nats(0)}, base},
				{"0 on average", Shadow{Mean: nats(0)}, base},
				{"0 in all", Shadow{Total: nats(0), Tries: -1}, base},
				{"no limit", Shadow{Token: nats(inf), Mean: nats(inf), Total: nats(inf)}, steered},
				{"a high limit", Shadow{Token: nats(1e6), Mean: nats(1e6), Total: nats(1e9)}, steered},
			} {
				cfg.Shadow = &tt.shadow
				got, streamed, err := generate(t, cfg)
				if err != nil {
					t.Fatal(err)
				}
				if got.Text != tt.want.Text || streamed != got.Text || !cmp.Equal(got.Logprobs, tt.want.Logprobs) {
					t.Errorf("%s, seed %d, %s: %q, want %q", name, seed, tt.name, got.Text, tt.want.Text)
				}
				if tt.want == base && got.Shadow.Total != 0 || tt.want == steered && got.Shadow.LeastDose != 1 {
					t.Errorf("%s, seed %d, %s: %+v", name, seed, tt.name, got.Shadow)
				}
			}
		}
	}
}

// TestBudgetHolds: whatever plan, limits, rewinds and guidance, no limit is
// ever broken, the books fit, and every value is the true divergence.
func TestBudgetHolds(t *testing.T) {
	lowered, unsteeredTokens, rewinds := 0, 0, 0
	for seed := range uint64(150) {
		r := rand.New(rand.NewPCG(seed, 21))
		fc := enginetest.FakeConfig{Seed: seed % 7, NoFork: seed%5 == 4}
		plan := pick(r, plansOf(float32(r.Float64()*2)))
		other := pick(r, plansOf(float32(r.Float64())))
		sh := &Shadow{Window: 1 + r.IntN(20), Tries: r.IntN(5) - 1}
		if r.IntN(3) > 0 {
			sh.Mean = nats(r.Float64() * 0.3)
		}
		if r.IntN(3) == 0 {
			sh.Token = nats(r.Float64() * 0.5)
		}
		if r.IntN(3) == 0 {
			sh.Total = nats(r.Float64() * 4)
		}
		cfg := Config{Engine: fake(t, fc), Prompt: prompt, MaxTokens: 50, Seed: seed, Plan: plan, Shadow: sh, HoldBack: r.IntN(10), MaxRewinds: 30,
			MaxDiscarded: 1000, MaxGuide: 10, PlanFrom: r.IntN(2) * r.IntN(len(prompt))}
		if r.IntN(2) == 0 {
			cfg.Sampler = decode.Categorical{}
		}
		site := steer.Site{Layer: 3}
		var ses *Session
		var row decode.Logits
		var act []float32
		look := &seen{flag: func(*monitors.Observation) (v monitors.Verdict, err error) {
			row, act = unsteeredRow(t, fc, ses.rows, site)
			return v, nil
		}}
		cfg.Monitors = []monitors.Monitor{{Name: "act", Sites: []steer.Site{site}, Start: func() monitors.Watcher { return look }}}
		cfg.Policy = judge(func(s *Step) (Action, error) {
			a := Action{}
			if s.RewindsLeft > 0 && r.IntN(6) == 0 {
				a.Kind, a.Rewind = Rewind, r.IntN(8)
			}
			if r.IntN(15) == 0 {
				a.Plan = other
			}
			if r.IntN(15) == 0 {
				a.Guide, a.GuideSpan = enginetest.Tokens("(hm)")[:1+r.IntN(4)], r.IntN(6)
			}
			return a, nil
		})
		cfg.OnFault = FailOpen
		cfg.Listener.Step = func(_ context.Context, e *Event) error {
			if a, err := e.Activation(site); err != nil || len(a) != 16 || e.Shadow.Unsteered && a[0] != act[0] {
				t.Fatalf("seed %d, token %d: the activation is not that of the row: %v", seed, e.Index, err)
			}
			if e.Shadow.Unsteered && (e.Shadow.KL != 0 || !slices.Equal(e.Raw, row)) || decode.Divergence(e.Raw, row) != e.Shadow.KL {
				t.Fatalf("seed %d, token %d: %v nats, measured %+v", seed, e.Index, decode.Divergence(e.Raw, row), e.Shadow)
			}
			return nil
		}
		s := must(NewSession(t.Context(), cfg))
		ses = s
		var err error
		for err == nil {
			_, err = s.Next(t.Context())
			if bad := s.inconsistent(); bad != "" {
				t.Fatalf("seed %d: %s", seed, bad)
			}
		}
		got := s.Result()
		s.Close()
		if err != io.EOF {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if bad := broken1(sh, got.Shadow); bad != "" {
			t.Fatalf("seed %d: %s: %+v", seed, bad, got.Shadow)
		}
		lowered, unsteeredTokens, rewinds = lowered+got.Shadow.Lowered, unsteeredTokens+got.Shadow.Unsteered, rewinds+got.Rewinds
	}
	t.Logf("%d tokens at a lower dose, %d of them unsteered, %d rewinds", lowered, unsteeredTokens, rewinds)
	if lowered < 500 || unsteeredTokens < 50 || rewinds < 100 {
		t.Error("the test shows little")
	}
}

func pick(r *rand.Rand, plans map[string]*steer.Plan) *steer.Plan {
	names := make([]string, 0, len(plans))
	for name := range plans {
		names = append(names, name)
	}
	slices.Sort(names)
	return plans[names[r.IntN(len(names))]]
}

// broken1 says which limit a text breaks.
func broken1(s *Shadow, d *Divergence) string {
	const rounding = 1e-9
	f := s.filled()
	sum := 0.0
	for i, kl := range d.KL {
		sum += kl
		window := 0.0
		for _, x := range d.KL[max(0, i+1-f.Window) : i+1] {
			window += x
		}
		switch {
		case f.Token != nil && kl > *f.Token+rounding:
			return "a token is too far"
		case f.Mean != nil && window > *f.Mean*float64(f.Window)+rounding:
			return "a window is too far"
		case f.Total != nil && sum > *f.Total+rounding:
			return "the text is too far"
		}
	}
	return ""
}

// TestBudgetIsSmooth: the dose falls before the limit is reached, and no row
// has to be thrown away in the long run.
func TestBudgetIsSmooth(t *testing.T) {
	cfg := Config{Engine: fake(t, enginetest.FakeConfig{Seed: 2}), Prompt: prompt, MaxTokens: 200, Plan: plansOf(0.6)["answers"],
		Shadow: &Shadow{Mean: nats(0.02)}, End: []decode.Token{}}
	var doses []float64
	cfg.Listener.Step = func(_ context.Context, e *Event) error {
		doses = append(doses, e.Shadow.Dose)
		return nil
	}
	r, _, err := generate(t, cfg)
	if err != nil {
		t.Fatal(err)
	}
	d := r.Shadow
	t.Logf("%+v\n%.2f", d, doses)
	if d.Mean > 0.02*216/200 || d.Mean < 0.005 || d.Unsteered > 20 || d.Tries > 40 || d.Lowered < 100 {
		t.Errorf("mean %v, %d tries, %d unsteered, %d lowered", d.Mean, d.Tries, d.Unsteered, d.Lowered)
	}
}

// TestShadowFaults: what cannot be is refused, with the numbers.
func TestShadowFaults(t *testing.T) {
	nan := math.NaN()
	for _, tt := range []struct {
		name string
		fake enginetest.FakeConfig
		cfg  Config
		want string
		is   error
	}{
		{"negative", enginetest.FakeConfig{}, Config{Shadow: &Shadow{Mean: nats(-1)}}, "most nats (mean) is -1, must be 0 or more", nil},
		{"not a number", enginetest.FakeConfig{}, Config{Shadow: &Shadow{Token: nats(nan)}}, "most nats (token) is NaN", nil},
		{"window", enginetest.FakeConfig{}, Config{Shadow: &Shadow{Window: 5000}}, "window of 5000 tokens, must be 1 to 4096", nil},
		{"tries", enginetest.FakeConfig{}, Config{Shadow: &Shadow{Tries: 99}}, "99 tries, the limit is 16", nil},
		{"one sequence", enginetest.FakeConfig{MaxSequences: 1}, Config{Shadow: &Shadow{}}, "it needs a second sequence, this engine has 1", engine.ErrUnsupported},
		{"few cells", enginetest.FakeConfig{Cells: 60}, Config{Shadow: &Shadow{}, MaxTokens: 40}, "and a shadow beside them: context full: 60 fit", engine.ErrContextFull},
		{"no cells", enginetest.FakeConfig{Cells: 25, NoFork: true}, Config{Shadow: &Shadow{}}, "1 to generate and 0 for guidance, and a shadow beside them: context full: 25 fit", engine.ErrContextFull},
		{"plan from the end", enginetest.FakeConfig{}, Config{PlanFrom: 19}, "begins at row 19 of a prompt of 19", nil},
		{"plan from nowhere", enginetest.FakeConfig{}, Config{PlanFrom: -1}, "begins at row -1", nil},
	} {
		tt.cfg.Engine, tt.cfg.Prompt = fake(t, tt.fake), prompt
		_, _, err := generate(t, tt.cfg)
		if err == nil || !strings.Contains(err.Error(), tt.want) || tt.is != nil && !errors.Is(err, tt.is) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	for _, clamp := range []bool{false, true} {
		cfg := Config{Engine: fake(t, enginetest.FakeConfig{Cells: 100}), Prompt: prompt, Shadow: &Shadow{}, Plan: plansOf(1)["everywhere"], End: []decode.Token{}}
		if clamp {
			cfg.MaxTokens, cfg.ClampMaxTokens = 1000, true
		}
		if r, _, err := generate(t, cfg); err != nil || len(r.Tokens) < 20 {
			t.Errorf("what fits is not used: %v, %+v", err, r)
		}
	}
}
