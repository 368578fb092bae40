// Chat asks a model one question and prints the answer as it is written.
//
//	go run ./examples/chat model.gguf "why is the sky blue?"
package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/trimtab/trimtab/bindings/llamacpp"
	"github.com/trimtab/trimtab/bindings/llamacpp/libs"
	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/runtime"
	"github.com/trimtab/trimtab/runtime/engine/chat"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: chat MODEL.gguf QUESTION")
		os.Exit(2)
	}
	if err := ask(context.Background(), os.Stdout, os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "chat:", err)
		os.Exit(1)
	}
}

// ask is the whole path: libraries, model, prompt, session, text.
func ask(ctx context.Context, out io.Writer, path, question string) error {
	set, err := libs.Find("", libs.Host())
	if err != nil {
		return err
	}
	llama, err := llamacpp.Load(set)
	if err != nil {
		return err
	}
	model, err := llama.Open(path, llamacpp.Options{})
	if err != nil {
		return err
	}
	defer model.Close()
	prompter, err := chat.NewPrompter(model.Info(), chat.Options{})
	if err != nil {
		return err
	}
	prompt, err := prompter.Ask(chat.Message{Role: "user", Content: question})
	if err != nil {
		return err
	}
	session, err := runtime.NewSession(ctx, runtime.Config{
		Engine: model, Prompt: prompt, MaxTokens: 200, Sampler: decode.Greedy{},
	})
	if err != nil {
		return err
	}
	defer session.Close()
	for {
		piece, err := session.Next(ctx)
		if err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		fmt.Fprintf(out, "%s", piece.Text)
	}
}
