package llamacpp

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/internal/gguf"
	"github.com/trimtab/trimtab/runtime/engine"
	"github.com/trimtab/trimtab/steer"
)

// shown is what one row of one sequence showed.
type shown struct {
	logits decode.Logits
	acts   [][]float32 // per block
}

const (
	ascentPrompt = 7
	ascentSteps  = 24
	ascentPlans  = 16 // decode steps under plans; the rest is without
)

// ascentRun decodes fixed tokens in one batch, each sequence under its plan for
// the first rows of the answer and under none after.
func ascentRun(t *testing.T, e *Engine, plans []*steer.Plan) [][]shown {
	t.Helper()
	seqs := make([]engine.Sequence, len(plans))
	for i := range seqs {
		seqs[i] = sequence(t, e)
		defer seqs[i].Close()
		if err := seqs[i].Steer(plans[i]); err != nil {
			t.Fatal(err)
		}
	}
	out := make([][]shown, len(plans))
	r := rand.New(rand.NewPCG(7, 7))
	for step := range ascentSteps {
		feeds := make([]engine.Feed, len(seqs))
		for i := range feeds {
			n := 1
			if step == 0 {
				n = ascentPrompt
			}
			feeds[i] = engine.Feed{Seq: seqs[i], PromptLen: ascentPrompt, Phase: steer.PhaseAnswer}
			for range n {
				feeds[i].Tokens = append(feeds[i].Tokens, decode.Token(32+r.IntN(90)))
			}
			for layer := range e.info.Layers {
				feeds[i].Capture = append(feeds[i].Capture, steer.Site{Layer: layer})
			}
			if step == ascentPlans {
				if err := seqs[i].Steer(nil); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := e.Forward(context.Background(), feeds); err != nil {
			t.Fatal(err)
		}
		for i, s := range seqs {
			row := shown{logits: slices.Clone(s.Logits())}
			for layer := range e.info.Layers {
				x, err := s.Activation(steer.Site{Layer: layer})
				if err != nil {
					t.Fatal(err)
				}
				row.acts = append(row.acts, slices.Clone(x))
			}
			out[i] = append(out[i], row)
		}
	}
	return out
}

// TestAscend filters three sequences of a mixed batch: at the last block, where
// the cache stays clean, at a middle one, and with a threshold that every row is
// over.
func TestAscend(t *testing.T) {
	e := open(t, "tiny", gguf.F32, Options{Threads: 1, Context: 64, Cells: 256, MaxSequences: 4, KV: KVF32, Flash: FlashOff})
	base := ascentRun(t, e, make([]*steer.Plan, 4))
	last, mid := e.info.Layers-1, e.info.Layers/2
	r := rand.New(rand.NewPCG(8, 8))
	v := &steer.Value{Kind: steer.MLP, Norm: true, Layers: []steer.Dense{noise(r, e.info.Width, 16), noise(r, 16, 1)}}
	plan := func(layer int, threshold float32) *steer.Plan {
		from := 0
		p, err := steer.NewPlan(steer.Intervention{Site: steer.Site{Layer: layer}, Op: steer.Ascend, Scale: 1, When: steer.When{From: &from},
			Ascent: &steer.Ascent{Value: v, Threshold: threshold, Margin: 0.1, Radius: 0.5, Steps: 3}})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	lastAt, midAt := middle(v, base[1], last), middle(v, base[2], mid)
	got := ascentRun(t, e, []*steer.Plan{nil, plan(last, lastAt), plan(mid, midAt), plan(mid, -1e6)})
	for _, i := range []int{0, 3} {
		for step := range got[i] {
			if !equalRow(got[i][step], base[i][step], last) {
				t.Fatalf("sequence %d, which nothing was to happen to, changed at step %d", i, step)
			}
		}
	}

	w, lifted := v.NewWork(), 0
	for step := range got[1] {
		g, b := got[1][step], base[1][step]
		low := step > 0 && step < ascentPlans && v.At(b.acts[last], w) < float64(lastAt)
		switch {
		case !slices.EqualFunc(g.acts[:last], b.acts[:last], slices.Equal):
			t.Fatalf("at the last block, step %d: earlier blocks changed, so something is in the cache", step)
		case !low && !equalRow(g, b, last):
			t.Fatalf("at the last block, step %d: a row over the threshold changed", step)
		case low:
			lifted++
			if slices.Equal(g.logits, b.logits) || v.At(g.acts[last], w) <= v.At(b.acts[last], w) {
				t.Fatalf("at the last block, step %d: a row under the threshold was not lifted", step)
			}
		}
	}
	first := slices.IndexFunc(base[2][1:], func(s shown) bool { return v.At(s.acts[mid], w) < float64(midAt) }) + 1
	for step := range got[2] {
		g, b := got[2][step], base[2][step]
		if step < first && !equalRow(g, b, last) {
			t.Fatalf("at block %d, step %d: changed before the first low row, %d", mid, step, first)
		}
		if !slices.EqualFunc(g.acts[:mid], b.acts[:mid], slices.Equal) {
			t.Fatalf("at block %d, step %d: a block below it changed", mid, step)
		}
		if step >= ascentPlans && slices.Equal(g.logits, b.logits) {
			t.Fatalf("at block %d, step %d: nothing is left of the edit, though the cache holds it", mid, step)
		}
	}
	if lifted < 3 || lifted > ascentPlans-3 || first == 0 {
		t.Errorf("%d rows were lifted at the last block, the first at the middle one is %d: the case says little", lifted, first)
	}
}

// equalRow compares blocks up to the given one, and logits with the last.
func equalRow(a, b shown, upTo int) bool {
	return slices.EqualFunc(a.acts[:upTo+1], b.acts[:upTo+1], slices.Equal) &&
		(upTo < len(a.acts)-1 || slices.Equal(a.logits, b.logits))
}

// middle is a threshold between the rows of the answer.
func middle(v *steer.Value, rows []shown, layer int) float32 {
	var values []float64
	for _, s := range rows[1:ascentPlans] {
		values = append(values, v.At(s.acts[layer], v.NewWork()))
	}
	slices.Sort(values)
	return float32((values[len(values)/2] + values[len(values)/2-1]) / 2)
}

func noise(r *rand.Rand, in, out int) steer.Dense {
	d := steer.Dense{In: in, Out: out, Bias: make([]float32, out)}
	for range in * out {
		d.Weight = append(d.Weight, float32(r.NormFloat64()))
	}
	return d
}
