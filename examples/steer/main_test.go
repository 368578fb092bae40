package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trimtab/trimtab/bindings/llamacpp"
	"github.com/trimtab/trimtab/bindings/llamacpp/llamatest"
	"github.com/trimtab/trimtab/internal/nano"
	corpus "github.com/trimtab/trimtab/internal/nano/chat"
	"github.com/trimtab/trimtab/steer"
)

// TestRun fits a formal style on the built-in model, and counts over questions
// that were in no pair how many answers are formal. By chance it is half of
// them; 18 of 24 would come by chance once in ninety times in either direction,
// and both once in eight thousand.
func TestRun(t *testing.T) {
	llamatest.Library(t)
	dir := t.TempDir()
	model, err := nano.WriteChat(dir)
	if err != nil {
		t.Fatal(err)
	}
	pairs, vector := filepath.Join(dir, "pairs.jsonl"), filepath.Join(dir, "formal.gguf")
	set, err := corpus.SetNamed("style-formal")
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(pairs)
	if err != nil {
		t.Fatal(err)
	}
	if err := corpus.WriteRecords(f, set.All(1)); err != nil {
		t.Fatal(err)
	}
	f.Close()
	ctx := context.Background()
	var out strings.Builder
	if err := run(ctx, &out, model, pairs, vector, "tell me about rivers"); err != nil {
		t.Fatal(err)
	}
	t.Log(&out)
	v, err := steer.ReadVector(vector, steer.VectorOptions{})
	if err != nil {
		t.Fatal(err)
	}
	e := llamatest.Open(t, model, llamacpp.Options{Threads: 1})
	probes, err := corpus.Probes(corpus.KindStyle, corpus.Test, 7, 24)
	if err != nil {
		t.Fatal(err)
	}
	formal := map[float32]int{}
	for _, dose := range []float32{0, v.Dose, -v.Dose} {
		for _, p := range probes {
			text, err := answer(ctx, e, v, dose, p.Messages[0].Content)
			if err != nil {
				t.Fatal(err)
			}
			if r := corpus.CheckStyle(text); r.Clear[0] && r.Style.Get(corpus.Register) {
				formal[dose]++
			}
		}
	}
	t.Logf("formal answers of 24: %d without, %d with, %d with the opposite", formal[0], formal[v.Dose], formal[-v.Dose])
	if formal[v.Dose] < 18 || formal[-v.Dose] > 6 {
		t.Errorf("the vector does not turn the style")
	}
	if err := run(ctx, &out, model, "nothing.jsonl", vector, "hello"); err == nil {
		t.Error("a missing file of pairs is no error")
	}
}
