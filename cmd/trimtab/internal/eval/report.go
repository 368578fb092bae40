package eval

import (
	"fmt"
	"io"
	"strings"
)

// Markdown writes the report as docs/results shows it.
func (r *Report) Markdown(w io.Writer) error {
	p := &page{w: w}
	p.line("# What steering does")
	p.line("")
	p.line("Written by `trimtab eval steering`. Model %s (%s), %d layers of width %d, %s.", r.Model, r.Hash, r.Layers, r.Width, r.Backend)
	p.line("Answers at temperature %v, %d seeds, which change the answers and the shuffled vectors; every random answer has a vector of its own. Three disjoint splits:", r.Temperature, r.Seeds)
	p.line("directions come from the first; layer, place, rows, dose and cue sentence were chosen on the second (likeliest trials by")
	p.line("log-probability, then by judged answers) with a mean KL of at most %v on %d neutral prompts; the tables show the third, which", r.MaxKL, r.Neutral[0])
	p.line("nothing was chosen by. In brackets: 95 %% bootstrap intervals over prompts. KL is per token, on %d further neutral prompts;", r.Neutral[1])
	p.line("perplexity is that of the answers to the unsteered model; repetition is the share of 4-grams that the same answer had before.")
	p.line("Random, shuffled and negated vectors stand in for the best method: its layer, rows, dose and length. The whole run took %.0f s.", r.Seconds)
	p.line("")
	p.goals(r)
	for _, o := range r.Outcomes {
		p.outcome(o)
	}
	p.together(r)
	p.counts(r)
	p.reading(r)
	return p.err
}

// page writes lines and keeps the first error.
type page struct {
	w   io.Writer
	err error
}

func (p *page) line(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format+"\n", args...)
	}
}

func (s Share) String() string { return fmt.Sprintf("%.3f [%.3f, %.3f]", s.Mean, s.Low, s.High) }

// maxBroken is the share of broken answers that a goal allows.
const maxBroken = 0.03

// row finds a row by its name; nil if there is none.
func (o *Outcome) row(way string) *Row {
	for i := range o.Rows {
		if o.Rows[i].Way == way {
			return &o.Rows[i]
		}
	}
	return nil
}

// Reached reports whether a row reaches the outcome's goal.
func (o *Outcome) Reached(r *Row, maxKL float64) bool {
	if r == nil || r.KL > maxKL || r.Broken.Mean > maxBroken {
		return false
	}
	if r.Right != nil {
		return r.Right.Mean >= o.Goal*o.Own
	}
	return r.Shown.Mean >= o.Goal
}

// Inside reports whether a control stays within the interval of the unsteered
// model.
func (o *Outcome) Inside(way string) bool {
	base, c := o.row("base"), o.row(way)
	if base == nil || c == nil {
		return false
	}
	return c.Shown.Mean >= base.Shown.Low && c.Shown.Mean <= base.Shown.High
}

