package main

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/trimtab/trimtab/bindings/llamacpp"
	"github.com/trimtab/trimtab/bindings/llamacpp/llamatest"
	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/internal/nano"
	corpus "github.com/trimtab/trimtab/internal/nano/chat"
	"github.com/trimtab/trimtab/runtime/engine"
	"github.com/trimtab/trimtab/runtime/engine/chat"
	"github.com/trimtab/trimtab/steer"
	"github.com/trimtab/trimtab/steer/extract"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestOpposites: over 16 questions that were in no pair, the first user's
// answers are mostly formal and the second's mostly not.
func TestOpposites(t *testing.T) {
	llamatest.Library(t)
	dir := t.TempDir()
	model, err := nano.WriteChat(dir)
	if err != nil {
		t.Fatal(err)
	}
	e := llamatest.Open(t, model, llamacpp.Options{Threads: 1, MaxSequences: 32, Cells: 32 * 512})
	v := formal(t, e)
	probes, err := corpus.Probes(corpus.KindStyle, corpus.Test, 7, 16)
	if err != nil {
		t.Fatal(err)
	}
	var count [2]int
	for _, p := range probes {
		answers, err := both(context.Background(), e, v, p.Messages[0].Content)
		if err != nil {
			t.Fatal(err)
		}
		for i, text := range answers {
			if r := corpus.CheckStyle(text); r.Clear[0] && r.Style.Formal {
				count[i]++
			}
		}
	}
	t.Logf("formal answers of 16: %d with the vector, %d with its opposite", count[0], count[1])
	if count[0] < 12 || count[1] > 4 {
		t.Error("the users did not get opposite styles")
	}
	path := filepath.Join(dir, "formal.gguf")
	if err := v.WriteFile(path); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := run(context.Background(), &out, model, path, "tell me about rivers"); err != nil || strings.Count(out.String(), "\n") < 2 {
		t.Errorf("%v: %q", err, &out)
	}
	v.Directions = map[int][]float32{0: {1, 2, 3}}
	if err := v.WriteFile(path); err != nil {
		t.Fatal(err)
	}
	if err := run(context.Background(), &out, model, path, "hello"); err == nil {
		t.Error("a vector of another width is no error")
	}
}

// formal fits a vector from the pairs of the built-in data set.
func formal(t *testing.T, e engine.Engine) *steer.Vector {
	t.Helper()
	set, err := corpus.SetNamed("style-formal")
	if err != nil {
		t.Fatal(err)
	}
	var pairs []extract.Pair
	for _, r := range set.All(1) {
		var turns []engine.Message
		for _, m := range r.Messages {
			turns = append(turns, engine.Message{Role: string(m.Role), Content: m.Content})
		}
		pairs = append(pairs, extract.Pair{Turns: turns, Chosen: r.Chosen, Rejected: r.Rejected, Split: extract.Split(r.Split), Key: r.Key})
	}
	p, err := chat.NewPrompter(e.Info(), chat.Options{})
	if err != nil {
		t.Fatal(err)
	}
	render := func(turns []engine.Message, header bool) ([]decode.Token, error) {
		in := chat.Input{AddGenerationPrompt: header}
		for _, m := range turns {
			in.Messages = append(in.Messages, chat.Message{Role: m.Role, Content: m.Content})
		}
		return p.Prompt(in)
	}
	r, err := extract.Fit(context.Background(), e, render, pairs, extract.Options{Method: extract.Guarded,
		Windows: []extract.Window{extract.Rows(-1, 0)}, Doses: []float64{0.2, 0.4, 0.8}, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	return r.Vector("formal")
}
