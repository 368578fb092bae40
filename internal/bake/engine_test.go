package bake

import (
	"context"
	"math"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/trimtab/trimtab/bindings/llamacpp"
	"github.com/trimtab/trimtab/bindings/llamacpp/llamatest"
	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/internal/gguf"
	"github.com/trimtab/trimtab/internal/nano"
	"github.com/trimtab/trimtab/runtime/engine"
	"github.com/trimtab/trimtab/steer"
)

// TestBakedEqualsSteered: a baked model writes the greedy text that the model
// writes under a plan with the vector on every row. Logits may differ as a sum
// taken in another order does. Largest difference seen, over 48 steps: 6e-6 with
// F32 weights; 0 with Q8_0 and 0.06 on nano (Q8_0), where activations are rounded to 8 bits
// before every product, so that most often the last bits are gone. Where one
// decides which way to round, up to 0.3 is to be expected (see the conformance
// test of the binding), hence the tolerance. The vectors move logits by 15 to 24.
func TestBakedEqualsSteered(t *testing.T) {
	l := llamatest.Library(t)
	llama := modelFile(t, gguf.F32)
	granite := map[string]any{"logit_scale": float32(1), "residual_scale": float32(0.25)}
	chat, err := nano.WriteChat(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, model string
		layers      []int
		size        float64 // of the vector; the residual of a trained model is longer
		tolerance   float64
	}{
		{"llama F32", llama, []int{0, 2}, 3, 1e-4},
		{"llama Q8_0", modelFile(t, gguf.Q8_0), []int{1, 2}, 3, 0.6},
		{"llama, the last block", llama, []int{3}, 3, 1e-4},
		{"llama with a bias", biased(t, llama), []int{1}, 3, 1e-4},
		{"mistral3", renamed(t, llama, "mistral3", nil), []int{1}, 3, 1e-4},
		{"deci", renamed(t, llama, "deci", nil), []int{1}, 3, 1e-4},
		{"granite", renamed(t, llama, "granite", granite), []int{1}, 3, 1e-4},
		{"minicpm", renamed(t, llama, "minicpm", map[string]any{"logit_scale": float32(1), "embedding_scale": float32(1)}), []int{1}, 3, 1e-4},
		{"nano", chat, []int{1, 2}, 300, 0.6},
	} {
		t.Run(c.name, func(t *testing.T) {
			plain := openModel(t, l, c.model)
			v := randomVector(6, plain.Info().Width, c.size, c.layers...)
			out := filepath.Join(t.TempDir(), "out.gguf")
			if _, err := Write(t.Context(), out, c.model, v, Options{Scale: 0.8}); err != nil {
				t.Fatal(err)
			}
			list, err := v.Interventions(0.8)
			if err != nil {
				t.Fatal(err)
			}
			plan, err := steer.NewPlan(list...)
			if err != nil {
				t.Fatal(err)
			}
			base := greedy(t, plain, nil)
			want := greedy(t, plain, plan)
			got := greedy(t, openModel(t, l, out), nil)
			if diff := cmp.Diff(want.tokens, got.tokens); diff != "" {
				t.Errorf("texts differ:\n%s", diff)
			}
			worst := distance(want.logits, got.logits)
			t.Logf("logits differ by at most %.2g, from the unsteered ones by %.2g", worst, distance(base.logits, got.logits))
			if worst > c.tolerance {
				t.Errorf("logits differ by %v, want at most %v", worst, c.tolerance)
			}
			if cmp.Equal(base.tokens, got.tokens) {
				t.Error("the vector changed nothing, so the test shows nothing")
			}
		})
	}
}

// TestFactsOf: a file states what an engine that runs it does.
func TestFactsOf(t *testing.T) {
	l := llamatest.Library(t)
	chat, err := nano.WriteChat(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{modelFile(t, gguf.F32), presetFile(t, "tiny-gemma3", gguf.F32), chat} {
		got, err := FactsOf(open(t, path))
		if err != nil {
			t.Fatal(err)
		}
		info := openModel(t, l, path).Info()
		want := steer.Facts{ModelHash: info.Hash, Arch: info.Arch, Layers: info.Layers, Width: info.Width, TemplateHash: steer.HashTemplate(info.Template)}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", path, diff)
		}
	}
}

// biased is the model with a bias at block 1 from the start.
func biased(t *testing.T, model string) string {
	d := randomVector(7, 64, 1, 1).Directions[1]
	return changed(t, model, func(_ *gguf.File, w *gguf.Writer) {
		w.AddF32("blk.1.ffn_down.bias", gguf.F32, []int64{64}, d)
	})
}

func openModel(t *testing.T, l *llamacpp.Library, path string) engine.Engine {
	t.Helper()
	e, err := l.Open(path, llamacpp.Options{Threads: 1, Context: 128, MaxSequences: 1, CPUOnly: true, KV: llamacpp.KVF32, Flash: llamacpp.FlashOff})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

type continuation struct {
	tokens []decode.Token
	logits []float32 // of every step
}

// greedy continues a fixed text by 48 tokens.
func greedy(t *testing.T, e engine.Engine, plan *steer.Plan) continuation {
	t.Helper()
	ctx := context.Background()
	seq, err := e.NewSequence(ctx, engine.Origin{})
	if err != nil {
		t.Fatal(err)
	}
	defer seq.Close()
	if err := seq.Steer(plan); err != nil {
		t.Fatal(err)
	}
	feed, err := e.Info().Tokenizer.Encode("<|user|>What is 12 + 7?<|end|><|assistant|>", engine.EncodeOptions{Start: true, Markup: true})
	if err != nil {
		t.Fatal(err)
	}
	var c continuation
	prompt := len(feed)
	for range 48 {
		if err := e.Forward(ctx, []engine.Feed{{Seq: seq, Tokens: feed, PromptLen: prompt}}); err != nil {
			t.Fatal(err)
		}
		row := seq.Logits()
		best := 0
		for i, x := range row {
			if x > row[best] {
				best = i
			}
		}
		c.logits = append(c.logits, row...)
		c.tokens = append(c.tokens, decode.Token(best))
		feed = []decode.Token{decode.Token(best)}
	}
	return c
}

// distance is the largest difference of finite logits.
func distance(a, b []float32) float64 {
	worst := 0.0
	for i := range a {
		if d := math.Abs(float64(a[i]) - float64(b[i])); d > worst && !math.IsInf(d, 0) {
			worst = d
		}
	}
	return worst
}
