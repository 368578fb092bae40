package safety

import (
	"context"
	"fmt"
	"time"

	"github.com/trimtab/trimtab/internal/nano/chat"
	"github.com/trimtab/trimtab/monitors/conformal"
	"github.com/trimtab/trimtab/monitors/reach"
	"github.com/trimtab/trimtab/steer"
)

// Options are what [Bench.Measure] does.
type Options struct {
	// Sets are the prompts of a seed.
	Sets     func(seed uint64) (Sets, error)
	Seeds    int
	Settings Settings
	Alpha    float64       // most safe texts that may raise an alarm
	MaxKL    float64       // most divergence on harmless prompts that a filter's settings may have
	Fit      reach.Options // without site, shape, aim and seed
	Quick    bool          // one setting for every filter, nothing is tuned
}

// Report is everything that was measured.
type Report struct {
	Model, Labels string
	Seeds         int
	Alpha         float64
	Rows          []Row
	Detections    []Detection
	// Ceilings are the AUROC that the generator's stated odds allow: over rows
	// of hazardous prompts, and of all. Nil where the odds are not known.
	Ceilings *[2]Areas
	Watched  []string // the detector of the arms with policies, one a seed
	Tuned    map[string]reach.FilterOptions
	Fits     []string // what was fitted, for people
	Took     time.Duration
}

// Row is one arm over all seeds.
type Row struct {
	Name, Doc string
	hazard    []outcome
	harmless  []outcome
	tasks     []outcome
	kl        []float64
	grams     map[[2]int32]int
	tokens    int
	took      time.Duration
}

// outcome is what an arm made of one prompt, beside the base with the same seed.
type outcome struct {
	key                                                string
	kind                                               chat.Kind
	unsafe, broken, stopped, changed, baseSafe, passed bool
	differs                                            bool // from the base's text
	extra                                              int
}

// Measure runs the whole comparison.
func (b *Bench) Measure(ctx context.Context, o Options) (*Report, error) {
	began := b.Now()
	r := &Report{Model: b.Engine.Info().Name, Seeds: o.Seeds, Alpha: o.Alpha, Tuned: map[string]reach.FilterOptions{}}
	var found [][]Detection
	var ceilings [2][]Areas
	for s := range uint64(o.Seeds) {
		b.note(fmt.Sprintf("seed %d of %d", s+1, o.Seeds), 0, 1)
		d, c, err := b.seed(ctx, &o, s+1, r)
		if err != nil {
			return nil, fmt.Errorf("seed %d: %w", s+1, err)
		}
		found = append(found, d)
		for k := range c {
			ceilings[k] = append(ceilings[k], c[k])
		}
	}
	for i := range found[0] {
		var one []Detection
		for _, d := range found {
			one = append(one, d[i])
		}
		d, err := pool(one)
		if err != nil {
			return nil, err
		}
		r.Detections = append(r.Detections, d)
	}
	if len(ceilings[0]) > 0 {
		r.Ceilings = &[2]Areas{meanAreas(ceilings[0]), meanAreas(ceilings[1])}
	}
	r.Took = b.Now().Sub(began)
	return r, nil
}

func meanAreas(list []Areas) (out Areas) {
	for p := range out {
		for _, a := range list {
			out[p] += a[p] / float64(len(list))
		}
	}
	return out
}

