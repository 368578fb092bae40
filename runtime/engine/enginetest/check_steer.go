package enginetest

import (
	"fmt"
	"slices"

	"github.com/trimtab/trimtab/runtime/engine"
	"github.com/trimtab/trimtab/steer"
)

// checkEdits plays prompts in one batch, three sequences under three plans.
func checkEdits(s *suite) {
	for _, output := range []engine.Output{engine.OutputAll, engine.OutputLast} {
		s.allEdits(s.newScene(3, 9, 0, output))
	}
}

// checkGeneratedEdits plays a prompt and decode steps.
func checkGeneratedEdits(s *suite) { s.allEdits(s.newScene(3, 5, 4, engine.OutputLast)) }

// allEdits goes through every kind of edit at up to four layers, always three
// different ones, mostly at different layers, in one batch.
func (s *suite) allEdits(sc *scene) {
	s.Helper()
	layers := s.sampleLayers()
	if len(layers) == 0 {
		return // checkDenied has asked
	}
	base := s.play(sc)
	for k := range len(layers) * len(editKinds) {
		plans := make([]*steer.Plan, len(sc.tokens))
		names := make([]string, len(plans))
		for i := range plans {
			layer, kind := layers[(k/len(editKinds)+i)%len(layers)], editKinds[(k+3*i)%len(editKinds)]
			plans[i] = s.makePlan(sc, i, layer, kind, base[i])
			names[i] = fmt.Sprintf("sequence %d of a mixed batch, %s at layer %d", i, kind.name, layer)
		}
		got := s.play(sc, plans...)
		for i := range got {
			s.steered(names[i], sc, i, plans[i], got[i], base[i])
		}
	}
}

// sampleLayers picks the first, the last and two other layers that take edits.
func (s *suite) sampleLayers() []int {
	layers := s.editableLayers(steer.Add)
	if len(layers) <= 4 {
		return layers
	}
	n := len(layers)
	return []int{layers[0], layers[1+s.rng.IntN(n/2-1)], layers[n/2+s.rng.IntN(n-1-n/2)], layers[n-1]}
}

// checkPlanOrder checks plans of several interventions: in order at one site,
// and each on top of the ones below it.
func checkPlanOrder(s *suite) {
	sc := s.newScene(2, 6, 2, engine.OutputAll)
	layers := s.sampleLayers()
	if len(layers) == 0 || len(s.editableLayers(steer.Project)) == 0 {
		return
	}
	base := s.play(sc)
	low, high := layers[0], layers[len(layers)-1]
	add := steer.Intervention{Site: steer.Site{Layer: low}, Vector: s.direction(s.size(low, base[0])), Scale: 1}
	remove := steer.Intervention{Site: steer.Site{Layer: low}, Op: steer.Project, Vector: add.Vector, Scale: 1}
	if s.info.Caps.CanEdit(remove.Site, remove.Op) == nil {
		one, two := s.plan(add, remove), s.plan(remove, add)
		got := s.play(sc, one, two)
		s.steered("add then project", sc, 0, one, got[0], base[0])
		s.steered("project then add", sc, 1, two, got[1], base[1])
	}
	if low == high {
		return
	}
	upper := steer.Intervention{Site: steer.Site{Layer: high}, Vector: s.direction(s.size(high, base[0])), Scale: 1}
	below := s.play(sc, s.plan(add), s.plan(add))
	got := s.play(sc, s.plan(add, upper), s.plan(upper, add))
	for i := range got {
		s.steered(fmt.Sprintf("sequence %d, a second edit above the first", i), sc, i, s.plan(upper), got[i], below[i])
	}
}

