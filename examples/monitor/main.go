// Monitor learns from texts that a model writes how its state looks before it
// says certain words, and then ends an answer before it says one.
//
//	go run ./examples/monitor model.gguf words.txt prompts.jsonl "how do I open the gloomstone?"
//
// The words are a lexicon, one a line. Some of the prompts should lead to them
// and others not; 200 are a good start.
package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/trimtab/trimtab/bindings/llamacpp"
	"github.com/trimtab/trimtab/bindings/llamacpp/libs"
	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/monitors"
	"github.com/trimtab/trimtab/monitors/lexicon"
	"github.com/trimtab/trimtab/monitors/reach"
	"github.com/trimtab/trimtab/runtime"
	"github.com/trimtab/trimtab/runtime/engine"
	"github.com/trimtab/trimtab/runtime/engine/chat"
	"github.com/trimtab/trimtab/runtime/policy"
	"github.com/trimtab/trimtab/steer"
	"github.com/trimtab/trimtab/steer/extract"
)

func main() {
	if len(os.Args) != 5 {
		fmt.Fprintln(os.Stderr, "usage: monitor MODEL.gguf WORDS.txt PROMPTS.jsonl QUESTION")
		os.Exit(2)
	}
	if err := run(context.Background(), os.Stdout, os.Args[1], os.Args[2], os.Args[3], os.Args[4]); err != nil {
		fmt.Fprintln(os.Stderr, "monitor:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, model, words, prompts, question string) error {
	set, err := libs.Find("", libs.Host())
	if err != nil {
		return err
	}
	llama, err := llamacpp.Load(set)
	if err != nil {
		return err
	}
	e, err := llama.Open(model, llamacpp.Options{MaxSequences: lanes + 1, Cells: (lanes + 1) * 512, Context: 512})
	if err != nil {
		return err
	}
	defer e.Close()
	list, err := lexicon.ReadFile(words)
	if err != nil {
		return err
	}
	f, err := os.Open(prompts)
	if err != nil {
		return err
	}
	defer f.Close()
	questions, err := extract.ReadPrompts(f)
	if err != nil {
		return err
	}
	w, err := newWriter(e)
	if err != nil {
		return err
	}
	defer w.sched.Close()
	watch, err := w.learn(ctx, questions, list)
	if err != nil {
		return err
	}
	r, err := w.answer(ctx, []engine.Message{{Role: "user", Content: question}}, runtime.Config{Monitors: []monitors.Monitor{watch}, Policy: policy.StopOn()})
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s\n(%s)\n", r.Text, r.FinishReason)
	return nil
}

// lanes is how many texts are written at once.
const lanes = 16

// writer is a model that answers questions.
type writer struct {
	info     *engine.Info
	prompter *chat.Prompter
	sched    *runtime.Scheduler
}

func newWriter(e engine.Engine) (*writer, error) {
	p, err := chat.NewPrompter(e.Info(), chat.Options{})
	if err != nil {
		return nil, err
	}
	sched, err := runtime.NewScheduler(e, runtime.Options{Slots: lanes, Queue: 1 << 16})
	return &writer{e.Info(), p, sched}, err
}

// submit begins an answer, at the model's own temperature.
func (w *writer) submit(ctx context.Context, question []engine.Message, cfg runtime.Config) (*runtime.Stream, error) {
	var turns []chat.Message
	for _, m := range question {
		turns = append(turns, chat.Message{Role: m.Role, Content: m.Content})
	}
	var err error
	if cfg.Prompt, err = w.prompter.Ask(turns...); err != nil {
		return nil, err
	}
	cfg.Sampler, cfg.MaxTokens = decode.Categorical{}, 64
	return w.sched.Submit(ctx, cfg)
}

func (w *writer) answer(ctx context.Context, question []engine.Message, cfg runtime.Config) (*runtime.Result, error) {
	s, err := w.submit(ctx, question, cfg)
	if err != nil {
		return nil, err
	}
	return s.Wait(ctx)
}

// alpha is the share of answers without the words that may be stopped in vain.
const alpha = 0.05

// learn records answers, fits a value function on some of them, and sets its
// level by others.
func (w *writer) learn(ctx context.Context, questions [][]engine.Message, words *lexicon.List) (monitors.Monitor, error) {
	site := steer.Site{Layer: w.info.Layers - 1}
	d, err := w.record(ctx, questions, site)
	if err != nil {
		return monitors.Monitor{}, err
	}
	if err := w.label(ctx, d, words); err != nil {
		return monitors.Monitor{}, err
	}
	parts := d.Deal(1, 6, 4) // by question
	m, err := reach.Fit(ctx, parts[0], reach.Options{Site: site, Hidden: []int{32}, Epochs: 16})
	if err != nil {
		return monitors.Monitor{}, err
	}
	level, err := m.Calibrate(parts[1], reach.CalibrateOptions{Alpha: alpha})
	if err != nil {
		return monitors.Monitor{}, err
	}
	return reach.NewMonitor(m, reach.MonitorOptions{Level: &level})
}

// record keeps the model's state before each token that it writes.
func (w *writer) record(ctx context.Context, questions [][]engine.Message, site steer.Site) (*reach.Data, error) {
	rec, err := reach.NewRecorder(w.info, []steer.Site{site}, 0)
	if err != nil {
		return nil, err
	}
	tapes, streams := make([]*reach.Tape, len(questions)), make([]*runtime.Stream, len(questions))
	for i, q := range questions {
		tapes[i] = rec.Tape(fmt.Sprint(q))
		cfg := runtime.Config{Seed: uint64(i), Monitors: []monitors.Monitor{tapes[i].Monitor()}}
		if streams[i], err = w.submit(ctx, q, cfg); err != nil {
			return nil, err
		}
	}
	d := rec.Data()
	for i, s := range streams {
		if _, err := s.Wait(ctx); err != nil {
			return nil, err
		}
		t, err := tapes[i].Take()
		if err != nil {
			return nil, err
		}
		d.Trajectories = append(d.Trajectories, t)
	}
	return d, nil
}

// label finds the first token with which each text holds one of the words: the
// margin falls from 1 to -1 with it.
func (w *writer) label(ctx context.Context, d *reach.Data, words *lexicon.List) error {
	finder, err := words.Monitor("words")
	if err != nil {
		return err
	}
	for i := range d.Trajectories {
		t := &d.Trajectories[i]
		watch, margins := finder.Start(), make([]float32, len(t.Tokens)+1)
		margin := float32(1)
		margins[0] = margin
		for k, token := range t.Tokens {
			v, err := watch.Observe(ctx, &monitors.Observation{Step: k, Token: token, Piece: w.info.Tokenizer.AppendPiece(nil, token)})
			if err != nil {
				return err
			}
			if v.Flag {
				margin = -1
			}
			margins[k+1] = margin
		}
		if err := t.Give(margins); err != nil {
			return err
		}
	}
	return nil
}