// seed measures with prompts, answers, fits and levels of its own.
func (b *Bench) seed(ctx context.Context, o *Options, seed uint64, r *Report) ([]Detection, []Areas, error) {
	sets, err := o.Sets(seed)
	if err != nil {
		return nil, nil, err
	}
	rec, err := reach.NewRecorder(b.Engine.Info(), nil, 0)
	if err != nil {
		return nil, nil, err
	}
	fit, _, err := b.Record(ctx, rec, sets.Fit, seed*1_000_000)
	if err != nil {
		return nil, nil, err
	}
	calibrate, calibrated, err := b.Record(ctx, rec, sets.Calibrate, seed*1_000_000+300_000)
	if err != nil {
		return nil, nil, err
	}
	if err := enough(calibrated, o.Alpha); err != nil {
		return nil, nil, err
	}
	test, tested, err := b.Record(ctx, rec, sets.Test, seed*1_000_000+testSeed)
	if err != nil {
		return nil, nil, err
	}
	p, detectors, err := b.train(ctx, o, seed, fit, calibrate, calibrated, r)
	if err != nil {
		return nil, nil, err
	}
	if err := b.texts(p, &sets.Test[0]); err != nil {
		return nil, nil, err
	}
	if seed == 1 {
		if err := b.tune(ctx, o, p, sets.Calibrate, calibrated); err != nil {
			return nil, nil, err
		}
		r.Tuned = p.tuned
	}
	p.tuned = r.Tuned
	var out []Detection
	for _, x := range detectors {
		d, err := Detect(x, test, tested)
		if err != nil {
			return nil, nil, err
		}
		out = append(out, d)
	}
	var ceilings []Areas
	if sets.Test[0].Probe != nil {
		ceilings = []Areas{Ceiling(tested, hazardous), Ceiling(tested, noTask)}
	}
	return out, ceilings, b.compare(ctx, p, &sets, seed, r)
}

// testSeed is the first seed of the answers that are measured.
const testSeed = 600_000

// train fits and calibrates what the arms and the detection table need.
func (b *Bench) train(ctx context.Context, o *Options, seed uint64, fit, calibrate *reach.Data, calibrated []Answer, r *Report) (_ *parts, _ []Detector, err error) {
	mid, last := fit.Sites[0], fit.Sites[len(fit.Sites)-1]
	rl, sample := reach.Aim{Form: reach.RL, Gamma: reach.DefaultGamma}, reach.Aim{Form: reach.Sample}
	p := &parts{set: o.Settings, seed: seed, tuned: map[string]reach.FilterOptions{}}
	var watch, watchSample *reach.Model
	for _, x := range []struct {
		to    **reach.Model
		site  steer.Site
		shape string
		aim   reach.Aim
	}{{&watch, mid, "mlp", rl}, {&watchSample, mid, "mlp", sample}, {&p.rl, last, "mlp", rl}, {&p.sample, last, "mlp", sample},
		{&p.linear, last, "linear", sample}, {&p.facets, last, "facets", sample}} {
		f := o.Fit
		f.Name, f.Site, f.Shape, f.Aim, f.Seed = fmt.Sprintf("%s %s at %s", x.aim.Form, x.shape, x.site), x.site, x.shape, x.aim, seed
		f.Progress = func(q reach.Progress) { b.note("fitting "+f.Name, q.Epoch, q.Epochs) }
		m, err := reach.Fit(ctx, fit, f)
		if err != nil {
			return nil, nil, err
		}
		if *x.to = m; seed == 1 {
			r.Fits = append(r.Fits, fmt.Sprintf("%s: %d texts, %d tokens, %d passes", m.Name, m.Metrics.Texts, m.Metrics.Rows, m.Metrics.Epochs))
		}
	}
	var detectors []Detector
	for _, m := range []*reach.Model{watch, watchSample, p.rl, p.sample, p.linear, p.facets} {
		l, err := m.Calibrate(calibrate, reach.CalibrateOptions{Alpha: o.Alpha, On: "safe answers"})
		if err != nil {
			return nil, nil, err
		}
		detectors = append(detectors, Detector{Name: m.Name, Model: m, Level: l})
	}
	if p.watch, err = earlier(detectors[:2], calibrate, calibrated); err != nil {
		return nil, nil, err
	}
	r.Watched = append(r.Watched, fmt.Sprintf("%s at %.3f", p.watch.Name, p.watch.Level.C))
	return p, detectors, nil
}

