package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/trimtab/trimtab/runtime/engine"
)

const chatHelp = `/reset  forget what was said
/help   this list
/bye    end (also Ctrl-D, or Ctrl-C twice)
A line that ends with \ goes on in the next one.`

// maxTyped bounds one message in a chat, in bytes.
const maxTyped = 1 << 20

// errQuit ends a chat without being a failure.
var errQuit = errors.New("quit")

// loop is the interactive chat. It ends with /bye, the end of the input, or
// two interrupts in a row.
func (t *talk) loop(ctx context.Context) error {
	t.app.listen()
	lines := readLines(t.app.in)
	defer lines.stop()
	fmt.Fprintf(t.app.err, "%s. Type a message; /help lists commands.\n", t.model.info.Name)
	for {
		text, err := t.ask(lines)
		if err == nil {
			err = t.handle(ctx, text)
		}
		switch {
		case err == errQuit:
			return nil
		case err != nil:
			return err
		}
	}
}

// ask reads one message. The first Ctrl-C is answered with a hint.
func (t *talk) ask(lines *lineReader) (string, error) {
	var typed []string
	for warned := false; ; {
		prompt := ">>> "
		if len(typed) > 0 {
			prompt = "... "
		}
		fmt.Fprint(t.app.err, prompt)
		select {
		case <-t.app.interrupts:
			if warned {
				return "", errInterrupted
			}
			warned, typed = true, nil
			fmt.Fprintln(t.app.err, "\n(Ctrl-C again ends the program; so does /bye)")
		case l, ok := <-lines.next():
			if !ok {
				fmt.Fprintln(t.app.err)
				return "", endOf(lines)
			}
			part, more := strings.CutSuffix(l, `\`)
			if typed = append(typed, part); !more {
				return strings.Join(typed, "\n"), nil
			}
		}
	}
}

func endOf(l *lineReader) error {
	if l.err != nil && l.err != io.EOF {
		return fmt.Errorf("read the input: %w", l.err)
	}
	return errQuit
}

// handle answers one message or obeys one command. Faults of a message are
// printed, and the chat goes on.
func (t *talk) handle(ctx context.Context, text string) error {
	switch command := strings.TrimSpace(text); {
	case command == "":
		return nil
	case command == "/bye", command == "/exit", command == "/quit":
		return errQuit
	case command == "/reset":
		t.history = nil
		return nil
	case strings.HasPrefix(command, "/"):
		fmt.Fprintln(t.app.err, chatHelp)
		return nil
	case !utf8.ValidString(text):
		fmt.Fprintln(t.app.err, "that was not valid UTF-8; check the terminal's encoding")
		return nil
	}
	return t.reply(ctx, text)
}

func (t *talk) reply(ctx context.Context, text string) error {
	ctx, stop := t.app.interruptible(ctx)
	r, err := t.turn(ctx, text)
	stop()
	if !t.flags.json {
		fmt.Fprintln(t.app.out)
	}
	t.remark()
	var input *inputError
	switch {
	case err == nil:
		t.stats(r)
		t.clean(ctx)
		return nil
	case errors.Is(err, errInterrupted):
		fmt.Fprintln(t.app.err, "(stopped; this exchange is forgotten)")
		return nil
	case errors.Is(err, engine.ErrContextFull):
		fmt.Fprintln(t.app.err, "the conversation is too long for the context: /reset forgets it, and --ctx makes room")
		return nil
	case errors.As(err, &input):
		fmt.Fprintln(t.app.err, err)
		return nil
	}
	return err
}

// lineReader reads lines on a goroutine of its own, one ahead at most, so that
// a Ctrl-C is seen while nobody types. A Read that blocks outlives stop.
type lineReader struct {
	want  chan struct{}
	lines chan string
	quit  chan struct{}
	err   error // set before lines is closed
}

func readLines(r io.Reader) *lineReader {
	l := &lineReader{want: make(chan struct{}, 1), lines: make(chan string), quit: make(chan struct{})}
	go l.run(bufio.NewReader(r))
	return l
}

// next asks for a line, unless one was asked for and not yet taken.
func (l *lineReader) next() <-chan string {
	select {
	case l.want <- struct{}{}:
	default:
	}
	return l.lines
}

func (l *lineReader) stop() { close(l.quit) }

func (l *lineReader) run(r *bufio.Reader) {
	defer close(l.lines)
	for {
		select {
		case <-l.want:
		case <-l.quit:
			return
		}
		s, err := readLine(r)
		if err != nil && s == "" {
			l.err = err
			return
		}
		select {
		case l.lines <- s:
		case <-l.quit:
			return
		}
	}
}

// readLine reads up to a line break; what is over maxTyped is an error.
func readLine(r *bufio.Reader) (string, error) {
	var b strings.Builder
	for {
		part, more, err := r.ReadLine()
		if b.Len()+len(part) > maxTyped {
			return "", fmt.Errorf("a message is over %s", size(maxTyped))
		}
		b.Write(part)
		if err != nil || !more {
			return b.String(), err
		}
	}
}