// checkComposition checks plans whose interventions ask for each other: groups
// that stand back, and gates that see what the plan did before.
func checkComposition(s *suite) {
	layers := s.sampleLayers()
	if len(layers) == 0 {
		return
	}
	sc := s.newScene(3, 6, 3, engine.OutputAll)
	base := s.play(sc)
	low, high := layers[0], layers[len(layers)-1]
	add := func(layer int) steer.Intervention {
		return steer.Intervention{Site: steer.Site{Layer: layer}, Vector: s.direction(s.size(layer, base[0])), Scale: 1}
	}
	first, second, third := add(low), add(low), add(low)
	first.Group, second.Group, third.Group = 1, 2, 3
	late := first
	late.When.From = ptr(0)
	plans := []*steer.Plan{s.plan(first, second, third), s.plan(late, second, third), s.plan(third, late)}
	for i, got := range s.play(sc, plans...) {
		s.steered(fmt.Sprintf("sequence %d, edits that stand back", i), sc, i, plans[i], got, base[i])
	}
	if len(base[0].acts) == 0 || base[0].acts[first.Site] == nil {
		return // no gates without captures
	}
	push := first // so far that the row points along it
	push.Scale, push.Group = 50, 0
	s.gatesSee(sc, push, add(low), base)
	if low < high {
		s.gatesAbove(sc, push, add(high))
	}
}

// gatesSee: a gate at the edit's own site reads what came before it there.
func (s *suite) gatesSee(sc *scene, push, gated steer.Intervention, base []outcome) {
	s.Helper()
	gated.Gate = &steer.Gate{Site: gated.Site, Vector: push.Vector, Threshold: 0.95}
	plans := []*steer.Plan{s.plan(push, gated), s.plan(gated, push), s.plan(gated)}
	for i, got := range s.play(sc, plans...) {
		s.steered(fmt.Sprintf("sequence %d, a gate beside an edit", i), sc, i, plans[i], got, base[i])
	}
}

// gatesAbove: a gate at an earlier block reads what the plan made of the row
// there, as captures show it.
func (s *suite) gatesAbove(sc *scene, push, upper steer.Intervention) {
	s.Helper()
	alone := s.plan(push)
	below := s.play(sc, alone, alone, alone)
	open, shut := upper, upper
	open.Gate = &steer.Gate{Site: push.Site, Vector: push.Vector, Threshold: 0.95}
	shut.Gate = &steer.Gate{Site: push.Site, Vector: push.Vector, Threshold: 0.95, Below: true}
	got := s.play(sc, s.plan(push, open), s.plan(open, push), s.plan(push, shut))
	for i := range 2 {
		s.steered(fmt.Sprintf("sequence %d, an edit behind a gate that another edit opens", i), sc, i, s.plan(upper), got[i], below[i])
	}
	s.identical("an edit behind a gate that another edit closes", got[2], below[2])
}

// checkManyPlans compares up to 16 sequences of one batch, each under its own
// kind of plan, with each alone.
func checkManyPlans(s *suite) {
	layers := s.sampleLayers()
	if len(layers) == 0 {
		return
	}
	sc := s.newScene(min(16, s.info.MaxSequences), 6, 3, engine.OutputLast)
	base := s.play(sc)
	plans := make([]*steer.Plan, len(sc.tokens))
	for i := range plans {
		plans[i] = s.makePlan(sc, i, layers[i%len(layers)], editKinds[(5*i+2)%len(editKinds)], base[i])
	}
	got := s.play(sc, plans...)
	for i := range plans {
		single := *sc
		single.tokens = sc.tokens[i : i+1]
		single.phaseOf = i
		alone := s.play(&single, plans[i])[0]
		for r, want := range alone.logits {
			if want != nil {
				s.near(fmt.Sprintf("sequence %d of %d under plans of their own, row %d", i, len(plans), r), got[i].logits[r], want)
			}
		}
	}
}

