package runtime

import (
	"errors"
	"fmt"
	"math"

	"github.com/trimtab/trimtab/internal/trace"
)

// limitsOf is how a trace states a shadow. Infinite limits bound nothing, and
// JSON has no word for them.
func limitsOf(s *Shadow) *trace.Shadow {
	if s == nil {
		return nil
	}
	return &trace.Shadow{Token: finite(s.Token), Mean: finite(s.Mean), Total: finite(s.Total), Window: s.Window, Tries: s.Tries}
}

func finite(x *float64) *float64 {
	if x == nil || math.IsInf(*x, 0) || math.IsNaN(*x) {
		return nil
	}
	return x
}

func readingOf(r *Reading) *trace.Reading {
	if r == nil {
		return nil
	}
	out := &trace.Reading{KL: r.KL, Dose: r.Dose, Unsteered: r.Unsteered}
	for _, t := range r.Tries {
		out.Tries = append(out.Tries, trace.Try{Dose: t.Dose, KL: finite(&t.KL)})
	}
	return out
}

// governorOf makes the governor of a trace.
func governorOf(s *trace.Shadow) (*governor, error) {
	if s == nil {
		return nil, nil
	}
	limits := &Shadow{Token: s.Token, Mean: s.Mean, Total: s.Total, Window: s.Window, Tries: s.Tries}
	if err := errors.Join(limits.faults()...); err != nil {
		return nil, fmt.Errorf("replay: %w", err)
	}
	g := newGovernor(limits)
	return &g, nil
}

// measure has the governor read the recorded divergences again and holds the
// doses that it chooses against the recorded ones.
func (r *replay) measure() error {
	g, rec := r.governor, r.rec.Shadow
	if (g == nil) != (rec == nil) {
		return fmt.Errorf("replay: step record %d: a trace has a shadow in all of its steps or in none", r.record)
	}
	if g == nil || r.same {
		return nil
	}
	g.tries = g.tries[:0]
	for i, t := range rec.Tries {
		kl := math.Inf(1)
		if t.KL != nil {
			kl = *t.KL
		}
		if t.Dose != g.dose || !g.tooFar(kl) {
			return r.otherDose(Reading{Dose: t.Dose, KL: kl})
		}
		if rec.Unsteered && i == len(rec.Tries)-1 {
			g.reject(kl)
			break
		}
		g.lower(kl)
	}
	if !rec.Unsteered && (rec.Dose != g.dose || g.tooFar(rec.KL)) {
		return r.otherDose(Reading{Dose: rec.Dose, KL: rec.KL})
	}
	g.accept(rec.KL, rec.Unsteered)
	return nil
}

func (r *replay) otherDose(rec Reading) error {
	return &Difference{r.record, r.rec.Index, "shadow", fmt.Sprintf("%v nats at dose %v", rec.KL, rec.Dose),
		fmt.Sprintf("dose %v with room for %v nats", r.governor.dose, r.governor.room())}
}

// govern follows the recorded action.
func (r *replay) govern() {
	g, a := r.governor, &r.rec.Action
	if g == nil || r.rec.Exhausted != "" {
		return
	}
	rewound := a.Kind == Rewind.String()
	switch {
	case a.Kind == Commit.String() && !r.rec.End:
		g.commit()
	case rewound && r.rec.Rewound > 0 && r.rec.Rewound <= len(g.list):
		g.cut(len(g.list) - r.rec.Rewound)
	}
	if a.Plan != "" {
		g.renew()
	}
	// A rewind to the place of guidance takes that with it.
	r.same = rewound && r.rec.Rewound == 0 && a.Plan == "" && len(a.Guide) == 0 && !r.guided
	if rewound && !r.same {
		g.next()
	}
	r.guided = len(a.Guide) > 0
}
