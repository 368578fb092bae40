package extract

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/runtime/engine"
	"github.com/trimtab/trimtab/steer"
)

// Options are the choices of [Fit]. Zero fields take the defaults.
type Options struct {
	Method  Method    // default Mean
	Layers  []int     // blocks to consider; default 20 to 80 % of the depth, for PaLRS all
	Places  []Place   // default: all that the method reads
	Doses   []float64 // default Doses()
	Windows []Window  // default Windows()
	// Focus also tries to steer only where it matters: the rows from the last
	// prompt token on that hold one of [Moments.Occasions].
	Focus bool

	// Neutral are prompts that have nothing to do with the behaviour. The mean
	// KL divergence on the model's own answers to them must stay within MaxKL.
	Neutral [][]engine.Message // default: a few everyday questions
	MaxKL   float64            // nats per token, default 0.1

	// Cue asks for the behaviour in words ("be careful."). It is the control
	// that a vector has to be compared with; empty leaves that control out.
	Cue  string
	Seed uint64 // of the splits and of the random controls

	// Judge, if set, has the last word among the likeliest trials within the
	// budget: it answers prompts of its own, none of them of the test split,
	// under each plan, equal prompts in equal order, and scores the answers. It
	// may drive the engine until it returns.
	Judge func(ctx context.Context, plans []*steer.Plan) ([][]float64, error)
	// States are moments read before, with rows where the method needs them, in
	// place of those of the train split: several methods share one reading.
	// Cells beyond Layers and Places are left alone.
	States *Moments
	// Bare leaves the test split alone: the caller measures it himself.
	Bare bool

	Progress func(Progress)
}

// DefaultMaxKL is the default of [Options.MaxKL].
const DefaultMaxKL = 0.1

// neutralTokens is the length of the answers that divergence is measured on.
const neutralTokens = 24

// Result is a fitted vector with everything that led to it.
type Result struct {
	Method    Method
	Direction []float32 // r_hat of PaLRS, Eq. 4: as long as MeanNorm
	MeanNorm  float64   // |mu+| at the cell
	Alignment float64   // cos(r, mu+) at the cell, Eq. 3
	TopShare  float64   // share of |r|^2 in the three largest coordinates
	Chosen    Trial     // cell, window and dose, with what validation said
	Trials    []Trial   // all that were tried to the end
	Baseline  Estimate  // margin of the unsteered model on the validation pairs
	Controls  []Control // on the test pairs; the first is the unsteered model, the second the fit
	Warnings  []string

	Pairs    [3]int // in train, validation and test
	Seed     uint64
	DataHash string
	model    *engine.Info
	seen     int // pairs whose rows were kept
	cell     int
	moments  *Moments
}

// topLimit is the TopShare above which a warning is due.
const topLimit = 0.5

// Fit reads directions from pairs and calibrates the best on the model behind
// e, which it drives alone until it returns. The same arguments give the same
// result. Errors wrap engine.ErrUnsupported where the engine cannot show or
// edit activations.
func Fit(ctx context.Context, e engine.Engine, render Render, pairs []Pair, o Options) (*Result, error) {
	f, err := newFitter(e, render, pairs, o)
	if err != nil {
		return nil, fmt.Errorf("fit: %w", err)
	}
	r, err := f.fit(ctx)
	if err != nil {
		return nil, fmt.Errorf("fit: %w", err)
	}
	r.DataHash = DataHash(pairs)
	return r, nil
}

// fitter is one run of Fit.
type fitter struct {
	e          engine.Engine
	layout     *layout
	o          Options
	splits     Splits
	extend     bool // doses beyond the grid may be tried
	m          *Moments
	validation []contest
	base       []logps // of validation, unsteered
	neutral    []*answered
}

func newFitter(e engine.Engine, render Render, pairs []Pair, o Options) (*fitter, error) {
	f := &fitter{e: e, o: o}
	info := e.Info()
	if info.Tokenizer == nil {
		return nil, engine.Unsupported("extraction", "the model has no tokenizer")
	}
	var err error
	if f.layout, err = newLayout(render); err != nil {
		return nil, err
	}
	if f.splits, err = Deal(pairs, o.Seed); err != nil {
		return nil, err
	}
	f.fill(info)
	return f, f.check(info)
}