// checkExactZero plays plans that do nothing, with and without captures.
func checkExactZero(s *suite) {
	layer := s.editable(steer.Add)
	if layer < 0 {
		return
	}
	v, w := s.direction(5), s.direction(5)
	own := steer.Site{Layer: layer}
	zero := func(iv steer.Intervention) *steer.Plan {
		iv.Site, iv.Vector, iv.Toward = steer.Site{Layer: layer}, v, w
		if s.info.Caps.CanEdit(iv.Site, iv.Op) != nil || iv.Gate != nil && s.info.Caps.CanCapture(iv.Gate.Site) != nil {
			return nil
		}
		return s.plan(iv)
	}
	never := int32(s.info.Vocab) // no token
	plans := map[string]*steer.Plan{
		"the empty plan":          s.plan(),
		"scale 0 add":             zero(steer.Intervention{Scale: 0}),
		"scale 0 add, norm kept":  zero(steer.Intervention{Scale: 0, Renorm: true}),
		"scale 0 project":         zero(steer.Intervention{Op: steer.Project}),
		"scale 0 clamp":           zero(steer.Intervention{Op: steer.Clamp, Min: 3, Max: 4}),
		"scale 0 replace":         zero(steer.Intervention{Op: steer.Replace, Value: 9, Renorm: true}),
		"scale 0 affine":          zero(steer.Intervention{Op: steer.Affine, Map: s.lowRank(2)}),
		"scale 0 rotate":          zero(steer.Intervention{Op: steer.Rotate, Renorm: true}),
		"scale 0 ascend":          zero(steer.Intervention{Op: steer.Ascend, Ascent: s.ascent(steer.MLP), Renorm: true}),
		"an ascent that is there": zero(steer.Intervention{Op: steer.Ascend, Scale: 1, Ascent: s.overThreshold(), Renorm: true}),
		"scale 0, open gate":      zero(steer.Intervention{Gate: &steer.Gate{Vector: w, Threshold: -1}}),
		"a ramp not begun": zero(steer.Intervention{Scale: 1, When: steer.When{To: ptr(1)},
			Schedule: steer.Schedule{Kind: steer.Ramp, End: 1, Over: 4}}),
		"a closed cosine gate": zero(steer.Intervention{Scale: 1, Gate: &steer.Gate{Vector: w, Threshold: 0.9999999}}),
		"a closed gate at the edit, norm kept": zero(steer.Intervention{Scale: 1, Renorm: true,
			Gate: &steer.Gate{Site: own, Vector: w, Threshold: -0.9999999, Below: true}}),
		"a probe that denies": zero(steer.Intervention{Op: steer.Rotate, Scale: 1,
			Gate: &steer.Gate{Kind: steer.Logistic, Vector: s.direction(1e-6), Bias: -50, Threshold: 0.5}}),
		"a window far ahead":  zero(steer.Intervention{Scale: 1, When: steer.When{From: ptr(1 << 20)}}),
		"a window long past":  zero(steer.Intervention{Scale: 1, Renorm: true, When: steer.When{To: ptr(-1 << 20)}}),
		"a phase that is not": zero(steer.Intervention{Scale: 1, When: steer.When{Phases: steer.PhaseConstrained}}),
		"a token that is not": zero(steer.Intervention{Scale: 1, When: steer.When{Tokens: []int32{never}}}),
	}
	for _, capture := range []bool{true, false} {
		sc := s.newScene(2, 7, 3, engine.OutputAll)
		if !capture {
			sc.capture = nil
		}
		base := s.play(sc)
		for name, p := range plans {
			for i, got := range s.play(sc, p, p) {
				s.identical(fmt.Sprintf("%s (capture %t), sequence %d", name, capture, i), got, base[i])
			}
		}
	}
}

// checkIsolation steers one sequence of a batch and looks at the others.
func checkIsolation(s *suite) {
	layers := s.sampleLayers()
	if len(layers) == 0 {
		return
	}
	for _, output := range []engine.Output{engine.OutputAll, engine.OutputLast} {
		sc := s.newScene(4, 7, 3, output)
		base := s.play(sc)
		for k, kind := range slices.Concat(editKinds[:5], editKinds[len(editKinds)-3:]) {
			one := (k + int(output)) % len(sc.tokens)
			plans := make([]*steer.Plan, len(sc.tokens))
			plans[one] = s.makePlan(sc, one, layers[k%len(layers)], kind, base[one])
			for i, got := range s.play(sc, plans...) {
				s.steered(fmt.Sprintf("sequence %d while only %d is steered (%s)", i, one, kind.name), sc, i, plans[i], got, base[i])
			}
		}
	}
}

