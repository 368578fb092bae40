package steer

import (
	"math"

	"github.com/trimtab/trimtab/internal/vec"
)

// Apply edits one residual row in place. len(row) must equal len(iv.Vector).
// A zero Scale leaves the row untouched, byte for byte. It allocates nothing
// and is safe for concurrent use on different rows.
func (iv *Intervention) Apply(row []float32) {
	if iv.Scale == 0 {
		return
	}
	before := 0.0
	if iv.Renorm {
		before = vec.Norm(row)
	}
	switch iv.Op {
	case Add:
		vec.AddScaled(row, iv.Scale, iv.Vector)
	case Project:
		if sq := vec.Dot(iv.Vector, iv.Vector); sq > 0 {
			vec.AddScaled(row, float32(-float64(iv.Scale)*vec.Dot(row, iv.Vector)/sq), iv.Vector)
		}
	case Clamp:
		iv.clamp(row)
	}
	if iv.Renorm {
		if after := vec.Norm(row); after > 0 {
			vec.Scale(row, float32(before/after))
		}
	}
}

func (iv *Intervention) clamp(row []float32) {
	norm := vec.Norm(iv.Vector)
	if norm == 0 {
		return
	}
	c := vec.Dot(row, iv.Vector) / norm
	to := math.Min(math.Max(c, float64(iv.Min)), float64(iv.Max))
	if to != c {
		vec.AddScaled(row, float32(float64(iv.Scale)*(to-c)/norm), iv.Vector)
	}
}
