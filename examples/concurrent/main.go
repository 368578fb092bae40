// Concurrent asks a model several questions at once: one engine, one batch, an
// answer for each as soon as it is complete.
//
//	go run ./examples/concurrent model.gguf "why is the sky blue?" "tell me about rivers"
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/trimtab/trimtab/bindings/llamacpp"
	"github.com/trimtab/trimtab/bindings/llamacpp/libs"
	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/runtime"
	"github.com/trimtab/trimtab/runtime/engine"
	"github.com/trimtab/trimtab/runtime/engine/chat"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: concurrent MODEL.gguf QUESTION...")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "concurrent:", err)
		os.Exit(1)
	}
}

func run(path string, questions []string) error {
	set, err := libs.Find("", libs.Host())
	if err != nil {
		return err
	}
	llama, err := llamacpp.Load(set)
	if err != nil {
		return err
	}
	model, err := llama.Open(path, llamacpp.Options{MaxSequences: 16})
	if err != nil {
		return err
	}
	defer model.Close()
	answers, err := askAll(context.Background(), model, questions)
	for i, a := range answers {
		fmt.Printf("%s\n  %s\n", questions[i], a)
	}
	return err
}

// askAll submits every question and collects the answers in their order.
func askAll(ctx context.Context, model engine.Engine, questions []string) (answers []string, err error) {
	prompter, err := chat.NewPrompter(model.Info(), chat.Options{})
	if err != nil {
		return nil, err
	}
	sched, err := runtime.NewScheduler(model, runtime.Options{Slots: 16})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, sched.Close()) }()
	streams := make([]*runtime.Stream, len(questions))
	for i, q := range questions {
		prompt, err := prompter.Ask(chat.Message{Role: "user", Content: q})
		if err != nil {
			return nil, err
		}
		cfg := runtime.Config{Prompt: prompt, MaxTokens: 64, Sampler: decode.Greedy{}}
		if streams[i], err = sched.Submit(ctx, cfg); err != nil {
			return nil, err
		}
	}
	for _, st := range streams {
		result, err := st.Wait(ctx)
		if err != nil {
			return answers, err
		}
		answers = append(answers, result.Text)
	}
	return answers, nil
}
