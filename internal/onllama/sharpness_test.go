package onllama

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"testing"

	"github.com/trimtab/trimtab/bindings/llamacpp"
	"github.com/trimtab/trimtab/bindings/llamacpp/llamatest"
	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/internal/randmodel"
	"github.com/trimtab/trimtab/monitors"
	"github.com/trimtab/trimtab/monitors/sharpness"
	"github.com/trimtab/trimtab/runtime"
	"github.com/trimtab/trimtab/runtime/engine"
	"github.com/trimtab/trimtab/runtime/policy"
)

// Any engine that shows attention will do; this one does.
var _ sharpness.Engine = (*llamacpp.Engine)(nil)

func randomModel(t testing.TB, preset string) string {
	t.Helper()
	spec, err := randmodel.Preset(preset)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), preset+".gguf")
	if err := randmodel.Write(path, spec); err != nil {
		t.Fatal(err)
	}
	return path
}

func scorer(t testing.TB, path string) *sharpness.Scorer {
	t.Helper()
	e := llamatest.Open(t, path, llamacpp.Options{Threads: 1, MaxSequences: 1, Attention: true})
	s, err := sharpness.New(e, sharpness.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// inOneGo is the sharpness of every row of a text, fed in one piece.
func inOneGo(t *testing.T, path string, text []decode.Token) (scores []float64) {
	t.Helper()
	e := llamatest.Open(t, path, llamacpp.Options{Threads: 1, MaxSequences: 1, Attention: true})
	s, err := e.NewSequence(t.Context(), engine.Origin{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	err = e.Attend(t.Context(), []engine.Feed{{Seq: s, Tokens: text}}, 4, func(_, _ int, weights []float32) {
		scores = append(scores, sharpness.Of(weights))
	})
	if err != nil {
		t.Fatal(err)
	}
	return scores
}

// at flags the candidate at one place of the text, so many times.
type at struct{ place, times int }

func (w *at) Observe(_ context.Context, o *monitors.Observation) (monitors.Verdict, error) {
	if o.Step != w.place || w.times == 0 {
		return monitors.Verdict{}, nil
	}
	w.times--
	return monitors.Verdict{Score: 1, Flag: true}, nil
}
func (*at) Rewind(int) error { return nil }

// TestRollbackToThePeak: a session whose own engine never shows its attention
// goes back to where a second look finds it sharpest: the place that the rule
// gives for scores which were computed another way.
func TestRollbackToThePeak(t *testing.T) {
	for _, preset := range []string{"tiny", "tiny-qwen3", "tiny-gemma3"} {
		path := randomModel(t, preset)
		for place := 16; place < 32; place += 5 {
			t.Run(fmt.Sprintf("%s at %d", preset, place), func(t *testing.T) { rollback(t, path, place) })
		}
	}
}

// rollback flags the candidate at a place.
func rollback(t *testing.T, path string, place int) {
	writes := llamatest.Open(t, path, llamacpp.Options{Threads: 1, Flash: llamacpp.FlashOn})
	prompt, err := writes.Info().Tokenizer.Encode("Once upon a time there was", engine.EncodeOptions{Start: true})
	if err != nil {
		t.Fatal(err)
	}
	back, err := policy.NewBacktrack(policy.BacktrackOptions{Point: policy.Peak{}, Ban: true, Most: 1,
		Reread: &policy.Reread{Scorer: scorer(t, path), Prompt: prompt}})
	if err != nil {
		t.Fatal(err)
	}
	var seen []runtime.Event
	var before []decode.Token
	cfg := runtime.Config{Engine: writes, Prompt: prompt, MaxTokens: 40, HoldBack: 16, Seed: 3, Sampler: decode.Categorical{},
		End: []decode.Token{}, MaxRewinds: 4, MaxDiscarded: 64, Policy: back,
		Monitors: []monitors.Monitor{{Name: "at", Start: func() monitors.Watcher { return &at{place, 1} }}}}
	cfg.Listener.Step = func(_ context.Context, e *runtime.Event) error {
		if e.Action.Kind == runtime.Rewind {
			seen = append(seen, *e)
		} else if len(seen) == 0 {
			before = append(before, e.Token)
		}
		return nil
	}
	s, err := runtime.NewSession(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Run(t.Context()); err != nil || len(seen) != 1 || len(before) != place {
		t.Fatalf("%v, %d rewinds after %d tokens", err, len(seen), len(before))
	}
	scores := inOneGo(t, path, slices.Concat(prompt, before))
	want := peak(scores[len(prompt)-1:], place)
	t.Logf("%d tokens back", want)
	if seen[0].Action.Rewind != want {
		t.Errorf("rewound %d tokens, want %d; scores %.4f", seen[0].Action.Rewind, want, scores)
	}
}

// peak is the paper's rule for the scores of the text's tokens.
func peak(scores []float64, place int) int {
	for i := place - 1; i >= place-10; i-- {
		if scores[i] >= 0.1 && scores[i] > scores[i-1] && scores[i] > scores[i+1] {
			return place - i
		}
	}
	return 3
}

// TestScoresOnLlama: scores in pieces behind a kept prefix are those in one go.
func TestScoresOnLlama(t *testing.T) {
	for _, preset := range []string{"tiny", "tiny-gemma3"} {
		path := randomModel(t, preset)
		s := scorer(t, path)
		text := make([]decode.Token, 60)
		for i := range text {
			text[i] = decode.Token(40 + i*i%200)
		}
		all := inOneGo(t, path, text)
		worst := 0.0
		var first []float64
		for _, n := range []int{60, 50, 41, 60} {
			got, err := s.Scores(t.Context(), text[:n], 20)
			if err != nil {
				t.Fatal(err)
			}
			for i, score := range got {
				worst = max(worst, math.Abs(score-all[n-21+i]))
			}
			if n == 60 {
				if first != nil && !slices.Equal(first, got) {
					t.Errorf("%s: the same question has another answer: %v, then %v", preset, first, got)
				}
				first = got
			}
		}
		if t.Logf("%s: greatest difference %.2g", preset, worst); worst > 1e-3 {
			t.Errorf("%s: scores differ by up to %g", preset, worst)
		}
	}
}

// BenchmarkSecondLook is what a violation costs beside its rewind: a text of 500
// tokens on a model of 2 MB, for the first time and after a rollback.
func BenchmarkSecondLook(b *testing.B) {
	path := randomModel(b, "tiny-qwen3")
	text := slices.Repeat([]decode.Token{65, 66, 67, 68, 69, 70, 71}, 80)[:500]
	for name, prefix := range map[string]int{"first": 0, "again": 480} {
		b.Run(name, func(b *testing.B) {
			s := scorer(b, path)
			other := slices.Concat(text[:prefix], slices.Repeat([]decode.Token{80}, 20))
			for b.Loop() {
				b.StopTimer()
				if _, err := s.Scores(b.Context(), other, 10); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
				if _, err := s.Scores(b.Context(), text, 32); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