func (f *fitter) fill(info *engine.Info) {
	o := &f.o
	if o.Method == "" {
		o.Method = Mean
	}
	if len(o.Layers) == 0 {
		o.Layers = layersOf(o.Method, info.Layers)
	}
	if len(o.Places) == 0 {
		kinds := o.Method.kinds()
		if f.splits.Train[0].ReadChosen != nil && o.Method != CAA {
			kinds = append(kinds, PromptEnd)
		}
		for _, k := range kinds {
			o.Places = append(o.Places, few(f.layout.places(k), o.Method)...)
		}
	}
	if len(o.Doses) == 0 {
		o.Doses, f.extend = Doses(), true
	}
	if len(o.Windows) == 0 {
		o.Windows = Windows()
	}
	if o.MaxKL == 0 {
		o.MaxKL = DefaultMaxKL
	}
	if len(o.Neutral) == 0 {
		o.Neutral = Everyday()
	}
}

// few keeps the first two and the last two of a long tail of template tokens;
// PaLRS searches all.
func few(p []Place, m Method) []Place {
	if m == PaLRS || len(p) <= 4 {
		return p
	}
	return slices.Concat(p[:2], p[len(p)-2:])
}

// layersOf lists the blocks whose output a method considers. The last block's
// output is the input of none, so PaLRS leaves it out.
func layersOf(m Method, layers int) []int {
	lo, hi := 0, layers-2
	if m != PaLRS {
		lo, hi = int(math.Ceil(0.2*float64(layers)))-1, int(math.Round(0.8*float64(layers)))-1
	}
	lo = max(lo, 0)
	hi = max(hi, lo)
	var out []int
	for l := lo; l <= hi; l++ {
		out = append(out, l)
	}
	return out
}

func (f *fitter) check(info *engine.Info) error {
	var faults []error
	if _, err := ParseMethod(string(f.o.Method)); err != nil {
		faults = append(faults, err)
	}
	for _, l := range f.o.Layers {
		faults = append(faults, info.Caps.CanEdit(steer.Site{Layer: l}, steer.Add))
	}
	for _, d := range f.o.Doses {
		if !(d > 0 && d <= 10) {
			faults = append(faults, fmt.Errorf("dose %v must be above 0 and at most 10", d))
		}
	}
	if !(f.o.MaxKL > 0) {
		faults = append(faults, fmt.Errorf("the KL budget is %v, must be above 0", f.o.MaxKL))
	}
	return errors.Join(faults...)
}

func (f *fitter) report(stage string, total int) func(int) {
	if f.o.Progress == nil {
		return nil
	}
	return func(n int) { f.o.Progress(Progress{stage, n, total}) }
}

func (f *fitter) fit(ctx context.Context) (*Result, error) {
	var err error
	if f.m = f.o.States; f.m == nil {
		f.m, err = read(ctx, f.e, f.layout, f.splits.Train, f.o.Layers, f.o.Places,
			ReadOptions{Rows: f.o.Method.needsRows(), Seed: f.o.Seed, Progress: f.o.Progress})
		if err != nil {
			return nil, err
		}
	}
	if f.validation, err = f.layout.contests(f.splits.Validation, nil); err != nil {
		return nil, fmt.Errorf("validation: %w", err)
	}
	f.validation = f.validation[:min(len(f.validation), gridPairs)]
	base, err := scores(ctx, f.e, []*steer.Plan{nil}, f.validation, f.report("scoring the unsteered model", 2*len(f.validation)))
	if err != nil {
		return nil, err
	}
	f.base = base[0]
	if f.neutral, err = f.neutrals(ctx); err != nil {
		return nil, fmt.Errorf("neutral prompts: %w", err)
	}
	if f.o.Focus {
		f.focus()
	}
	list, err := f.m.candidates(f.o.Method, f.may)
	if err != nil {
		return nil, err
	}
	return f.choose(ctx, list)
}

