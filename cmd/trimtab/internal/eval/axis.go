package eval

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/steer"
	"github.com/trimtab/trimtab/steer/extract"
)

// Outcome is everything measured of one behaviour.
type Outcome struct {
	Behaviour string  `json:"behaviour"`
	Best      string  `json:"best"` // the method with the best validation score
	Goal      float64 `json:"goal,omitempty"`
	Own       float64 `json:"own,omitempty"` // with Rightness: share of right answers among those that show it unsteered
	Rows      []Row   `json:"rows"`
	Counts    []Count `json:"counts,omitempty"`

	Pairs   [2]int  `json:"pairs"`   // for directions, for choosing
	Reading float64 `json:"reading"` // seconds, for all methods together
	Cells   int     `json:"cells"`   // layers times places that were read

	best *extract.Result
}

// Count is a fit from fewer pairs.
type Count struct {
	Pairs   int       `json:"pairs"`
	Row     Row       `json:"row"`
	Fit     FitReport `json:"fit"`
	Seconds float64   `json:"seconds"` // reading and choosing
}

// study is one axis being measured.
type study struct {
	*desk
	axis   *Axis
	states *extract.Moments
	took   float64 // seconds of reading
}

// measure does one axis: both behaviours, all methods.
func (d *desk) measure(ctx context.Context, axis *Axis) ([]*Outcome, error) {
	s := &study{desk: d, axis: axis}
	var err error
	if err = s.read(ctx); err != nil {
		return nil, fmt.Errorf("%s: %w", axis.Name, err)
	}
	var list []*Outcome
	fits := map[extract.Method]*extract.Result{}
	for i, b := range axis.behaviours() {
		o, err := s.behaviour(ctx, b, i == 1, fits)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", b.Name, err)
		}
		list = append(list, o)
	}
	for _, n := range s.o.Counts {
		if err := s.fewer(ctx, list[0], axis.Is, n); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// read makes the moments that all methods share.
func (s *study) read(ctx context.Context) error {
	places, err := extract.PlacesOf(s.render, s.o.Methods...)
	if err != nil {
		return err
	}
	start := s.o.Now()
	s.states, err = extract.Read(ctx, s.e, s.render, only(s.axis.Is.Pairs, extract.Train), s.layers(), places,
		extract.ReadOptions{Rows: true, Seed: 1, Progress: s.progress(s.axis.Name)})
	s.took = s.o.Now().Sub(start).Seconds()
	return err
}

// layers are all whose output is another block's input.
func (s *study) layers() (out []int) {
	for l := range max(s.e.Info().Layers-1, 1) {
		out = append(out, l)
	}
	return out
}

func only(pairs []extract.Pair, split extract.Split) (out []extract.Pair) {
	for _, p := range pairs {
		if p.Split == split {
			out = append(out, p)
		}
	}
	return out
}

// progress says each stage once.
func (d *desk) progress(what string) func(extract.Progress) {
	stage := ""
	return func(p extract.Progress) {
		if p.Stage != stage {
			stage = p.Stage
			d.o.Say(what + ": " + stage)
		}
	}
}

// behaviour fits every method and measures all rows. fits holds the results of
// the axis' first behaviour: for the opposite, place and rows are taken over,
// and the dose is chosen anew.
func (s *study) behaviour(ctx context.Context, b *Behaviour, mirrored bool, fits map[extract.Method]*extract.Result) (*Outcome, error) {
	o := &Outcome{Behaviour: b.Name, Goal: b.Goal, Reading: s.took, Cells: len(s.states.Cells),
		Pairs: [2]int{len(only(b.Pairs, extract.Train)), len(only(b.Pairs, extract.Validation))}}
	results, reports := map[string]*extract.Result{}, map[string]*FitReport{}
	for _, m := range s.o.Methods {
		start := s.o.Now()
		options := extract.Options{Method: m, Windows: s.o.Windows, Focus: m != extract.PaLRS, States: s.states}
		if mirrored {
			options = again(options, fits[m], s.states.Mirrored())
		}
		r, err := s.fit(ctx, b, b.Pairs, options)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m, err)
		}
		results[string(m)] = r
		reports[string(m)] = s.fitReport(r, s.o.Now().Sub(start).Seconds())
		if !mirrored {
			fits[m] = r
		}
		if o.best == nil || r.Chosen.Score.Mean > o.best.Chosen.Score.Mean {
			o.Best, o.best = string(m), r
		}
	}
	cue, err := s.bestCue(ctx, b)
	if err != nil {
		return nil, err
	}
	return o, s.fill(ctx, o, b, results, reports, cue)
}

// again is how the opposite of a fitted behaviour is fitted.
func again(o extract.Options, r *extract.Result, states *extract.Moments) extract.Options {
	o.States, o.Focus, o.Windows = states, false, []extract.Window{r.Chosen.Window}
	if o.Method != extract.PaLRS { // which always has its own cell
		o.Layers, o.Places = []int{r.Chosen.Cell.Layer}, []extract.Place{r.Chosen.Cell.Place}
	}
	return o
}

func (s *study) fit(ctx context.Context, b *Behaviour, pairs []extract.Pair, o extract.Options) (*extract.Result, error) {
	o.Neutral, o.MaxKL, o.Seed, o.Bare = s.o.Neutral.Choose, s.o.MaxKL, 1, true
	o.Progress = s.progress(b.Name + ", " + string(o.Method))
	o.Judge = func(ctx context.Context, plans []*steer.Plan) ([][]float64, error) {
		ways := make([]way, len(plans))
		for i, p := range plans {
			ways[i].plan = p
		}
		return s.validate(ctx, b, ways)
	}
	return extract.Fit(ctx, s.e, s.render, pairs, o)
}

