package batch

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/trimtab/trimtab/internal/jsonl"
)

// key stands for an id or a line number in sets: 16 bytes of a sha256, so that
// a set costs some 50 bytes a line whatever the ids look like.
type key [16]byte

func hashKey(s string) (k key) {
	sum := sha256.Sum256([]byte(s))
	copy(k[:], sum[:])
	return k
}

func idKey(id ID) key {
	var s string
	if json.Unmarshal(id, &s) == nil {
		return hashKey("text " + s) // "a" and "\u0061" are one id
	}
	return hashKey("number " + string(id))
}

func lineKey(n int) key { return hashKey("line " + strconv.Itoa(n)) }

// input turns lines into slots.
type input struct {
	lines *jsonl.Reader
	done  *Done
	seen  map[key]struct{}
	ended bool
}

func newInput(r io.Reader, l jsonl.Limits, d *Done) *input {
	return &input{lines: jsonl.NewReader(r, l), done: d, seen: map[key]struct{}{}}
}

// next returns the slot of the next line, or nil at the end. A failing input
// gives one last slot with a fatal error.
func (in *input) next() *slot {
	if in.ended {
		return nil
	}
	line, err := in.lines.Next()
	if err == io.EOF {
		return nil
	}
	s := &slot{line: line.Number, end: line.End, done: make(chan struct{})}
	var le *jsonl.LineError
	switch {
	case errors.As(err, &le):
		s.key, s.fault = lineKey(s.line), le.Err
	case err != nil:
		in.ended = true
		s.fatal = fmt.Errorf("read the input after line %d: %w", line.Number, err)
	default:
		in.parse(s, line)
	}
	return s
}

func (in *input) parse(s *slot, line jsonl.Line) {
	s.key = lineKey(s.line)
	var w wireRequest
	if err := line.Decode(&w); err != nil {
		var le *jsonl.LineError
		if errors.As(err, &le) {
			err = le.Err
		}
		s.fault = err
		return
	}
	r, err := w.request()
	s.fault = err
	if r == nil {
		return
	}
	k := idKey(r.ID)
	if _, again := in.seen[k]; again {
		s.fault = fmt.Errorf("id %s was used on an earlier line", r.ID)
		return // the record carries no id: the first one with it counts
	}
	in.seen[k] = struct{}{}
	s.key, s.req = k, r
	s.skip = err == nil && in.done.has(k)
}
