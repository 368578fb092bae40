package extract

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/internal/vec"
	"github.com/trimtab/trimtab/steer"
)

// Window says which rows are steered, counted from the prompt's end: -1 is its
// last token, 0 the first generated one. A nil bound is open.
type Window struct {
	From *int `json:"from"`
	To   *int `json:"to"`
	// Tokens, if there are any, must contain the row's own token.
	Tokens []decode.Token `json:"tokens,omitempty"`
}

func (w Window) String() string {
	if len(w.Tokens) > 0 {
		return Window{w.From, w.To, nil}.String() + fmt.Sprintf(" at %d tokens", len(w.Tokens))
	}
	from, to := "", ""
	if w.From != nil {
		from = fmt.Sprint(*w.From)
	}
	if w.To != nil {
		to = fmt.Sprint(*w.To)
	}
	if from == "" && to == "" {
		return "all rows"
	}
	return "rows [" + from + "," + to + ")"
}

// Rows makes a window from -1 for the last prompt token, or the like. A to of 0
// or less than from leaves the end open, unless it is 0 and from is below.
func Rows(from, to int) Window {
	w := Window{From: &from}
	if to > from {
		w.To = &to
	}
	return w
}

// Windows are the ones tried by default: the last prompt token with the first
// four of the answer, everything from there on, that token alone, and all rows.
// Steering every row of an answer costs accuracy that a short window does not.
func Windows() []Window {
	return []Window{Rows(-1, 4), Rows(-1, -1), Rows(-1, 0), {}}
}

// Doses is the grid tried by default, as shares of the activation's norm.
func Doses() []float64 { return []float64{0.05, 0.1, 0.2, 0.3, 0.4, 0.6, 0.8} }

// Trial is one way to steer and what it did on the validation pairs.
type Trial struct {
	Cell   Cell
	Window Window
	Dose   float64
	Margin Estimate // log p(chosen) - log p(rejected), in nats per answer
	Effect Estimate // what the choice goes by: the gain of log p(chosen) over the unsteered model, with the loss of log p(rejected) as far as it is no larger
	KL     float64  // mean per token on neutral prompts, in nats
	Score  Estimate // by [Options.Judge]; N is 0 where it was not asked
}

// Estimate is a mean over pairs.
type Estimate struct {
	Mean  float64
	Error float64 // standard error of Mean
	Wins  float64 // share of pairs above zero
	N     int
}

func estimate(x []float64) Estimate {
	e := Estimate{N: len(x)}
	for _, v := range x {
		e.Mean += v / float64(len(x))
		if v > 0 {
			e.Wins += 1 / float64(len(x))
		}
	}
	if len(x) < 2 {
		return e
	}
	for _, v := range x {
		e.Error += (v - e.Mean) * (v - e.Mean)
	}
	e.Error = math.Sqrt(e.Error / float64(len(x)-1) / float64(len(x)))
	return e
}

// plan adds direction, times dose, at a layer in a window.
func plan(layer int, direction []float32, w Window, dose float64) (*steer.Plan, error) {
	when := steer.When{From: w.From, To: w.To}
	for _, t := range w.Tokens {
		when.Tokens = append(when.Tokens, int32(t))
	}
	return steer.NewPlan(steer.Intervention{Site: steer.Site{Layer: layer}, Op: steer.Add, Vector: direction,
		Scale: float32(dose), When: when})
}

// candidate is a cell with its direction, scaled to the activation's norm.
type candidate struct {
	cell      int
	layer     int
	direction []float32
}

// candidates makes the method's direction at each cell it considers; cells
// where both sides are equal drop out.
func (m *Moments) candidates(by Method, may func(Cell) bool) ([]candidate, error) {
	var list []candidate
	var last error
	add := func(c int) {
		r, err := m.Direction(c, by)
		if err == nil {
			var d []float32
			if d, err = scaled(r, length(m.MeanChosen(c))); err == nil {
				list = append(list, candidate{c, m.Cells[c].Layer, d})
				return
			}
		}
		last = fmt.Errorf("%s: %w", m.Cells[c], err)
	}
	if by == PaLRS {
		if c := m.MostAligned(may); c >= 0 {
			add(c)
		}
	} else {
		for c := range m.Cells {
			if may(m.Cells[c]) {
				add(c)
			}
		}
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%w: no cell has a direction, the last: %w", ErrPairs, last)
	}
	return list, nil
}

