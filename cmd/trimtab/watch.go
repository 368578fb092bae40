package main

import (
	"fmt"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/monitors"
	"github.com/trimtab/trimtab/runtime"
	"github.com/trimtab/trimtab/runtime/engine"
	"github.com/trimtab/trimtab/runtime/policy"
	"github.com/trimtab/trimtab/steer"
)

// The values of --policy.
const (
	policyFlag      = "flag"
	policyStop      = "stop"
	policyBacktrack = "backtrack"
	policyFilter    = "filter"
)

// holdBacks are the default windows, in tokens: room for a phrase to begin in
// text that has not left.
var holdBacks = map[string]int{policyFlag: 0, policyStop: 8, policyBacktrack: 16, policyFilter: 16}

// defaultLift is where --policy filter begins to act: at states from which about
// a third of the texts end badly, long before an alarm. It is what `trimtab eval
// safety` tries first, and so is the radius.
const (
	defaultLift   = 0.3
	defaultRadius = 0.5
)

// watching holds the flags that `run` and `batch` share about monitors and what
// follows from them.
type watching struct {
	monitors          []string
	policy            string
	hold, most        int
	rewindTo          string
	refusal, guidance string
	failOpen, scores  bool
	lift, radius      float64

	specs []sentrySpec
	point policy.Point
}

func newWatching(c *cobra.Command) *watching {
	w, f := &watching{}, c.Flags()
	f.StringArrayVar(&w.monitors, "monitor", nil, "watch with `SPEC`: FILE[:threshold], lexicon:FILE, repetition, entropy[:options]; may be given several times")
	f.StringVar(&w.policy, "policy", policyFlag, "what follows when a monitor objects: flag (say so), stop, backtrack or filter")
	f.IntVar(&w.hold, "hold-back", 0, "tokens that wait before they leave (default 0 for flag, 8 for stop, 16 for backtrack and filter)")
	f.Float64Var(&w.lift, "lift", defaultLift, "value under which filter lifts a state")
	f.Float64Var(&w.radius, "radius", defaultRadius, "greatest change of a state by filter, as a share of its norm")
	f.IntVar(&w.most, "max-interventions", policy.DefaultInterventions, "times that backtrack tries again before the text ends")
	f.StringVar(&w.rewindTo, "rewind-to", "onset", "where backtrack goes: onset (as the monitor says), sentence, line, or a number of tokens")
	f.StringVar(&w.refusal, "refusal", "", "`TEXT` that ends an answer in place of what was not mended (default: it just ends)")
	f.StringVar(&w.guidance, "guidance", "", "hidden `TEXT` for the model to read when it tries again")
	f.BoolVar(&w.failOpen, "fail-open", false, "go on without a monitor that fails (default: end the answer with an error)")
	f.BoolVar(&w.scores, "scores", false, "list every token's scores: after the answer, with --json and batch in it")
	return w
}

// wanted reports whether anything is watched.
func (w *watching) wanted() bool { return len(w.monitors) > 0 }

// check reports wrong values before a model is loaded.
func (w *watching) check(c *cobra.Command) error {
	changed := c.Flags().Changed
	acts := w.policy == policyBacktrack || w.policy == policyFilter
	for _, name := range []string{"policy", "hold-back", "max-interventions", "rewind-to", "refusal", "guidance", "fail-open", "scores", "lift", "radius"} {
		if changed(name) && !w.wanted() {
			return usagef(c, "--%s needs --monitor", name)
		}
	}
	for _, name := range []string{"max-interventions", "rewind-to", "guidance"} {
		if changed(name) && !acts {
			return usagef(c, "--%s is for --policy backtrack and filter, not for %s", name, w.policy)
		}
	}
	for _, name := range []string{"lift", "radius"} {
		if changed(name) && w.policy != policyFilter {
			return usagef(c, "--%s is for --policy filter, not for %s", name, w.policy)
		}
	}
	hold, known := holdBacks[w.policy]
	switch {
	case !known:
		return usagef(c, "--policy is %q, must be flag, stop, backtrack or filter", w.policy)
	case len(w.monitors) > runtime.MaxMonitors:
		return usagef(c, "%d monitors, the limit is %d", len(w.monitors), runtime.MaxMonitors)
	case w.refusal != "" && w.policy == policyFlag:
		return usagef(c, "--refusal does nothing with --policy flag, which lets everything pass")
	case w.hold < 0 || w.hold > runtime.MaxHoldBack:
		return usagef(c, "--hold-back is %d, must be between 0 and %d", w.hold, runtime.MaxHoldBack)
	case w.policy == policyFilter && changed("hold-back") && w.hold < 1:
		return usagef(c, "--hold-back is 0: --policy filter has to take a token back to choose another, so it must be at least 1")
	case w.lift-w.lift != 0:
		return usagef(c, "--lift is %v, must be a number", w.lift)
	case !(w.radius > 0 && w.radius <= 10):
		return usagef(c, "--radius is %v, must be above 0 and at most 10", w.radius)
	case w.most < 0 || w.most > 1000:
		return usagef(c, "--max-interventions is %d, must be between 0 and 1000", w.most)
	case !utf8.ValidString(w.refusal) || !utf8.ValidString(w.guidance):
		return usagef(c, "--refusal and --guidance must be valid UTF-8")
	}
	if !changed("hold-back") {
		w.hold = hold
	}
	return w.parse(c)
}

