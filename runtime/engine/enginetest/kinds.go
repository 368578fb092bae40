package enginetest

import (
	"math"
	"slices"

	"github.com/trimtab/trimtab/steer"
)

// editKind is one kind of intervention; size is the length of a typical row.
type editKind struct {
	name string
	make func(s *suite, size float64) steer.Intervention
}

func (s *suite) direction(size float64) []float32 {
	return s.noise(s.info.Width, size/math.Sqrt(float64(s.info.Width)))
}

func ptr(v int) *int { return &v }

var editKinds = []editKind{
	{"add", func(s *suite, size float64) steer.Intervention {
		return steer.Intervention{Vector: s.direction(size), Scale: 0.7}
	}},
	{"project", func(s *suite, size float64) steer.Intervention {
		return steer.Intervention{Op: steer.Project, Vector: s.direction(1), Scale: 1}
	}},
	{"clamp", func(s *suite, size float64) steer.Intervention {
		return steer.Intervention{Op: steer.Clamp, Vector: s.direction(3), Scale: 1, Min: float32(1.1 * size), Max: float32(1.3 * size)}
	}},
	{"add and keep the norm", func(s *suite, size float64) steer.Intervention {
		return steer.Intervention{Vector: s.direction(size), Scale: -1.5, Renorm: true}
	}},
	{"half project and keep the norm", func(s *suite, size float64) steer.Intervention {
		return steer.Intervention{Op: steer.Project, Vector: s.direction(size), Scale: 0.5, Renorm: true}
	}},
	{"clamp in a window", func(s *suite, size float64) steer.Intervention {
		return steer.Intervention{Op: steer.Clamp, Vector: s.direction(1), Scale: 0.5, Min: float32(-2 * size), Max: float32(-1.1 * size),
			When: steer.When{From: ptr(-3), To: ptr(-1)}}
	}},
	{"add to the first generated row", func(s *suite, size float64) steer.Intervention {
		return steer.Intervention{Vector: s.direction(size), Scale: 1, When: steer.When{From: ptr(0), To: ptr(1)}}
	}},
	{"add to the answer", func(s *suite, size float64) steer.Intervention {
		return steer.Intervention{Vector: s.direction(size), Scale: 1, When: steer.When{Phases: steer.PhaseAnswer | steer.PhaseThink}}
	}},
	{"add to the prompt", func(s *suite, size float64) steer.Intervention {
		return steer.Intervention{Vector: s.direction(size), Scale: 1, When: steer.When{Phases: steer.PhasePrompt, From: ptr(-4)}}
	}},
	{"add on a token", func(s *suite, size float64) steer.Intervention {
		return steer.Intervention{Vector: s.direction(size), Scale: 1, When: steer.When{Tokens: []int32{-5}}} // replaced by a token of the text
	}},
	{"replace", func(s *suite, size float64) steer.Intervention {
		return steer.Intervention{Op: steer.Replace, Vector: s.direction(2), Scale: 1, Value: float32(1.2 * size)}
	}},
	{"half replace and keep the norm", func(s *suite, size float64) steer.Intervention {
		return steer.Intervention{Op: steer.Replace, Vector: s.direction(0.5), Scale: 0.5, Value: float32(-1.5 * size), Renorm: true}
	}},
	{"low-rank affine", func(s *suite, size float64) steer.Intervention {
		return steer.Intervention{Op: steer.Affine, Vector: s.direction(size), Scale: 0.5, Map: s.lowRank(3)}
	}},
	{"low-rank affine without a bias, norm kept", func(s *suite, size float64) steer.Intervention {
		return steer.Intervention{Op: steer.Affine, Scale: 1, Map: s.lowRank(steer.MaxRank), Renorm: true}
	}},
	{"rotate", func(s *suite, size float64) steer.Intervention {
		return steer.Intervention{Op: steer.Rotate, Vector: s.direction(1), Toward: s.direction(3), Scale: 1.3}
	}},
	{"add on a ramp", func(s *suite, size float64) steer.Intervention {
		return steer.Intervention{Vector: s.direction(size), Scale: 1, Schedule: steer.Schedule{Kind: steer.Ramp, Start: 0.3, End: 1.1, Over: 3}}
	}},
	{"add that decays", func(s *suite, size float64) steer.Intervention {
		return steer.Intervention{Vector: s.direction(size), Scale: 1, Schedule: steer.Schedule{Kind: steer.Decay, Start: 1, End: 0.2, Over: 2}}
	}},
	{"add behind a cosine gate", func(s *suite, size float64) steer.Intervention {
		return steer.Intervention{Vector: s.direction(size), Scale: 1, Gate: &steer.Gate{Vector: s.direction(1)}}
	}},
	{"rotate behind a probe that must deny", func(s *suite, size float64) steer.Intervention {
		return steer.Intervention{Op: steer.Rotate, Vector: s.direction(1), Toward: s.direction(1), Scale: 2,
			Gate: &steer.Gate{Kind: steer.Logistic, Vector: s.direction(1 / size), Bias: 0.1, Below: true}}
	}},
	{"add behind a gate at the same block", func(s *suite, size float64) steer.Intervention {
		return steer.Intervention{Vector: s.direction(size), Scale: -1, Gate: &steer.Gate{Vector: s.direction(2), Site: here}}
	}},
	// The vector is for mutants that take these for something else.
	{"ascend a network", func(s *suite, size float64) steer.Intervention {
		return steer.Intervention{Op: steer.Ascend, Vector: s.direction(size), Scale: 1, Ascent: s.ascent(steer.MLP)}
	}},
	{"ascend facets and keep the norm", func(s *suite, size float64) steer.Intervention {
		return steer.Intervention{Op: steer.Ascend, Vector: s.direction(size), Scale: 0.7, Renorm: true, Ascent: s.ascent(steer.Facets)}
	}},
}

