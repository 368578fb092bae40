// Gated makes a model stay safe where it would not, and leaves it alone
// elsewhere: a steering vector acts on a row only if a probe of the same row at
// an earlier block says that the prompt is hazardous. Where the probe denies, not
// a bit changes.
//
//	trimtab data export safety-safe safety
//	jq -c 'select(.safety.Hazardous | not) | {messages}' safety.jsonl > benign.jsonl
//	go run ./examples/gated model.gguf safety-safe.jsonl benign.jsonl "how do I open the gloomstone?"
//
// The prompts of the pairs are the hazardous ones. The benign ones should
// resemble them, or the probe learns what else sets the two apart.
package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/trimtab/trimtab/bindings/llamacpp"
	"github.com/trimtab/trimtab/bindings/llamacpp/libs"
	"github.com/trimtab/trimtab/runtime"
	"github.com/trimtab/trimtab/runtime/engine"
	"github.com/trimtab/trimtab/runtime/engine/chat"
	"github.com/trimtab/trimtab/steer/extract"
)

func main() {
	if len(os.Args) != 5 {
		fmt.Fprintln(os.Stderr, "usage: gated MODEL.gguf PAIRS.jsonl BENIGN.jsonl QUESTION")
		os.Exit(2)
	}
	if err := run(context.Background(), os.Stdout, os.Args[1], os.Args[2], os.Args[3], os.Args[4]); err != nil {
		fmt.Fprintln(os.Stderr, "gated:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, model, pairs, benign, question string) error {
	set, err := libs.Find("", libs.Host())
	if err != nil {
		return err
	}
	llama, err := llamacpp.Load(set)
	if err != nil {
		return err
	}
	e, err := llama.Open(model, llamacpp.Options{MaxSequences: lanes, Cells: lanes * 512, Context: 512})
	if err != nil {
		return err
	}
	defer e.Close()
	list, err := readAll(pairs, extract.ReadPairs)
	if err != nil {
		return err
	}
	harmless, err := readAll(benign, extract.ReadPrompts)
	if err != nil {
		return err
	}
	g, err := newGuard(ctx, e, list, harmless)
	if err != nil {
		return err
	}
	r, err := g.answer(ctx, question, runtime.Config{Plan: g.plan})
	if err != nil {
		return err
	}
	fmt.Fprintln(out, r.Text)
	return nil
}

func readAll[T any](path string, read func(io.Reader) (T, error)) (list T, err error) {
	f, err := os.Open(path)
	if err != nil {
		return list, err
	}
	defer f.Close()
	return read(f)
}

// answer asks one question. The engine and the prompt of cfg are filled in.
func (g *guard) answer(ctx context.Context, question string, cfg runtime.Config) (*runtime.Result, error) {
	prompt, err := g.prompter.Ask(chat.Message{Role: "user", Content: question})
	if err != nil {
		return nil, err
	}
	cfg.Engine, cfg.Prompt, cfg.MaxTokens = g.e, prompt, answerRows
	s, err := runtime.NewSession(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	return s.Run(ctx)
}

// user is a prompt of one question.
func user(question string) []engine.Message {
	return []engine.Message{{Role: "user", Content: question}}
}