func (w *watching) parse(c *cobra.Command) (err error) {
	if w.specs, err = parseSentries(c, w.monitors); err != nil {
		return err
	}
	if w.point, err = pointNamed(w.rewindTo); err != nil {
		return usagef(c, "--rewind-to: %w", err)
	}
	return nil
}

func parseSentries(c *cobra.Command, texts []string) (out []sentrySpec, err error) {
	for _, text := range texts {
		s, err := parseSentry(text)
		if err != nil {
			return nil, usagef(c, "--monitor %s: %w", text, err)
		}
		out = append(out, s)
	}
	return out, nil
}

func pointNamed(s string) (policy.Point, error) {
	switch s {
	case "onset":
		return policy.Onset{}, nil
	case "sentence":
		return policy.Beginning{}, nil
	case "line":
		return policy.Beginning{Line: true}, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 || n > runtime.MaxHoldBack {
		return nil, fmt.Errorf("%q is not onset, sentence, line or a number up to %d", s, runtime.MaxHoldBack)
	}
	return policy.Fixed(n), nil
}

// guard is what watches every answer of a command. Nil watches nothing. It is
// data: safe for concurrent use.
type guard struct {
	sentries []*sentry
	flags    *watching
	list     []monitors.Monitor
	values   []string    // names of the value functions
	plan     *steer.Plan // what steers and lifts the state, for --policy filter; else nil

	refusal, guidance []decode.Token
}

// factsOf is a model as files of vectors and monitors are held against it.
func factsOf(info *engine.Info) steer.Facts {
	return steer.Facts{ModelHash: info.Hash, Arch: info.Arch, Layers: info.Layers, Width: info.Width, TemplateHash: steer.HashTemplate(info.Template)}
}

// open reads the monitors and holds them against the model. Nil for none.
func (w *watching) open(m *loaded, anyModel bool) (_ *guard, err error) {
	if !w.wanted() {
		return nil, nil
	}
	g := &guard{flags: w}
	if g.sentries, err = openSentries(w.specs, factsOf(m.info), anyModel); err != nil {
		return nil, err
	}
	for _, a := range g.sentries {
		g.list = append(g.list, a.Monitor)
	}
	if g.refusal, err = m.plain(w.refusal); err != nil {
		return nil, badInput("--refusal: %w", err)
	}
	if len(g.refusal) > runtime.MaxForce {
		return nil, badInput("--refusal has %d tokens, the limit is %d", len(g.refusal), runtime.MaxForce)
	}
	if g.guidance, err = m.plain(w.guidance); err != nil {
		return nil, badInput("--guidance: %w", err)
	}
	if len(g.guidance) > runtime.MaxHidden {
		return nil, badInput("--guidance has %d tokens, the limit is %d", len(g.guidance), runtime.MaxHidden)
	}
	if w.policy == policyFilter {
		return g, g.lift(m.plan)
	}
	return g, nil
}

// apply puts the watch into the configuration of one answer.
func (g *guard) apply(cfg *runtime.Config) (err error) {
	if g == nil {
		return nil
	}
	w := g.flags
	cfg.Monitors = slices.Concat(cfg.Monitors, g.list)
	if cfg.HoldBack = w.hold; w.failOpen {
		cfg.OnFault = runtime.FailOpen
	}
	if g.plan != nil {
		cfg.Plan = g.plan
	}
	cfg.Policy, err = g.policy(cfg)
	return err
}

// names are those of the monitors.
func (g *guard) names() (out []string) {
	for _, a := range g.sentries {
		out = append(out, a.Name)
	}
	return out
}