// may reports whether a cell is to be considered.
func (f *fitter) may(c Cell) bool {
	return slices.Contains(f.o.Layers, c.Layer) && slices.Contains(f.o.Places, c.Place)
}

// focusShare is the share of the weight that the focus covers.
const focusShare = 0.9

// focus adds the window of the rows where the difference matters, as the first.
func (f *fitter) focus() {
	if tokens := f.m.Occasions(focusShare); tokens != nil {
		w := Rows(-1, -1)
		w.Tokens = tokens
		f.o.Windows = slices.Insert(slices.Clone(f.o.Windows), 0, w)
	}
}

// neutrals are the neutral prompts with the unsteered model's answers.
func (f *fitter) neutrals(ctx context.Context) ([]*answered, error) {
	prompts := make([][]decode.Token, len(f.o.Neutral))
	for i, turns := range f.o.Neutral {
		var err error
		if prompts[i], err = f.layout.render(turns, true); err != nil {
			return nil, fmt.Errorf("prompt %d: %w", i, err)
		}
	}
	return speak(ctx, f.e, prompts, neutralTokens)
}

// choose searches the candidates, takes one trial and holds it against the controls.
func (f *fitter) choose(ctx context.Context, list []candidate) (*Result, error) {
	r := &Result{seen: f.m.Keep, Method: f.o.Method, Seed: f.o.Seed, model: f.e.Info(),
		Pairs: [3]int{len(f.splits.Train), len(f.splits.Validation), len(f.splits.Test)}}
	var err error
	if r.Trials, err = f.search(ctx, list); err != nil {
		return nil, err
	}
	at, guarded := pick(r.Trials, f.o.MaxKL)
	if f.o.Judge != nil && guarded {
		if at, err = f.judge(ctx, r.Trials, list); err != nil {
			return nil, fmt.Errorf("judge: %w", err)
		}
	}
	r.Chosen = r.Trials[at]
	c := list[slices.IndexFunc(list, func(c candidate) bool { return f.m.Cells[c.cell] == r.Chosen.Cell })]
	r.Direction, r.MeanNorm = c.direction, length(f.m.MeanChosen(c.cell))
	r.Alignment, r.TopShare = f.m.Alignment(c.cell), topShare(c.direction)
	r.Baseline = marginsOf(f.base)
	r.cell, r.moments = c.cell, f.m
	if !f.o.Bare {
		if r.Controls, err = f.controls(ctx, r, c.cell); err != nil {
			return nil, err
		}
	}
	r.warn(guarded, f.o.MaxKL)
	return r, nil
}

func (r *Result) warn(guarded bool, maxKL float64) {
	say := func(format string, args ...any) { r.Warnings = append(r.Warnings, fmt.Sprintf(format, args...)) }
	if !guarded {
		say("no dose keeps the mean KL on neutral prompts within %.3g: the gentlest was taken, with %.3g", maxKL, r.Chosen.KL)
	}
	if r.Method.needsRows() && r.seen < r.Pairs[0] {
		say("%s saw only the first %d of %d pairs, which fill %d MiB: name fewer layers", r.Method, r.seen, r.Pairs[0], keptBytes>>20)
	}
	if r.TopShare > topLimit {
		say("%.0f %% of the direction lies in 3 of %d coordinates: it may move little but those", 100*r.TopShare, len(r.Direction))
	}
	if e := r.Chosen.Effect; e.Mean <= 2*e.Error {
		say("the chosen answers are not clearly likelier than in the unsteered model: the vector may do nothing")
	}
	if len(r.Controls) == 0 {
		return
	}
	fit := r.Controls[1].Effect
	for _, c := range r.Controls[2:] {
		if c.Name != "prompt" && fit.Mean > 0 && c.Effect.Mean >= fit.Mean/2 {
			say("the %s control has at least half of the effect: the direction may not be the reason", c.Name)
		}
	}
}
