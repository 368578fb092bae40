package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/trimtab/trimtab/bindings/llamacpp/libs"
)

// app is everything the commands take from the outside.
type app struct {
	in       io.Reader
	out, err io.Writer
	// Whether the streams are terminals: prompts, bars and colours go only there.
	inTTY, outTTY, errTTY bool
	width                 int  // of the terminal, in columns
	colors                bool // the user and the terminal do not object to colours

	env  libs.Env
	now  func() time.Time
	open openFunc // opens a model
	npm  string   // the npm client; empty for the one on the PATH

	// interrupts delivers each Ctrl-C once listen was called; before that, it
	// ends the process as usual. halt ends the process at once.
	listen     func()
	interrupts <-chan os.Signal
	halt       func(code int)
}

// hostApp is the app of the real process.
func hostApp() *app {
	sig := make(chan os.Signal, 4)
	a := &app{
		in: os.Stdin, out: os.Stdout, err: os.Stderr,
		inTTY:      term.IsTerminal(int(os.Stdin.Fd())),
		outTTY:     term.IsTerminal(int(os.Stdout.Fd())),
		errTTY:     term.IsTerminal(int(os.Stderr.Fd())),
		width:      80,
		colors:     os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb",
		env:        libs.Host(),
		now:        time.Now,
		open:       openModel,
		listen:     func() { signal.Notify(sig, os.Interrupt, syscall.SIGTERM) },
		interrupts: sig,
		halt:       os.Exit,
	}
	if w, _, err := term.GetSize(int(os.Stderr.Fd())); err == nil && w > 0 {
		a.width = w
	}
	return a
}

// interruptible returns a context that the first Ctrl-C ends with
// errInterrupted; the second one ends the process. Call stop when the work is
// done.
func (a *app) interruptible(parent context.Context) (ctx context.Context, stop func()) {
	a.listen()
	ctx, cancel := context.WithCancelCause(parent)
	done, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		for n := 0; ; n++ {
			select {
			case <-done:
				return
			case <-a.interrupts:
				if n > 0 {
					a.halt(codeInterrupted)
				}
				cancel(errInterrupted)
			}
		}
	}()
	return ctx, func() {
		close(done)
		<-gone
		cancel(nil)
	}
}

const rootLong = `Trimtab runs local language models (GGUF files) inside this program, and can
steer, watch and constrain them while they write. Nothing is sent anywhere.

Start here:
  trimtab engine install     get the llama.cpp libraries, once
  trimtab run                chat with the small built-in model
  trimtab run --model FILE   chat with a model of yours

Exit codes: 0 ok, 1 failure, 2 wrong usage, 3 engine libraries missing,
4 bad model or input, 130 interrupted.`

// newRoot builds the command tree.
func newRoot(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:           "trimtab",
		Short:         "Run, steer and inspect local language models",
		Long:          rootLong,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          noArgs,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.SuggestionsMinimumDistance = 2
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.err)
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return usagef(c, "%w", err) })
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddGroup(&cobra.Group{ID: "use", Title: "Use a model:"}, &cobra.Group{ID: "tools", Title: "Tools:"})
	root.AddCommand(newRun(a), newBatch(a), newModel(a), newEngine(a), newData(a), newBench(a), newSteer(a), newMonitor(a), newEval(a), newTrace(a))
	root.SetHelpCommandGroupID("tools")
	return root
}

// noArgs refuses positional arguments, and names close commands for a typo.
func noArgs(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if c.HasSubCommands() {
		if close := c.SuggestionsFor(args[0]); len(close) > 0 {
			return usagef(c, "unknown command %q; did you mean %q?", args[0], close[0])
		}
		return usagef(c, "unknown command %q", args[0])
	}
	return usagef(c, "%s takes no argument %q", c.CommandPath(), args[0])
}

// oneArg asks for exactly one positional argument.
func oneArg(what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) != 1 {
			return usagef(c, "%s needs one argument, %s; it got %d", c.CommandPath(), what, len(args))
		}
		return nil
	}
}

// group is a command that only holds others.
func group(a *app, use, short, long string, commands ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, Long: long, GroupID: "tools", Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() }}
	c.AddCommand(commands...)
	return c
}
