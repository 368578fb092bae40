package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/spf13/cobra"

	"github.com/trimtab/trimtab/runtime"
	"github.com/trimtab/trimtab/runtime/audit"
)

// recording holds the flags that `run` and `batch` share about what is kept of
// a generation.
type recording struct {
	audit, trace string
	rows         bool
}

func newRecording(c *cobra.Command) *recording {
	r, f := &recording{}, c.Flags()
	f.StringVar(&r.audit, "audit", "", "append a log of every intervention to this `FILE` (JSONL)")
	f.StringVar(&r.trace, "trace", "", "append every step to this `FILE` (JSONL), for trimtab trace")
	f.BoolVar(&r.rows, "trace-rows", false, "with --trace, also the logits of every step: large")
	return r
}

func (r *recording) check(c *cobra.Command) error {
	for name, file := range map[string]string{"audit": r.audit, "trace": r.trace} {
		if c.Flags().Changed(name) && file == "" {
			return usagef(c, "--%s is empty", name)
		}
	}
	switch {
	case r.rows && r.trace == "":
		return usagef(c, "--trace-rows needs --trace")
	case r.audit != "" && (r.audit == r.trace || sameFile(r.audit, r.trace)):
		return usagef(c, "--audit and --trace are the same file")
	}
	return nil
}

// recorder writes what was asked for. The zero value writes nothing.
type recorder struct {
	rows         bool
	audit, trace *sink // nil for none
}

// open appends to the files, so that no log is ever lost. With direct, sessions
// come one at a time, and nothing is kept back: a crash then loses no record.
func (r *recording) open(direct bool) (_ *recorder, err error) {
	w := &recorder{rows: r.rows}
	if w.audit, err = openSink("--audit", r.audit, direct); err != nil {
		return nil, err
	}
	if w.trace, err = openSink("--trace", r.trace, direct); err != nil {
		return nil, errors.Join(err, w.audit.close())
	}
	return w, nil
}

// listener follows one session; the id may be empty.
func (w *recorder) listener(id string, s *sampling) runtime.Listener {
	var list []runtime.Listener
	if w.audit != nil {
		p := &part{sink: w.audit}
		list = append(list, p.follow(audit.New(p, id)))
	}
	if w.trace != nil {
		p, o := &part{sink: w.trace}, runtime.TraceOptions{Rows: w.rows}
		if s.params.DRYMultiplier == 0 { // else a replay would need the vocabulary
			o.Params = &s.params
		}
		list = append(list, p.follow(runtime.NewTracer(p, o)))
	}
	return runtime.Listeners(list...)
}

func (w *recorder) close() error { return errors.Join(w.audit.close(), w.trace.close()) }

// sink is a file that sessions append to, each its records in one piece.
type sink struct {
	flag   string
	direct bool // one session at a time: records are written as they come
	mu     sync.Mutex
	file   *os.File
}

// openSink opens a file for appending, readable by its owner only: it holds what
// people wrote. Without a name there is no sink.
func openSink(flag, name string, direct bool) (*sink, error) {
	if name == "" {
		return nil, nil
	}
	f, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, badInput("%s: %w", flag, err)
	}
	return &sink{flag: flag, direct: direct, file: f}, nil
}

func (s *sink) close() error {
	if s == nil {
		return nil
	}
	if err := s.file.Close(); err != nil {
		return fmt.Errorf("%s: %w", s.flag, err)
	}
	return nil
}

func (s *sink) write(b []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.file.Write(b); err != nil {
		return fmt.Errorf("%s: %w", s.flag, err)
	}
	return nil
}

// part is what one session writes.
type part struct {
	sink *sink
	held bytes.Buffer
}

// Write takes one record.
func (p *part) Write(b []byte) (int, error) {
	if !p.sink.direct {
		return p.held.Write(b)
	}
	return len(b), p.sink.write(b)
}

// follow adds the end of the session to its listener: then its records are written.
func (p *part) follow(l runtime.Listener) runtime.Listener {
	return runtime.Listeners(l, runtime.Listener{End: func(context.Context, *runtime.Result) error {
		if p.held.Len() == 0 {
			return nil
		}
		return p.sink.write(p.held.Bytes())
	}})
}
