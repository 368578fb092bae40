package eval

import (
	"context"
	"fmt"
	"strings"

	"github.com/trimtab/trimtab/steer"
	"github.com/trimtab/trimtab/steer/extract"
)

// Combination is several behaviours steered at once.
type Combination struct {
	Behaviours []string  `json:"behaviours"`
	How        string    `json:"how"`    // "stack", or "orthogonalise" in the order given
	Factor     float64   `json:"factor"` // on every dose, chosen on the validation split
	Cosines    []float64 `json:"cosines"`

	Shown  []Share `json:"shown"` // of each behaviour
	All    Share   `json:"all"`   // of answers that show all of them
	Broken Share   `json:"broken"`
	KL     float64 `json:"kl"`

	Fault string `json:"fault,omitempty"` // why it cannot be done; nothing is measured then
}

// factors are tried on the validation split; those over the budget do not count.
var factors = [...]float64{0.75, 1, 1.25}

func plansOf(ways []way) []*steer.Plan {
	out := make([]*steer.Plan, len(ways))
	for i := range ways {
		out[i] = ways[i].plan
	}
	return out
}

// combine measures one set of behaviours in one way. The prompts are those of
// the first behaviour, so all must judge them.
func (d *desk) combine(ctx context.Context, list []*Behaviour, fits []*extract.Result, how string) (*Combination, error) {
	c := &Combination{How: how}
	for _, b := range list {
		c.Behaviours = append(c.Behaviours, b.Name)
	}
	d.o.Say(how + ": " + strings.Join(c.Behaviours, ", "))
	joint := jointly(list)
	var ways []way
	for _, f := range factors {
		p, err := joined(fits, how, f)
		if err != nil { // vectors may have the same direction
			c.Fault = err.Error()
			return c, nil
		}
		ways = append(ways, way{name: fmt.Sprintf("factor %v", f), plan: p})
	}
	kl, err := extract.Divergences(ctx, d.e, plansOf(ways), d.budget)
	if err != nil {
		return nil, err
	}
	scores, err := d.validate(ctx, joint, ways)
	if err != nil {
		return nil, err
	}
	best, top := 0, -1.0
	for i, x := range scores {
		if i > 0 && kl[i] > d.o.MaxKL {
			continue // the first factor is the gentlest
		}
		sum := 0.0
		for _, v := range x {
			sum += v
		}
		if sum > top {
			best, top = i, sum
		}
	}
	c.Factor = factors[best]
	return c, d.count(ctx, c, list, ways[best])
}

// count measures the chosen plan on the test prompts.
func (d *desk) count(ctx context.Context, c *Combination, list []*Behaviour, w way) error {
	for _, p := range w.plan.Cosines() {
		c.Cosines = append(c.Cosines, p.Cosine)
	}
	questions := list[0].Test
	each, all := make([]tally, len(list)), tally{}
	for seed := range d.o.Seeds {
		said, err := d.answers(ctx, []way{w}, questions, uint64(seed+1))
		if err != nil {
			return err
		}
		for i, b := range append(list[:len(list):len(list)], jointly(list)) {
			v, err := b.judged(ctx, questions, said[0])
			if err != nil {
				return err
			}
			t := &all
			if i < len(each) {
				t = &each[i]
			}
			t.verdicts = append(t.verdicts, v)
		}
	}
	shown := func(v Verdict) float64 { return v.Shown }
	for i := range each {
		c.Shown = append(c.Shown, each[i].share(questions, shown))
	}
	c.All = all.share(questions, shown)
	c.Broken = all.share(questions, func(v Verdict) float64 { return number(v.Broken) })
	kl, err := extract.Divergences(ctx, d.e, []*steer.Plan{w.plan}, d.neutral)
	if err == nil {
		c.KL = kl[0]
	}
	return err
}

// jointly is the behaviour of showing all of several at once.
func jointly(list []*Behaviour) *Behaviour {
	b := &Behaviour{Name: "all at once", Choose: list[0].Choose, Test: list[0].Test}
	b.Judge = func(ctx context.Context, questions []Question, texts []string) ([]Verdict, error) {
		out := make([]Verdict, len(texts))
		for i, one := range list {
			v, err := one.Judge(ctx, questions, texts)
			if err != nil {
				return nil, err
			}
			if len(v) != len(out) {
				return nil, fmt.Errorf("%s: %d verdicts for %d answers", one.Name, len(v), len(out))
			}
			for k, x := range v {
				out[k].Broken = out[k].Broken || x.Broken
				if i == 0 || x.Shown < out[k].Shown {
					out[k].Shown = x.Shown
				}
			}
		}
		return out, nil
	}
	return b
}

// joined is one plan of several fits.
func joined(fits []*extract.Result, how string, factor float64) (*steer.Plan, error) {
	plans := make([]*steer.Plan, len(fits))
	groups := make([][]steer.Intervention, len(fits))
	for i, r := range fits {
		var err error
		if plans[i], err = r.Plan(factor); err != nil {
			return nil, err
		}
		for k := range plans[i].Len() {
			groups[i] = append(groups[i], *plans[i].At(k))
		}
	}
	if how != orthogonal {
		return steer.Stack(plans...)
	}
	list, err := steer.Orthogonalise(groups...)
	if err != nil {
		return nil, err
	}
	return steer.NewPlan(list...)
}

// The ways to join plans.
const (
	stacked    = "stack"
	orthogonal = "orthogonalise"
)
