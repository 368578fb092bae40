package steer

import "slices"

// Verdicts remembers which gates of a plan were open for one row, on the row's
// way from the gate's block up to the edit's. The zero value has all closed.
// Whoever drives rows through a model keeps one for each row in flight and
// hands it to every [Plan.Edit] of that row.
type Verdicts [MaxInterventions / 64]uint64

func (v *Verdicts) set(i uint16, open bool) {
	v[i/64] &^= 1 << (i % 64)
	if open {
		v[i/64] |= 1 << (i % 64)
	}
}

func (v *Verdicts) open(i uint16) bool { return v != nil && v[i/64]>>(i%64)&1 == 1 }

// stop is what a plan does at one site.
type stop struct {
	site  Site
	edits []uint16 // interventions, in the plan's order
	gates []uint16 // interventions at later sites whose gates read here
}

// Edit does to one row at one site what the plan says: all edits there, in
// order, then the probes of gates that read there. It reports whether it
// changed the row. The sites of a row must be visited from the first block to
// the last with one and the same v, which may be nil when no gate of the plan
// is at another site than its edit. It is safe for concurrent use on different
// rows and allocates nothing, apart from the first rows of an [Ascend].
func (p *Plan) Edit(site Site, at Row, row []float32, v *Verdicts) (edited bool) {
	s := p.stop(site)
	if s == nil {
		return false
	}
	group := 0 // that has the row
	for _, i := range s.edits {
		iv := &p.list[i]
		if iv.Group != 0 && group != 0 && iv.Group != group {
			continue
		}
		dose := iv.Dose(at)
		if dose == 0 || !iv.open(i, row, v) {
			continue
		}
		if iv.apply(row, dose, p.scratch[i]) {
			group = max(group, iv.Group)
			edited = true
		}
	}
	for _, i := range s.gates {
		iv := &p.list[i]
		if v != nil && iv.Dose(at) != 0 {
			v.set(i, iv.Gate.Open(row))
		}
	}
	return edited
}

func (iv *Intervention) open(i uint16, row []float32, v *Verdicts) bool {
	switch {
	case iv.Gate == nil:
		return true
	case iv.Gate.Site == iv.Site:
		return iv.Gate.Open(row)
	}
	return v.open(i)
}

// Needs reports whether the plan has to see the row at the site: to edit it,
// or to read it for a gate. Where it is false, Edit would do nothing.
func (p *Plan) Needs(site Site, at Row) bool {
	s := p.stop(site)
	if s == nil {
		return false
	}
	for _, i := range s.edits {
		if p.list[i].Dose(at) != 0 {
			return true
		}
	}
	for _, i := range s.gates {
		if p.list[i].Dose(at) != 0 {
			return true
		}
	}
	return false
}

// Sites are the sites where the plan edits or reads any row at all, in the
// order of the blocks. The slice is shared and must not be written to.
func (p *Plan) Sites() []Site {
	if p == nil {
		return nil
	}
	return p.sites
}

// Gated reports whether a gate reads at another site than its edit, so that
// Edit needs Verdicts.
func (p *Plan) Gated() bool { return p != nil && p.gated }

func (p *Plan) stop(site Site) *stop {
	if p == nil {
		return nil
	}
	for i := range p.stops {
		if p.stops[i].site == site {
			return &p.stops[i]
		}
	}
	return nil
}

// compile sorts what the plan does by site. Interventions with dose 0 are left
// out: they do exactly nothing.
func (p *Plan) compile() {
	p.scratch = make([]scratch, len(p.list))
	at := func(site Site) *stop {
		if s := p.stop(site); s != nil {
			return s
		}
		p.stops = append(p.stops, stop{site: site})
		return &p.stops[len(p.stops)-1]
	}
	for i := range p.list {
		iv := &p.list[i]
		if iv.Scale == 0 {
			continue
		}
		if iv.Op == Ascend {
			p.scratch[i] = make(scratch, maxScratch)
		}
		s := at(iv.Site)
		s.edits = append(s.edits, uint16(i))
		if iv.Gate != nil && iv.Gate.Site != iv.Site {
			s = at(iv.Gate.Site)
			s.gates = append(s.gates, uint16(i))
			p.gated = true
		}
	}
	slices.SortFunc(p.stops, func(a, b stop) int { return a.site.Layer - b.site.Layer })
	for i := range p.stops {
		p.sites = append(p.sites, p.stops[i].site)
	}
}
