package runtime

import (
	"context"
	"errors"
	"math"
	"slices"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/runtime/engine"
	"github.com/trimtab/trimtab/steer"
)

// Bounds and tolerances of a [Sentinel].
const (
	maxProbeRows  = 4 // of one sequence
	maxProbeKinds = 4 // kinds of rows
	maxProbeLanes = 8 // sequences fed at once
	manySites     = 8 // from here on two rows must do

	ofEdit   = 1e-2 // of the edit's size
	ofRow    = 5e-4 // of the row's size: rows of a batch need not round alike
	nearGate = 1e-3 // so near its threshold a gate may do either
)

// probe holds one plan against its formulas. Its run j is the plan as far as
// its j-th site; run 0 has no plan. What happens at site j is then the
// difference between runs j-1 and j there.
type probe struct {
	eng   engine.Engine
	plan  *steer.Plan
	open  openFunc
	evict func() bool // gives up cells that others keep; nil for none

	info   *engine.Info
	sites  []steer.Site // edited and shown, in order
	plans  []*steer.Plan
	tokens []decode.Token
	kinds  []rowKind
	lanes  int
}

// rowKind says which rows of a text a feed stands for.
type rowKind struct {
	offset int // of its first row, from the prompt's end
	phase  steer.Phase
}

// shown are the rows that a run has at some sites.
type shown map[steer.Site][]float32

func (p *probe) prepare(tokens []decode.Token, room int) {
	p.info = p.eng.Info()
	for i := range p.plan.Len() {
		iv := p.plan.At(i)
		if iv.Scale != 0 && !slices.Contains(p.sites, iv.Site) && p.info.Caps.CanCapture(iv.Site) == nil {
			p.sites = append(p.sites, iv.Site)
		}
	}
	slices.SortFunc(p.sites, func(a, b steer.Site) int { return a.Layer - b.Layer })
	p.chooseTokens(tokens, room)
	p.chooseKinds()
	p.lanes = min(maxProbeLanes, len(p.sites)+1)
}

// chooseTokens takes the first tokens of a text and puts some of those that
// the plan waits for behind them.
func (p *probe) chooseTokens(tokens []decode.Token, room int) {
	n := 3
	if len(p.sites) >= manySites {
		n = 2
	}
	p.tokens = slices.Clone(tokens[:min(n, room, len(tokens))])
	for i := range p.plan.Len() {
		for _, t := range p.plan.At(i).When.Tokens {
			t := decode.Token(t)
			if slices.Contains(p.tokens, t) || int(t) >= p.info.Vocab || t < 0 {
				continue
			}
			if len(p.tokens) < room {
				p.tokens = append(p.tokens, t)
			} else if len(p.tokens) > 1 {
				p.tokens[len(p.tokens)-1] = t
				return
			}
		}
	}
}

// chooseKinds takes the beginning of an answer, the end of a prompt when the
// plan tells them apart, and what else it waits for.
func (p *probe) chooseKinds() {
	p.kinds = []rowKind{{0, steer.PhaseAnswer}}
	for i := range p.plan.Len() {
		if iv := p.plan.At(i); iv.Scale != 0 && (iv.Positional() || iv.Group != 0) {
			p.kinds = append(p.kinds, rowKind{-len(p.tokens), steer.PhasePrompt})
			break
		}
	}
	for i := range p.plan.Len() {
		if iv := p.plan.At(i); iv.Scale != 0 && !p.covered(iv) && len(p.kinds) < maxProbeKinds {
			p.kinds = append(p.kinds, kindFor(&iv.When))
		}
	}
}

func (p *probe) covered(iv *steer.Intervention) bool {
	for _, k := range p.kinds {
		for r := range p.tokens {
			if iv.Dose(p.row(k, r)) != 0 {
				return true
			}
		}
	}
	return false
}

func kindFor(w *steer.When) rowKind {
	k := rowKind{phase: w.Phases & -w.Phases}
	switch {
	case w.From != nil:
		k.offset = *w.From
	case w.To != nil:
		k.offset = *w.To - 1
	case k.phase == steer.PhasePrompt:
		k.offset = -1
	}
	if k.phase == 0 {
		k.phase = steer.PhaseAnswer
		if k.offset < 0 {
			k.phase = steer.PhasePrompt
		}
	}
	return k
}

func (p *probe) row(k rowKind, r int) steer.Row {
	return steer.Row{Offset: k.offset + r, Token: int32(p.tokens[r]), Phase: k.phase}
}

// run feeds and compares.
func (p *probe) run(ctx context.Context) error {
	if len(p.sites) == 0 {
		return nil
	}
	if err := p.makePlans(); err != nil {
		return err
	}
	for _, k := range p.kinds {
		runs := make([]shown, 0, len(p.plans))
		for len(runs) < len(p.plans) {
			from := max(min(len(runs), len(p.plans)-p.lanes), 0) // all batches have one shape
			more, err := p.feed(ctx, k, from)
			if err != nil {
				return err
			}
			runs = append(runs[:from], more...)
		}
		for j := range p.sites {
			if err := p.compare(k, j, runs[j], runs[j+1]); err != nil {
				return err
			}
		}
	}
	return nil
}

// makePlans cuts the plan off after each of its sites.
func (p *probe) makePlans() error {
	p.plans = append(p.plans, nil)
	for _, site := range p.sites[:len(p.sites)-1] {
		var list []steer.Intervention
		for i := range p.plan.Len() {
			if iv := p.plan.At(i); iv.Site.Layer <= site.Layer {
				list = append(list, *iv)
			}
		}
		q, err := steer.NewPlan(list...)
		if err != nil {
			return err
		}
		p.plans = append(p.plans, q)
	}
	p.plans = append(p.plans, p.plan)
	return nil
}