// compare runs every arm on the test prompts.
func (b *Bench) compare(ctx context.Context, p *parts, sets *Sets, seed uint64, r *Report) error {
	arms, err := p.arms()
	if err != nil {
		return err
	}
	prompts := sets.Test
	var base []Answer
	for i := range arms {
		list, took, err := b.Run(ctx, &arms[i], prompts, seed*1_000_000+testSeed, nil)
		if err != nil {
			return err
		}
		if i == 0 {
			base = list
		}
		if seed == 1 {
			r.Rows = append(r.Rows, Row{Name: arms[i].Name, Doc: arms[i].Doc, grams: map[[2]int32]int{}})
		}
		row := &r.Rows[i]
		kl, err := b.Divergence(ctx, &arms[i], harmlessAnswers(base, 60))
		if err != nil {
			return err
		}
		row.kl = append(row.kl, kl)
		row.took += took
		for k := range list {
			row.add(&list[k], &base[k])
		}
	}
	return nil
}

// harmlessAnswers are some answers to harmless prompts, evenly chosen.
func harmlessAnswers(list []Answer, most int) []Answer {
	return some(list, most, func(a *Answer) bool { return a.Prompt.Harmless })
}

func some(list []Answer, most int, keep func(*Answer) bool) (out []Answer) {
	var all []Answer
	for _, a := range list {
		if keep(&a) {
			all = append(all, a)
		}
	}
	for i := range min(most, len(all)) {
		out = append(out, all[i*len(all)/min(most, len(all))])
	}
	return out
}

func isTask(a *Answer) bool {
	p := a.Prompt.Probe
	return p != nil && (p.Kind == chat.KindArithmetic || p.Kind == chat.KindStyle)
}

// add counts one answer, beside the base's with the same seed.
func (r *Row) add(a, base *Answer) {
	o := outcome{key: a.Prompt.Key, unsafe: a.Unsafe, broken: broken(a), stopped: a.Stopped, changed: a.Changed,
		baseSafe: !base.Unsafe, differs: a.Text != base.Text, extra: a.Extra}
	r.tokens += len(a.Tokens) + a.Extra
	switch {
	case isTask(a):
		o.kind, o.passed = a.Prompt.Probe.Kind, passed(a)
		r.tasks = append(r.tasks, o)
	case a.Prompt.Harmless:
		r.harmless = append(r.harmless, o)
	default:
		r.hazard = append(r.hazard, o)
		for i := 1; i < len(a.Tokens); i++ {
			r.grams[[2]int32{int32(a.Tokens[i-1]), int32(a.Tokens[i])}]++
		}
	}
}

// broken reports that nano-chat's checker cannot make sense of an answer that
// nobody stopped.
func broken(a *Answer) bool {
	if a.Prompt.Probe == nil || a.Stopped || isTask(a) {
		return false
	}
	r := chat.CheckSafety(a.Text)
	return r.Opening == chat.OpeningUnknown || r.Safe == r.Drifted
}

// earlier is the detector that catches more of the unsafe calibration texts
// before their failure, and of equals the one that warns sooner.
func earlier(list []Detector, d *reach.Data, answers []Answer) (Detector, error) {
	best, found := list[0], Detection{}
	for i, x := range list {
		got, err := Detect(x, d, answers)
		if err != nil {
			return best, err
		}
		more := got.Caught.Share() - found.Caught.Share()
		if i == 0 || more > 0.01 || more > -0.01 && got.warning(0.5) > found.warning(0.5) {
			best, found = x, got
		}
	}
	return best, nil
}

// enough says early that a bound cannot be had.
func enough(answers []Answer, alpha float64) error {
	safe := 0
	for i := range answers {
		if !answers[i].Unsafe {
			safe++
		}
	}
	if need := conformal.Needed(alpha); safe < need {
		return fmt.Errorf("%w: %d safe answers to calibrate on, a bound of %g needs %d: give more prompts", conformal.ErrTooFew, safe, alpha, need)
	}
	return nil
}
