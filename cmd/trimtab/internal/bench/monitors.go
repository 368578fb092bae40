package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/trimtab/trimtab/bindings/llamacpp"
	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/monitors"
	"github.com/trimtab/trimtab/monitors/probe"
	"github.com/trimtab/trimtab/runtime"
	"github.com/trimtab/trimtab/steer"
)

// Monitors are the measurements of "trimtab bench monitors". Engine and Twin are
// two engines on one model file with equal options. Only the twin is read from:
// llama.cpp keeps recording a block's output once it was asked to.
type Monitors struct {
	Engine, Twin *llamacpp.Engine
	Rounds       int // paired rounds
	Tokens       int // steps of a run
	Now          func() time.Time
	Note         func(string) // progress, for people
}

// MonitorsReport is what was measured.
type MonitorsReport struct {
	Model    string       `json:"model"`
	Backend  string       `json:"backend"`
	Sections []Section    `json:"sections"`
	Kernels  []KernelTime `json:"kernels"`
}

// KernelTime is how long one call of something takes that needs no model.
type KernelTime struct {
	Name   string        `json:"name"`
	Median time.Duration `json:"median_ns"`
	P95    time.Duration `json:"p95_ns"`
	Goal   time.Duration `json:"goal_ns,omitempty"` // 0 for a mere report
}

// Run makes every measurement.
func (d *Monitors) Run(ctx context.Context) (*MonitorsReport, error) {
	info := d.Engine.Info()
	rep := &MonitorsReport{Model: info.Name, Backend: info.Backend}
	for _, section := range []func(context.Context) (Section, error){d.captures, d.watched, d.every} {
		s, err := section(ctx)
		rep.Sections = append(rep.Sections, s)
		if err != nil {
			return rep, fmt.Errorf("%s: %w", s.Title, err)
		}
	}
	var err error
	rep.Kernels, err = d.kernels(ctx)
	return rep, err
}

// captures compares decode steps with and without residuals being read.
func (d *Monitors) captures(ctx context.Context) (Section, error) {
	last := d.Engine.Info().Layers - 1
	return d.reading(ctx, Section{Title: "reading one block's output, 1 sequence", Base: "the same steps without", Goal: 0.97}, []reading{
		{"the middle block, recorded as the next one's input", []steer.Site{{Layer: last / 2}}},
		{"the last block, which stops the graph", []steer.Site{{Layer: last}}},
	})
}

// every reads all blocks. It comes last: what is recorded then stays so.
func (d *Monitors) every(ctx context.Context) (Section, error) {
	last := d.Engine.Info().Layers - 1
	return d.reading(ctx, Section{Title: "reading every block's output, 1 sequence", Base: "the same steps without"}, []reading{{"every block", sitesTo(last)}})
}

// reading is a set of sites to read.
type reading struct {
	name  string
	sites []steer.Site
}

func (d *Monitors) reading(ctx context.Context, s Section, list []reading) (Section, error) {
	b := &steerBench{Steer: &Steer{Engine: d.Engine, Twin: d.Twin, Rounds: d.Rounds, Tokens: d.Tokens, Now: d.Now, Note: d.Note}}
	defer b.close()
	for _, c := range list {
		if err := b.add(ctx, &s, c.name, 1, b.timed(false, 1), b.captured(c.sites)); err != nil {
			return s, err
		}
	}
	return s, nil
}

func sitesTo(last int) (sites []steer.Site) {
	for layer := range last + 1 {
		sites = append(sites, steer.Site{Layer: layer})
	}
	return sites
}

// captured is a run of the twin's one sequence that reads the sites of every row.
func (b *steerBench) captured(sites []steer.Site) work {
	run := b.timed(true, 1)
	return func(ctx context.Context, round int) (time.Duration, error) {
		t, err := b.text(ctx, true, 1)
		if err != nil {
			return 0, err
		}
		t.feeds[0].Capture = sites
		return run(ctx, round)
	}
}

// watched compares sessions with and without a probe.
func (d *Monitors) watched(ctx context.Context) (Section, error) {
	s := Section{Title: "a session with a linear probe, 1 sequence", Base: "a session without monitors", Goal: 0.97}
	info := d.Engine.Info()
	for _, c := range []struct {
		name  string
		layer int
	}{{"at the middle block", info.Layers / 2}, {"at the last block", info.Layers - 1}} {
		m, err := probe.New(probe.Options{Probes: probes(1, info.Width, c.layer), Model: steer.Facts{Layers: info.Layers, Width: info.Width}})
		if err != nil {
			return s, err
		}
		d.Note(s.Title + " " + c.name)
		row, err := pair(ctx, c.name, d.Tokens, d.Rounds, session(d, d.Engine), session(d, d.Twin, m))
		if err != nil {
			return s, err
		}
		s.Rows = append(s.Rows, row)
		d.Note(fmt.Sprintf("  ratio %.3f (%.3f to %.3f)", row.Ratio, row.Min, row.Max))
	}
	return s, nil
}

