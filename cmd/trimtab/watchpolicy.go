package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/trimtab/trimtab/monitors/reach"
	"github.com/trimtab/trimtab/runtime"
	"github.com/trimtab/trimtab/runtime/policy"
	"github.com/trimtab/trimtab/steer"
)

// guidanceSpan is how many tokens of the answer hidden guidance stays for.
const guidanceSpan = 32

// Budgets of one answer under --policy filter: trying another token costs a
// rewind and two tokens.
const (
	filterRewinds = 256
	filterDiscard = 4096
)

// policy makes the judge of one answer, and gives it its budgets.
func (g *guard) policy(cfg *runtime.Config) (runtime.Policy, error) {
	w := g.flags
	switch w.policy {
	case policyFlag:
		return policy.Flag{}, nil
	case policyStop:
		return g.stop(cfg)
	}
	back, err := g.backtrack(cfg, w.most)
	if err != nil || w.policy == policyBacktrack {
		return back, err
	}
	cfg.MaxRewinds, cfg.MaxDiscarded = filterRewinds+cfg.MaxRewinds, filterDiscard+cfg.MaxDiscarded
	return policy.NewFiltered(policy.FilteredOptions{Monitors: g.values, Otherwise: back})
}

// stop ends the text, with the refusal in place of what is held if there is one.
func (g *guard) stop(cfg *runtime.Config) (runtime.Policy, error) {
	if len(g.refusal) == 0 {
		return policy.StopOn(), nil
	}
	return g.backtrack(cfg, 0)
}

// backtrack tries again so many times.
func (g *guard) backtrack(cfg *runtime.Config, most int) (runtime.Policy, error) {
	w := g.flags
	o := policy.BacktrackOptions{Point: w.point, Ban: true, Guide: g.guidance, GuideSpan: guidanceSpan, Refusal: g.refusal,
		Most: most, Discard: most*(w.hold+1) + policy.DefaultDiscard}
	if most == 0 {
		o.Most = -1
	}
	cfg.MaxRewinds, cfg.MaxDiscarded = most+1, o.Discard+w.hold+1
	if cfg.MaxGuide = len(g.guidance); cfg.MaxGuide == 0 {
		cfg.MaxGuide = -1
	}
	return policy.NewBacktrack(o)
}

// hints says what a filter cannot do, on the error stream.
func (g *guard) hints(w io.Writer) {
	if g == nil || g.plan == nil {
		return
	}
	watched := false
	last := g.plan.At(g.plan.Len() - 1).Site.Layer
	for _, a := range g.sentries {
		switch {
		case a.value == nil:
		case a.value.Site.Layer < last:
			watched = true
		case a.value.Aim.Form == reach.RL:
			fmt.Fprintf(w, "note: %s is of form rl, which falls when an answer is decided, late for a filter: fit one with --form sample\n", plain(a.Name))
		}
	}
	if !watched {
		fmt.Fprintf(w, "note: a value function that lifts states sees them lifted: one of an earlier block would watch behind it\n")
	}
}

// lift makes the plan of --policy filter: behind what steers anyway, at the last
// of the sites of the value functions, the least edit that brings the state over
// --lift. Whoever lifts a state sees it lifted; value functions at earlier sites
// see it as it was, since no edit reaches back to them.
func (g *guard) lift(base *steer.Plan) error {
	at := -1
	for _, a := range g.sentries {
		if a.value != nil {
			at, g.values = max(at, a.value.Site.Layer), append(g.values, a.Name)
		}
	}
	if at < 0 {
		return badInput("--policy filter climbs a value function, and none is among the monitors (%s): fit one with `trimtab monitor fit`, or use --policy backtrack", strings.Join(g.names(), ", "))
	}
	var edits []steer.Intervention
	for _, a := range g.sentries {
		if a.value == nil || a.value.Site.Layer < at {
			continue
		}
		iv, err := a.value.Filter(reach.FilterOptions{C: g.flags.lift, Radius: g.flags.radius})
		if err != nil {
			return badInput("monitor %s: %w", a.Name, err)
		}
		edits = append(edits, iv)
	}
	filter, err := steer.NewPlan(edits...)
	if err != nil {
		return badInput("--policy filter: %w", err)
	}
	g.plan, err = steer.Stack(base, filter)
	return err
}