// validate scores answers to the validation prompts.
func (d *desk) validate(ctx context.Context, b *Behaviour, ways []way) ([][]float64, error) {
	said, err := d.answers(ctx, ways, b.Choose, validationSeed)
	if err != nil {
		return nil, err
	}
	out := make([][]float64, len(ways))
	for w := range ways {
		v, err := b.judged(ctx, b.Choose, said[w])
		if err != nil {
			return nil, err
		}
		for _, x := range v {
			out[w] = append(out[w], b.score(x))
		}
	}
	return out, nil
}

// validationSeed is no seed of the test.
const validationSeed = 1 << 32

// bestCue is the sentence that works best on the validation prompts.
func (s *study) bestCue(ctx context.Context, b *Behaviour) (string, error) {
	if len(b.Cues) < 2 {
		return strings.Join(b.Cues, ""), nil
	}
	ways := make([]way, len(b.Cues))
	for i, c := range b.Cues {
		ways[i] = way{name: c, cue: c}
	}
	scores, err := s.validate(ctx, b, ways)
	if err != nil {
		return "", err
	}
	best, top := "", -1.0
	for i, x := range scores {
		sum := 0.0
		for _, v := range x {
			sum += v
		}
		if sum > top {
			best, top = b.Cues[i], sum
		}
	}
	return best, nil
}

// fill measures all rows on the test prompts. The controls stand in for the
// best method: its layer, rows and dose.
func (s *study) fill(ctx context.Context, o *Outcome, b *Behaviour, results map[string]*extract.Result, reports map[string]*FitReport, cue string) error {
	names := []string{"base"}
	for _, m := range s.o.Methods {
		names = append(names, string(m))
	}
	if cue != "" {
		names = append(names, "prompt")
	}
	names = append(names, "random", "shuffled", "negated")
	s.o.Say(b.Name + ": answering the test prompts")
	var err error
	o.Rows, err = s.rows(ctx, b, names, func(name string, seed int) (w way, err error) {
		w.name = name
		switch r := results[name]; {
		case name == "prompt":
			w.cue = cue
		case r != nil:
			w.plan, err = r.Plan(1)
		case name == "random":
			w.each, err = randoms(o.best, len(b.Test), seed)
		case name != "base":
			d := o.best.Beside(uint64(seed + 1))[name]
			if d == nil {
				return w, fmt.Errorf("nothing is left of the %s direction", name)
			}
			w.plan, err = o.best.PlanOf(d)
		}
		return w, err
	})
	if err != nil {
		return err
	}
	for i := range o.Rows {
		o.Rows[i].Fit = reports[o.Rows[i].Way]
		if o.Rows[i].Way == "prompt" {
			o.Rows[i].Cue = cue
		}
	}
	if base := o.Rows[0]; b.Rightness && base.Shown.Mean > 0 {
		o.Own = base.own
	}
	return nil
}

// randoms is a random vector for every answer: one moves a share either way by
// chance, many show what such a push does.
func randoms(r *extract.Result, n, seed int) ([]*steer.Plan, error) {
	out := make([]*steer.Plan, n)
	for i := range out {
		var err error
		if out[i], err = r.PlanOf(r.Beside(mix(uint64(seed), uint64(i)))["random"]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (s *study) fitReport(r *extract.Result, seconds float64) *FitReport {
	c := r.Chosen
	return &FitReport{Layer: c.Cell.Layer, Place: c.Cell.Place.String(), Rows: c.Window.String(), Words: s.words(c.Window.Tokens), Dose: c.Dose,
		Norm: r.MeanNorm, Score: c.Score.Mean, KL: c.KL, Effect: c.Effect.Mean, Seconds: seconds}
}

// words are the texts of tokens, quoted.
func (d *desk) words(tokens []decode.Token) string {
	var out []string
	for _, t := range tokens {
		text := string(d.e.Info().Tokenizer.AppendPiece(nil, t))
		if text == "" {
			text = d.e.Info().Tokenizer.Text(t)
		}
		out = append(out, fmt.Sprintf("%q", text))
	}
	return strings.Join(out, " ")
}

// fewer fits the behaviour from its first n pairs: the direction and the dose
// anew, at the place and the rows that all pairs led to.
func (s *study) fewer(ctx context.Context, o *Outcome, b *Behaviour, n int) error {
	train, val := only(b.Pairs, extract.Train), only(b.Pairs, extract.Validation)
	if n >= len(train) {
		return nil
	}
	pairs := slices.Concat(train[:n], val[:min(len(val), max(n/2, 4))], only(b.Pairs, extract.Test))
	start := s.o.Now()
	c := o.best.Chosen
	r, err := s.fit(ctx, b, pairs, extract.Options{Method: extract.Method(o.Best), Layers: []int{c.Cell.Layer}, Places: []extract.Place{c.Cell.Place}, Windows: []extract.Window{c.Window}})
	if err != nil {
		return fmt.Errorf("%s from %d pairs: %w", b.Name, n, err)
	}
	took := s.o.Now().Sub(start).Seconds()
	rows, err := s.rows(ctx, b, []string{o.Best}, func(string, int) (w way, err error) {
		w.plan, err = r.Plan(1)
		return w, err
	})
	if err != nil {
		return err
	}
	o.Counts = append(o.Counts, Count{Pairs: n, Row: rows[0], Fit: *s.fitReport(r, took), Seconds: took})
	return nil
}
