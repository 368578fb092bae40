package sweep

import (
	"errors"
	"math"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/runtime/engine"
	"github.com/trimtab/trimtab/runtime/engine/enginetest"
	"github.com/trimtab/trimtab/steer"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newFake(t *testing.T, cfg enginetest.FakeConfig) *enginetest.Fake {
	t.Helper()
	f, err := enginetest.NewFake(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func adding(t *testing.T, width, layer int, dose float32, when steer.When) *steer.Plan {
	t.Helper()
	v := make([]float32, width)
	for i := range v {
		v[i] = float32(i%3) - 0.8
	}
	p, err := steer.NewPlan(steer.Intervention{Site: steer.Site{Layer: layer}, Vector: v, Scale: dose, When: when})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// alone is the direct computation: one sequence, every row by itself.
func alone(t *testing.T, e engine.Engine, p *steer.Plan, x *Text) [][]float64 {
	t.Helper()
	s, err := e.NewSequence(t.Context(), engine.Origin{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Steer(p); err != nil {
		t.Fatal(err)
	}
	var out [][]float64
	for i := range x.To - 1 {
		f := engine.Feed{Seq: s, Tokens: x.Tokens[i : i+1], PromptLen: x.Prompt, Phase: steer.PhaseAnswer}
		if i < x.Prompt {
			f.Phase = steer.PhasePrompt
		}
		if err := e.Forward(t.Context(), []engine.Feed{f}); err != nil {
			t.Fatal(err)
		}
		if i < x.From-1 {
			continue
		}
		sum, row := 0.0, make([]float64, len(s.Logits()))
		for _, l := range s.Logits() {
			sum += math.Exp(float64(l))
		}
		for k, l := range s.Logits() {
			row[k] = float64(l) - math.Log(sum)
		}
		out = append(out, row)
	}
	return out
}

func text(s string, prompt, from int) Text {
	tokens := append([]decode.Token{enginetest.BOS}, enginetest.Tokens(s)...)
	return Text{tokens, prompt, from, len(tokens)}
}

// Divergences agree with two forwards of each text by itself, whatever the
// plan's rows are, and are exactly 0 where nothing is steered.
func TestMeasureAgreesWithForwards(t *testing.T) {
	four := 4
	for name, cfg := range map[string]enginetest.FakeConfig{"roomy": {}, "two sequences": {MaxSequences: 2}} {
		e := newFake(t, cfg)
		w := e.Info().Width
		plans := []*steer.Plan{nil, adding(t, w, 1, 0, steer.When{}), adding(t, w, 1, 0.7, steer.When{}),
			adding(t, w, 0, 2, steer.When{Phases: steer.PhaseAnswer}), adding(t, w, 1, -1, steer.When{To: &four, Phases: steer.PhasePrompt})}
		texts := []Text{text("question: answer", 10, 10), text("no prompt to speak of", 1, 1), text("late score", 4, 7), text("early score", 8, 3)}
		got := make([][][]Row, len(plans))
		for i := range got {
			got[i] = make([][]Row, len(texts))
		}
		n := 0
		err := Measure(t.Context(), e, plans, texts, func(p, x int, r Row) { got[p][x] = append(got[p][x], r) }, func(k int) { n = k })
		if err != nil || n != len(texts) {
			t.Fatalf("%s: %v, %d texts", name, err, n)
		}
		for x := range texts {
			base := alone(t, e, nil, &texts[x])
			for p := range plans {
				want := alone(t, e, plans[p], &texts[x])
				compareRows(t, got[p][x], base, want, &texts[x], p < 2)
			}
		}
	}
}

func compareRows(t *testing.T, got []Row, base, steered [][]float64, x *Text, idle bool) {
	t.Helper()
	if len(got) != len(base) || len(got) != x.To-x.From {
		t.Fatalf("%d rows, want %d", len(got), x.To-x.From)
	}
	for i, r := range got {
		var want Row
		next := x.Tokens[x.From+i]
		want.Base, want.Steered = base[i][next], steered[i][next]
		for k := range base[i] {
			want.Away += math.Exp(base[i][k]) * (base[i][k] - steered[i][k])
			want.Back += math.Exp(steered[i][k]) * (steered[i][k] - base[i][k])
		}
		if idle && (r.Away != 0 || r.Back != 0 || r.Base != r.Steered) {
			t.Errorf("row %d of an idle plan is %+v", i, r)
		}
		for _, d := range []float64{r.Base - want.Base, r.Steered - want.Steered, r.Away - want.Away, r.Back - want.Back} {
			if math.Abs(d) > 1e-4 {
				t.Fatalf("row %d is %+v, want %+v", i, r, want)
			}
		}
	}
}

func TestMeasureFaults(t *testing.T) {
	ok := text("abc", 1, 1)
	none := func(int, int, Row) {}
	if err := Measure(t.Context(), newFake(t, enginetest.FakeConfig{MaxSequences: 1}), nil, []Text{ok}, none, nil); !errors.Is(err, engine.ErrUnsupported) {
		t.Error(err)
	}
	e := newFake(t, enginetest.FakeConfig{})
	for _, x := range []Text{{}, {ok.Tokens, 1, 0, 2}, {ok.Tokens, 1, 2, 2}, {ok.Tokens, 1, 1, 9}, {ok.Tokens, 0, 1, 2}} {
		if err := Measure(t.Context(), e, nil, []Text{ok, x}, none, nil); err == nil || !strings.Contains(err.Error(), "text 1: scores") {
			t.Errorf("%+v: %v", x, err)
		}
	}
	far := adding(t, e.Info().Width, 99, 1, steer.When{})
	if err := Measure(t.Context(), e, []*steer.Plan{far}, []Text{ok}, none, nil); err == nil {
		t.Error("a plan for a block that is not there")
	}
	s, err := e.NewSequence(t.Context(), engine.Origin{})
	if err != nil {
		t.Fatalf("sequences are left open: %v", err)
	}
	s.Close()
}

func TestRepeat(t *testing.T) {
	for _, c := range []struct {
		text     string
		distinct float64
		loops    bool
	}{
		{"", 1, false}, {"a", 1, false}, {"ab", 1, false}, {"aaa", 0.5, false}, {"abcdefgh", 1, false},
		{"aaaaaaaaaaa", 0.1, true}, {"hello xyzxyzxyz", 9.0 / 14, true}, {"hello xyzxyzxyz.", 10.0 / 15, false}, {"xyzxyzxy", 3.0 / 7, false},
		{"one two one two one two one", 8.0 / 26, true},
	} {
		got := Repeat(enginetest.Tokens(c.text))
		if math.Abs(got.Distinct-c.distinct) > 1e-12 || got.Loops != c.loops {
			t.Errorf("%q: %+v, want %v, %v", c.text, got, c.distinct, c.loops)
		}
	}
}