// here stands for the edit's own site in the gate of an editKind.
var here = steer.Site{Layer: -1}

// lowRank makes a map that changes a row by about half its size.
func (s *suite) lowRank(rank int) *steer.LowRank {
	size := 1 / math.Sqrt(float64(s.info.Width))
	return &steer.LowRank{Rank: rank, Down: s.noise(rank*s.info.Width, size), Up: s.noise(rank*s.info.Width, 0.5/float64(rank))}
}

// makePlan makes a plan of one edit, nil where the engine cannot do it.
func (s *suite) makePlan(sc *scene, seq, layer int, kind editKind, base outcome) *steer.Plan {
	s.Helper()
	iv := kind.make(s, s.size(layer, base))
	iv.Site.Layer = layer
	if len(iv.When.Tokens) > 0 {
		iv.When.Tokens[0] = int32(sc.tokens[seq][s.rng.IntN(sc.rows())])
	}
	if s.info.Caps.CanEdit(iv.Site, iv.Op) != nil || iv.Gate != nil && !s.aim(&iv, base) {
		return nil
	}
	if iv.Op == steer.Ascend && !s.aimAscent(&iv, base) {
		return nil
	}
	return s.plan(iv)
}

// aim puts a gate at a block that the scene shows, at the edit or below it, and
// sets the threshold so that about half of the rows pass.
func (s *suite) aim(iv *steer.Intervention, base outcome) bool {
	var below []steer.Site
	for site := range base.acts {
		if site.Layer < iv.Site.Layer {
			below = append(below, site)
		}
	}
	g := iv.Gate
	if g.Site == here || len(below) == 0 {
		g.Site = iv.Site
	} else {
		slices.SortFunc(below, func(a, b steer.Site) int { return a.Layer - b.Layer })
		g.Site = below[s.rng.IntN(len(below))]
	}
	if len(base.acts[g.Site]) == 0 {
		return false
	}
	var values []float64
	for r := range len(base.acts[g.Site]) / s.info.Width {
		values = append(values, g.Value(s.baseRow(g.Site, r, base)))
	}
	g.Threshold = split(values)
	return true
}

// split is a threshold that about half of the values are under, in the widest
// gap of their middle third.
func split(values []float64) float32 {
	slices.Sort(values)
	best := len(values) / 3
	for i := best + 1; i+1 < len(values) && i <= 2*len(values)/3; i++ {
		if values[i+1]-values[i] > values[best+1]-values[best] {
			best = i
		}
	}
	return float32((values[best] + values[best+1]) / 2)
}

// size is the mean length of the rows at a layer, 1 where they are not shown.
func (s *suite) size(layer int, base outcome) float64 {
	a := base.acts[steer.Site{Layer: layer}]
	if len(a) == 0 {
		return 1
	}
	sum := 0.0
	for _, x := range a {
		sum += float64(x) * float64(x)
	}
	return math.Sqrt(sum / float64(len(a)/s.info.Width))
}
