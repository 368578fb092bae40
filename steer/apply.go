package steer

import (
	"math"

	"github.com/trimtab/trimtab/internal/vec"
)

// Apply edits one residual row in place with the full dose, Scale, whatever
// conditions, schedule and gate say: see [Plan.Edit] for all of it. The row
// must be as wide as the vectors. It allocates nothing, except scratch memory
// for [Ascend], and is safe for concurrent use on different rows.
func (iv *Intervention) Apply(row []float32) { iv.ApplyDose(row, iv.Scale) }

// ApplyDose is Apply with another dose. A dose of 0 leaves the row untouched,
// byte for byte.
func (iv *Intervention) ApplyDose(row []float32, dose float32) { iv.apply(row, dose, nil) }

// apply reports whether the row was edited: always, with a dose other than 0,
// except by Ascend.
func (iv *Intervention) apply(row []float32, dose float32, s scratch) bool {
	if dose == 0 {
		return false
	}
	before := 0.0
	if iv.Renorm {
		before = vec.Norm(row)
	}
	switch iv.Op {
	case Add:
		vec.AddScaled(row, dose, iv.Vector)
	case Project:
		if sq := vec.Dot(iv.Vector, iv.Vector); sq > 0 {
			vec.AddScaled(row, float32(-float64(dose)*vec.Dot(row, iv.Vector)/sq), iv.Vector)
		}
	case Clamp:
		iv.moveTo(row, dose, float64(iv.Min), float64(iv.Max))
	case Replace:
		iv.moveTo(row, dose, float64(iv.Value), float64(iv.Value))
	case Affine:
		iv.affine(row, dose)
	case Rotate:
		iv.rotate(row, float64(dose))
	case Ascend:
		if !iv.Ascent.climb(row, dose, s) {
			return false
		}
	}
	if iv.Renorm {
		if after := vec.Norm(row); after > 0 {
			vec.Scale(row, float32(before/after))
		}
	}
	return true
}

// moveTo moves the component along the vector into [low,high].
func (iv *Intervention) moveTo(row []float32, dose float32, low, high float64) {
	norm := vec.Norm(iv.Vector)
	if norm == 0 {
		return
	}
	c := vec.Dot(row, iv.Vector) / norm
	to := math.Min(math.Max(c, low), high)
	if to != c {
		vec.AddScaled(row, float32(float64(dose)*(to-c)/norm), iv.Vector)
	}
}

func (iv *Intervention) affine(row []float32, dose float32) {
	m, w := iv.Map, len(row)
	if m != nil {
		var inner [MaxRank]float64 // Bx: all of it before the row changes
		for k := range m.Rank {
			inner[k] = vec.Dot(row, m.Down[k*w:(k+1)*w])
		}
		for k := range m.Rank {
			vec.AddScaled(row, float32(float64(dose)*inner[k]), m.Up[k*w:(k+1)*w])
		}
	}
	if len(iv.Vector) > 0 {
		vec.AddScaled(row, dose, iv.Vector)
	}
}

// rotate turns the components (p, q) of the row along the plane's orthonormal
// basis e = v/|v| and f = (w - (w.e)e)/s. Both are written in terms of v and w,
// so that no basis has to be stored.
func (iv *Intervention) rotate(row []float32, angle float64) {
	v, w := iv.Vector, iv.Toward
	norm, along, s := plane(v, w)
	if s == 0 {
		return
	}
	p := vec.Dot(row, v) / norm
	q := (vec.Dot(row, w) - along*p) / s
	sin, cos := math.Sincos(angle)
	dp, dq := (cos-1)*p-sin*q, (cos-1)*q+sin*p
	kw := dq / s
	kv := (dp - along*kw) / norm
	for i := range row {
		row[i] += float32(kv*float64(v[i]) + kw*float64(w[i]))
	}
}

// plane returns |v|, the component of w along v, and the length of the rest.
func plane(v, w []float32) (norm, along, rest float64) {
	norm = vec.Norm(v)
	if norm == 0 {
		return 0, 0, 0
	}
	along = vec.Dot(v, w) / norm
	return norm, along, math.Sqrt(max(vec.Dot(w, w)-along*along, 0))
}
