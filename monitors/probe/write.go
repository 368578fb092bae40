package probe

import (
	"fmt"
	"io"

	"github.com/trimtab/trimtab/internal/gguf"
)

// WriteFile writes the probe to path, all or nothing, as the GGUF file that
// [Read] reads. The same probe gives the same bytes.
func (p *Probe) WriteFile(path string) error {
	w, err := p.writer()
	if err == nil {
		err = w.WriteFile(path)
	}
	if err != nil {
		return fmt.Errorf("probe: write %q: %w", p.Name, err)
	}
	return nil
}

// WriteTo writes the bytes that WriteFile would, and returns their number.
func (p *Probe) WriteTo(out io.Writer) (int64, error) {
	w, err := p.writer()
	if err != nil {
		return 0, fmt.Errorf("probe: write %q: %w", p.Name, err)
	}
	return w.WriteTo(out)
}

func (p *Probe) writer() (*gguf.Writer, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	w := gguf.NewWriter()
	w.Set(keyArchitecture, architecture)
	w.Set(keyVersion, uint32(ownVersion))
	for _, t := range p.texts() {
		if *t.value != "" {
			w.Set(t.key, *t.value)
		}
	}
	w.Set(keyKind, p.Value.Kind.String())
	w.Set(keyLayer, uint32(p.Site.Layer))
	w.Set(keyPoint, p.Site.Point.String())
	w.Set(keyNorm, p.Value.Norm)
	w.Set(keyThreshold, p.Threshold)
	if m := p.Metrics; m != nil {
		for _, n := range m.numbers() {
			w.Set(keyMetrics+n.key, *n.value)
		}
		w.Set(keyMetrics+"positives", uint32(m.Positives))
		w.Set(keyMetrics+"negatives", uint32(m.Negatives))
	}
	if c := p.Calibration; c != nil {
		w.Set(keyCalibration+"rate", c.Rate)
		w.Set(keyCalibration+"texts", uint32(c.Texts))
	}
	w.Set(keyContent, digest(p.Value))
	for i := range p.Value.Layers {
		l := &p.Value.Layers[i]
		w.AddF32(weightName(i), gguf.F32, []int64{int64(l.In), int64(l.Out)}, l.Weight)
		w.AddF32(biasName(i), gguf.F32, []int64{int64(l.Out)}, l.Bias)
	}
	return w, nil
}
