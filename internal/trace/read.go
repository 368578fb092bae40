package trace

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/trimtab/trimtab/internal/jsonl"
)

// Bounds of what Read accepts.
const (
	maxLine  = 64 << 20 // bytes: two rows of a large vocabulary and some activations
	maxSteps = 1 << 20
)

// ErrBreaksOff is returned with what could be read of a trace without an End.
var ErrBreaksOff = errors.New("the trace breaks off")

// Trace is a whole trace.
type Trace struct {
	Start Start
	Steps []Step
	End   End
}

// Read parses a trace. Unknown fields, records out of order, another version
// and a trace without an end are errors; with ErrBreaksOff the Trace is there.
func Read(r io.Reader) (*Trace, error) {
	lines := jsonl.NewReader(r, jsonl.Limits{Line: maxLine})
	t := &Trace{}
	if err := t.readStart(lines); err != nil {
		return nil, fmt.Errorf("trace: %w", err)
	}
	for {
		line, err := lines.Next()
		if err == io.EOF {
			return t, fmt.Errorf("%w after %d steps", ErrBreaksOff, len(t.Steps))
		} else if err != nil {
			return nil, fmt.Errorf("trace: %w", err)
		}
		last, err := t.add(line)
		if err != nil {
			return nil, fmt.Errorf("trace: %w", err)
		}
		if last {
			return t, t.nothingFollows(lines)
		}
	}
}

func (t *Trace) readStart(lines *jsonl.Reader) error {
	line, err := lines.Next()
	if err == io.EOF {
		return errors.New("it is empty")
	} else if err != nil {
		return err
	}
	if kind := kindOf(line); kind != "start" {
		return fmt.Errorf("line %d: record %q where the trace must start", line.Number, kind)
	}
	if err := line.Decode(&t.Start); err != nil {
		return err
	}
	if t.Start.Version != Version {
		return fmt.Errorf("version %d, this program reads version %d", t.Start.Version, Version)
	}
	return nil
}

// add appends a record. True means that it was the end.
func (t *Trace) add(line jsonl.Line) (last bool, err error) {
	switch kind := kindOf(line); kind {
	case "step":
		if len(t.Steps) == maxSteps {
			return false, fmt.Errorf("line %d: more than %d steps", line.Number, maxSteps)
		}
		var s Step
		if err := line.Decode(&s); err != nil {
			return false, err
		}
		t.Steps = append(t.Steps, s)
		return false, nil
	case "end":
		return true, line.Decode(&t.End)
	default:
		return false, fmt.Errorf("line %d: unknown record %q", line.Number, kind)
	}
}

func (t *Trace) nothingFollows(lines *jsonl.Reader) error {
	line, err := lines.Next()
	if err == io.EOF {
		return nil
	}
	return fmt.Errorf("trace: line %d: something follows the end", line.Number)
}

func kindOf(line jsonl.Line) string {
	var k struct {
		Kind string `json:"kind"`
	}
	_ = json.Unmarshal(line.Data, &k) // a broken line has no kind; Decode says what is wrong
	return k.Kind
}
