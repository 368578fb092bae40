package probe

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/trimtab/trimtab/internal/vec"
	"github.com/trimtab/trimtab/internal/window"
	"github.com/trimtab/trimtab/monitors"
	"github.com/trimtab/trimtab/steer"
)

// MaxProbes bounds the probes of one monitor.
const MaxProbes = 256

// Options describe a monitor.
type Options struct {
	Name   string // default: the names of the probes, joined by +
	Probes []*Probe
	Model  steer.Facts // of the model that will run; Layers and Width must be stated
	// AnyModel admits probes that state another model of the same size.
	AnyModel bool
}

// New returns a monitor that asks every probe about the row that each candidate
// was drawn from. All faults are reported at once; the error wraps
// [ErrWrongModel] when a probe states another model.
//
// The verdict is that of the leading probe: the one whose smoothed score is
// furthest past its threshold, or nearest to it. Score is its probability, Flag
// is raised from its threshold on, and Note names it when it is flagged, with
// the number of the others that are. Scores of probes with unequal thresholds
// are not comparable. Onset is 0: a probe sees one row at a time.
//
// Eight linear probes at one site of width 4096 take some microseconds a token,
// a perceptron of 896-256-256-1 less than 0.1 ms. A watcher keeps 8 bytes a
// token and probe. A row that is not finite, of another width or not there is
// an error that names the site, and leaves the watcher as it was.
func New(o Options) (monitors.Monitor, error) {
	if err := o.check(); err != nil {
		return monitors.Monitor{}, fmt.Errorf("probe monitor: %w", err)
	}
	p := newPanel(o.Probes)
	if o.Name == "" {
		o.Name = strings.Join(p.names, "+")
	}
	return monitors.Monitor{
		Name:  o.Name,
		Doc:   fmt.Sprintf("asks %d probes about the model's state: %s", len(p.probes), strings.Join(p.names, ", ")),
		Sites: p.sites(),
		Start: func() monitors.Watcher { return p.watcher() },
	}, nil
}

func (o *Options) check() error {
	switch {
	case len(o.Probes) == 0 || len(o.Probes) > MaxProbes:
		return fmt.Errorf("%d probes, want 1 to %d", len(o.Probes), MaxProbes)
	case o.Model.Layers <= 0 || o.Model.Width <= 0:
		return errors.New("Options.Model does not state the model's blocks and width")
	}
	var faults []error
	for i, p := range o.Probes {
		if p == nil {
			faults = append(faults, fmt.Errorf("probe %d is nil", i))
			continue
		}
		if err := p.Validate(); err != nil {
			faults = append(faults, fmt.Errorf("probe %q: %w", p.Name, err))
			continue
		}
		if err := p.Check(o.Model); err != nil && !(o.AnyModel && errors.Is(err, ErrWrongModel)) {
			faults = append(faults, err)
		}
	}
	return errors.Join(faults...)
}

// panel is what the watchers of a monitor share. It does not change.
type panel struct {
	probes []*Probe
	names  []string
	smooth []window.Window
	groups []group
}

// group is the probes of one site. The linear ones lie in one matrix, so that
// their weights are read in the order of memory while the row stays in cache.
type group struct {
	site   steer.Site
	linear []int // indices of probes
	weight []float32
	zero   []float32 // as many as linear: biases come after the norm
	norm   bool      // whether one of the linear ones divides by it
	deep   []int
}

func newPanel(probes []*Probe) *panel {
	p := &panel{probes: slices.Clone(probes)}
	for i, q := range probes {
		w, _ := window.Parse(q.Smooth) // checked by Validate
		p.smooth = append(p.smooth, w)
		p.names = append(p.names, q.Name)
		p.group(q.Site).add(i, q)
	}
	return p
}

func (p *panel) group(s steer.Site) *group {
	i := slices.IndexFunc(p.groups, func(g group) bool { return g.site == s })
	if i < 0 {
		i = len(p.groups)
		p.groups = append(p.groups, group{site: s})
	}
	return &p.groups[i]
}

func (g *group) add(i int, p *Probe) {
	if p.Value.Kind != steer.Linear {
		g.deep = append(g.deep, i)
		return
	}
	g.linear = append(g.linear, i)
	g.weight = append(g.weight, p.Value.Layers[0].Weight...)
	g.zero = append(g.zero, 0)
	g.norm = g.norm || p.Value.Norm
}

