// Steer fits a steering vector from pairs of answers, saves it, and shows a
// question answered without it, with it, and with its opposite.
//
//	trimtab data export style-formal
//	go run ./examples/steer model.gguf style-formal.jsonl formal.gguf "tell me about rivers"
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
	"github.com/trimtab/trimtab/runtime/engine"
	"github.com/trimtab/trimtab/runtime/engine/chat"
	"github.com/trimtab/trimtab/steer"
	"github.com/trimtab/trimtab/steer/extract"
)

func main() {
	if len(os.Args) != 5 {
		fmt.Fprintln(os.Stderr, "usage: steer MODEL.gguf PAIRS.jsonl VECTOR.gguf QUESTION")
		os.Exit(2)
	}
	if err := run(context.Background(), os.Stdout, os.Args[1], os.Args[2], os.Args[3], os.Args[4]); err != nil {
		fmt.Fprintln(os.Stderr, "steer:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, model, pairs, vector, question string) error {
	set, err := libs.Find("", libs.Host())
	if err != nil {
		return err
	}
	llama, err := llamacpp.Load(set)
	if err != nil {
		return err
	}
	e, err := llama.Open(model, llamacpp.Options{})
	if err != nil {
		return err
	}
	defer e.Close()
	f, err := os.Open(pairs)
	if err != nil {
		return err
	}
	defer f.Close()
	v, err := fit(ctx, e, f)
	if err != nil {
		return err
	}
	if err := v.WriteFile(vector); err != nil {
		return err
	}
	fmt.Fprintf(out, "%s: block %d, dose %.2g, KL %.2g on neutral prompts\n", vector, v.Layer, v.Calibration.Dose, v.Calibration.KL)
	for _, dose := range []float32{0, v.Dose, -v.Dose} {
		text, err := answer(ctx, e, v, dose, question)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "dose %5.2f: %s\n", dose, text)
	}
	return nil
}

// fit reads pairs and finds the direction, the place and the dose on the model
// itself: a few short windows and doses, the rest by default.
func fit(ctx context.Context, e engine.Engine, pairs io.Reader) (*steer.Vector, error) {
	list, err := extract.ReadPairs(pairs)
	if err != nil {
		return nil, err
	}
	p, err := chat.NewPrompter(e.Info(), chat.Options{})
	if err != nil {
		return nil, err
	}
	render := func(turns []engine.Message, header bool) ([]decode.Token, error) {
		in := chat.Input{AddGenerationPrompt: header}
		for _, m := range turns {
			in.Messages = append(in.Messages, chat.Message{Role: m.Role, Content: m.Content})
		}
		return p.Prompt(in)
	}
	r, err := extract.Fit(ctx, e, render, list, extract.Options{Method: extract.Guarded,
		Windows: []extract.Window{extract.Rows(-1, 0)}, Doses: []float64{0.2, 0.4, 0.8}, Seed: 1})
	if err != nil {
		return nil, err
	}
	return r.Vector("fitted"), nil
}

// answer asks one question under a dose of the vector.
func answer(ctx context.Context, e engine.Engine, v *steer.Vector, dose float32, question string) (string, error) {
	edits, err := v.Interventions(dose)
	if err != nil {
		return "", err
	}
	plan, err := steer.NewPlan(edits...)
	if err != nil {
		return "", err
	}
	p, err := chat.NewPrompter(e.Info(), chat.Options{})
	if err != nil {
		return "", err
	}
	prompt, err := p.Ask(chat.Message{Role: "user", Content: question})
	if err != nil {
		return "", err
	}
	s, err := runtime.NewSession(ctx, runtime.Config{Engine: e, Prompt: prompt, Plan: plan, MaxTokens: 120})
	if err != nil {
		return "", err
	}
	defer s.Close()
	r, err := s.Run(ctx)
	if err != nil {
		return "", err
	}
	return r.Text, nil
}
