package reach

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	goruntime "runtime"
	"slices"

	"github.com/trimtab/trimtab/steer"
)

// ErrData is wrapped by errors of [Fit] that other recorded texts would mend.
var ErrData = errors.New("the recorded texts do not do")

// Options of [Fit]. Zero values mean the defaults.
type Options struct {
	Name string
	// Shape of the function: "mlp" (the default), "linear" in closed form (ridge
	// regression, LiSeCo's probe) or "facets", a polytope (SAP-like).
	Shape  string
	Hidden []int // MLP: widths of the hidden layers; default 256, 256
	Facets int   // Facets: how many; default 8
	Site   steer.Site
	// Raw takes the residual as it is. By default it is divided by its root
	// mean square, as the model's own final norm does.
	Raw bool
	Aim Aim // default: RL over the mean with DefaultGamma
	// Failed weighs the cross-entropy of "the text failed in the end" beside the
	// Huber loss of V; default 0.5, negative for none.
	Failed float64

	Epochs int     // most passes over the texts; default 24
	Rows   int     // most rows of one pass; default 65,536, drawn anew each time
	Batch  int     // rows of one step; default 256
	Rate   float64 // of AdamW; default 1e-3, falling to a tenth
	Decay  float64 // weight decay; default 0.01, negative for none
	// Noise is added to the inputs in training, in standard deviations of an
	// average input; default 0.3, negative for none. It makes V smooth, so that
	// its gradient points where texts differ and not where V happens to be
	// steep: without it a filter moves V and hardly the text.
	Noise    float64
	Patience int    // passes without a better validation loss; default 4
	Seed     uint64 // of the split, the first weights and the order
	Workers  int    // goroutines; default GOMAXPROCS, at most 16. The result does not depend on it
	// Progress is told of each pass, from the goroutine of Fit. Nil for nobody.
	Progress func(Progress)
}

// Progress is where a [Fit] stands.
type Progress struct {
	Epoch, Epochs    int
	Loss, Validation float64 // mean loss of the pass, and on the texts kept aside
}

// Bounds of Options.
const (
	maxEpochs  = 1000
	maxHidden  = 4096
	maxFacets  = 1024
	maxBatch   = 1 << 14
	minGroups  = 2 // prompts in each half of the split
	splitShare = 8 // of ten prompts are for training
)

func (o Options) filled() Options {
	set := func(p *int, v int) {
		if *p == 0 {
			*p = v
		}
	}
	if o.Shape == "" {
		o.Shape = steer.MLP.String()
	}
	if len(o.Hidden) == 0 {
		o.Hidden = []int{256, 256}
	}
	if o.Aim == (Aim{}) {
		o.Aim = Aim{Form: RL, Over: Mean, Gamma: DefaultGamma}
	}
	if o.Aim.Form == RL && o.Aim.Gamma == 0 {
		o.Aim.Gamma = DefaultGamma
	}
	set(&o.Facets, 8)
	set(&o.Epochs, 24)
	set(&o.Rows, 1<<16)
	set(&o.Batch, 256)
	set(&o.Patience, 4)
	set(&o.Workers, min(goruntime.GOMAXPROCS(0), 16))
	for _, x := range []struct {
		p *float64
		v float64
	}{{&o.Failed, 0.5}, {&o.Rate, 1e-3}, {&o.Decay, 0.01}, {&o.Noise, 0.3}} {
		if *x.p == 0 {
			*x.p = x.v
		}
	}
	o.Failed, o.Decay, o.Noise = max(o.Failed, 0), max(o.Decay, 0), max(o.Noise, 0)
	return o
}

func (o *Options) faults() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf("reach: fit: "+format, args...)) }
	if _, err := shapeNamed(o.Shape); err != nil {
		fault("%w", err)
	}
	if len(o.Hidden) >= steer.MaxValueLayers {
		fault("%d hidden layers, want at most %d", len(o.Hidden), steer.MaxValueLayers-1)
	}
	for _, h := range o.Hidden {
		if h < 1 || h > maxHidden {
			fault("a hidden layer of %d, want 1 to %d", h, maxHidden)
		}
	}
	for _, n := range []struct {
		what     string
		n, lo, h int
	}{{"facets", o.Facets, 1, maxFacets}, {"epochs", o.Epochs, 1, maxEpochs}, {"rows", o.Rows, 1, MaxRows},
		{"batch", o.Batch, 1, maxBatch}, {"patience", o.Patience, 1, maxEpochs}, {"workers", o.Workers, 1, 1024}} {
		if n.n < n.lo || n.n > n.h {
			fault("%s %d, want %d to %d", n.what, n.n, n.lo, n.h)
		}
	}
	if !(o.Rate > 0 && o.Rate <= 1) || !(o.Decay < 1) || !(o.Failed <= 100) || !(o.Noise <= 10) {
		fault("rate %v, decay %v, noise %v and weight %v of the cross-entropy make no sense together", o.Rate, o.Decay, o.Noise, o.Failed)
	}
	if err := o.Aim.check(); err != nil {
		fault("%w", err)
	}
	return errors.Join(faults...)
}

