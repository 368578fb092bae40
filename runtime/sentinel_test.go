package runtime

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/runtime/engine"
	"github.com/trimtab/trimtab/runtime/engine/enginetest"
	"github.com/trimtab/trimtab/steer"
)

// crooked is an engine that does another plan than it was given.
type crooked struct {
	engine.Engine
	bend func(*steer.Plan) *steer.Plan
}

type crookedSequence struct {
	engine.Sequence
	bend func(*steer.Plan) *steer.Plan
}

func (s crookedSequence) Steer(p *steer.Plan) error {
	if p == nil {
		return s.Sequence.Steer(nil)
	}
	return s.Sequence.Steer(s.bend(p))
}

func (e crooked) NewSequence(ctx context.Context, o engine.Origin) (engine.Sequence, error) {
	if q, ok := o.Fork.(crookedSequence); ok {
		o.Fork = q.Sequence
	}
	s, err := e.Engine.NewSequence(ctx, o)
	if err != nil {
		return nil, err
	}
	return crookedSequence{s, e.bend}, nil
}

func (e crooked) Forward(ctx context.Context, feeds []engine.Feed) error {
	feeds = slices.Clone(feeds)
	for i := range feeds {
		feeds[i].Seq = feeds[i].Seq.(crookedSequence).Sequence
	}
	return e.Engine.Forward(ctx, feeds)
}

// bent rewrites every intervention.
func bent(f func(*steer.Intervention)) func(*steer.Plan) *steer.Plan {
	return func(p *steer.Plan) *steer.Plan {
		var list []steer.Intervention
		for i := range p.Len() {
			iv := *p.At(i)
			f(&iv)
			list = append(list, iv)
		}
		return must(steer.NewPlan(list...))
	}
}

// anyPlan has up to four interventions of any kind.
func anyPlan(r *rand.Rand) *steer.Plan {
	vector := func() []float32 {
		v := make([]float32, 16)
		for i := range v {
			v[i] = float32(r.NormFloat64())
		}
		return v
	}
	var list []steer.Intervention
	for range 1 + r.IntN(4) {
		iv := steer.Intervention{Site: steer.Site{Layer: r.IntN(4)}, Op: []steer.Op{steer.Add, steer.Project, steer.Clamp, steer.Replace, steer.Affine, steer.Rotate}[r.IntN(6)],
			Vector: vector(), Toward: vector(), Scale: 0.2 + r.Float32(), Min: -0.1, Max: 0.1, Value: 3, Renorm: r.IntN(4) == 0}
		iv.Map = &steer.LowRank{Rank: 1, Down: vector(), Up: vector()}
		switch r.IntN(6) {
		case 0:
			iv.When.From = ptr(r.IntN(40) - 4)
		case 1:
			iv.When.To = ptr(r.IntN(6) - 2)
		case 2:
			iv.When.Phases = steer.Phase(1 + r.IntN(15))
		case 3:
			iv.When.Tokens = []int32{int32('a' + r.IntN(26))}
		case 4:
			iv.Gate = &steer.Gate{Site: steer.Site{Layer: r.IntN(iv.Site.Layer + 1)}, Vector: vector(), Threshold: float32(r.Float64()-0.5) / 2, Below: r.IntN(2) == 0}
		case 5:
			iv.Schedule = steer.Schedule{Kind: steer.Ramp, Start: 0.5, End: 1, Over: 8}
		}
		if r.IntN(5) == 0 {
			iv.Group = 1 + r.IntN(2)
		}
		list = append(list, iv)
	}
	return must(steer.NewPlan(list...))
}

// TestSentinelTrusts: an engine that does what plans say passes with all of them.
func TestSentinelTrusts(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 41))
		e := fake(t, enginetest.FakeConfig{Seed: seed, MaxSequences: 1 + r.IntN(12), Cells: 4 + r.IntN(40)})
		p := anyPlan(r)
		if err := new(Sentinel).Prove(t.Context(), e, p, prompt[:1+r.IntN(10)]); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if e.OpenSequences() != 0 || e.UsedCells() != 0 {
			t.Fatalf("seed %d: the probe left something behind", seed)
		}
	}
}

