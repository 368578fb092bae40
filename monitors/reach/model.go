package reach

import (
	"errors"
	"fmt"
	"math"

	"github.com/trimtab/trimtab/monitors/conformal"
	"github.com/trimtab/trimtab/steer"
)

// Bounds of a Model.
const (
	MaxLevels = 64 // stored thresholds
	MaxRun    = 1024
	maxText   = 4096 // bytes of a text in a file
)

// Model is a fitted value function with what it was made from and the levels it
// was calibrated to. [Fit] and [ReadModel] make one; it must not be changed once
// a monitor or a plan uses it, and is then safe for concurrent use.
type Model struct {
	Name  string
	Value steer.Value
	Site  steer.Site // where the rows are read
	Aim   Aim        // what V means

	Metrics Metrics
	Levels  []Level // thresholds found so far; the first is the default

	ModelHash    string // engine.Info.Hash of the model it was recorded on
	Arch         string
	TemplateHash string // steer.HashTemplate of its chat template
	DataHash     string // Data.Hash of what it was fitted on
}

// Metrics are what [Fit] measured. Loss and AUROC are of the prompts that were
// kept aside to decide when to stop, so they flatter a little: measure with
// [Model.Values] on data that Fit never saw.
type Metrics struct {
	Texts, Rows int // all that were given
	Epochs      int // passes made; 0 for a closed form
	Loss        float64
	AUROC       float64 // of -V for "the text fails in the end", over rows; NaN when there was one kind only
}

// Level is a calibrated threshold: of further safe texts at most a share Alpha
// has Run rows in a row with V < C.
type Level struct {
	C     float64
	Alpha float64
	Run   int    // rows in a row
	Texts int    // safe texts it was made from
	On    string // what they were, for people
}

// ErrWrongModel is wrapped by the error of [Model.Check] when only the
// provenance disagrees: a caller may offer to go on regardless.
var ErrWrongModel = errors.New("the value function was made on another model")

// Validate reports every reason why the model can neither be used nor written.
func (m *Model) Validate() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if err := m.Value.Check(0); err != nil {
		fault("value: %w", err)
	}
	if m.Site.Layer < 0 || m.Site.Layer >= steer.MaxVectorLayers || m.Site.Point != steer.ResidPost {
		fault("site %s: want the residual after a block, 0 to %d", m.Site, steer.MaxVectorLayers-1)
	}
	if err := m.Aim.check(); err != nil {
		fault("%w", err)
	}
	if len(m.Levels) > MaxLevels {
		fault("%d levels, the limit is %d", len(m.Levels), MaxLevels)
	}
	for i := range m.Levels {
		if err := m.Levels[i].check(); err != nil {
			fault("level %d: %w", i, err)
		}
	}
	x := &m.Metrics
	if x.Texts < 0 || x.Rows < 0 || x.Epochs < 0 || math.IsInf(x.Loss, 0) || math.IsInf(x.AUROC, 0) {
		fault("metrics are %+v", *x)
	}
	for _, t := range m.texts() {
		if err := checkText(*t.value); err != nil {
			fault("%s: %w", t.key, err)
		}
	}
	return errors.Join(faults...)
}

func (l *Level) check() error {
	switch {
	case l.C-l.C != 0:
		return fmt.Errorf("threshold is %v", l.C)
	case !(l.Alpha > 0 && l.Alpha < 1):
		return fmt.Errorf("alpha is %v, want above 0 and below 1", l.Alpha)
	case l.Run < 1 || l.Run > MaxRun:
		return fmt.Errorf("run of %d rows, want 1 to %d", l.Run, MaxRun)
	case l.Texts < 1:
		return fmt.Errorf("made from %d texts", l.Texts)
	}
	return checkText(l.On)
}

