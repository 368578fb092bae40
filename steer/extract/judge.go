package extract

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/trimtab/trimtab/steer"
)

// refine tries the best arm half-way to the doses beside its best, for the
// judge: behaviour may turn within one step of the grid.
func (f *fitter) refine(ctx context.Context, arms []arm, trials []Trial) ([]Trial, error) {
	best := -1
	for i, t := range trials {
		if t.KL <= f.o.MaxKL && (best < 0 || t.Effect.Mean > trials[best].Effect.Mean) {
			best = i
		}
	}
	if f.o.Judge == nil || best < 0 {
		return trials, nil
	}
	below, above := 0.0, math.Inf(1)
	for _, t := range trials {
		if d := trials[best].Dose; t.Dose < d {
			below = max(below, t.Dose)
		} else if t.Dose > d {
			above = min(above, t.Dose)
		}
	}
	doses := []float64{(below + trials[best].Dose) / 2}
	if above <= 10 {
		doses = append(doses, (above+trials[best].Dose)/2)
	}
	at := slices.IndexFunc(arms, func(a arm) bool { return f.m.Cells[a.cell] == trials[best].Cell })
	more, err := f.trials(ctx, arms[at:at+1], doses)
	return append(trials, more...), err
}

// hearings is how many trials the judge is asked about.
const hearings = 8

// judge asks about the likeliest trials within the budget, and picks among them
// the smallest dose that is no worse than the best by more than the standard
// error of their difference.
func (f *fitter) judge(ctx context.Context, trials []Trial, list []candidate) (int, error) {
	var at []int
	for i, t := range trials {
		if t.KL <= f.o.MaxKL {
			at = append(at, i)
		}
	}
	slices.SortStableFunc(at, func(a, b int) int { return cmp.Compare(trials[b].Effect.Mean, trials[a].Effect.Mean) })
	at = at[:min(len(at), hearings)]
	plans := make([]*steer.Plan, len(at))
	for k, i := range at {
		t := trials[i]
		c := list[slices.IndexFunc(list, func(c candidate) bool { return f.m.Cells[c.cell] == t.Cell })]
		var err error
		if plans[k], err = plan(t.Cell.Layer, c.direction, t.Window, t.Dose); err != nil {
			return 0, err
		}
	}
	x, err := f.o.Judge(ctx, plans)
	if err != nil {
		return 0, err
	}
	if len(x) != len(plans) {
		return 0, fmt.Errorf("%d lists of scores for %d plans", len(x), len(plans))
	}
	best := 0
	for k, i := range at {
		if len(x[k]) == 0 || len(x[k]) != len(x[0]) {
			return 0, fmt.Errorf("%d scores for plan %d, %d for the first", len(x[k]), k, len(x[0]))
		}
		if trials[i].Score = estimate(x[k]); trials[i].Score.Mean > trials[at[best]].Score.Mean {
			best = k
		}
	}
	chosen := at[best]
	for k, i := range at {
		if gap := estimate(difference(x[best], x[k])); gap.Mean <= gap.Error && trials[i].Dose < trials[chosen].Dose {
			chosen = i
		}
	}
	return chosen, nil
}

func difference(a, b []float64) []float64 {
	out := make([]float64, len(a))
	for i := range a {
		out[i] = a[i] - b[i]
	}
	return out
}
