package checker

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// reader takes the command's output apart as it comes. It stops the command at
// the first fault.
type reader struct {
	index    map[string]int // of an ID among the verdicts
	verdicts []Verdict
	seen     []bool
	judged   int

	line  int
	rest  []byte // an unfinished line
	fault error
	abort func(error)
}

func newReader(items []Item) (*reader, error) {
	if len(items) > MaxItems {
		return nil, fmt.Errorf("%d texts, the limit is %d", len(items), MaxItems)
	}
	r := &reader{index: make(map[string]int, len(items)), verdicts: make([]Verdict, len(items)), seen: make([]bool, len(items))}
	for i := range items {
		id := items[i].ID
		if _, twice := r.index[id]; twice || id == "" {
			return nil, fmt.Errorf("text %d: the id %q is empty or used twice", i+1, id)
		}
		r.index[id] = i
		r.verdicts[i].ID = id
	}
	return r, nil
}

// Write implements io.Writer for the command's output.
func (r *reader) Write(p []byte) (int, error) {
	if r.fault != nil {
		return 0, r.fault
	}
	r.rest = append(r.rest, p...)
	for r.fault == nil {
		line, rest, ok := bytes.Cut(r.rest, []byte{'\n'})
		if !ok {
			break
		}
		r.rest = rest
		r.take(line)
	}
	if r.fault == nil && len(r.rest) > MaxLine {
		r.line++
		r.failf("is longer than %d bytes", MaxLine)
	}
	if r.fault != nil {
		r.abort(r.fault)
		return 0, r.fault
	}
	return len(p), nil
}

// end takes the last line and reports what is missing.
func (r *reader) end() error {
	r.take(r.rest)
	if r.fault != nil {
		return r.fault
	}
	for i, ok := range r.seen {
		if !ok {
			return fmt.Errorf("judged only %d of %d texts: there is no line with \"id\":%q", r.judged, len(r.seen), r.verdicts[i].ID)
		}
	}
	return nil
}

func (r *reader) failf(format string, args ...any) {
	r.fault = fmt.Errorf("line %d of its output %w", r.line, fmt.Errorf(format, args...))
}

// maxLines bounds the output: blank lines are let through, but not for ever.
func (r *reader) maxLines() int { return 2*len(r.verdicts) + 1000 }

func (r *reader) take(line []byte) {
	r.line++
	if r.line > r.maxLines() {
		r.failf("is one too many for %d texts", len(r.verdicts))
		return
	}
	line = bytes.TrimSpace(line)
	if len(line) == 0 {
		return
	}
	v, err := parse(line)
	if err != nil {
		r.failf("%w: %s", err, excerpt(strings.ToValidUTF8(string(line), "?")))
		return
	}
	i, known := r.index[v.ID]
	switch {
	case !known:
		r.failf("judges the id %q, which no text has", excerpt(v.ID))
	case r.seen[i]:
		r.failf("judges the id %q again", excerpt(v.ID))
	default:
		r.verdicts[i], r.seen[i] = v, true
		r.judged++
	}
}

// parse reads one line. An ID may be a number: scripts that count lose the
// quotes.
func parse(line []byte) (Verdict, error) {
	var raw struct {
		ID    json.RawMessage `json:"id"`
		Score *float64        `json:"score"`
		Label *string         `json:"label"`
	}
	var typed *json.UnmarshalTypeError
	if err := json.Unmarshal(line, &raw); errors.As(err, &typed) && typed.Field != "" {
		return Verdict{}, fmt.Errorf("has a %s for %q", typed.Value, typed.Field)
	} else if err != nil {
		return Verdict{}, errors.New(`is not a JSON object such as {"id":"7","score":0.5}`)
	}
	v := Verdict{Score: raw.Score}
	if err := json.Unmarshal(raw.ID, &v.ID); err != nil {
		v.ID = string(raw.ID)
	}
	switch {
	case v.ID == "" || v.ID == "null":
		return v, errors.New(`has no "id"`)
	case raw.Score == nil && raw.Label == nil:
		return v, errors.New(`has neither "score" nor "label"`)
	case raw.Score != nil && !(*raw.Score >= 0 && *raw.Score <= 1):
		return v, fmt.Errorf("has score %v, want 0 to 1", *raw.Score)
	}
	if raw.Label != nil {
		v.Label = *raw.Label
	}
	return v, nil
}

// tail keeps the end of what is written to it.
type tail struct {
	limit int
	kept  []byte
	cut   bool
}

func (t *tail) Write(p []byte) (int, error) {
	t.kept = append(t.kept, p...)
	if over := len(t.kept) - t.limit; over > 0 {
		t.kept, t.cut = append(t.kept[:0], t.kept[over:]...), true
	}
	return len(p), nil
}

// quote is what an error says of it, after what went wrong.
func (t *tail) quote() string {
	text := strings.TrimSpace(strings.ToValidUTF8(string(t.kept), "?"))
	switch {
	case text == "":
		return ""
	case t.cut:
		text = "…" + text
	}
	return "\nits error stream: " + text
}
