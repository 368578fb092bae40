package chat

import (
	"errors"
	"strings"
	"testing"

	"github.com/trimtab/trimtab/runtime/engine"
	"github.com/trimtab/trimtab/runtime/engine/enginetest"
)

func TestPrompter(t *testing.T) {
	fake, err := enginetest.NewFake(enginetest.FakeConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer fake.Close()
	p, err := NewPrompter(fake.Info(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	tokens, err := p.Ask(Message{Role: "user", Content: "hello"})
	if err != nil {
		t.Fatal(err)
	}
	var text []byte
	for _, id := range tokens {
		text = fake.Info().Tokenizer.AppendPiece(text, id)
	}
	if !strings.Contains(string(text), "hello") {
		t.Errorf("the prompt is %q", text)
	}
	if _, err := NewPrompter(&engine.Info{}, Options{}); !errors.Is(err, engine.ErrUnsupported) {
		t.Errorf("no tokenizer: %v", err)
	}
	if _, err := NewPrompter(&engine.Info{Name: "m", Template: "{% if", Tokenizer: fake.Info().Tokenizer}, Options{}); err == nil || !strings.Contains(err.Error(), "template of m") {
		t.Errorf("broken template: %v", err)
	}
}
