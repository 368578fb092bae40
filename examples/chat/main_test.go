package main

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/trimtab/trimtab/bindings/llamacpp/libs"
	"github.com/trimtab/trimtab/internal/nano"
)

func TestAsk(t *testing.T) {
	if _, err := libs.Find("", libs.Host()); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	model, err := nano.WriteChat(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := ask(context.Background(), &out, model, "tell me about rivers"); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "river") {
		t.Errorf("the answer is %q", out.String())
	}
	if err := ask(context.Background(), &out, "nothing.gguf", "hello"); err == nil {
		t.Error("a missing model is no error")
	}
}

// TestReadme: the program in the README is this one's ask, word for word.
func TestReadme(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(readme), "```go\n")
	block, _, closed := strings.Cut(rest, "```")
	if !ok || !closed {
		t.Fatal("README.md has no Go block")
	}
	for line := range strings.Lines(block) {
		if !strings.Contains(string(source), strings.TrimSpace(line)) {
			t.Errorf("README.md has a line that examples/chat/main.go has not: %s", line)
		}
	}
}