// TestSentinelCatches: each way of being wrong is noticed, named and remembered.
func TestSentinelCatches(t *testing.T) {
	add := func(edit func(*steer.Intervention)) *steer.Plan {
		iv := intervention(0.5, steer.When{})
		iv.Site.Layer = 2
		if edit != nil {
			edit(&iv)
		}
		return must(steer.NewPlan(iv))
	}
	for _, tt := range []struct {
		name string
		plan *steer.Plan
		bend func(*steer.Plan) *steer.Plan
		want string
	}{
		{"ignores plans", add(nil), func(*steer.Plan) *steer.Plan { return nil }, "add at 2.post: not supported: in a row at offset 0 ([answer]) the engine moved the residual by 0 where the plan says 2, and is 2 away from it"},
		{"edits a layer above", add(nil), bent(func(iv *steer.Intervention) { iv.Site.Layer++ }), "add at 2.post"},
		{"edits a layer below", add(nil), bent(func(iv *steer.Intervention) { iv.Site.Layer-- }), "add at 2.post"},
		{"the opposite", add(nil), bent(func(iv *steer.Intervention) { iv.Scale *= -1 }), "moved the residual by 2 where the plan says 2, and is 4 away"},
		{"too much", add(nil), bent(func(iv *steer.Intervention) { iv.Scale *= 1.05 }), "add at 2.post"},
		{"adds what it should project out", add(func(iv *steer.Intervention) { iv.Op = steer.Project }), bent(func(iv *steer.Intervention) { iv.Op = steer.Add }), "project at 2.post"},
		{"ignores windows", add(func(iv *steer.Intervention) { iv.When.From = ptr(0) }), bent(func(iv *steer.Intervention) { iv.When = steer.When{} }), "in a row at offset -3 ([prompt]) the engine moved the residual by 2 where the plan says 0"},
		{"knows no windows", add(func(iv *steer.Intervention) { iv.When.From = ptr(30) }), func(*steer.Plan) *steer.Plan { return nil }, "in a row at offset 30"},
		{"ignores phases", add(func(iv *steer.Intervention) { iv.When.Phases = steer.PhaseThink }), bent(func(iv *steer.Intervention) { iv.When = steer.When{} }), "([answer])"},
		{"ignores triggers", add(func(iv *steer.Intervention) { iv.When.Tokens = []int32{'q'} }), bent(func(iv *steer.Intervention) { iv.When = steer.When{} }), "says 0"},
		{"knows no triggers", add(func(iv *steer.Intervention) { iv.When.Tokens = []int32{'q'} }), func(*steer.Plan) *steer.Plan { return nil }, "by 0"},
		{"only the first", must(steer.NewPlan(intervention(1, steer.When{}), steer.Intervention{Site: steer.Site{Layer: 3}, Vector: ones(16), Scale: 1})),
			func(p *steer.Plan) *steer.Plan { return must(steer.NewPlan(*p.At(0))) }, "add at 3.post"},
		{"does not keep the norm", add(func(iv *steer.Intervention) { iv.Renorm = true }), bent(func(iv *steer.Intervention) { iv.Renorm = false }), "add at 2.post"},
		{"opens every gate", add(func(iv *steer.Intervention) {
			iv.Gate = &steer.Gate{Site: steer.Site{Layer: 0}, Kind: steer.Logistic, Vector: ones(16), Bias: -100, Threshold: 0.5}
		}), bent(func(iv *steer.Intervention) { iv.Gate = nil }), "says 0"},
	} {
		f := fake(t, enginetest.FakeConfig{})
		e := crooked{f, tt.bend}
		s := &Sentinel{}
		err := s.Prove(t.Context(), e, tt.plan, prompt)
		if !errors.Is(err, engine.ErrUnsupported) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", tt.name, err)
		}
		n := f.Forwards()
		if again := s.Prove(t.Context(), e, tt.plan, prompt); again != err || f.Forwards() != n {
			t.Errorf("%s: forgotten: %v", tt.name, again)
		}
		if _, _, err := generate(t, Config{Engine: e, Prompt: prompt, Plan: tt.plan, Sentinel: s}); !errors.Is(err, engine.ErrUnsupported) {
			t.Errorf("%s: a session runs all the same: %v", tt.name, err)
		}
		sched := schedule(t, e, Options{})
		for range 2 {
			if _, err := must(sched.Submit(t.Context(), Config{Prompt: prompt, Plan: tt.plan})).Wait(t.Context()); !errors.Is(err, engine.ErrUnsupported) {
				t.Errorf("%s: a scheduler runs it all the same: %v", tt.name, err)
			}
		}
		if _, err := must(sched.Submit(t.Context(), Config{Prompt: prompt, MaxTokens: 3})).Wait(t.Context()); err != nil {
			t.Errorf("%s: nothing runs any more: %v", tt.name, err)
		}
		sched.Close()
	}
}

