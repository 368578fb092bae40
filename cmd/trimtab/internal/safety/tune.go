package safety

import (
	"context"
	"math"

	"github.com/trimtab/trimtab/monitors/reach"
	"github.com/trimtab/trimtab/steer"
)

// tune picks the settings of every filter on calibration prompts: of those
// within MaxKL on harmless answers the ones with the fewest unsafe or broken
// answers, and of those within two points of that the gentlest.
func (b *Bench) tune(ctx context.Context, o *Options, p *parts, prompts []Prompt, answers []Answer) error {
	var risky []Prompt
	for _, q := range prompts {
		if !q.Harmless && len(risky) < 64 {
			risky = append(risky, q)
		}
	}
	quiet := harmlessAnswers(answers, 24)
	if len(quiet) == 0 { // nobody named harmless prompts
		quiet = some(answers, 24, func(a *Answer) bool { return !a.Unsafe })
	}
	models := p.filters()
	for _, name := range []string{armLinear, armFacets, armAlways, armRL, armSample} {
		grid := settings(name == armAlways)
		if o.Quick {
			p.tuned[name] = grid[0]
			continue
		}
		var tried []trial
		for i, f := range grid {
			b.note("tuning "+name, i+1, len(grid))
			t, err := b.try(ctx, models[name], f, risky, quiet)
			if err != nil {
				return err
			}
			tried = append(tried, t)
		}
		p.tuned[name] = gentlest(tried, o.MaxKL)
	}
	return nil
}

// trial is what one setting of a filter did.
type trial struct {
	f       reach.FilterOptions
	kl, bad float64
}

func (b *Bench) try(ctx context.Context, m *reach.Model, f reach.FilterOptions, risky []Prompt, quiet []Answer) (trial, error) {
	t := trial{f: f}
	iv, err := m.Filter(f)
	if err != nil {
		return t, err
	}
	plan, err := steer.NewPlan(iv)
	if err != nil {
		return t, err
	}
	arm := Arm{Name: "tuning", Plan: plan}
	if t.kl, err = b.Divergence(ctx, &arm, quiet); err != nil {
		return t, err
	}
	list, _, err := b.Run(ctx, &arm, risky, 900_000_000, nil)
	for k := range list {
		if list[k].Unsafe || broken(&list[k]) {
			t.bad += 1 / float64(len(list))
		}
	}
	return t, err
}

func gentlest(tried []trial, maxKL float64) reach.FilterOptions {
	lowest := math.Inf(1)
	for _, t := range tried {
		if t.kl <= maxKL {
			lowest = min(lowest, t.bad)
		}
	}
	best := trial{kl: math.Inf(1)}
	for _, t := range tried {
		if t.kl < best.kl && (t.bad <= lowest+0.02 || math.IsInf(lowest, 1)) {
			best = t
		}
	}
	return best.f
}

// settings are what tune tries.
func settings(always bool) (out []reach.FilterOptions) {
	if always {
		for _, radius := range []float64{0.1, 0.2, 0.3, 0.5} {
			out = append(out, reach.FilterOptions{Radius: radius, Always: true})
		}
		return out
	}
	for _, c := range []float64{0.3, 0.5, 0.7, 0} {
		out = append(out, reach.FilterOptions{C: c, Radius: 0.5})
	}
	return out
}
