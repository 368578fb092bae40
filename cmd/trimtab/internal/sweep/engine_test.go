package sweep

import (
	"math"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/trimtab/trimtab/bindings/llamacpp"
	"github.com/trimtab/trimtab/bindings/llamacpp/llamatest"
	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/internal/randmodel"
	"github.com/trimtab/trimtab/steer"
)

// TestMeasureOnLlama: on a random model behind llama.cpp, divergences beside
// the unsteered sequence are those of two runs by themselves, up to what the
// shape of a batch changes, and exactly 0 at dose 0.
func TestMeasureOnLlama(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.gguf")
	spec, err := randmodel.Preset("tiny")
	if err == nil {
		err = randmodel.Write(path, spec)
	}
	if err != nil {
		t.Fatal(err)
	}
	e := llamatest.Open(t, path, llamacpp.Options{CPUOnly: true, Threads: 1, MaxSequences: 4})
	r := rand.New(rand.NewPCG(3, 4))
	var texts []Text
	for range 3 {
		tokens := make([]decode.Token, 20)
		for i := range tokens {
			tokens[i] = decode.Token(r.IntN(e.Info().Vocab))
		}
		texts = append(texts, Text{tokens, 8, 8, len(tokens)})
	}
	from, w := -1, e.Info().Width
	plans := []*steer.Plan{adding(t, w, 2, 0, steer.When{}), adding(t, w, 2, 2, steer.When{From: &from}), adding(t, w, 1, -1, steer.When{Phases: steer.PhaseAnswer})}
	got := make([]Tally, len(plans))
	rows := map[[2]int][]Row{}
	err = Measure(t.Context(), e, plans, texts, func(p, x int, row Row) {
		got[p].Add(row)
		rows[[2]int{p, x}] = append(rows[[2]int{p, x}], row)
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got[0].Sum.Away != 0 || got[0].Sum.Back != 0 || got[0].Sum.Steered != got[0].Sum.Base {
		t.Errorf("dose 0: %+v", got[0])
	}
	for p, tally := range got[1:] {
		if !(tally.Sum.Away > 0.01 && tally.Sum.Back > 0.01) || tally.Rows != 36 {
			t.Errorf("plan %d: %+v", p+1, tally)
		}
	}
	for x := range texts {
		base := alone(t, e, nil, &texts[x])
		for p := range plans {
			steered := alone(t, e, plans[p], &texts[x])
			for i, row := range rows[[2]int{p, x}] {
				back := 0.0
				for k := range base[i] {
					back += math.Exp(steered[i][k]) * (steered[i][k] - base[i][k])
				}
				if math.Abs(back-row.Back) > 1e-3 {
					t.Errorf("plan %d, text %d, row %d: %v, by itself %v", p, x, i, row.Back, back)
				}
			}
		}
	}
}