// session is a run of a session under monitors.
func session(d *Monitors, e *llamacpp.Engine, list ...monitors.Monitor) work {
	return func(ctx context.Context, round int) (time.Duration, error) {
		prompt := make([]decode.Token, steerPrompt)
		for i := range prompt {
			prompt[i] = decode.Token((31*round + 7*i + 65) % e.Info().Vocab)
		}
		start := d.Now()
		s, err := runtime.NewSession(ctx, runtime.Config{Engine: e, Prompt: prompt, MaxTokens: d.Tokens, End: []decode.Token{}, Monitors: list})
		if err != nil {
			return 0, err
		}
		_, err = s.Run(ctx)
		took := d.Now().Sub(start)
		return took, errors.Join(err, s.Close())
	}
}

// probes are linear probes with random weights.
func probes(n, width, layer int) (list []*probe.Probe) {
	r := rand.New(rand.NewPCG(4, uint64(n)))
	for i := range n {
		list = append(list, &probe.Probe{Name: fmt.Sprintf("p%d", i), Site: steer.Site{Layer: layer}, Threshold: 0.99,
			Value: &steer.Value{Kind: steer.Linear, Layers: []steer.Dense{dense(r, width, 1)}}})
	}
	return list
}

func dense(r *rand.Rand, in, out int) steer.Dense {
	l := steer.Dense{In: in, Out: out, Weight: make([]float32, in*out), Bias: make([]float32, out)}
	for i := range l.Weight {
		l.Weight[i] = float32(r.NormFloat64()) / float32(in)
	}
	return l
}

func noise(r *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	return x
}

// kernels times what a monitor or a filter adds to a token on its own.
func (d *Monitors) kernels(ctx context.Context) (list []KernelTime, err error) {
	r := rand.New(rand.NewPCG(9, 9))
	add := func(name string, goal time.Duration, call func() error) {
		if err != nil {
			return
		}
		d.Note(name)
		var k KernelTime
		if k, err = d.kernel(call); err == nil {
			k.Name, k.Goal = name, goal
			list = append(list, k)
		}
	}
	const wide, narrow, hidden = 4096, 896, 256
	m, err := probe.New(probe.Options{Probes: probes(8, wide, 0), Model: steer.Facts{Layers: 1, Width: wide}})
	if err != nil {
		return nil, err
	}
	w, row := m.Start(), noise(r, wide)
	seen := &monitors.Observation{Activation: func(steer.Site) ([]float32, error) { return row, nil }}
	add("8 linear probes of width 4096, one token", 20*time.Microsecond, func() error {
		_, err := w.Observe(ctx, seen)
		return errors.Join(err, w.Rewind(1))
	})
	mlp := &steer.Value{Kind: steer.MLP, Layers: []steer.Dense{dense(r, narrow, hidden), dense(r, hidden, hidden), dense(r, hidden, 1)}}
	work, x := mlp.NewWork(), noise(r, narrow)
	add("value of a perceptron of 896-256-256-1", 100*time.Microsecond, func() error { mlp.At(x, work); return nil })
	for _, a := range []struct {
		name      string
		threshold float32
	}{{"a filter that finds the row safe", -1e9}, {"a filter of 3 steps on a row that is not", 1e9}} {
		p, planErr := steer.NewPlan(steer.Intervention{Op: steer.Ascend, Scale: 1,
			Ascent: &steer.Ascent{Value: mlp, Threshold: a.threshold, Radius: 0.1, Steps: 3}})
		if err = errors.Join(err, planErr); err != nil {
			return list, err
		}
		edited := slices.Clone(x)
		add(a.name, 0, func() error {
			copy(edited, x)
			p.Edit(steer.Site{}, steer.Row{}, edited, nil)
			return nil
		})
	}
	return list, err
}

// kernel times calls in groups of 16.
func (d *Monitors) kernel(call func() error) (KernelTime, error) {
	const group = 16
	var took []time.Duration
	for i := range 8*d.Rounds + 1 {
		start := d.Now()
		for range group {
			if err := call(); err != nil {
				return KernelTime{}, err
			}
		}
		if i > 0 {
			took = append(took, d.Now().Sub(start)/group)
		}
	}
	return KernelTime{Median: quantile(took, 0.5), P95: quantile(took, 0.95)}, nil
}
