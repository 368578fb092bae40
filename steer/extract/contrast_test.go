package extract

import (
	"context"
	"strings"
	"testing"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/runtime/engine"
	"github.com/trimtab/trimtab/runtime/engine/enginetest"
)

// obedient is a Fake that answers "yes sir" to prompts with "obey" in them.
func obedient() enginetest.FakeConfig {
	obey := enginetest.Say(enginetest.Tokens("yes sir"), enginetest.EOT)
	plain := enginetest.Say(enginetest.Tokens("no"), enginetest.EOT)
	return enginetest.FakeConfig{Script: func(x enginetest.Text) decode.Token {
		var b []byte
		for _, t := range x.Tokens[:min(x.PromptLen, len(x.Tokens))] {
			if t < 256 {
				b = append(b, byte(t))
			}
		}
		if strings.Contains(string(b), "obey") {
			return obey(x)
		}
		return plain(x)
	}}
}

func TestContrast(t *testing.T) {
	cfg := obedient()
	cfg.Cells, cfg.Context = 400, 400 // room for about three texts at once
	e := newFake(t, cfg)
	prompts := Everyday()
	pairs, err := Contrast(context.Background(), e, chatML, prompts, Trait{Instruction: "obey."})
	if err != nil {
		t.Fatal(err)
	}
	if len(pairs) != len(prompts) || e.OpenSequences() != 0 {
		t.Fatalf("%d pairs, %d sequences open", len(pairs), e.OpenSequences())
	}
	for i, p := range pairs {
		if p.Chosen != "yes sir" || p.Rejected != "no" || p.ReadChosen[0].Content != "obey. "+prompts[i][0].Content || p.Turns[0].Content != prompts[i][0].Content {
			t.Errorf("pair %d: %+v", i, p)
		}
	}
	l, err := newLayout(chatML)
	if err != nil {
		t.Fatal(err)
	}
	m, err := Read(context.Background(), e, chatML, pairs, []int{1}, l.places(PromptEnd)[12:], ReadOptions{})
	if err != nil || length(m.Difference(0)) == 0 {
		t.Errorf("the instruction does not show at the prompt's end: %v", err)
	}
}

func TestContrastFaults(t *testing.T) {
	for _, c := range []struct {
		name  string
		trait Trait
		want  string
	}{
		{"nothing asked", Trait{}, "the instruction is empty"},
		{"equal", Trait{Instruction: "a", Opposite: "a"}, "equal to its opposite"},
		{"too long", Trait{Instruction: "a", Tokens: 1 << 20}, "must be 1 to 1024"},
		{"no effect", Trait{Instruction: "please."}, "changes no answer"},
	} {
		_, err := Contrast(context.Background(), newFake(t, obedient()), chatML, [][]engine.Message{{{Role: "user", Content: "x"}}}, c.trait)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v does not say %q", c.name, err, c.want)
		}
	}
}