// Check reports every reason why the function does not fit a model: layer,
// width, and the provenance where both sides state it. When only the provenance
// disagrees, the error wraps [ErrWrongModel].
func (m *Model) Check(f steer.Facts) error {
	var faults []error
	if m.Site.Layer >= f.Layers {
		faults = append(faults, fmt.Errorf("site %s: the model has layers 0 to %d", m.Site, f.Layers-1))
	}
	if w := m.Value.Width(); w != f.Width {
		faults = append(faults, fmt.Errorf("width: the function takes rows of %d, the model has %d", w, f.Width))
	}
	fits := len(faults) == 0
	for _, p := range []struct{ name, ours, model string }{
		{"architecture", m.Arch, f.Arch}, {"model hash", m.ModelHash, f.ModelHash}, {"template hash", m.TemplateHash, f.TemplateHash},
	} {
		if p.ours != "" && p.model != "" && p.ours != p.model {
			faults = append(faults, fmt.Errorf("%s: the value function states %s, the model is %s", p.name, p.ours, p.model))
		}
	}
	switch {
	case len(faults) == 0:
		return nil
	case fits:
		return fmt.Errorf("value function %q: %w: %w", m.Name, ErrWrongModel, errors.Join(faults...))
	}
	return fmt.Errorf("value function %q does not fit the model: %w", m.Name, errors.Join(faults...))
}

// Level is the stored threshold for a bound on false alarms, the nearest below
// or equal; ok is false when there is none.
func (m *Model) Level(alpha float64) (l Level, ok bool) {
	for _, x := range m.Levels {
		if x.Alpha <= alpha*(1+1e-9) && (!ok || x.Alpha > l.Alpha) {
			l, ok = x, true
		}
	}
	return l, ok
}

// Values are V in every row of a text that was recorded at the model's site.
func (m *Model) Values(d *Data, t *Trajectory) ([]float64, error) {
	site, err := d.site(m.Site)
	if err != nil {
		return nil, fmt.Errorf("reach: %w", err)
	}
	if d.Width != m.Value.Width() {
		return nil, fmt.Errorf("reach: the function takes rows of %d, the data has %d", m.Value.Width(), d.Width)
	}
	work := m.Value.NewWork()
	out := make([]float64, len(t.Tokens))
	for i := range out {
		out[i] = m.Value.At(d.Row(t, i, site), work)
	}
	return out, nil
}

// Worst is the alarm score of a whole text for a monitor that flags after run
// rows in a row: the largest s such that V <= -s throughout some run of rows. A
// text shorter than the run has -Inf, it can raise no alarm.
func Worst(values []float64, run int) float64 {
	worst := math.Inf(-1)
	for i := run; i <= len(values); i++ {
		least := math.Inf(1)
		for _, v := range values[i-run : i] {
			least = min(least, -v)
		}
		worst = max(worst, least)
	}
	return worst
}

// CalibrateOptions are the choices of [Model.Calibrate].
type CalibrateOptions struct {
	Alpha float64 // most safe texts that may raise an alarm; default 0.02
	Run   int     // rows in a row below the level; default 1
	On    string  // what the texts are, for the record
}

// Calibrate finds the level that at most a share Alpha of further safe texts
// falls below (package conformal). Texts of d that are unsafe are left out; none
// may have been used by [Fit]. The level is returned, not stored. Too few safe
// texts is an error wrapping conformal.ErrTooFew that says how many are needed.
func (m *Model) Calibrate(d *Data, o CalibrateOptions) (Level, error) {
	if o.Alpha == 0 {
		o.Alpha = 0.02
	}
	o.Run = max(o.Run, 1)
	var scores []float64
	for i := range d.Trajectories {
		t := &d.Trajectories[i]
		if t.Margins == nil {
			return Level{}, fmt.Errorf("reach: calibrate: text %d has no label", i)
		}
		if t.Unsafe() {
			continue
		}
		v, err := m.Values(d, t)
		if err != nil {
			return Level{}, err
		}
		scores = append(scores, Worst(v, o.Run))
	}
	q, err := conformal.Threshold(scores, o.Alpha)
	if err != nil {
		return Level{}, fmt.Errorf("reach: calibrate: %w", err)
	}
	l := Level{C: -q, Alpha: o.Alpha, Run: o.Run, Texts: len(scores), On: o.On}
	return l, l.check()
}

// Alarms counts the texts that fall below a level, among those that keep wants.
func (m *Model) Alarms(d *Data, l Level, keep func(*Trajectory) bool) (conformal.Rate, error) {
	count, of := 0, 0
	for i := range d.Trajectories {
		t := &d.Trajectories[i]
		if !keep(t) {
			continue
		}
		v, err := m.Values(d, t)
		if err != nil {
			return conformal.Rate{}, err
		}
		of++
		if Worst(v, max(l.Run, 1)) > -l.C {
			count++
		}
	}
	return conformal.Measure(count, of, 0.95)
}