func (p *page) goals(r *Report) {
	if len(r.Outcomes) == 0 || r.Outcomes[0].Goal == 0 {
		return
	}
	p.line("## Goals")
	p.line("")
	p.line("| behaviour | unsteered | wanted | chosen method | reached | methods that reach it | random, shuffled as unsteered |")
	p.line("|---|---|---|---|---|---|---|")
	for _, o := range r.Outcomes {
		best, base := o.row(o.Best), o.row("base")
		if best == nil || base == nil {
			continue
		}
		from, got, want := base.Shown, best.Shown, o.Goal
		if best.Right != nil {
			from, got, want = *base.Right, *best.Right, o.Goal*o.Own
		}
		var names []string
		for i := range o.Rows {
			if way := &o.Rows[i]; way.Fit != nil && o.Reached(way, r.MaxKL) {
				names = append(names, way.Way)
			}
		}
		p.line("| %s | %s | %.3f | %s: %s, %.3f broken, KL %.4f | %s | %s | %s, %s |", o.Behaviour, from, want, o.Best, got, best.Broken.Mean, best.KL,
			yes(o.Reached(best, r.MaxKL)), or(strings.Join(names, ", "), "none"), yes(o.Inside("random")), yes(o.Inside("shuffled")))
	}
	p.line("")
	p.line("The chosen method is the one with the best validation score. For sums the share of right answers counts, and the goal is 0.9 of")
	p.line("the share right among unsteered answers that show their work; at most %.0f %% broken answers and a KL of at most %v are part of every goal.", 100*maxBroken, r.MaxKL)
	p.line("")
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "**no**"
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

func (p *page) outcome(o *Outcome) {
	right := o.Rows[0].Right != nil
	p.line("## %s", o.Behaviour)
	p.line("")
	if right {
		p.line("Right among the unsteered answers that show it: %.3f.", o.Own)
		p.line("")
	}
	head, rule := "| | shown | broken |", "|---|---|---|"
	if right {
		head, rule = "| | right | shown | broken |", rule+"---|"
	}
	p.line("%s KL | perplexity | repetition | tokens | by seed |", head)
	p.line("%s---|---|---|---|---|", rule)
	for _, r := range o.Rows {
		name := r.Way
		switch {
		case r.Cue != "":
			name += fmt.Sprintf(" (%q)", r.Cue)
		case name == o.Best:
			name = "**" + name + "**"
		}
		first := ""
		if right {
			first = " " + r.Right.String() + " |"
		}
		kl := fmt.Sprintf("%.4f", r.KL)
		if r.Cue != "" {
			kl = "-"
		}
		var seeds []string
		for _, x := range r.Seeds {
			seeds = append(seeds, fmt.Sprintf("%.2f", x))
		}
		p.line("| %s |%s %s | %s | %s | %.3f | %.3f | %.1f | %s |", name, first, r.Shown, r.Broken, kl, r.Perplexity, r.Repetition, r.Tokens, strings.Join(seeds, " "))
	}
	p.line("")
	p.line("| method | layer | read at | steers | dose | validation score | validation KL | choosing |")
	p.line("|---|---|---|---|---|---|---|---|")
	for _, r := range o.Rows {
		if f := r.Fit; f != nil {
			rows := f.Rows
			if f.Words != "" {
				rows += ": " + strings.ReplaceAll(f.Words, "|", "\\|")
			}
			p.line("| %s | %d | %s | %s | %.3g | %.3f | %.4f | %.0f s |", r.Way, f.Layer, f.Place, rows, f.Dose, f.Score, f.KL, f.Seconds)
		}
	}
	p.line("")
}

func (p *page) together(r *Report) {
	if len(r.Together) == 0 {
		return
	}
	p.line("## Several at once")
	p.line("")
	p.line("The chosen method of each, all in one plan, with one factor on all doses (chosen on the validation split, within the budget).")
	p.line("")
	p.line("| behaviours | plans | factor | each shown | all shown | broken | KL | cosines |")
	p.line("|---|---|---|---|---|---|---|---|")
	for _, c := range r.Together {
		var shown, cos []string
		if c.Fault != "" {
			p.line("| %s | %s | | %s | | | | |", strings.Join(c.Behaviours, ", "), c.How, c.Fault)
			continue
		}
		for _, s := range c.Shown {
			shown = append(shown, s.String())
		}
		for _, x := range c.Cosines {
			cos = append(cos, fmt.Sprintf("%.2f", x))
		}
		p.line("| %s | %s | %v | %s | %s | %s | %.4f | %s |", strings.Join(c.Behaviours, ", "), c.How, c.Factor, strings.Join(shown, "<br>"), c.All, c.Broken, c.KL, strings.Join(cos, " "))
	}
	p.line("")
}

func (p *page) counts(r *Report) {
	any := false
	for _, o := range r.Outcomes {
		any = any || len(o.Counts) > 0
	}
	if !any {
		return
	}
	p.line("## How many pairs suffice")
	p.line("")
	p.line("The chosen method, with direction and dose from fewer pairs, half as many of them again to choose by, at the layer, place and")
	p.line("rows of the whole fit. The time is that of reading and choosing.")
	p.line("")
	p.line("| behaviour | method | pairs | shown | right | broken | KL | time |")
	p.line("|---|---|---|---|---|---|---|---|")
	line := func(o *Outcome, n int, row *Row, seconds string) {
		right := ""
		if row.Right != nil {
			right = row.Right.String()
		}
		p.line("| %s | %s | %d | %s | %s | %s | %.4f | %s |", o.Behaviour, o.Best, n, row.Shown, right, row.Broken, row.KL, seconds)
	}
	for _, o := range r.Outcomes {
		if len(o.Counts) == 0 {
			continue
		}
		for i := range o.Counts {
			line(o, o.Counts[i].Pairs, &o.Counts[i].Row, fmt.Sprintf("%.0f s", o.Counts[i].Seconds))
		}
		line(o, o.Pairs[0], o.row(o.Best), "above")
	}
	p.line("")
}

func (p *page) reading(r *Report) {
	p.line("## Extraction")
	p.line("")
	p.line("One reading serves all methods of a behaviour and of its opposite.")
	p.line("")
	p.line("| behaviour | pairs | cells (layer and place) | reading |")
	p.line("|---|---|---|---|")
	for _, o := range r.Outcomes {
		p.line("| %s | %d | %d | %.1f s |", o.Behaviour, o.Pairs[0], o.Cells, o.Reading)
	}
}