func shapeNamed(s string) (steer.ValueKind, error) {
	for k := steer.Linear; k.Known(); k++ {
		if k.String() == s {
			return k, nil
		}
	}
	return 0, fmt.Errorf("shape %q: want mlp, linear or facets", s)
}

// Fit learns a value function from labelled texts. Four fifths of the prompts
// are for training, the rest decides when to stop; the result is that of the
// best pass. Equal data, options and seed give equal bytes, whatever the number
// of goroutines. Errors: every fault of the options; [ErrData] wrapped when
// there are too few prompts, or only safe or only unsafe texts; the context's.
//
// 2,000 texts of 40 tokens at a width of 160 take about a minute on two cores.
func Fit(ctx context.Context, d *Data, o Options) (*Model, error) {
	o = o.filled()
	if err := o.faults(); err != nil {
		return nil, err
	}
	site, err := d.site(o.Site)
	if err != nil {
		return nil, fmt.Errorf("reach: fit: %w", err)
	}
	targets, err := Targets(d, o.Aim)
	if err != nil {
		return nil, err
	}
	t := &trainer{o: o}
	if err := t.split(d, site, targets); err != nil {
		return nil, fmt.Errorf("reach: fit: %w", err)
	}
	kind, _ := shapeNamed(o.Shape) // checked above
	m := &Model{Name: o.Name, Site: o.Site, Aim: o.Aim,
		ModelHash: d.ModelHash, Arch: d.Arch, TemplateHash: d.TemplateHash, DataHash: d.Hash()}
	if kind == steer.Linear {
		m.Value, err = t.linear(ctx)
	} else {
		m.Value, m.Metrics.Epochs, err = t.run(ctx, kind)
	}
	if err != nil {
		return nil, fmt.Errorf("reach: fit: %w", err)
	}
	t.judge(m)
	return m, m.Validate()
}

// trainer is one Fit at work.
type trainer struct {
	o           Options
	train, kept *samples
	texts       int
	r           *rand.Rand
}

// split deals the texts by prompt.
func (t *trainer) split(d *Data, site int, targets [][]float32) error {
	where := map[string]int{}
	for i := range d.Trajectories {
		where[d.Trajectories[i].Group] = 0
	}
	for part, half := range d.Deal(t.o.Seed, splitShare, 10-splitShare) {
		for i := range half.Trajectories {
			where[half.Trajectories[i].Group] = part
		}
	}
	var halves [2]*Data
	var wanted [2][][]float32
	for part := range halves {
		halves[part] = d.with(nil)
	}
	for i := range d.Trajectories {
		p := where[d.Trajectories[i].Group]
		halves[p].Trajectories = append(halves[p].Trajectories, d.Trajectories[i])
		wanted[p] = append(wanted[p], targets[i])
	}
	for p, half := range halves {
		if err := half.enough(); err != nil {
			return fmt.Errorf("%w: %s %w", ErrData, [...]string{"for training", "to decide when to stop"}[p], err)
		}
	}
	t.texts = len(d.Trajectories)
	t.train, t.kept = gather(halves[0], site, wanted[0], !t.o.Raw), gather(halves[1], site, wanted[1], !t.o.Raw)
	t.train.measure()
	t.kept.mean, t.kept.spread = t.train.mean, t.train.spread
	return nil
}

// enough reports why texts cannot teach anything.
func (d *Data) enough() error {
	groups, unsafe := map[string]bool{}, 0
	for i := range d.Trajectories {
		groups[d.Trajectories[i].Group] = true
		if d.Trajectories[i].Unsafe() {
			unsafe++
		}
	}
	switch n := len(d.Trajectories); {
	case len(groups) < minGroups:
		return fmt.Errorf("there are texts of %d prompts, want at least %d: record more prompts", len(groups), minGroups)
	case unsafe == 0 || unsafe == n:
		return fmt.Errorf("%d of %d texts are unsafe: both kinds are needed", unsafe, n)
	}
	return nil
}

