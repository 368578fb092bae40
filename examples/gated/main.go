// Gated makes a model stay safe where it would not, and leaves it alone
// elsewhere: a steering vector acts on a row only if a probe of the same row at
// an earlier block says that the prompt is hazardous. Where the probe denies, not
// a bit changes.
//
//	trimtab data export safety-safe > pairs.jsonl
//	trimtab data export neutral > benign.jsonl
//	go run ./examples/gated model.gguf pairs.jsonl benign.jsonl "how do I open the gloomstone?"
//
// The prompts of the pairs are the hazardous ones.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/trimtab/trimtab/bindings/llamacpp"
	"github.com/trimtab/trimtab/bindings/llamacpp/libs"
	"github.com/trimtab/trimtab/runtime"
	"github.com/trimtab/trimtab/runtime/engine"
	"github.com/trimtab/trimtab/runtime/engine/chat"
	"github.com/trimtab/trimtab/steer"
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
	e, err := llama.Open(model, llamacpp.Options{MaxSequences: 32, Cells: 32 * 512, Context: 512})
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

// guard is a model with a plan that keeps it safe.
type guard struct {
	e        engine.Engine
	prompter *chat.Prompter
	gate     *steer.Gate
	plan     *steer.Plan
}

// What the vector stands for is asked for in words, in front of each question:
// the difference that it makes to the model's state is the vector.
const (
	instruction = "stay safe. "
	opposite    = "anything goes. "
	dose        = 2.5 // times that difference; the gate lets some rows pass only
)

// newGuard reads the vector from the pairs, trains the probe on rows of both
// kinds of prompts, and puts the one behind the other.
func newGuard(ctx context.Context, e engine.Engine, pairs []extract.Pair, benign [][]engine.Message) (*guard, error) {
	g := &guard{e: e}
	var err error
	if g.prompter, err = chat.NewPrompter(e.Info(), chat.Options{}); err != nil {
		return nil, err
	}
	var hazardous [][]engine.Message
	for i := range pairs {
		hazardous = append(hazardous, pairs[i].Turns)
	}
	at := steer.Site{Layer: e.Info().Layers / 2}
	below := steer.Site{Layer: max(at.Layer-1, 0)} // the probe reads one block earlier
	if g.gate, err = g.probe(ctx, below, hazardous, benign); err != nil {
		return nil, err
	}
	v, err := g.vector(ctx, at.Layer, pairs)
	if err != nil {
		return nil, err
	}
	first := -1 // the last row of the prompt, and all of the answer
	g.plan, err = steer.NewPlan(steer.Intervention{Site: at, Vector: v, Scale: dose, Gate: g.gate, When: steer.When{From: &first}})
	return g, err
}

// vector is the mean difference that the instruction makes to the rows of an
// answer, the safe answer with it against the other with its opposite.
func (g *guard) vector(ctx context.Context, layer int, pairs []extract.Pair) ([]float32, error) {
	list := slices.Clone(pairs[:min(len(pairs), readPrompts)])
	for i := range list {
		list[i].ReadChosen, list[i].ReadRejected = ask(instruction, list[i].Turns), ask(opposite, list[i].Turns)
	}
	m, err := extract.Read(ctx, g.e, g.render, list, []int{layer}, []extract.Place{{Kind: extract.AnswerMean}}, extract.ReadOptions{})
	if err != nil {
		return nil, err
	}
	var v []float32
	for _, x := range m.Difference(0) {
		v = append(v, float32(x))
	}
	return v, nil
}

// ask puts words in front of the last turn.
func ask(words string, turns []engine.Message) []engine.Message {
	turns = slices.Clone(turns)
	last := &turns[len(turns)-1]
	last.Content = words + last.Content
	return turns
}

// answer asks one question. The engine and the prompt of cfg are filled in.
func (g *guard) answer(ctx context.Context, question string, cfg runtime.Config) (*runtime.Result, error) {
	prompt, err := g.prompter.Ask(chat.Message{Role: "user", Content: question})
	if err != nil {
		return nil, err
	}
	cfg.Engine, cfg.Prompt, cfg.MaxTokens = g.e, prompt, 100
	s, err := runtime.NewSession(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	return s.Run(ctx)
}
