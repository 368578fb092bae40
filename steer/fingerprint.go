package steer

import (
	"encoding/binary"
	"math"

	"github.com/cespare/xxhash/v2"
)

// Marks in front of what not every intervention has. No layer is negative, so
// they cannot be taken for the start of the next intervention, and plans that
// have none of it keep the fingerprint they had before it existed.
const (
	markValue uint64 = 1<<63 + iota
	markToward
	markMap
	markSchedule
	markGate
	markGroup
	markAscent
)

// fingerprint hashes the interventions that have a dose and that keep wants.
func fingerprint(list []Intervention, keep func(*Intervention) bool) uint64 {
	h := hasher{d: xxhash.New()}
	acts := false
	for i := range list {
		if iv := &list[i]; iv.Scale != 0 && keep(iv) {
			acts = true
			h.intervention(iv)
		}
	}
	if !acts {
		return 0
	}
	return h.d.Sum64() | 1 // never 0, which means "does nothing"
}

type hasher struct {
	d   *xxhash.Digest
	buf []byte
}

func (h *hasher) num(v uint64) { h.buf = binary.LittleEndian.AppendUint64(h.buf, v) }

func (h *hasher) float(x float32) { h.num(uint64(math.Float32bits(x))) }

func (h *hasher) flag(b bool) {
	if b {
		h.num(1)
	} else {
		h.num(0)
	}
}

func (h *hasher) bound(p *int) {
	h.flag(p != nil)
	if p != nil {
		h.num(uint64(*p))
	}
}

func (h *hasher) floats(values []float32) {
	h.num(uint64(len(values)))
	for _, x := range values {
		h.buf = binary.LittleEndian.AppendUint32(h.buf, math.Float32bits(x))
	}
}

func (h *hasher) site(s Site) {
	h.num(uint64(s.Layer))
	h.num(uint64(s.Point))
}

func (h *hasher) intervention(iv *Intervention) {
	h.site(iv.Site)
	h.num(uint64(iv.Op))
	h.float(iv.Scale)
	h.float(iv.Min)
	h.float(iv.Max)
	h.flag(iv.Renorm)
	h.bound(iv.When.From)
	h.bound(iv.When.To)
	h.num(uint64(iv.When.Phases))
	h.num(uint64(len(iv.When.Tokens)))
	for _, t := range iv.When.Tokens {
		h.num(uint64(uint32(t)))
	}
	h.floats(iv.Vector)
	h.extras(iv)
	h.d.Write(h.buf)
	h.buf = h.buf[:0]
}

func (h *hasher) extras(iv *Intervention) {
	if iv.Value != 0 {
		h.num(markValue)
		h.float(iv.Value)
	}
	if len(iv.Toward) > 0 {
		h.num(markToward)
		h.floats(iv.Toward)
	}
	if m := iv.Map; m != nil {
		h.num(markMap)
		h.num(uint64(m.Rank))
		h.floats(m.Down)
		h.floats(m.Up)
	}
	if s := iv.Schedule; s.Kind != Constant {
		h.num(markSchedule)
		h.num(uint64(s.Kind))
		h.float(s.Start)
		h.float(s.End)
		h.num(uint64(s.Over))
	}
	if g := iv.Gate; g != nil {
		h.num(markGate)
		h.site(g.Site)
		h.num(uint64(g.Kind))
		h.float(g.Bias)
		h.float(g.Threshold)
		h.flag(g.Below)
		h.floats(g.Vector)
	}
	if a := iv.Ascent; a != nil {
		h.ascent(a)
	}
	if iv.Group != 0 {
		h.num(markGroup)
		h.num(uint64(iv.Group))
	}
}

func (h *hasher) ascent(a *Ascent) {
	h.num(markAscent)
	for _, x := range []float32{a.Threshold, a.Margin, a.Radius} {
		h.float(x)
	}
	h.flag(a.Absolute)
	h.num(uint64(a.Steps))
	h.flag(a.Always)
	if a.Value == nil {
		return // an operation that has no use for it
	}
	h.num(uint64(a.Value.Kind))
	h.flag(a.Value.Norm)
	for _, l := range a.Value.Layers {
		h.num(uint64(l.In))
		h.floats(l.Weight)
		h.floats(l.Bias)
	}
}