func (p *panel) sites() []steer.Site {
	var out []steer.Site
	for i := range p.groups {
		out = append(out, p.groups[i].site)
	}
	return out
}

// watcher follows one sequence.
type watcher struct {
	p      *panel
	series []*window.Series   // beside p.probes
	work   []*steer.ValueWork // likewise; nil for linear ones
	logits []float64          // likewise; of the current token
	dots   []float32
}

func (p *panel) watcher() *watcher {
	w := &watcher{p: p, logits: make([]float64, len(p.probes)), dots: make([]float32, len(p.probes))}
	for i, q := range p.probes {
		w.series = append(w.series, window.NewSeries(p.smooth[i]))
		w.work = append(w.work, nil)
		if q.Value.Kind != steer.Linear {
			w.work[i] = q.Value.NewWork()
		}
	}
	return w
}

// Observe asks every probe.
func (w *watcher) Observe(_ context.Context, o *monitors.Observation) (monitors.Verdict, error) {
	for i := range w.p.groups {
		if err := w.ask(&w.p.groups[i], o); err != nil {
			return monitors.Verdict{}, err
		}
	}
	var v monitors.Verdict
	lead, flagged, best := 0, 0, math.Inf(-1)
	for i, x := range w.logits {
		s, t := w.series[i].Push(sigmoid(x)), w.p.probes[i].Threshold
		if s >= t {
			flagged++
		}
		if s-t > best {
			lead, best, v.Score = i, s-t, s
		}
	}
	if flagged > 0 {
		v.Flag, v.Note = true, w.p.note(lead, flagged)
	}
	return v, nil
}

// maxNamed is how much of a name a note shows, in bytes.
const maxNamed = 200

func (p *panel) note(lead, flagged int) string {
	name := p.names[lead]
	if len(name) > maxNamed {
		name = strings.ToValidUTF8(name[:maxNamed], "") + "..."
	}
	if flagged == 1 {
		return name
	}
	return fmt.Sprintf("%s and %d more", name, flagged-1)
}

// ask sets the logits of a group's probes.
func (w *watcher) ask(g *group, o *monitors.Observation) error {
	if o.Activation == nil {
		return fmt.Errorf("activation at %s: the engine shows none", g.site)
	}
	row, err := o.Activation(g.site)
	if err != nil {
		return err
	}
	if err := w.p.checkRow(g, row); err != nil {
		return err
	}
	w.dense(g, row)
	for _, i := range g.deep {
		w.logits[i] = w.p.probes[i].Value.At(row, w.work[i])
	}
	for _, list := range [][]int{g.linear, g.deep} {
		for _, i := range list {
			if x := w.logits[i]; x-x != 0 {
				return fmt.Errorf("probe %q at %s: the logit is %v, the row is too large", w.p.names[i], g.site, x)
			}
		}
	}
	return nil
}

// checkRow refuses a row that no probe can read.
func (p *panel) checkRow(g *group, row []float32) error {
	probe := g.linear
	if len(probe) == 0 {
		probe = g.deep
	}
	if want := p.probes[probe[0]].Width(); len(row) != want {
		return fmt.Errorf("activation at %s: %d values, the probes read %d", g.site, len(row), want)
	}
	if s := vec.Dot32(row, row); s-s == 0 {
		return nil
	}
	for i, x := range row {
		if x-x != 0 {
			return fmt.Errorf("activation at %s: value %d is %v", g.site, i, x)
		}
	}
	return nil // finite, but its square is not
}

// dense runs all linear probes of the group.
func (w *watcher) dense(g *group, row []float32) {
	dots := w.dots[:len(g.linear)]
	vec.Dense(dots, g.weight, g.zero, row)
	rms := 1.0
	if g.norm {
		rms = math.Sqrt(vec.Dot(row, row)/float64(len(row)) + normEps)
	}
	for k, i := range g.linear {
		v := w.p.probes[i].Value
		x := float64(dots[k])
		if v.Norm {
			x /= rms
		}
		w.logits[i] = x + float64(v.Layers[0].Bias[0])
	}
}

// normEps is what steer.Value adds under the root, see Value.Norm.
const normEps = 1e-6

// Rewind forgets the last n tokens.
func (w *watcher) Rewind(n int) error {
	for _, s := range w.series { // all are equally long, so all refuse or none
		if err := s.Rewind(n); err != nil {
			return err
		}
	}
	return nil
}
