package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/spf13/cobra"

	"github.com/trimtab/trimtab/bindings/llamacpp"
	"github.com/trimtab/trimtab/bindings/llamacpp/libs"
	"github.com/trimtab/trimtab/runtime/engine"
)

// Exit codes, as documented in docs/formats.md.
const (
	codeOK          = 0
	codeFailure     = 1
	codeUsage       = 2
	codeNoEngine    = 3
	codeBadInput    = 4
	codeInterrupted = 130
)

// errInterrupted is the cause of contexts that Ctrl-C ended.
var errInterrupted = errors.New("interrupted")

// usageError is a mistake on the command line.
type usageError struct {
	err     error
	command string
}

func (e *usageError) Error() string {
	return fmt.Sprintf("%v\nsee `%s --help`", e.err, e.command)
}

func (e *usageError) Unwrap() error { return e.err }

func usagef(c *cobra.Command, format string, args ...any) error {
	return &usageError{err: fmt.Errorf(format, args...), command: c.CommandPath()}
}

// inputError is a fault in a file or text that the user gave.
type inputError struct{ err error }

func (e *inputError) Error() string { return e.err.Error() }
func (e *inputError) Unwrap() error { return e.err }

func badInput(format string, args ...any) error {
	return &inputError{err: fmt.Errorf(format, args...)}
}

// exitCode maps an error to the code of the process.
func exitCode(err error) int {
	var usage *usageError
	var input *inputError
	switch {
	case err == nil:
		return codeOK
	case errors.Is(err, errInterrupted), errors.Is(err, context.Canceled):
		return codeInterrupted
	case errors.As(err, &usage), errors.Is(err, llamacpp.ErrOptions):
		return codeUsage
	case isEngineMissing(err):
		return codeNoEngine
	case errors.As(err, &input), errors.Is(err, llamacpp.ErrModel), errors.Is(err, engine.ErrUnsupported), errors.Is(err, engine.ErrContextFull):
		return codeBadInput
	}
	return codeFailure
}

func isEngineMissing(err error) bool {
	for _, e := range []error{libs.ErrNotFound, libs.ErrPlatform, libs.ErrNoNpm, libs.ErrDownload, libs.ErrHash, libs.ErrUnpinned, llamacpp.ErrVersion} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// execute runs the command line and returns the exit code. Errors go to the
// error stream, one line or more, each saying what to do next.
func execute(a *app, args []string) int {
	root := newRoot(a)
	root.SetArgs(args)
	err := root.ExecuteContext(context.Background())
	code := exitCode(err)
	switch {
	case err == nil:
	case code == codeInterrupted:
		fmt.Fprintln(a.err, "trimtab: interrupted")
	default:
		fmt.Fprintf(a.err, "trimtab: %v\n", err)
		if hint := hintFor(err); hint != "" {
			fmt.Fprintln(a.err, hint)
		}
	}
	return code
}

// hintFor adds what to do to errors of packages that know nothing of commands.
func hintFor(err error) string {
	switch {
	case errors.Is(err, llamacpp.ErrVersion):
		return "run `trimtab engine install` and drop --lib and " + libs.EnvVar + " to use the libraries this version was tested with"
	case errors.Is(err, llamacpp.ErrOptions):
		return "the values come from --ctx, --cells, --parallel, --threads and --gpu-layers"
	case errors.Is(err, engine.ErrContextFull):
		return "shorten the text, lower --max-tokens, or raise --ctx"
	case errors.Is(err, llamacpp.ErrModel):
		return "look at the file with `trimtab model inspect FILE`"
	case errors.Is(err, fs.ErrNotExist):
		return "check the path; the built-in model is called `nano`"
	}
	return ""
}
