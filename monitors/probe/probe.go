// Package probe watches a model's own state for a property that was learnt from
// examples.
//
// The model for the reader's head is a witness with a subject. A [Probe] is a
// small function of one residual row, linear or with hidden layers, together
// with what it was trained on and how well it did; [Train] makes one from rows
// with labels, [Read] and [Probe.WriteFile] keep it in a file. [New] seats any
// number of probes in one monitor, which reads each row once.
package probe

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/trimtab/trimtab/internal/window"
	"github.com/trimtab/trimtab/steer"
)

// maxText is the length of a text in a probe file, in bytes.
const maxText = 4096

// Probe is a function of a residual row that says how likely a property is, and
// what it was made from. Make one as a struct literal, with [Train] or with
// [Read]; afterwards it must not be written to, and it is then safe for
// concurrent use. Empty texts and nil mean "not stated".
type Probe struct {
	Name string
	Site steer.Site // of the rows; the row that produced the candidate's logits is read
	// Value is the logit of the property: it is likely by 1/(1+exp(-Value)).
	// Linear or MLP.
	Value     *steer.Value
	Threshold float64   // probability, 0 to 1; a smoothed score that reaches it is flagged
	Smooth    string    // over tokens: "", "mean:N", "max:N" (N to 1024) or "ewma:A"
	Labels    [2]string // what a low and a high score stand for

	ModelHash    string // engine.Info.Hash of the model file it was made on
	Arch         string // architecture of that model, as GGUF spells it
	TemplateHash string // steer.HashTemplate of its chat template
	DataHash     string // identifies the examples
	Method       string // how it was made: "logistic"
	Metrics      *Metrics
	Calibration  *Calibration
}

// Metrics say how well a probe does on examples that it was not trained on.
type Metrics struct {
	AUROC     float64 // share of pairs of a positive and a negative in the right order; ties count half
	Accuracy  float64 // at the threshold
	F1        float64 // at the threshold, of the positives
	LogLoss   float64 // nats per example
	Positives int
	Negatives int
}

// Calibration says how the threshold was chosen.
type Calibration struct {
	Method string  // "conformal", "f1"
	Rate   float64 // promised share of flagged texts among those without the property, 0 to 1
	Texts  int     // without the property that it was chosen on
}

// ErrWrongModel is wrapped by the errors of [Probe.Check] and [New] when only
// the provenance disagrees: a caller may offer to go on regardless.
var ErrWrongModel = errors.New("the probe was made on another model")

// Width is the length of the rows that the probe reads.
func (p *Probe) Width() int {
	if p.Value == nil {
		return 0
	}
	return p.Value.Width()
}

// Probability is the score of one row, Width wide, without smoothing; w is from
// p.Value.NewWork. The probe must be valid. It is NaN for a row with NaN.
func (p *Probe) Probability(row []float32, w *steer.ValueWork) float64 {
	return sigmoid(p.Value.At(row, w))
}

func sigmoid(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

// Validate reports every reason why the probe can neither be used nor written.
func (p *Probe) Validate() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if p.Name == "" {
		fault("the probe has no name")
	}
	if p.Site.Layer < 0 || p.Site.Layer >= steer.MaxVectorLayers || p.Site.Point != steer.ResidPost {
		fault("site %s: want the residual after a block from 0 to %d", p.Site, steer.MaxVectorLayers-1)
	}
	switch {
	case p.Value == nil:
		fault("the probe has no function")
	case p.Value.Kind != steer.Linear && p.Value.Kind != steer.MLP:
		fault("a probe is linear or mlp, not %s", p.Value.Kind)
	default:
		if err := p.Value.Check(0); err != nil {
			faults = append(faults, err)
		}
	}
	if !(p.Threshold >= 0 && p.Threshold <= 1) {
		fault("threshold is %v, want a probability", p.Threshold)
	}
	if _, err := window.Parse(p.Smooth); err != nil {
		faults = append(faults, err)
	}
	for _, t := range p.texts() {
		if err := checkText(*t.value); err != nil {
			fault("%s: %w", t.key, err)
		}
	}
	faults = append(faults, p.Metrics.faults()...)
	faults = append(faults, p.Calibration.faults()...)
	return errors.Join(faults...)
}

func (m *Metrics) faults() (faults []error) {
	if m == nil {
		return nil
	}
	for _, n := range m.numbers() {
		if !(*n.value >= 0 && *n.value <= n.max) {
			faults = append(faults, fmt.Errorf("metrics: %s is %v, want 0 to %g", n.key, *n.value, n.max))
		}
	}
	if m.Positives < 0 || m.Negatives < 0 || m.Positives > math.MaxInt32 || m.Negatives > math.MaxInt32 {
		faults = append(faults, fmt.Errorf("metrics: %d positives and %d negatives", m.Positives, m.Negatives))
	}
	return faults
}

func (c *Calibration) faults() (faults []error) {
	if c == nil {
		return nil
	}
	if !(c.Rate >= 0 && c.Rate <= 1) {
		faults = append(faults, fmt.Errorf("calibration: rate is %v, want 0 to 1", c.Rate))
	}
	if c.Texts < 0 || c.Texts > math.MaxInt32 {
		faults = append(faults, fmt.Errorf("calibration: %d texts", c.Texts))
	}
	return faults
}

// checkText refuses what cannot be shown on a terminal.
func checkText(s string) error {
	switch {
	case len(s) > maxText:
		return fmt.Errorf("is %d bytes long, want at most %d", len(s), maxText)
	case !utf8.ValidString(s):
		return fmt.Errorf("%.40q is not valid UTF-8", s)
	case strings.ContainsFunc(s, unicode.IsControl):
		return fmt.Errorf("%.40q contains a control character", s)
	}
	return nil
}

// Check reports every reason why the probe does not fit a model: its size, and
// the provenance where both sides state it. When the size fits and only the
// provenance does not, the error wraps [ErrWrongModel].
func (p *Probe) Check(f steer.Facts) error {
	var faults []error
	if p.Site.Layer >= f.Layers {
		faults = append(faults, fmt.Errorf("site %s: the model has blocks 0 to %d", p.Site, f.Layers-1))
	}
	if w := p.Width(); w != f.Width {
		faults = append(faults, fmt.Errorf("width: the probe reads rows of %d, the model has %d", w, f.Width))
	}
	if len(faults) > 0 {
		return fmt.Errorf("probe %q does not fit the model: %w", p.Name, errors.Join(faults...))
	}
	for _, s := range []struct{ name, probe, model string }{
		{"architecture", p.Arch, f.Arch}, {"model hash", p.ModelHash, f.ModelHash}, {"template hash", p.TemplateHash, f.TemplateHash},
	} {
		if s.probe != "" && s.model != "" && s.probe != s.model {
			faults = append(faults, fmt.Errorf("%s: the probe states %s, the model is %s", s.name, s.probe, s.model))
		}
	}
	if len(faults) == 0 {
		return nil
	}
	return fmt.Errorf("probe %q: %w: %w", p.Name, ErrWrongModel, errors.Join(faults...))
}