// TestSentinelOnce: it costs once, no user's token, and nothing when off.
func TestSentinelOnce(t *testing.T) {
	plan := must(steer.NewPlan(intervention(0.5, steer.When{})))
	for _, off := range []bool{false, true} {
		eng := fake(t, enginetest.FakeConfig{})
		s := schedule(t, eng, Options{NoSentinel: off, NoCache: true})
		var rows []int
		for range 3 {
			before := eng.RowsFed()
			if _, err := must(s.Submit(t.Context(), Config{Prompt: prompt, Plan: plan, MaxTokens: 5})).Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			rows = append(rows, eng.RowsFed()-before-len(prompt)-4)
		}
		want := []int{6, 0, 0}
		if off {
			want[0] = 0
		}
		if stats := s.Stats(); !slices.Equal(rows, want) || stats.PromptTokens != int64(3*len(prompt)) || stats.GeneratedTokens != 15 {
			t.Errorf("off %v: %v more rows, want %v; %+v", off, rows, want, stats)
		}
		s.Close()
	}
}

// TestSentinelInACrowd: plans come while others run, and sequences and cells
// are all in use.
func TestSentinelInACrowd(t *testing.T) {
	for seed := range uint64(6) {
		r := rand.New(rand.NewPCG(seed, 42))
		eng := fake(t, enginetest.FakeConfig{Cells: 800, MaxSequences: 3 + r.IntN(8)})
		s := schedule(t, eng, Options{Slots: 3, Queue: 100, Workers: 2})
		var streams []*Stream
		var configs []Config
		for range 40 {
			cfg := randomConfig(r)
			cfg.Plan = anyPlan(r)
			if r.IntN(2) == 0 {
				cfg.Shadow = &Shadow{}
			}
			configs = append(configs, cfg)
			streams = append(streams, must(s.Submit(t.Context(), cfg)))
		}
		for i, st := range streams {
			got, err := st.Wait(t.Context())
			if err != nil {
				t.Fatalf("seed %d, session %d: %v", seed, i, err)
			}
			configs[i].Engine = fake(t, enginetest.FakeConfig{})
			if want, _, err := generate(t, configs[i]); err != nil || want.Text != got.Text {
				t.Fatalf("seed %d, session %d: %q, alone %q, %v", seed, i, got.Text, want.Text, err)
			}
		}
		s.Close()
	}
}

// TestSentinelErrors: what is no verdict is not remembered.
func TestSentinelErrors(t *testing.T) {
	boom := errors.New("boom")
	plan := must(steer.NewPlan(intervention(0.5, steer.When{})))
	eng := fake(t, enginetest.FakeConfig{Hooks: enginetest.Hooks{Before: enginetest.FailAt(1, boom)}})
	s := &Sentinel{}
	if err := s.Prove(t.Context(), eng, plan, prompt); !errors.Is(err, boom) {
		t.Error(err)
	}
	if err := s.Prove(t.Context(), eng, plan, prompt); err != nil {
		t.Errorf("an engine's fault was remembered: %v", err)
	}
	done, cancel := context.WithCancel(t.Context())
	cancel()
	other := must(steer.NewPlan(intervention(0.25, steer.When{})))
	if err := s.Prove(done, eng, other, prompt); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	panics := fake(t, enginetest.FakeConfig{Hooks: enginetest.Hooks{Before: enginetest.PanicAt(1, "ouch")}})
	if err := new(Sentinel).Prove(t.Context(), panics, plan, prompt); err == nil || !strings.Contains(err.Error(), "ouch") {
		t.Error(err)
	}
	blind := fake(t, enginetest.FakeConfig{NoCapture: true})
	if err := new(Sentinel).Prove(t.Context(), blind, plan, prompt); err != nil || blind.Forwards() != 0 {
		t.Errorf("%v, %d forwards", err, blind.Forwards())
	}
	for _, nothing := range []struct {
		p      *steer.Plan
		tokens []decode.Token
	}{{nil, prompt}, {plan.Scaled(0), prompt}, {plan, nil}} {
		if err := new(Sentinel).Prove(t.Context(), blind, nothing.p, nothing.tokens); err != nil {
			t.Error(err)
		}
	}
	entered, release := make(chan struct{}, 1), make(chan struct{})
	slow := fake(t, enginetest.FakeConfig{Hooks: enginetest.Hooks{Before: enginetest.BlockAt(1, entered, release)}})
	sched := schedule(t, slow, Options{})
	st := must(sched.Submit(t.Context(), Config{Prompt: prompt, Plan: plan}))
	<-entered
	st.Close()
	if _, err := st.Wait(t.Context()); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled during the probe: %v", err)
	}
	if slow.OpenSequences() != 0 {
		t.Error("a cancelled probe leaves sequences open")
	}
	sched.Close()
}