// checkSharedPlan steers a whole batch alike, which engines like to do by
// other means than a mixed one, and checks that nothing of it stays behind.
func checkSharedPlan(s *suite) {
	layers := s.sampleLayers()
	if len(layers) == 0 {
		return
	}
	sc := s.newScene(3, 6, 3, engine.OutputLast)
	base := s.play(sc)
	low, high := layers[0], layers[len(layers)-1]
	one := s.makePlan(sc, 0, low, editKinds[0], base[0])
	other := s.makePlan(sc, 0, high, editKinds[0], base[0])
	both := s.plan(*one.At(0), *other.At(0))

	shared := s.play(sc, one, one, one)
	mixed := s.play(sc, one, one, other)
	for i := range shared {
		s.steered(fmt.Sprintf("sequence %d under the batch's plan", i), sc, i, one, shared[i], base[i])
	}
	for i := range 2 {
		for r, want := range shared[i].logits {
			if want != nil {
				s.near(fmt.Sprintf("sequence %d row %d, the same plan in a mixed batch", i, r), mixed[i].logits[r], want)
			}
		}
	}
	s.play(sc, both, both, both)
	for i, got := range s.play(sc, one, one, one) {
		s.identical(fmt.Sprintf("sequence %d under a plan after a larger one", i), got, shared[i])
	}
	for i, got := range s.play(sc) {
		s.identical(fmt.Sprintf("sequence %d without a plan, after plans", i), got, base[i])
	}
}

// checkReuse checks that a closed sequence leaves nothing to the next.
func checkReuse(s *suite) {
	sc := s.newScene(2, 6, 2, engine.OutputLast)
	base := s.play(sc)
	dirty := s.newScene(3, 12, 2, engine.OutputLast)
	var plans []*steer.Plan
	if layer := s.editable(steer.Add); layer >= 0 {
		p := s.makePlan(dirty, 0, layer, editKinds[0], base[0])
		plans = []*steer.Plan{p, p, p}
	}
	s.play(dirty, plans...)
	for i, got := range s.play(sc) {
		s.identical(fmt.Sprintf("sequence %d after others were closed", i), got, base[i])
	}
}

// checkBadPlans checks that a plan that does not fit changes nothing.
func checkBadPlans(s *suite) {
	seq, twin := s.sequence(), s.sequence()
	var old *steer.Plan
	if layer := s.editable(steer.Add); layer >= 0 {
		old = s.plan(steer.Intervention{Site: steer.Site{Layer: layer}, Vector: s.direction(3), Scale: 1})
		s.steer(seq, old)
		s.steer(twin, old)
	}
	fits := steer.Intervention{Vector: s.direction(9), Scale: 1}
	for name, bad := range map[string]steer.Intervention{
		"a layer past the last": {Site: steer.Site{Layer: s.info.Layers}, Vector: s.direction(1), Scale: 1},
		"a huge layer":          {Site: steer.Site{Layer: 1 << 30}, Vector: s.direction(1), Scale: 1},
		"a vector too wide":     {Vector: s.noise(s.info.Width+1, 1), Scale: 1},
		"a vector too narrow":   {Vector: s.noise(s.info.Width-1, 1), Scale: 1},
		"a map too wide": {Op: steer.Affine, Scale: 1,
			Map: &steer.LowRank{Rank: 1, Down: s.noise(s.info.Width+1, 1), Up: s.noise(s.info.Width+1, 1)}},
		"a plane too wide":          {Op: steer.Rotate, Scale: 1, Vector: s.noise(s.info.Width+1, 1), Toward: s.noise(s.info.Width+1, 1)},
		"a value function too wide": {Op: steer.Ascend, Scale: 1, Ascent: s.ascentOf(steer.MLP, s.info.Width+1)},
		"a gate too wide":           {Vector: s.direction(1), Scale: 1, Gate: &steer.Gate{Vector: s.noise(s.info.Width+1, 1)}},
	} {
		s.refused("steer with "+name, seq.Steer(s.plan(bad)), nil)
		s.refused("steer with a good edit and "+name, seq.Steer(s.plan(fits, bad)), nil)
	}
	tokens := s.tokens(5)
	s.forward(engine.Feed{Seq: seq, Tokens: tokens})
	got := s.logits(seq, 1)
	s.forward(engine.Feed{Seq: twin, Tokens: tokens})
	s.same("under the old plan, after bad ones were refused", got, s.logits(twin, 1))
}
