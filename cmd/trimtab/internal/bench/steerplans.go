package bench

import (
	"context"

	"github.com/trimtab/trimtab/steer"
)

// vector is a random direction of length 1: a small edit, which costs what a
// large one costs.
func (b *steerBench) vector() []float32 {
	v := make([]float32, b.Engine.Info().Width)
	sum := float32(0)
	for i := range v {
		v[i] = float32(b.r.NormFloat64())
		sum += v[i] * v[i]
	}
	for i := range v {
		v[i] /= sum
	}
	return v
}

// plan puts one intervention after the middle block.
func (b *steerBench) plan(iv steer.Intervention) (*steer.Plan, error) {
	iv.Site.Layer = b.mid
	return steer.NewPlan(iv)
}

// plans are n different additive plans at the given blocks. A condition that
// always holds keeps them with the hook, even when a batch shares one.
func (b *steerBench) plans(n int, blocks ...int) (list []*steer.Plan, err error) {
	from := -steerPrompt
	for range n {
		var ivs []steer.Intervention
		for _, block := range blocks {
			ivs = append(ivs, steer.Intervention{Site: steer.Site{Layer: block}, Vector: b.vector(), Scale: 1, When: steer.When{From: &from}})
		}
		p, err := steer.NewPlan(ivs...)
		if err != nil {
			return nil, err
		}
		list = append(list, p)
	}
	return list, nil
}

// kind is one sort of edit.
type kind struct {
	name string
	iv   steer.Intervention
}

// edits are all operations. One row here adds another.
func (b *steerBench) edits() []kind {
	w := b.Engine.Info().Width
	const rank = 4
	m := &steer.LowRank{Rank: rank}
	for range rank {
		m.Down, m.Up = append(m.Down, b.vector()...), append(m.Up, b.vector()...)
	}
	return []kind{
		{"add, norm kept", steer.Intervention{Vector: b.vector(), Scale: 1, Renorm: true}},
		{"project", steer.Intervention{Op: steer.Project, Vector: b.vector(), Scale: 1}},
		{"clamp", steer.Intervention{Op: steer.Clamp, Vector: b.vector(), Scale: 1, Min: -0.1, Max: 0.1}},
		{"replace", steer.Intervention{Op: steer.Replace, Vector: b.vector(), Scale: 1, Value: 0.1}},
		{"affine of rank 4", steer.Intervention{Op: steer.Affine, Map: m, Scale: 0.1, Vector: make([]float32, w)}},
		{"ascend a perceptron, 3 steps", steer.Intervention{Op: steer.Ascend, Scale: 1, Ascent: &steer.Ascent{Value: &steer.Value{Kind: steer.MLP,
			Layers: []steer.Dense{dense(b.r, w, 256), dense(b.r, 256, 256), dense(b.r, 256, 1)}}, Threshold: 1e9, Radius: 1e-3, Steps: 3}}},
		{"rotate", steer.Intervention{Op: steer.Rotate, Vector: b.vector(), Toward: b.vector(), Scale: 0.1}},
	}
}

// conditional are additive edits behind every sort of condition.
func (b *steerBench) conditional() []kind {
	first, never, below := 0, 1<<20, steer.Site{Layer: b.mid / 2}
	add := func(name string, edit func(*steer.Intervention)) kind {
		iv := steer.Intervention{Vector: b.vector(), Scale: 1}
		edit(&iv)
		return kind{name, iv}
	}
	return []kind{
		add("a window that is open", func(iv *steer.Intervention) { iv.When.From = &first }),
		add("a window that is shut", func(iv *steer.Intervention) { iv.When.From = &never }),
		add("a phase", func(iv *steer.Intervention) { iv.When.Phases = steer.PhaseAnswer }),
		add("a schedule", func(iv *steer.Intervention) {
			iv.Schedule = steer.Schedule{Kind: steer.Decay, Start: 1, End: 0.5, Over: 8}
		}),
		add("an open gate at the same block", func(iv *steer.Intervention) {
			iv.Gate = &steer.Gate{Site: steer.Site{Layer: b.mid}, Vector: b.vector(), Threshold: -1}
		}),
		add("an open gate at an earlier block", func(iv *steer.Intervention) {
			iv.Gate = &steer.Gate{Site: below, Vector: b.vector(), Threshold: -1}
		}),
		add("a shut gate at an earlier block", func(iv *steer.Intervention) {
			iv.Gate = &steer.Gate{Site: below, Vector: b.vector(), Threshold: 0.999}
		}),
	}
}

func (b *steerBench) kinds(ctx context.Context) (Section, error) {
	return b.each(ctx, Section{Title: "operations, " + sequences(b.Batches[0]), Base: "unsteered"}, b.edits())
}

func (b *steerBench) conditions(ctx context.Context) (Section, error) {
	return b.each(ctx, Section{Title: "an addition under a condition, " + sequences(b.Batches[0]), Base: "unsteered"}, b.conditional())
}

func (b *steerBench) each(ctx context.Context, s Section, kinds []kind) (Section, error) {
	n := b.Batches[0]
	for _, k := range kinds {
		p, err := b.plan(k.iv)
		if err != nil {
			return s, err
		}
		if err := b.add(ctx, &s, k.name, n, b.timed(false, n), b.timed(false, n, p)); err != nil {
			return s, err
		}
	}
	return s, nil
}