// arm is one way to steer that is compared with others.
type arm struct {
	candidate
	window Window
	dose   float64
}

func (f *fitter) plans(arms []arm) ([]*steer.Plan, error) {
	out := make([]*steer.Plan, len(arms))
	for i, a := range arms {
		var err error
		if out[i], err = plan(f.m.Cells[a.cell].Layer, a.direction, a.window, a.dose); err != nil {
			return nil, fmt.Errorf("%s, %s: %w", f.m.Cells[a.cell], a.window, err)
		}
	}
	return out, nil
}

// Bounds of the search. A full product of cells, windows and doses would cost
// ten times as much and, on few pairs, mostly fit noise.
const (
	entrants      = 12  // cells that are tried at all
	finalists     = 3   // cells that every window is tried at
	survivors     = 2   // cells that get every dose in their best window
	screenPairs   = 8   // validation pairs that decide about cells and windows
	gridPairs     = 24  // and about doses
	screenNeutral = 6   // neutral texts that decide about cells and windows
	screenSlack   = 1.5 // times the budget, since few texts tell it badly
	extensions    = 6   // doses beyond the grid, each a quarter higher
)

// search narrows the candidates: to cells whose sides are well apart, of every
// kind of place, then to cells in the first two windows, then windows, both at
// three doses on a few pairs, then doses on more.
func (f *fitter) search(ctx context.Context, list []candidate) ([]Trial, error) {
	val := f.validation[:min(len(f.validation), screenPairs)]
	arms, err := f.screen(ctx, product(f.enter(list), f.o.Windows[:min(len(f.o.Windows), 2)]), val, "choosing layer and place")
	if err != nil {
		return nil, err
	}
	var best []candidate
	for _, a := range firsts(arms, finalists) {
		best = append(best, a.candidate)
	}
	if arms, err = f.screen(ctx, product(best, f.o.Windows), val, "choosing rows"); err != nil {
		return nil, err
	}
	return f.doses(ctx, firsts(arms, survivors))
}

// enter picks the cells that are tried at all, in turn from every kind of place
// the one whose sides are best separated: what kind carries a behaviour is not
// to be seen from the separation.
func (f *fitter) enter(list []candidate) []candidate {
	byKind := map[Kind][]candidate{}
	for _, c := range list {
		k := f.m.Cells[c.cell].Place.Kind
		byKind[k] = append(byKind[k], c)
	}
	for _, l := range byKind {
		slices.SortStableFunc(l, func(a, b candidate) int { return cmp.Compare(f.m.Separation(b.cell), f.m.Separation(a.cell)) })
	}
	var out []candidate
	for i := 0; len(out) < min(len(list), entrants); i++ {
		for k := range Kind(len(kindNames)) {
			if i < len(byKind[k]) && len(out) < entrants {
				out = append(out, byKind[k][i])
			}
		}
	}
	return out
}

func product(list []candidate, windows []Window) (arms []arm) {
	for _, c := range list {
		for _, w := range windows {
			arms = append(arms, arm{candidate: c, window: w})
		}
	}
	return arms
}

// firsts keeps each cell's best window, of the n best cells. A cell of the same
// layer with nearly the same direction as a better one would teach nothing new.
func firsts(arms []arm, n int) (out []arm) {
	for _, a := range arms {
		if len(out) < n && !slices.ContainsFunc(out, func(b arm) bool { return b.cell == a.cell || b.layer == a.layer && alike(a, b) }) {
			out = append(out, a)
		}
	}
	return out
}

// alikeness is the cosine above which two directions count as one.
const alikeness = 0.95

func alike(a, b arm) bool {
	return vec.Dot(a.direction, b.direction) > alikeness*vec.Norm(a.direction)*vec.Norm(b.direction)
}

