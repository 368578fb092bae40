package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/trimtab/trimtab/internal/jsonl"
	"github.com/trimtab/trimtab/runtime"
)

func newTrace(a *app) *cobra.Command {
	return group(a, "trace", "Look into audit logs and traces, and run them again",
		"With --audit, run and batch log every intervention: what the monitors said, what\nwas done about it, what was thrown away and how it came out. With --trace they\nrecord every step.",
		newTraceShow(a), newTraceReplay(a))
}

const traceReplayLong = `Run recorded sessions again, without the engine and without the model, and
compare every record bit for bit: what left and when, every rewind, ban, forced
token, budget and the end. Tokens, scores and decisions are taken from the trace;
with --trace-rows the tokens are drawn again from the logits (not with DRY).

The first difference is printed, and the exit code is then 1.`

func newTraceReplay(a *app) *cobra.Command {
	return &cobra.Command{Use: "replay FILE", Short: "Run the sessions of a trace again, bit for bit", Long: traceReplayLong,
		Example: "  trimtab run -p \"Hello\" --trace t.jsonl && trimtab trace replay t.jsonl", Args: oneArg("a trace"),
		RunE: func(c *cobra.Command, args []string) error {
			ctx, stop := a.interruptible(c.Context())
			defer stop()
			return replayFile(ctx, a, args[0])
		}}
}

func replayFile(ctx context.Context, a *app, name string) error {
	f, err := os.Open(name)
	if err != nil {
		return badInput("%w", err)
	}
	defer f.Close()
	n, steps, drawn := 0, 0, 0
	err = traces(f, func(one []byte) error {
		n++
		for _, again := range []func() error{
			func() error { return runtime.Rerun(ctx, bytes.NewReader(one), runtime.Parts{}) },
			func() error { return runtime.Replay(ctx, bytes.NewReader(one), nil, nil) }, // what a shadow measured
		} {
			if err := again(); err != nil {
				return fmt.Errorf("session %d of %s: %w", n, name, err)
			}
		}
		steps += bytes.Count(one, []byte("\n{\"kind\":\"step\""))
		if head, _, _ := bytes.Cut(one, []byte("\n")); bytes.Contains(head, []byte(",\"params\":{")) {
			drawn++
		}
		return nil
	})
	var d *runtime.Difference
	switch {
	case errors.As(err, &d):
		return err
	case err != nil:
		return causeOr(ctx, badInput("%w", err))
	case n == 0:
		return badInput("%s holds no trace", name)
	}
	fmt.Fprintf(a.out, "%d sessions, %d steps: equal, bit for bit; the tokens of %d sessions were drawn again\n", n, steps, drawn)
	return nil
}

// Bounds of a trace that is read.
const (
	maxTraceLine = 64 << 20 // bytes
	maxTrace     = 1 << 30
)

// traces cuts a file of traces, one behind another, into single ones.
func traces(r io.Reader, each func([]byte) error) error {
	lines := jsonl.NewReader(r, jsonl.Limits{Line: maxTraceLine})
	var one []byte
	for {
		line, err := lines.Next()
		if err != nil && err != io.EOF {
			return err
		}
		if len(one) > 0 && (err == io.EOF || kindOf(line.Data) == "start") {
			if err := each(one); err != nil {
				return err
			}
			one = one[:0]
		}
		if err == io.EOF {
			return nil
		}
		if one = append(append(one, line.Data...), '\n'); len(one) > maxTrace {
			return fmt.Errorf("line %d: a session of more than %s", line.Number, size(maxTrace))
		}
	}
}

// kindOf says what record a line of a trace or log is, "" for none.
func kindOf(line []byte) string {
	var k struct {
		Kind string `json:"kind"`
	}
	if json.Unmarshal(line, &k) != nil {
		return ""
	}
	return k.Kind
}
