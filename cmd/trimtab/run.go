package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/trimtab/trimtab/cmd/trimtab/internal/batch"
	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/runtime"
)

const runLong = `Chat with a model, or answer one prompt.

Without --prompt, and at a terminal, this is a chat that remembers what was
said. With --prompt, or with text on the standard input, it answers once and
ends. Ctrl-C stops an answer; pressed twice it ends the program.

In a chat: /reset forgets what was said, /help lists the commands, /bye ends.`

const runExample = `  trimtab run
  trimtab run -p "Write a short story about a boat."
  trimtab run -m model.gguf --temp 0 -p "What is 2 + 3?" --stats
  trimtab run -m model.gguf --monitor lexicon:words.txt --policy backtrack --refusal "I cannot say that."
  cat letter.txt | trimtab run -m model.gguf --system "Summarize the letter."`

// runFlags are the flags of `run` besides model and sampling.
type runFlags struct {
	prompt, system   string
	raw, json, stats bool
	cleanTurns       bool
}

func newRun(a *app) *cobra.Command {
	c := &cobra.Command{Use: "run", GroupID: "use", Short: "Chat with a model, or answer one prompt", Long: runLong, Example: runExample, Args: noArgs}
	ef, sf, kf, rf := newEngineFlags(c), newSampling(c), newRecording(c), &runFlags{}
	f := c.Flags()
	f.StringVarP(&rf.prompt, "prompt", "p", "", "answer this `TEXT` and end")
	f.StringVar(&rf.system, "system", "", "`TEXT` of the system message")
	f.BoolVar(&rf.raw, "raw", false, "continue the text as it is, without a chat template")
	f.BoolVar(&rf.json, "json", false, "print each answer as one JSON object, when it is done")
	f.BoolVar(&rf.stats, "stats", false, "print token counts and speed after each answer")
	f.BoolVar(&rf.cleanTurns, "clean-turns", false, "steer the turn that is answered only: earlier turns are fed again unsteered")
	f.SortFlags = false
	c.RunE = func(c *cobra.Command, _ []string) error {
		if err := errors.Join(ef.check(), sf.check(c), kf.check(c), rf.check(c, sf)); err != nil {
			return err
		}
		if !c.Flags().Changed("seed") {
			sf.params.Seed = rand.Uint64() >> 11 // few enough digits for every JSON reader
		}
		return runCommand(c, a, ef, sf, kf, rf)
	}
	return c
}

func (r *runFlags) check(c *cobra.Command, s *sampling) error {
	switch {
	case r.cleanTurns && s.steering.expr == nil:
		return usagef(c, "--clean-turns keeps steering out of later turns, but nothing steers: give --vector NAME=FILE")
	case r.cleanTurns && r.raw:
		return usagef(c, "--clean-turns and --raw exclude each other: raw text has no turns")
	case r.prompt == "" && c.Flags().Changed("prompt"):
		return usagef(c, "--prompt is empty")
	case r.raw && r.system != "":
		return usagef(c, "--raw and --system exclude each other: raw text has no system message")
	case !utf8.ValidString(r.prompt) || !utf8.ValidString(r.system):
		return usagef(c, "--prompt and --system must be valid UTF-8")
	}
	return nil
}

// maxStdin bounds a prompt that is read from the standard input.
const maxStdin = 4 << 20

func runCommand(c *cobra.Command, a *app, ef *engineFlags, sf *sampling, kf *recording, rf *runFlags) (err error) {
	if rf.prompt == "" && !a.inTTY {
		text, err := readPrompt(a.in)
		if err != nil {
			return err
		}
		rf.prompt = text
	}
	keep, err := kf.open(true)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, keep.close()) }() // after the sessions have ended
	ctx, stop := a.interruptible(c.Context())
	ef.shadows = sf.shadowing.wanted()
	m, err := load(ctx, a, ef, runtime.Options{Slots: 1})
	stop()
	if err != nil {
		return err
	}
	defer m.close()
	if err := m.prepare(sf); err != nil {
		return err
	}
	m.guard.hints(a.err)
	t := &talk{app: a, model: m, sampling: sf, keep: keep, flags: rf}
	if rf.prompt != "" {
		return t.once(c.Context(), rf.prompt)
	}
	return t.loop(c.Context())
}

func readPrompt(r io.Reader) (string, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxStdin+1))
	text := strings.TrimRight(string(b), "\r\n")
	switch {
	case err != nil:
		return "", fmt.Errorf("read the prompt: %w", err)
	case len(b) > maxStdin:
		return "", badInput("the prompt on the standard input is over %s", size(maxStdin))
	case text == "":
		return "", badInput("there is no prompt: give one with --prompt, or on the standard input")
	case !utf8.ValidString(text):
		return "", badInput("the prompt on the standard input is not valid UTF-8")
	}
	return text, nil
}

