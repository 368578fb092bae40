package bench

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/trimtab/trimtab/steer"
)

// SwitchTime is what the first step under another plan takes longer than a step
// under the plan of the step before. Steps of both kinds are made in turn; the
// difference of their medians and that of their 95 % quantiles count, since
// single steps differ by more than the switch costs.
type SwitchTime struct {
	Name   string        `json:"name"`
	Call   time.Duration `json:"steer_ns"` // median of Steer alone
	Median time.Duration `json:"median_ns"`
	P95    time.Duration `json:"p95_ns"`
	Step   time.Duration `json:"step_ns"` // median of a step
	Times  int           `json:"times"`
}

// switches times plan changes on one sequence.
func (b *steerBench) switches(ctx context.Context) (list []SwitchTime, err error) {
	hooked, err := b.plans(2, b.mid)
	if err != nil {
		return nil, err
	}
	var added [2]*steer.Plan
	for i := range added {
		if added[i], err = b.plan(steer.Intervention{Vector: b.vector(), Scale: 1}); err != nil {
			return nil, err
		}
	}
	for _, c := range []struct {
		name     string
		from, to *steer.Plan
		settle   int // steps under from before each switch
		times    int
	}{
		{"from none to a plan", nil, hooked[0], 1, b.Switches},
		{"from a plan to another", hooked[0], hooked[1], 1, b.Switches},
		{"from a plan to none", hooked[0], nil, 1, b.Switches},
		{"from a vector that llama.cpp adds to another", added[0], added[1], nativeWarm, max(b.Switches/4, 2)},
		{"from a vector that llama.cpp adds to none", added[0], nil, nativeWarm, max(b.Switches/4, 2)},
	} {
		b.Note("switch " + c.name)
		s, err := b.switched(ctx, c.from, c.to, c.settle, c.times)
		if err != nil {
			return list, err
		}
		s.Name = c.name
		list = append(list, s)
	}
	return list, nil
}

func (b *steerBench) switched(ctx context.Context, from, to *steer.Plan, settle, times int) (SwitchTime, error) {
	t, err := b.text(ctx, false, 1)
	if err != nil {
		return SwitchTime{}, err
	}
	step := func(p *steer.Plan) (call, all time.Duration, err error) {
		start := b.Now()
		err = t.seqs[0].Steer(p)
		call = b.Now().Sub(start)
		if err == nil {
			err = t.e.Forward(ctx, t.feeds)
		}
		all = b.Now().Sub(start)
		return call, all, errors.Join(err, t.seqs[0].Rewind(1))
	}
	var calls, same, other []time.Duration
	for range times {
		for range settle {
			if _, _, err := step(from); err != nil {
				return SwitchTime{}, err
			}
		}
		_, stay, err := step(from)
		if err != nil {
			return SwitchTime{}, err
		}
		call, leave, err := step(to)
		if err != nil {
			return SwitchTime{}, err
		}
		calls, same, other = append(calls, call), append(same, stay), append(other, leave)
	}
	return SwitchTime{Call: quantile(calls, 0.5), Median: quantile(other, 0.5) - quantile(same, 0.5),
		P95: quantile(other, 0.95) - quantile(same, 0.95), Step: quantile(same, 0.5), Times: times}, nil
}

// quantile is the value that a share q of the list does not exceed.
func quantile(list []time.Duration, q float64) time.Duration {
	s := slices.Sorted(slices.Values(list))
	return s[min(int(q*float64(len(s))), len(s)-1)]
}

// objects counts heap objects of a step with every block hooked.
func (b *steerBench) objects(ctx context.Context) (float64, error) {
	blocks := make([]int, b.Engine.Info().Layers)
	for i := range blocks {
		blocks[i] = i
	}
	plans, err := b.plans(1, blocks...)
	if err != nil {
		return 0, err
	}
	t, err := b.text(ctx, false, 1)
	if err != nil {
		return 0, err
	}
	if err := t.steer(plans); err != nil {
		return 0, err
	}
	return mallocs(b.Tokens, func() error { return t.decode(ctx, 1) })
}
