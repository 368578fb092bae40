package enginetest

import (
	"math"

	"github.com/trimtab/trimtab/steer"
)

// ascent climbs a random function of the model's rows; aimAscent sets its
// threshold.
func (s *suite) ascent(kind steer.ValueKind) *steer.Ascent { return s.ascentOf(kind, s.info.Width) }

func (s *suite) ascentOf(kind steer.ValueKind, width int) *steer.Ascent {
	v := &steer.Value{Kind: kind, Norm: true}
	switch kind {
	case steer.Linear:
		v.Layers = []steer.Dense{s.dense(width, 1)}
	case steer.Facets:
		v.Layers = []steer.Dense{s.dense(width, 3)}
	case steer.MLP:
		v.Layers = []steer.Dense{s.dense(width, 16), s.dense(16, 8), s.dense(8, 1)}
	}
	return &steer.Ascent{Value: v, Margin: 0.5, Radius: 0.4, Steps: 3}
}

func (s *suite) dense(in, out int) steer.Dense {
	return steer.Dense{In: in, Out: out, Weight: s.noise(in*out, math.Sqrt(2/float64(in))), Bias: s.noise(out, 0.1)}
}

// overThreshold is an ascent that every row is too good for.
func (s *suite) overThreshold() *steer.Ascent {
	a := s.ascent(steer.MLP)
	a.Threshold = -1e6
	return a
}

// aimAscent sets the threshold so that about half of the scene's rows are over
// it.
func (s *suite) aimAscent(iv *steer.Intervention, base outcome) bool {
	if len(base.acts[iv.Site]) == 0 {
		return false
	}
	var values []float64
	w := iv.Ascent.Value.NewWork()
	for r := range len(base.acts[iv.Site]) / s.info.Width {
		values = append(values, iv.Ascent.Value.At(s.baseRow(iv.Site, r, base), w))
	}
	iv.Ascent.Threshold = split(values)
	return true
}

// atEase reports whether an ascent leaves row r alone because V is over its
// threshold, judged by the row that nobody edited.
func (s *suite) atEase(iv *steer.Intervention, r int, base outcome) bool {
	if iv.Op != steer.Ascend || iv.Ascent.Always || len(base.acts[iv.Site]) == 0 {
		return false
	}
	v := iv.Ascent.Value
	return v.At(s.baseRow(iv.Site, r, base), v.NewWork()) >= float64(iv.Ascent.Threshold)
}
