package enginetest

import (
	"fmt"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/runtime/engine"
	"github.com/trimtab/trimtab/steer"
)

// scene is a fixed course of batches over a few sequences. Playing it twice, under
// other plans, shows what the plans do: everything else is equal.
type scene struct {
	tokens  [][]decode.Token // per sequence, all of equal length
	prompt  int              // rows before generation starts
	cuts    []int            // where each batch ends, the last one at the end
	output  engine.Output    // of every feed
	capture []steer.Site
	phaseOf int // number of the first sequence, for the phase
}

// outcome is what one sequence of a played scene showed.
type outcome struct {
	logits [][]float32              // per row, nil where none was asked for
	acts   map[steer.Site][]float32 // all rows
}

// newScene makes a scene of n sequences with a prompt and some decode steps.
func (s *suite) newScene(n, prompt, steps int, output engine.Output) *scene {
	sc := &scene{prompt: prompt, output: output}
	for range n {
		sc.tokens = append(sc.tokens, s.tokens(prompt+steps))
	}
	for i := range steps + 1 {
		sc.cuts = append(sc.cuts, prompt+i)
	}
	for layer := range s.info.Layers {
		if site := (steer.Site{Layer: layer}); s.info.Caps.CanCapture(site) == nil {
			sc.capture = append(sc.capture, site)
		}
	}
	return sc
}

func (sc *scene) rows() int { return len(sc.tokens[0]) }

func (sc *scene) row(seq, i int) steer.Row {
	return steer.Row{Offset: i - sc.prompt, Token: int32(sc.tokens[seq][i]), Phase: sc.phase(seq, i)}
}

func (sc *scene) phase(seq, i int) steer.Phase {
	switch {
	case i < sc.prompt:
		return steer.PhasePrompt
	case seq+sc.phaseOf == 1:
		return steer.PhaseThink
	}
	return steer.PhaseAnswer
}

// play runs the scene over new sequences, one plan for each; plans may be short.
func (s *suite) play(sc *scene, plans ...*steer.Plan) []outcome {
	s.Helper()
	seqs := make([]engine.Sequence, len(sc.tokens))
	out := make([]outcome, len(seqs))
	for i := range seqs {
		seqs[i] = s.sequence()
		out[i] = outcome{logits: make([][]float32, sc.rows()), acts: map[steer.Site][]float32{}}
		if i < len(plans) {
			s.steer(seqs[i], plans[i])
		}
	}
	from := 0
	for _, to := range sc.cuts {
		feeds := make([]engine.Feed, len(seqs))
		for i := range feeds {
			feeds[i] = engine.Feed{Seq: seqs[i], Tokens: sc.tokens[i][from:to], Output: sc.output,
				Capture: sc.capture, PromptLen: sc.prompt, Phase: sc.phase(i, from)}
		}
		s.forward(feeds...)
		for i := range seqs {
			s.collect(sc, &out[i], seqs[i], from, to)
		}
		from = to
	}
	s.shut(seqs...)
	return out
}

func (s *suite) collect(sc *scene, o *outcome, seq engine.Sequence, from, to int) {
	s.Helper()
	v := s.info.Vocab
	switch sc.output {
	case engine.OutputLast:
		o.logits[to-1] = s.logits(seq, 1)
	case engine.OutputAll:
		all := s.logits(seq, to-from)
		for r := range to - from {
			o.logits[from+r] = all[r*v : (r+1)*v]
		}
	}
	for _, site := range sc.capture {
		o.acts[site] = append(o.acts[site], s.activation(seq, site, to-from)...)
	}
}

// identical checks that two outcomes have equal bits everywhere.
func (s *suite) identical(what string, got, want outcome) {
	s.Helper()
	for r := range want.logits {
		if want.logits[r] != nil {
			s.same(fmt.Sprintf("%s: logits of row %d", what, r), got.logits[r], want.logits[r])
		}
	}
	for site := range want.acts {
		s.same(fmt.Sprintf("%s: activations at %s", what, site), got.acts[site], want.acts[site])
	}
}

// steered checks one sequence's outcome under a plan against its outcome
// without it. Blocks up to the lowest edited one never see an edit, so there
// everything can be foretold; above it, only the rows before the first edit.
func (s *suite) steered(what string, sc *scene, seq int, plan *steer.Plan, got, base outcome) {
	s.Helper()
	lowest, first := s.reach(sc, seq, plan, base)
	w := s.info.Width
	for _, site := range sc.capture {
		for r := range sc.rows() {
			g, b := got.acts[site][r*w:(r+1)*w], base.acts[site][r*w:(r+1)*w]
			where := fmt.Sprintf("%s: row %d at %s", what, r, site)
			want, edited := s.applied(plan, site, sc.row(seq, r), r, b, base)
			switch {
			case site.Layer < lowest, r < first, site.Layer == lowest && !edited:
				s.same(where+", which the plan does not edit", g, b)
			case site.Layer == lowest:
				if d := distance(g, want); !(d <= s.o.EditTolerance) {
					s.Fatalf("%s is %.3g of its size away from what the plan makes of it (unedited it is %.3g away)", where, d, distance(b, want))
				}
			}
		}
	}
	s.steeredLogits(what, sc, seq, plan, got, base)
}

// steeredLogits checks that logits which no edit reaches are untouched, and
// that those which an edit must reach have moved.
func (s *suite) steeredLogits(what string, sc *scene, seq int, plan *steer.Plan, got, base outcome) {
	s.Helper()
	lowest, first := s.reach(sc, seq, plan, base)
	moved := false // some row up to this one was truly changed
	for r, want := range base.logits {
		acts, moves := s.acts(sc, seq, plan, r, base)
		moved = moved || moves
		switch {
		case want == nil:
		case r < first, lowest == s.info.Layers-1 && !acts:
			s.same(fmt.Sprintf("%s: logits of row %d, which no edit reaches", what, r), got.logits[r], want)
		case moves, moved && lowest < s.info.Layers-1:
			if equalBits(got.logits[r], want) {
				s.Fatalf("%s: logits of row %d did not move, though the plan edits row %d at layer %d", what, r, first, lowest)
			}
		}
	}
}
