package runtime

import "math"

// governor chooses the factor on the dose from the divergences of the tokens
// that were kept: equal divergences give equal factors, and after a rewind it
// is where it was.
//
// For small doses f the divergence of a row is about c*f^2, since KL has no
// linear term. The governor follows the curvature c of the rows it has seen and
// asks for the dose that is expected to use a quarter of what is left of Mean
// and Total, or all of Token: so it falls in steps that get smaller, and a long
// text keeps near Window/(Window+4) of Mean.
type governor struct {
	limits *Shadow   // filled
	list   []reading // beside the visible tokens
	now    reading   // of the row at hand
	curve  float64   // the curvature before the row at hand
	dose   float64   // of the next feed
	tries  []Try     // of the row at hand
}

// reading is the part of a [Reading] that is kept for every token.
type reading struct {
	kl, dose  float64
	unsteered bool
	sum       float64 // nats of all tokens so far, with this one
	curve     float64 // curvature after this one
}

// Of the governor's course. Steps of a 64th bound the number of plans that a
// session makes.
const (
	doseSteps   = 64
	riseStep    = 1.0 / 8 // most that the factor rises from token to token
	portion     = 0.25    // of what is left, for one token
	caution     = 0.9     // of the dose that would just keep the limit
	forgetCurve = 0.25    // weight of the last row when the curvature falls
)

func newGovernor(limits *Shadow) governor { return governor{limits: limits, dose: 1} }

// room is how many nats the next token may have, +Inf without limits.
func (g *governor) room() float64 {
	room := math.Inf(1)
	if l := g.limits.Token; l != nil {
		room = *l
	}
	if l := g.limits.Mean; l != nil {
		room = min(room, g.ofWindow(*l))
	}
	if l := g.limits.Total; l != nil {
		room = min(room, *l-g.total())
	}
	return max(room, 0)
}

// ofWindow is what is left of a mean over the window that ends with the next token.
func (g *governor) ofWindow(mean float64) float64 {
	w := g.limits.Window
	spent := 0.0
	for _, r := range g.list[max(0, len(g.list)-(w-1)):] {
		spent += r.kl
	}
	return mean*float64(w) - spent
}

func (g *governor) total() float64 {
	if len(g.list) == 0 {
		return 0
	}
	return g.list[len(g.list)-1].sum
}

// aim is how many nats the next token should have.
func (g *governor) aim() float64 {
	aim := math.Inf(1)
	if l := g.limits.Token; l != nil {
		aim = *l
	}
	if l := g.limits.Mean; l != nil {
		aim = min(aim, g.ofWindow(*l)*portion)
	}
	if l := g.limits.Total; l != nil {
		aim = min(aim, (*l-g.total())*portion)
	}
	return max(aim, 0)
}

// next sets the dose of the row behind the last visible token.
func (g *governor) next() {
	g.tries = g.tries[:0]
	g.dose, g.curve = 1, 0
	if len(g.list) == 0 || !g.limits.limited() {
		return
	}
	last := g.list[len(g.list)-1]
	g.curve = last.curve
	aim := g.aim()
	f := 1.0
	if aim == 0 {
		f = 0
	} else if g.curve > 0 {
		f = math.Sqrt(aim / g.curve)
	}
	g.dose = step(min(f, last.dose+riseStep, 1))
}

// step rounds a factor down to what the governor uses.
func step(f float64) float64 { return math.Floor(f*doseSteps) / doseSteps }

// tooFar reports whether a row must not be sampled from.
func (g *governor) tooFar(kl float64) bool { return g.limits.limited() && !(kl <= g.room()) }

// lower sets a lower dose for the row at hand, which was too far.
func (g *governor) lower(kl float64) {
	g.reject(kl)
	f := caution * g.dose * math.Sqrt(g.room()/kl)
	if len(g.tries) >= g.limits.Tries || !(f < g.dose) { // also NaN
		f = 0
	}
	g.dose = step(f)
}

// mayLower reports whether there is a lower dose to try.
func (g *governor) mayLower() bool { return g.dose > 0 && len(g.tries) < g.limits.Tries }

func (g *governor) reject(kl float64) { g.tries = append(g.tries, Try{g.dose, kl}) }

// accept takes the reading of the row that is sampled from.
func (g *governor) accept(kl float64, unsteered bool) {
	g.now = reading{kl: kl, dose: g.dose, unsteered: unsteered, curve: g.curve}
	if unsteered {
		g.now.dose = 0
	}
	seen := 0.0 // the steepest of what this row showed
	known := false
	see := func(dose, kl float64) {
		if dose > 0 && kl-kl == 0 {
			seen, known = max(seen, kl/(dose*dose)), true
		}
	}
	for _, t := range g.tries {
		see(t.Dose, t.KL)
	}
	if !unsteered {
		see(g.dose, kl)
	}
	if known {
		g.now.curve = max(seen, forgetCurve*seen+(1-forgetCurve)*g.curve)
	}
}

// commit keeps the reading beside a new visible token.
func (g *governor) commit() {
	g.now.sum = g.total() + g.now.kl
	g.list = append(g.list, g.now)
	g.next()
}

// cut keeps the first k tokens.
func (g *governor) cut(k int) {
	g.list = g.list[:k]
	g.next()
}

// renew forgets what is known of the plan: another one comes.
func (g *governor) renew() {
	if n := len(g.list); n > 0 {
		g.list[n-1].curve = 0
	}
	g.next()
}

// shown fills the reading of an event.
func (g *governor) shown(r *Reading) {
	*r = Reading{KL: g.now.kl, Dose: g.now.dose, Unsteered: g.now.unsteered, Tries: g.tries}
}

// summary is the Divergence of the first n tokens.
func (g *governor) summary(n, tries int) *Divergence {
	d := &Divergence{KL: make([]float64, n), Worst: -1, LeastDose: 1, Tries: tries}
	for i, r := range g.list[:n] {
		d.KL[i] = r.kl
		d.Total += r.kl
		if d.Worst < 0 || r.kl > d.Max {
			d.Worst, d.Max = i, r.kl
		}
		d.LeastDose = min(d.LeastDose, r.dose)
		if r.dose < 1 {
			d.Lowered++
		}
		if r.unsteered {
			d.Unsteered++
		}
	}
	if n > 0 {
		d.Mean = d.Total / float64(n)
	}
	return d
}