// run trains by gradient descent.
func (t *trainer) run(ctx context.Context, kind steer.ValueKind) (steer.Value, int, error) {
	o := &t.o
	r := rand.New(rand.NewPCG(o.Seed, 0x7265616368))
	t.r = r
	widths := append(append([]int{t.train.width}, o.Hidden...), 1)
	if kind == steer.Facets {
		widths = []int{t.train.width, o.Facets}
	}
	n := newNetwork(kind, widths, o.Batch, o.Workers, r)
	a := newAdam(len(n.params), o.Rate, o.Decay)
	best, lowest, since, epochs := slices.Clone(n.params), math.Inf(1), 0, 0
	for epochs < o.Epochs && since < o.Patience {
		trained, err := t.pass(ctx, n, a, t.train.shuffled(r, o.Rows), o.rateAt(epochs))
		if err != nil {
			return steer.Value{}, epochs, err
		}
		kept, err := t.pass(ctx, n, nil, firstOf(len(t.kept.rows), o.Rows), 0)
		if err != nil {
			return steer.Value{}, epochs, err
		}
		epochs++
		since++
		if kept < lowest {
			lowest, since = kept, 0
			copy(best, n.params)
		}
		if o.Progress != nil {
			o.Progress(Progress{Epoch: epochs, Epochs: o.Epochs, Loss: trained, Validation: kept})
		}
	}
	if math.IsInf(lowest, 1) {
		return steer.Value{}, epochs, fmt.Errorf("the loss is not finite with rate %v: lower it", o.Rate)
	}
	copy(n.params, best)
	return n.value(!o.Raw, t.train.mean, t.train.spread), epochs, nil
}

// rateAt falls from 1 to a tenth along half a cosine.
func (o *Options) rateAt(epoch int) float64 {
	return 0.1 + 0.9*(1+math.Cos(math.Pi*float64(epoch)/float64(o.Epochs)))/2
}

func firstOf(n, most int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	if n <= most {
		return list
	}
	for i := range most { // evenly over all texts
		list[i] = i * n / most
	}
	return list[:most]
}

// pass goes once over samples and returns the mean loss. Without an optimiser
// it only measures, on the texts kept aside.
func (t *trainer) pass(ctx context.Context, n *network, a *adam, order []int, share float64) (float64, error) {
	s := t.train
	if a == nil {
		s = t.kept
	}
	batch := len(n.low)
	v, dv := make([]float32, batch), make([]float32, batch)
	total := 0.0
	for at := 0; at < len(order); at += batch {
		if err := ctx.Err(); err != nil {
			return 0, context.Cause(ctx)
		}
		part := order[at:min(at+batch, len(order))]
		n.each(len(part), func(from, to int) {
			for k := from; k < to; k++ {
				s.fill(n.x[k*s.width:(k+1)*s.width], part[k])
			}
		})
		if a != nil && t.o.Noise > 0 {
			for k := range n.x[:len(part)*s.width] {
				n.x[k] += float32(t.o.Noise * t.r.NormFloat64())
			}
		}
		n.forward(len(part), v)
		for k, i := range part {
			sum, slope := loss(v[k], s.targets[i], s.unsafe[i], t.o.Failed)
			total += sum
			dv[k] = float32(slope / float64(len(part)))
		}
		if a != nil {
			n.backward(len(part), dv)
			a.step(n.params, n.grads, share)
		}
	}
	return total / float64(len(order)), nil
}

// judge measures the model on the texts kept aside.
func (t *trainer) judge(m *Model) {
	work := m.Value.NewWork()
	var good, bad []float64
	sum := 0.0
	for i, row := range t.kept.rows {
		v := m.Value.At(row, work)
		l, _ := loss(float32(v), t.kept.targets[i], t.kept.unsafe[i], t.o.Failed)
		sum += l
		if t.kept.unsafe[i] {
			bad = append(bad, -v)
		} else {
			good = append(good, -v)
		}
	}
	m.Metrics.Texts, m.Metrics.Rows = t.texts, len(t.train.rows)+len(t.kept.rows)
	m.Metrics.Loss = sum / float64(max(len(t.kept.rows), 1))
	m.Metrics.AUROC = auroc(bad, good)
}
