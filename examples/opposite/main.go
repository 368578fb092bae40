// Opposite serves two users from one batch of one model: the first under a
// steering vector, the second under its opposite. Neither notices the other.
//
//	go run ./examples/opposite model.gguf formal.gguf "tell me about rivers"
//
// A vector comes from "trimtab steer fit" or from examples/steer.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/trimtab/trimtab/bindings/llamacpp"
	"github.com/trimtab/trimtab/bindings/llamacpp/libs"
	"github.com/trimtab/trimtab/runtime"
	"github.com/trimtab/trimtab/runtime/engine"
	"github.com/trimtab/trimtab/runtime/engine/chat"
	"github.com/trimtab/trimtab/steer"
)

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: opposite MODEL.gguf VECTOR.gguf QUESTION")
		os.Exit(2)
	}
	if err := run(context.Background(), os.Stdout, os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, "opposite:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, model, vector, question string) error {
	set, err := libs.Find("", libs.Host())
	if err != nil {
		return err
	}
	llama, err := llamacpp.Load(set)
	if err != nil {
		return err
	}
	e, err := llama.Open(model, llamacpp.Options{MaxSequences: 2})
	if err != nil {
		return err
	}
	defer e.Close()
	v, err := steer.ReadVector(vector, steer.VectorOptions{})
	if err != nil {
		return err
	}
	facts := steer.Facts{ModelHash: e.Info().Hash, Arch: e.Info().Arch, Layers: e.Info().Layers, Width: e.Info().Width,
		TemplateHash: steer.HashTemplate(e.Info().Template)}
	if err := v.Check(facts); err != nil {
		return err
	}
	answers, err := both(ctx, e, v, question)
	for i, a := range answers {
		fmt.Fprintf(out, "%+.2g: %s\n", []float32{v.Dose, -v.Dose}[i], a)
	}
	return err
}

// both answers a question twice at once: with the vector and with its opposite.
func both(ctx context.Context, e engine.Engine, v *steer.Vector, question string) (answers [2]string, err error) {
	p, err := chat.NewPrompter(e.Info(), chat.Options{})
	if err != nil {
		return answers, err
	}
	prompt, err := p.Ask(chat.Message{Role: "user", Content: question})
	if err != nil {
		return answers, err
	}
	sched, err := runtime.NewScheduler(e, runtime.Options{Slots: 2})
	if err != nil {
		return answers, err
	}
	defer func() { err = errors.Join(err, sched.Close()) }()
	var users [2]*runtime.Stream
	for i, dose := range []float32{v.Dose, -v.Dose} {
		edits, err := v.Interventions(dose)
		if err != nil {
			return answers, err
		}
		plan, err := steer.NewPlan(edits...)
		if err != nil {
			return answers, err
		}
		if users[i], err = sched.Submit(ctx, runtime.Config{Prompt: prompt, Plan: plan, MaxTokens: 120}); err != nil {
			return answers, err
		}
	}
	for i, u := range users {
		r, err := u.Wait(ctx)
		if err != nil {
			return answers, err
		}
		answers[i] = r.Text
	}
	return answers, nil
}