// feed computes the next runs, as many at once as there are sequences and
// cells for.
func (p *probe) feed(ctx context.Context, k rowKind, from int) ([]shown, error) {
	for {
		runs, err := p.try(ctx, k, p.plans[from:min(from+p.lanes, len(p.plans))], from)
		switch {
		case err == nil || !errors.Is(err, engine.ErrContextFull) && !errors.Is(err, engine.ErrNoSequence):
			return runs, err
		case p.lanes > 1:
			p.lanes = 1
		case p.evict == nil || !p.evict():
			return nil, err
		}
	}
}

func (p *probe) try(ctx context.Context, k rowKind, plans []*steer.Plan, from int) (runs []shown, err error) {
	feeds := make([]engine.Feed, 0, len(plans))
	defer func() {
		for i := range feeds {
			err = errors.Join(err, feeds[i].Seq.Close())
		}
	}()
	for i, plan := range plans {
		open := p.open
		if i > 0 {
			open = p.eng.NewSequence
		}
		seq, err := open(ctx, engine.Origin{})
		if err != nil && i > 0 && errors.Is(err, engine.ErrNoSequence) {
			p.lanes = i
			break
		} else if err != nil {
			return nil, err
		}
		feeds = append(feeds, engine.Feed{Seq: seq, Tokens: p.tokens, Output: engine.OutputNone, Capture: p.looks(from + i), PromptLen: -k.offset, Phase: k.phase})
		if err := seq.Steer(plan); err != nil {
			return nil, err
		}
	}
	if err := p.eng.Forward(ctx, feeds); err != nil {
		return nil, err
	}
	for i := range feeds {
		s := shown{}
		for _, site := range feeds[i].Capture {
			a, err := feeds[i].Seq.Activation(site)
			if err != nil {
				return nil, err
			}
			s[site] = slices.Clone(a)
		}
		runs = append(runs, s)
	}
	return runs, nil
}

// looks are the sites that run j is looked at: its own, the next one, and what
// gates of that read.
func (p *probe) looks(j int) (sites []steer.Site) {
	add := func(s steer.Site) {
		if !slices.Contains(sites, s) && p.info.Caps.CanCapture(s) == nil {
			sites = append(sites, s)
		}
	}
	if j > 0 {
		add(p.sites[j-1])
	}
	if j == len(p.sites) {
		return sites
	}
	add(p.sites[j])
	for i := range p.plan.Len() {
		if iv := p.plan.At(i); iv.Site == p.sites[j] && iv.Gate != nil {
			add(iv.Gate.Site)
		}
	}
	return sites
}

// compare holds what happened at site j against the formulas.
func (p *probe) compare(k rowKind, j int, without, with shown) error {
	w, site := p.info.Width, p.sites[j]
	for r := range p.tokens {
		base, got := rowOf(without[site], r, w), rowOf(with[site], r, w)
		if got == nil || base == nil {
			return errors.New("the engine shows fewer rows than it was fed")
		}
		at := p.row(k, r)
		want := slices.Clone(base)
		sure := p.expect(site, at, r, without, want)
		asked, off, size := distance(want, base), distance(got, want), norm(base)
		if sure && size-size == 0 && !(off <= ofEdit*asked+ofRow*size) {
			return unproved(p.opsAt(site), site, at, asked, distance(got, base), off)
		}
	}
	return nil
}

// expect does to a row what the plan says. It is not sure where rounding
// decides whether an operation acts.
func (p *probe) expect(site steer.Site, at steer.Row, r int, base shown, row []float32) (sure bool) {
	sure = true
	group := 0
	for i := range p.plan.Len() {
		iv := p.plan.At(i)
		if iv.Site != site || iv.Group != 0 && group != 0 && iv.Group != group {
			continue
		}
		dose := iv.Dose(at)
		if dose == 0 {
			continue
		}
		if g := iv.Gate; g != nil {
			read := row
			if g.Site != site {
				read = rowOf(base[g.Site], r, p.info.Width)
			}
			if read == nil || math.Abs(g.Value(read)-float64(g.Threshold)) < nearGate {
				return false
			}
			if !g.Open(read) {
				continue
			}
		}
		group = max(group, iv.Group)
		sure = sure && smooth(iv, row, dose)
		iv.ApplyDose(row, dose)
	}
	return sure
}

// smooth reports whether an operation does about the same to a row that is a
// little longer: some only act below a threshold.
func smooth(iv *steer.Intervention, row []float32, dose float32) bool {
	a, b := slices.Clone(row), slices.Clone(row)
	for i := range b {
		b[i] *= 1 + 1e-5
	}
	iv.ApplyDose(a, dose)
	iv.ApplyDose(b, dose)
	return distance(a, b) <= ofRow/2*norm(row)+ofEdit/2*distance(a, row)
}

func (p *probe) opsAt(site steer.Site) (ops []string) {
	for i := range p.plan.Len() {
		if iv := p.plan.At(i); iv.Site == site && iv.Scale != 0 {
			ops = append(ops, iv.Op.String())
		}
	}
	return ops
}

func rowOf(rows []float32, r, width int) []float32 {
	if len(rows) < (r+1)*width {
		return nil
	}
	return rows[r*width : (r+1)*width]
}

func distance(a, b []float32) float64 {
	sum := 0.0
	for i := range a {
		d := float64(a[i]) - float64(b[i])
		sum += d * d
	}
	return math.Sqrt(sum)
}

func norm(a []float32) float64 {
	sum := 0.0
	for _, x := range a {
		sum += float64(x) * float64(x)
	}
	return math.Sqrt(sum)
}
