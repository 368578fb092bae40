package main

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/trimtab/trimtab/bindings/llamacpp"
	"github.com/trimtab/trimtab/bindings/llamacpp/llamatest"
	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/internal/gguf"
	"github.com/trimtab/trimtab/internal/nano"
	"github.com/trimtab/trimtab/internal/randmodel"
	"github.com/trimtab/trimtab/runtime"
	"github.com/trimtab/trimtab/runtime/engine"
	"github.com/trimtab/trimtab/runtime/engine/chat"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestTogetherEqualsAlone: sixteen chats in one batch give the same greedy text
// as each alone.
//
// llama.cpp sums in another order when the batch has another shape, so logits
// differ in the last bits (2e-6 with float32 weights, cache and plain
// attention). Where something is rounded to half floats on the way, as in
// gemma3's GELU table, those bits can grow to 1e-2, and a near tie of a random
// model may fall the other way; there, and only there, a text may part.
func TestTogetherEqualsAlone(t *testing.T) {
	plain := llamacpp.Options{Threads: 1, MaxSequences: 16, Flash: llamacpp.FlashOff, KV: llamacpp.KVF32}
	for _, c := range []struct {
		name string
		o    llamacpp.Options
		tie  float64 // largest gap of log-probabilities that counts as a tie
	}{
		{"nano", llamacpp.Options{Threads: 1, MaxSequences: 16}, 0.3}, // Q8_0 rounds activations to 8 bits, see the conformance test of the binding
		{"tiny", plain, 0},
		{"tiny-qwen3", plain, 0},
		{"tiny-gemma3", plain, 0.02},
	} {
		t.Run(c.name, func(t *testing.T) {
			model := llamatest.Open(t, modelFile(t, c.name), c.o)
			prompts := prompts(t, model)
			together, equal := generate(t, model, prompts), 0
			for i, p := range prompts {
				alone := generate(t, model, [][]decode.Token{p})[0]
				if k, gap := part(alone, together[i]); k < 0 {
					equal++
				} else if gap > c.tie {
					t.Errorf("prompt %d parts at token %d, where the best two are %.4f apart\n alone    %q\n together %q", i, k, gap, alone.Text, together[i].Text)
				}
			}
			t.Logf("%d of %d texts of up to 64 tokens are equal", equal, len(prompts))
		})
	}
}

func prompts(t *testing.T, model engine.Engine) (out [][]decode.Token) {
	t.Helper()
	prompter, err := chat.NewPrompter(model.Info(), chat.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i, topic := range []string{"rivers", "the moon", "bread", "winter", "cats", "music", "trains", "the sea"} {
		for _, q := range []string{"tell me about " + topic, fmt.Sprintf("what is %d + %d?", 17*i+3, 90-7*i)} {
			tokens, err := prompter.Ask(chat.Message{Role: "user", Content: q})
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, tokens)
		}
	}
	return out
}

// generate runs all prompts in one scheduler.
func generate(t *testing.T, model engine.Engine, prompts [][]decode.Token) (out []*runtime.Result) {
	t.Helper()
	ctx := context.Background()
	sched, err := runtime.NewScheduler(model, runtime.Options{Slots: 16})
	if err != nil {
		t.Fatal(err)
	}
	defer sched.Close()
	var streams []*runtime.Stream
	for _, p := range prompts {
		st, err := sched.Submit(ctx, runtime.Config{Prompt: p, MaxTokens: 64, Logprobs: true, TopLogprobs: 2})
		if err != nil {
			t.Fatal(err)
		}
		streams = append(streams, st)
	}
	for _, st := range streams {
		r, err := st.Wait(ctx)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, r)
	}
	return out
}

// part returns where two texts part, or -1, and how far apart the best two
// tokens were there. The token that ends a text is none of it, so where one is
// the beginning of the other, the longer one tells.
func part(a, b *runtime.Result) (at int, gap float64) {
	if len(a.Tokens) < len(b.Tokens) {
		a, b = b, a
	}
	for i := range a.Tokens {
		if i == len(b.Tokens) || a.Tokens[i] != b.Tokens[i] {
			top := a.Logprobs[i].Top
			return i, top[0].Logprob - top[1].Logprob
		}
	}
	return -1, 0
}

func TestAskAll(t *testing.T) {
	answers, err := askAll(context.Background(), llamatest.Open(t, modelFile(t, "nano"), llamacpp.Options{Threads: 1}),
		[]string{"tell me about rivers", "tell me about cats"})
	if err != nil || len(answers) != 2 || answers[0] == "" || answers[0] == answers[1] {
		t.Errorf("the answers are %q, %v", answers, err)
	}
}

func modelFile(t *testing.T, name string) string {
	t.Helper()
	if name == "nano" {
		path, err := nano.WriteChat(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	spec, err := randmodel.Preset(name)
	if err != nil {
		t.Fatal(err)
	}
	spec.Type = gguf.F32
	path := filepath.Join(t.TempDir(), name+".gguf")
	if err := randmodel.Write(path, spec); err != nil {
		t.Fatal(err)
	}
	return path
}
