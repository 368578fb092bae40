package extract

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/runtime/engine"
	"github.com/trimtab/trimtab/runtime/engine/enginetest"
)

// TestRendererAnswer: the span is the answer with the token that ends it.
func TestRendererAnswer(t *testing.T) {
	r, err := NewRenderer(chatML)
	if err != nil {
		t.Fatal(err)
	}
	turns := []engine.Message{{Role: "user", Content: "hello?"}}
	a, err := r.Answer(turns, "yes.")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(append(enginetest.Tokens("yes."), enginetest.EOT), a.Tokens[a.From:a.To]); diff != "" {
		t.Error(diff)
	}
	prompt, err := chatML(turns, true)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(prompt, a.Tokens[:a.From]); diff != "" {
		t.Error(diff)
	}
	if _, err := r.Answer(turns, ""); err == nil {
		t.Error("an empty answer is rendered")
	}
}

// TestSpeak: prompts of unequal length are continued each by itself.
func TestSpeak(t *testing.T) {
	e := newFake(t, enginetest.FakeConfig{Script: enginetest.Say(enginetest.Tokens("abc"), enginetest.EOT)})
	prompts := [][]decode.Token{enginetest.Tokens("x"), enginetest.Tokens("longer")}
	for length, want := range map[int][]decode.Token{2: enginetest.Tokens("ab"), 9: append(enginetest.Tokens("abc"), enginetest.EOT)} {
		said, err := Speak(t.Context(), e, prompts, length)
		if err != nil {
			t.Fatal(err)
		}
		for i, a := range said {
			if diff := cmp.Diff(want, a.Tokens[a.From:a.To]); diff != "" || a.From != len(prompts[i]) {
				t.Errorf("%d tokens: from %d %s", length, a.From, diff)
			}
		}
	}
}

func TestGuardedEffect(t *testing.T) {
	for _, c := range []struct {
		name                                       string
		chosen, rejected, baseChosen, baseRejected float64
		want                                       float64
	}{
		{"nothing", -1, -2, -1, -2, 0},
		{"both ways", -1, -4, -2, -3, 2},
		{"loss beyond the gain", -1, -9, -2, -3, 2},
		{"damage", -5, -30, -2, -3, -6},
		{"rejected gains too", -1, -2, -2, -3, 0},
	} {
		got := GuardedEffect(c.chosen, c.rejected, c.baseChosen, c.baseRejected)
		if got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
