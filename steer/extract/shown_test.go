package extract

import (
	"context"
	"math"
	"slices"
	"testing"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/runtime/engine"
	"github.com/trimtab/trimtab/runtime/engine/enginetest"
	"github.com/trimtab/trimtab/steer"
)

// TestShownEqualsNaive holds the batched place against one text at a time, for
// pairs of either form.
func TestShownEqualsNaive(t *testing.T) {
	ctx := context.Background()
	l, _ := allPlaces(t)
	e := newFake(t, enginetest.FakeConfig{MaxSequences: 5, MaxBatch: 64})
	pairs := somePairs(5, 8)
	for i := range pairs[:2] {
		pairs[i].ReadChosen = asked(pairs[i].Turns, "be quick.")
	}
	place := Place{Kind: Shown}
	m, err := Read(ctx, e, chatML, pairs, []int{0, 2}, []Place{{AnswerMean, 0}, place}, ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for c, cell := range m.Cells {
		if cell.Place != place {
			continue
		}
		want := make([]float64, m.Width)
		for i := range pairs {
			for k, x := range naiveShown(t, e, l, &pairs[i], i, cell.Layer) {
				want[k] += x / float64(len(pairs))
			}
		}
		for k, got := range m.Difference(c) {
			near(t, cell.String(), got, want[k], 1e-5)
		}
	}
	if e.OpenSequences() != 0 {
		t.Errorf("%d sequences were left open", e.OpenSequences())
	}
	if _, err := Read(ctx, newFake(t, enginetest.FakeConfig{MaxSequences: 1}), chatML, pairs, []int{0}, []Place{place}, ReadOptions{}); err == nil {
		t.Error("one sequence was enough for two texts abreast")
	}
}

// naiveShown is the difference that one pair leaves in one of its answers.
func naiveShown(t *testing.T, e engine.Engine, l *layout, p *Pair, i, layer int) []float64 {
	t.Helper()
	sides := p.sides()
	var rows [2][]decode.Logits
	var states [2][][]float32
	for k, s := range sides {
		a, err := l.answer(p.context(s), sides[i%2].answer)
		if err != nil {
			t.Fatal(err)
		}
		a.to++ // rowsOf stops before the row of the last token
		rows[k], states[k] = rowsOf(t, e, a, nil), statesOf(t, e, a, layer)
	}
	out, total := make([]float64, e.Info().Width), 0.0
	for r := range rows[0] {
		total += distance(rows[0][r], rows[1][r])
	}
	for r := range rows[0] {
		w := distance(rows[0][r], rows[1][r]) / total
		for k := range out {
			out[k] += w * (float64(states[0][r][k]) - float64(states[1][r][k]))
		}
	}
	return out
}

// statesOf are the states of the rows that predict the answer's tokens and what
// follows them.
func statesOf(t *testing.T, e engine.Engine, a *answered, layer int) (out [][]float32) {
	t.Helper()
	s, err := e.NewSequence(context.Background(), engine.Origin{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	site := steer.Site{Layer: layer}
	if err := e.Forward(context.Background(), []engine.Feed{{Seq: s, Tokens: a.tokens[:a.to-1], PromptLen: a.from, Capture: []steer.Site{site}}}); err != nil {
		t.Fatal(err)
	}
	x, err := s.Activation(site)
	if err != nil {
		t.Fatal(err)
	}
	for r := a.from - 1; r < a.to-1; r++ {
		out = append(out, slices.Clone(x[r*e.Info().Width:(r+1)*e.Info().Width]))
	}
	return out
}

func TestOccasions(t *testing.T) {
	m := NewMoments(nil, 1, 0)
	if m.Occasions(0.9) != nil {
		t.Error("occasions without a reading")
	}
	for token, w := range map[decode.Token]float64{7: 5, 3: 4, 9: 0.5, 1: 0.5} {
		m.occasions[token] = w
	}
	for share, want := range map[float64][]decode.Token{0.5: {7}, 0.9: {7, 3}, 0.95: {7, 3, 1}, 1: {7, 3, 1, 9}} {
		if got := m.Occasions(share); !slices.Equal(got, want) {
			t.Errorf("%v of the weight: %v, want %v", share, got, want)
		}
	}
	for i := range 2 * maxOccasions {
		m.occasions[decode.Token(100+i)] = 5
	}
	if got := m.Occasions(0.9); got != nil {
		t.Errorf("%d tokens", len(got))
	}
}

func TestMirrored(t *testing.T) {
	m, err := Read(context.Background(), newFake(t, enginetest.FakeConfig{}), chatML, somePairs(6, 2), []int{1}, []Place{{AnswerMean, 0}}, ReadOptions{Rows: true, Seed: 3})
	if err != nil {
		t.Fatal(err)
	}
	o := m.Mirrored()
	d, back := m.Difference(0), o.Mirrored().Difference(0)
	for k, x := range o.Difference(0) {
		near(t, "difference", x, -d[k], 1e-12)
		near(t, "twice", back[k], d[k], 0)
		near(t, "shuffled", o.Shuffled(0)[k], -m.Shuffled(0)[k], 0)
	}
	one, two := m.shuffledBy(0, 1), m.shuffledBy(0, 1)
	if !slices.Equal(one, two) || slices.Equal(one, m.shuffledBy(0, 2)) || math.Abs(cosine(one, d)) > 0.95 {
		t.Error("shuffled labels do not follow the seed")
	}
}

// TestJudge: the judge's word counts among what the log-probabilities proposed,
// and its smallest dose that is as good.
func TestJudge(t *testing.T) {
	f := newFake(t, enginetest.FakeConfig{})
	fit := func(best float64) (*Result, error) {
		heard := 0
		r, err := Fit(context.Background(), f, chatML, somePairs(60, 6), Options{Method: CAA, Layers: []int{1}, Doses: []float64{0.1, 0.2, 0.4},
			Windows: []Window{Rows(-1, 4)}, Neutral: Everyday()[:2], MaxKL: 100, Bare: true,
			Judge: func(_ context.Context, plans []*steer.Plan) ([][]float64, error) {
				heard = len(plans)
				out := make([][]float64, len(plans))
				for i, p := range plans {
					good := 1 - math.Abs(float64(p.At(0).Scale)-best)
					out[i] = []float64{good, good, good}
				}
				return out, nil
			}})
		if err == nil && (heard < 4 || r.Chosen.Score.N != 3 || r.Controls != nil) {
			t.Errorf("%d plans were heard, %+v was chosen", heard, r.Chosen)
		}
		return r, err
	}
	for _, best := range []float64{0.1, 0.4} {
		if r, err := fit(best); err != nil || math.Abs(r.Chosen.Dose-best) > 1e-6 {
			t.Errorf("dose %v instead of %v, %v", r.Chosen.Dose, best, err)
		}
	}
	_, err := Fit(context.Background(), f, chatML, somePairs(60, 6), Options{Method: CAA, Layers: []int{1}, Bare: true, MaxKL: 100,
		Judge: func(context.Context, []*steer.Plan) ([][]float64, error) { return nil, nil }})
	if err == nil {
		t.Error("a judge without an answer was believed")
	}
}

// TestFocus: with Focus, rows of the tokens that matter are tried, and a plan
// for them names the tokens.
func TestFocus(t *testing.T) {
	r, err := Fit(context.Background(), newFake(t, enginetest.FakeConfig{}), chatML, somePairs(60, 6),
		Options{Method: Mean, Layers: []int{1}, Places: []Place{{Kind: Shown}}, Doses: []float64{0.2}, Windows: []Window{}, Neutral: Everyday()[:2], MaxKL: 100, Focus: true, Bare: true})
	if err != nil {
		t.Fatal(err)
	}
	w := Rows(-1, -1)
	w.Tokens = []decode.Token{5, 6}
	p, err := r.PlanAt(w, 0.5)
	if err != nil || !slices.Equal(p.At(0).When.Tokens, []int32{5, 6}) || w.String() != "rows [-1,) at 2 tokens" {
		t.Errorf("%+v, %v, %s", p.At(0).When, err, w)
	}
}