// talk is a conversation with one model.
type talk struct {
	app      *app
	model    *loaded
	sampling *sampling
	keep     *recorder
	flags    *runFlags
	history  []batch.Message
	board    *board          // of the last answer; nil when nothing is watched
	cleaning *runtime.Stream // feeds the conversation again without steering; nil for none
}

// once answers one prompt. An interrupted answer is an error.
func (t *talk) once(ctx context.Context, prompt string) error {
	ctx, stop := t.app.interruptible(ctx)
	defer stop()
	r, err := t.turn(ctx, prompt)
	if r != nil && !t.flags.json {
		fmt.Fprintln(t.app.out)
	}
	t.remark()
	if err == nil {
		t.stats(r)
	}
	return err
}

// turn answers prompt after the history, streams the text and, if it came to
// an end, adds both to the history.
func (t *talk) turn(ctx context.Context, prompt string) (*runtime.Result, error) {
	messages := t.messages(prompt)
	tokens, err := t.encode(messages, prompt)
	if err != nil {
		return nil, badInput("prompt: %w", err)
	}
	from, err := t.cleanFrom(tokens)
	if err != nil {
		return nil, badInput("prompt: %w", err)
	}
	t.stopCleaning()
	r, err := t.answer(ctx, tokens, from)
	if err != nil {
		return r, err
	}
	if t.flags.json {
		if err := printAnswer(t.app.out, r, t.board); err != nil {
			return r, err
		}
	}
	t.history = append(messages, batch.Message{Role: "assistant", Content: r.Text})
	return r, nil
}

func (t *talk) messages(prompt string) []batch.Message {
	m := t.history
	if len(m) == 0 && t.flags.system != "" {
		m = []batch.Message{{Role: "system", Content: t.flags.system}}
	}
	return append(m[:len(m):len(m)], batch.Message{Role: "user", Content: prompt})
}

func (t *talk) encode(messages []batch.Message, prompt string) ([]decode.Token, error) {
	if t.flags.raw {
		return t.model.rawPrompt(prompt)
	}
	return t.model.chatPrompt(messages)
}

// answer runs one generation and writes its text as it leaves.
func (t *talk) answer(ctx context.Context, prompt []decode.Token, planFrom int) (*runtime.Result, error) {
	cfg, err := t.sampling.config(t.model, prompt)
	if err != nil {
		return nil, err
	}
	cfg.PlanFrom = planFrom
	t.board = t.model.guard.watch()
	cfg.Listener = runtime.Listeners(cfg.Listener, t.board.listener(), t.keep.listener("", t.sampling))
	st, err := t.model.sched.Submit(ctx, cfg)
	if err != nil {
		return nil, causeOr(ctx, err)
	}
	defer st.Close()
	for {
		chunk, err := st.Next(context.WithoutCancel(ctx)) // Submit's context ends the stream
		if err == io.EOF {
			return st.Result(), nil
		}
		if err != nil {
			return st.Result(), causeOr(ctx, err)
		}
		if t.flags.json {
			continue
		}
		if t.board != nil && t.app.outTTY && t.app.colors {
			chunk.Text = t.board.paint(chunk.Text, chunk.Tokens)
		}
		if _, err := t.app.out.Write(chunk.Text); err != nil {
			return st.Result(), fmt.Errorf("write the answer: %w", err)
		}
	}
}

// causeOr returns why ctx ended, or err when it did not.
func causeOr(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

func printAnswer(w io.Writer, r *runtime.Result, b *board) error {
	a := answerOf(r)
	b.report(a)
	line, err := a.Line()
	if err != nil {
		return err
	}
	_, err = w.Write(line)
	return err
}

// remark says what the monitors and the policy had to say of the answer.
func (t *talk) remark() {
	if !t.flags.json {
		t.board.print(t.app.err)
	}
}

// stats prints counts and speed to the error stream.
func (t *talk) stats(r *runtime.Result) {
	if !t.flags.stats || r == nil {
		return
	}
	u, d := r.Usage, r.Timings
	fmt.Fprintf(t.app.err, "prompt %d tokens (%d cached), first token after %.0f ms; answer %d tokens, %s; %s, seed %d\n",
		u.PromptTokens, u.CachedTokens, d.FirstToken.Seconds()*1000, u.CompletionTokens, speed(u.CompletionTokens-1, (d.Total-d.FirstToken).Seconds()),
		r.FinishReason, t.sampling.params.Seed)
	if r.Shadow != nil {
		fmt.Fprintln(t.app.err, divergenceLine(r.Shadow))
	}
}

func speed(n int, seconds float64) string {
	if n < 1 || seconds <= 0 {
		return "too short to time"
	}
	return fmt.Sprintf("%.1f tokens/s", float64(n)/seconds)
}
