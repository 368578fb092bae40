package policy

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/monitors"
	"github.com/trimtab/trimtab/monitors/entropy"
	"github.com/trimtab/trimtab/monitors/lexicon"
	"github.com/trimtab/trimtab/monitors/probe"
	"github.com/trimtab/trimtab/monitors/reach"
	"github.com/trimtab/trimtab/monitors/repetition"
	"github.com/trimtab/trimtab/runtime"
	"github.com/trimtab/trimtab/runtime/engine/enginetest"
	"github.com/trimtab/trimtab/steer"
)

// builtIn are the monitors that need no second model.
func builtIn(t *testing.T) []monitors.Monitor {
	list := must(lexicon.Read(strings.NewReader("the\nand so\ncat\ne\n")))
	words := must(list.Monitor("lexicon"))
	weights := func(i int) *steer.Value {
		w := make([]float32, 16)
		w[i], w[i+3] = 3, -2
		return &steer.Value{Kind: steer.Linear, Layers: []steer.Dense{{In: 16, Out: 1, Weight: w, Bias: []float32{0.1}}}}
	}
	probes := must(probe.New(probe.Options{Model: steer.Facts{Layers: 4, Width: 16}, Probes: []*probe.Probe{
		{Name: "a", Site: steer.Site{Layer: 1}, Threshold: 0.6, Smooth: "mean:4", Value: weights(0)},
		{Name: "b", Site: steer.Site{Layer: 2}, Threshold: 0.6, Smooth: "ewma:0.3", Value: weights(5)},
	}}))
	near := must(reach.NewMonitor(&reach.Model{Name: "v", Site: steer.Site{Layer: 2}, Value: *weights(2), Aim: reach.Aim{Form: reach.Sample},
		Levels: []reach.Level{{C: 0.05, Alpha: 0.02, Run: 2, Texts: 50, On: "safe texts"}}}, reach.MonitorOptions{}))
	return []monitors.Monitor{
		words, probes, near,
		must(repetition.New(repetition.Options{Window: 32, Repeats: 2, MinTokens: 3, Gram: 2, Limit: 1})),
		must(entropy.New(entropy.Options{Threshold: 2.5, Run: 2})),
		must(entropy.New(entropy.Options{Measure: entropy.Entropy, Threshold: 2})),
	}
}

// sight is a copy of what the monitors were shown of one candidate.
type sight struct {
	o    monitors.Observation
	rows map[steer.Site][]float32
}

func copied(e *runtime.Event, sites []steer.Site) (s sight, err error) {
	s.o = monitors.Observation{Step: e.Index, Token: e.Token, Piece: slices.Clone(e.Piece), Raw: slices.Clone(e.Raw), Logits: slices.Clone(e.Logits)}
	s.rows = map[steer.Site][]float32{}
	for _, site := range sites {
		row, err := e.Activation(site)
		if err != nil {
			return s, err
		}
		s.rows[site] = slices.Clone(row)
	}
	s.o.Activation = func(site steer.Site) ([]float32, error) { return s.rows[site], nil }
	return s, nil
}

// TestWatchersEqualFreshRuns: in sessions that rewind, splice and steer at
// random, what every built-in monitor says of a candidate is what a watcher
// says that has seen only the tokens before it that were kept.
func TestWatchersEqualFreshRuns(t *testing.T) {
	list := builtIn(t)
	var sites []steer.Site
	for _, m := range list {
		sites = append(sites, m.Sites...)
	}
	flags := map[string]int{}
	for seed := range uint64(25) {
		cfg, _ := anyConfig(seed)
		cfg.Engine, cfg.Monitors, cfg.HoldBack, cfg.MaxTokens, cfg.MaxRewinds, cfg.MaxDiscarded = fake(t, enginetest.FakeConfig{Seed: seed}), list, 12, 40, 20, 300
		cfg.Policy, cfg.OnFault = restless(seed), runtime.FailClosed
		var kept []sight
		cfg.Listener.Step = func(ctx context.Context, e *runtime.Event) error {
			s, err := copied(e, sites)
			if err != nil {
				return err
			}
			if err := asFresh(ctx, list, append(kept[:len(kept):len(kept)], s), e.Verdicts); err != nil {
				return err
			}
			for _, v := range e.Verdicts {
				if v.Flag {
					flags[v.Monitor]++
				}
			}
			if e.Action.Kind == runtime.Commit {
				kept = append(kept, s)
			}
			kept = kept[:len(kept)-e.Rewound]
			return nil
		}
		s := must(runtime.NewSession(t.Context(), cfg))
		r, err := s.Run(t.Context())
		s.Close()
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if r.Rewinds == 0 {
			t.Errorf("seed %d: nothing was rewound", seed)
		}
	}
	for _, m := range list {
		if flags[m.Name] < 5 {
			t.Errorf("%s flagged %d candidates only", m.Name, flags[m.Name])
		}
	}
}

// restless rewinds, guides, forces and steers at random.
func restless(seed uint64) runtime.Policy {
	r := rand.New(rand.NewPCG(seed, 13))
	v := make([]float32, 16)
	v[3] = 2
	plans := []*steer.Plan{must(steer.NewPlan()), must(steer.NewPlan(steer.Intervention{Site: steer.Site{Layer: 1}, Vector: v, Scale: 0.5}))}
	return deciding(func(s *runtime.Step) runtime.Action {
		var a runtime.Action
		if s.RewindsLeft > 0 && r.IntN(4) == 0 {
			a = runtime.Action{Kind: runtime.Rewind, Rewind: r.IntN(9), Ban: []decode.Token{s.Token}, Yield: true}
		}
		if r.IntN(6) == 0 {
			a.Force, a.Ban = text("the cat and so the cat")[:3+r.IntN(19)], nil
		}
		if r.IntN(6) == 0 {
			a.Guide, a.GuideSpan, a.Plan = text("hm"), 1+r.IntN(2), plans[r.IntN(2)]
		}
		return a
	})
}

type deciding func(s *runtime.Step) runtime.Action

func (f deciding) Decide(_ context.Context, s *runtime.Step) (runtime.Action, error) {
	return f(s), nil
}

// asFresh compares verdicts on the last sight with those of fresh watchers.
func asFresh(ctx context.Context, list []monitors.Monitor, seen []sight, got []runtime.Verdict) error {
	for i, m := range list {
		w := m.Start()
		var v monitors.Verdict
		for j := range seen {
			var err error
			if v, err = w.Observe(ctx, &seen[j].o); err != nil {
				return err
			}
		}
		if d := cmp.Diff(runtime.Verdict{Monitor: m.Name, Verdict: v}, got[i]); d != "" {
			return fmt.Errorf("%s at %d: a fresh watcher says otherwise: %s", m.Name, len(seen), d)
		}
	}
	return nil
}
