// Package checker lets a command of the user's judge texts: it writes one JSON
// object per line to the command's input and reads one verdict per line from
// its output.
//
// The command is started anew for each batch of texts, gets all of them, and
// then the end of its input. So a script that reads until the end and prints
// its verdicts last works as well as one that answers line by line; verdicts
// may come in any order.
package checker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"
)

const (
	// DefaultTimeout bounds one call of [Checker.Check].
	DefaultTimeout = 10 * time.Minute
	// MaxItems bounds the texts of one call.
	MaxItems = 100_000
	// MaxLine bounds a line of the command's output, in bytes.
	MaxLine = 1 << 20

	stderrKept = 2048            // bytes of the error stream's end that an error quotes
	waitDelay  = 2 * time.Second // that a command's children may hold its output open
)

// Checker is a command that judges texts. Its methods may be called
// concurrently; each call runs its own process.
type Checker struct {
	// Command is run by the shell: `sh -c` (`cmd /C` on Windows).
	Command string
	// Timeout bounds one call of Check; 0 means DefaultTimeout. When it runs
	// out, the command and its children are killed.
	Timeout time.Duration
}

// Message is a turn of a conversation.
type Message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// Item is a text to judge, as the command gets it. Either Prompt or Messages
// says what was asked.
type Item struct {
	ID       string    `json:"id"` // unique in one call
	Prompt   string    `json:"prompt,omitempty"`
	Messages []Message `json:"messages,omitempty"`
	Text     string    `json:"text"` // what the model answered
}

// Verdict is what the command said of one text. At least one of Score and
// Label is set.
type Verdict struct {
	ID    string
	Score *float64 // 0 to 1, nil when the command gave none
	Label string   // such as "right" or "polite"
}

// Check has the texts judged and returns the verdicts in their order. The
// command has to answer each ID exactly once; other keys of its lines are
// ignored. An error says what the command did wrong, on which line, and ends
// with what it wrote to its error stream last.
func (c *Checker) Check(ctx context.Context, items []Item) ([]Verdict, error) {
	if strings.TrimSpace(c.Command) == "" {
		return nil, errors.New("checker: the command is empty")
	}
	if len(items) == 0 {
		return nil, nil
	}
	r, err := newReader(items)
	if err != nil {
		return nil, fmt.Errorf("checker: %w", err)
	}
	var in bytes.Buffer
	enc := json.NewEncoder(&in)
	enc.SetEscapeHTML(false)
	for i := range items {
		if err := enc.Encode(&items[i]); err != nil {
			return nil, fmt.Errorf("checker: text %s: %w", items[i].ID, err)
		}
	}
	stderr := &tail{limit: stderrKept}
	if err := c.run(ctx, &in, r, stderr); err != nil {
		return nil, fmt.Errorf("checker %q: %w%s", excerpt(c.Command), err, stderr.quote())
	}
	return r.verdicts, nil
}

// errTimeout is the cause of contexts that the time limit ended.
var errTimeout = errors.New("time limit")

func (c *Checker) run(ctx context.Context, in *bytes.Buffer, r *reader, stderr *tail) error {
	limit := c.Timeout
	if limit <= 0 {
		limit = DefaultTimeout
	}
	limited, stop := context.WithTimeoutCause(ctx, limit, errTimeout)
	defer stop()
	limited, r.abort = context.WithCancelCause(limited)
	defer r.abort(nil)

	cmd := shell(limited, c.Command)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, r, stderr
	cmd.WaitDelay = waitDelay
	err := cmd.Run()
	switch {
	case r.fault == nil && ctx.Err() == nil && err == nil:
		err = r.end() // a last line without its newline
	case r.fault != nil:
		err = r.fault
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case context.Cause(limited) == errTimeout:
		return fmt.Errorf("not done within %v: %d of %d texts were judged; it is killed", limit, r.judged, len(r.verdicts))
	default:
		return r.exited(err)
	}
	return err
}

// exited says how a command ended that did not end well.
func (r *reader) exited(err error) error {
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		return fmt.Errorf("ended with %w after %d of %d verdicts", err, r.judged, len(r.verdicts))
	case errors.Is(err, exec.ErrWaitDelay):
		return errors.New("ended, but a process it started keeps its output open")
	}
	return fmt.Errorf("cannot be run: %w", err)
}

// excerpt shortens a text for a message.
func excerpt(s string) string {
	const limit = 80
	if r := []rune(s); len(r) > limit {
		return string(r[:limit]) + "…"
	}
	return s
}