// screen sorts arms by their best mean effect at a low, a medium and the highest
// dose, best first. A dose far beyond the budget on a few neutral prompts does
// not count: a strong effect that cannot be used would hide a weaker one that
// can.
func (f *fitter) screen(ctx context.Context, arms []arm, val []contest, stage string) ([]arm, error) {
	if len(arms) <= 1 {
		return arms, nil
	}
	n := len(f.o.Doses)
	doses := []float64{f.o.Doses[n/4], f.o.Doses[n/2], slices.Max(f.o.Doses)}
	var tried []arm
	for _, a := range arms {
		for _, a.dose = range doses {
			tried = append(tried, a)
		}
	}
	plans, err := f.plans(tried)
	if err != nil {
		return nil, err
	}
	x, err := scores(ctx, f.e, plans, val, f.report(stage, 2*len(plans)*len(val)))
	if err != nil {
		return nil, err
	}
	kl, err := divergences(ctx, f.e, plans, f.neutral[:min(len(f.neutral), screenNeutral)], nil)
	if err != nil {
		return nil, err
	}
	order, score := make([]int, len(arms)), make([]float64, len(arms))
	for i := range arms {
		order[i], score[i] = i, math.Inf(-1)
		for k := range doses {
			if at := i*len(doses) + k; kl[at] <= screenSlack*f.o.MaxKL {
				score[i] = max(score[i], effectsOf(x[at], f.base).Mean)
			}
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(score[b], score[a]) })
	out := make([]arm, len(arms))
	for i := range out {
		out[i] = arms[order[i]]
	}
	return out, nil
}

// doses tries every dose for the surviving arms. While the best is the highest
// dose of the default grid, a quarter more is tried too.
func (f *fitter) doses(ctx context.Context, arms []arm) ([]Trial, error) {
	var trials []Trial
	doses := f.o.Doses
	for range extensions + 1 {
		more, err := f.trials(ctx, arms, doses)
		if err != nil {
			return nil, err
		}
		trials = append(trials, more...)
		top := slices.Max(doses)
		if at, guarded := pick(trials, f.o.MaxKL); !f.extend || !guarded || trials[at].Dose < top {
			break
		}
		doses = []float64{1.25 * top}
	}
	return f.refine(ctx, arms, trials)
}

func (f *fitter) trials(ctx context.Context, arms []arm, doses []float64) ([]Trial, error) {
	var tried []arm
	var trials []Trial
	for _, a := range arms {
		for _, a.dose = range doses {
			tried = append(tried, a)
			trials = append(trials, Trial{Cell: f.m.Cells[a.cell], Window: a.window, Dose: a.dose})
		}
	}
	plans, err := f.plans(tried)
	if err != nil {
		return nil, err
	}
	val := f.validation
	x, err := scores(ctx, f.e, plans, val, f.report("choosing the dose", 2*len(plans)*len(val)))
	if err != nil {
		return nil, err
	}
	kl, err := divergences(ctx, f.e, plans, f.neutral, f.report("measuring divergence", len(f.neutral)))
	if err != nil {
		return nil, err
	}
	for i := range trials {
		trials[i].Margin, trials[i].Effect, trials[i].KL = marginsOf(x[i]), effectsOf(x[i], f.base), kl[i]
	}
	return trials, nil
}

// pick returns the trial to use: among those within the KL budget the one with
// the smallest dose whose effect is within one standard error of the best. If
// none is within the budget, it is the gentlest trial, and guarded is false.
func pick(trials []Trial, maxKL float64) (at int, guarded bool) {
	best := -1
	for i, t := range trials {
		if t.KL <= maxKL && (best < 0 || t.Effect.Mean > trials[best].Effect.Mean) {
			best = i
		}
	}
	if best < 0 {
		for i, t := range trials {
			if t.KL < trials[at].KL {
				at = i
			}
		}
		return at, false
	}
	floor := trials[best].Effect.Mean - trials[best].Effect.Error
	at = best
	for i, t := range trials {
		if t.KL > maxKL || t.Effect.Mean < floor {
			continue
		}
		if t.Dose < trials[at].Dose || t.Dose == trials[at].Dose && t.Effect.Mean > trials[at].Effect.Mean {
			at = i
		}
	}
	return at, true
}
