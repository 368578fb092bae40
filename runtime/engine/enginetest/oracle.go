package enginetest

import (
	"math"
	"slices"

	"github.com/trimtab/trimtab/steer"
)

// What a plan must do to a scene, foretold from the rows of the scene without
// it. It shares no code with the engine's way to apply plans except the
// operations themselves, which package steer holds against their formulas.

// dose is what an intervention does to row r of a scene, 0 for nothing. Gates
// are judged by rows that nobody edited.
func (s *suite) dose(iv *steer.Intervention, at steer.Row, r int, base outcome) float32 {
	if iv.Scale == 0 || !iv.When.Active(at) || iv.Gate != nil && !iv.Gate.Open(s.baseRow(iv.Gate.Site, r, base)) {
		return 0
	}
	return iv.Scale * iv.Schedule.At(at.Offset)
}

// baseRow is a row that the scene showed; plans with gates are made only for
// scenes that show what the gates read.
func (s *suite) baseRow(site steer.Site, r int, base outcome) []float32 {
	return base.acts[site][r*s.info.Width : (r+1)*s.info.Width]
}

// acts reports whether the plan applies to a row at all, and whether that is
// sure to change it: a clamp may find the row in its range already.
func (s *suite) acts(sc *scene, seq int, plan *steer.Plan, r int, base outcome) (acts, moves bool) {
	for i := range plan.Len() {
		iv := plan.At(i)
		if s.dose(iv, sc.row(seq, r), r, base) == 0 || s.atEase(iv, r, base) {
			continue
		}
		acts = true
		if base.acts[iv.Site] != nil {
			row := s.baseRow(iv.Site, r, base)
			want, _ := s.applied(plan, iv.Site, sc.row(seq, r), r, row, base)
			moves = moves || distance(want, row) > 1e-3
		} else {
			moves = moves || iv.Op == steer.Add
		}
	}
	return acts, moves
}

// reach finds the lowest layer and the first row that a plan edits in a scene;
// both lie past the end if it edits nothing.
func (s *suite) reach(sc *scene, seq int, plan *steer.Plan, base outcome) (lowest, first int) {
	lowest, first = s.info.Layers, sc.rows()
	for r := range sc.rows() {
		for i := range plan.Len() {
			if iv := plan.At(i); s.dose(iv, sc.row(seq, r), r, base) != 0 && !s.atEase(iv, r, base) {
				lowest, first = min(lowest, iv.Site.Layer), min(first, r)
			}
		}
	}
	return lowest, first
}

// applied is what a plan makes of row r at a site, which holds x before.
func (s *suite) applied(plan *steer.Plan, site steer.Site, at steer.Row, r int, x []float32, base outcome) (want []float32, edited bool) {
	want = slices.Clone(x)
	group := 0
	for i := range plan.Len() {
		iv := plan.At(i)
		if iv.Site != site || iv.Group != 0 && group != 0 && iv.Group != group {
			continue
		}
		open := *iv
		if iv.Gate != nil && iv.Gate.Site == site { // sees what came before it
			if !iv.Gate.Open(want) {
				continue
			}
			open.Gate = nil
		}
		if dose := s.dose(&open, at, r, base); dose != 0 {
			before := slices.Clone(want)
			open.ApplyDose(want, dose)
			if iv.Op == steer.Ascend && slices.Equal(before, want) {
				continue // it stands back where V is high
			}
			group = max(group, iv.Group)
			edited = true
		}
	}
	return want, edited
}

// distance is the Euclidean distance of got from want, relative to want.
func distance(got, want []float32) float64 {
	if len(got) != len(want) {
		return math.Inf(1)
	}
	var diff, size float64
	for i := range want {
		d := float64(got[i]) - float64(want[i])
		diff += d * d
		size += float64(want[i]) * float64(want[i])
	}
	if diff == 0 {
		return 0
	}
	return math.Sqrt(diff / max(size, 1e-30))
}

// editable returns a random layer where op can be applied, -1 if there is none.
func (s *suite) editable(op steer.Op) int {
	layers := s.editableLayers(op)
	if len(layers) == 0 {
		return -1
	}
	return layers[s.rng.IntN(len(layers))]
}

func (s *suite) editableLayers(op steer.Op) (layers []int) {
	for layer := range s.info.Layers {
		if s.info.Caps.CanEdit(steer.Site{Layer: layer}, op) == nil {
			layers = append(layers, layer)
		}
	}
	return layers
}
