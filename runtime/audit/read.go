package audit

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/trimtab/trimtab/internal/jsonl"
)

// Bounds of what a Reader accepts.
const (
	maxLine    = 8 << 20 // bytes
	maxRecords = 1 << 20 // of one log
)

// ErrBreaksOff is returned with what could be read of a log without a Footer.
var ErrBreaksOff = errors.New("the log breaks off")

// Log is the log of one session. Of each record, Intervention, Mark and Fault,
// exactly one is set in an Entry.
type Log struct {
	Header  Header
	Entries []Entry
	Footer  Footer
}

// Entry is one thing that happened.
type Entry struct {
	Intervention *Intervention
	Outcome      Result // of the Intervention; "" when the log breaks off before
	Mark         *Mark
	Fault        *Fault
}

// Reader reads the logs of a file, strictly: unknown fields and records,
// records out of order, another version and counts that do not agree are
// errors, all of them with the line.
type Reader struct {
	lines *jsonl.Reader
	held  *jsonl.Line // the header of the next log, read already
}

// NewReader reads from r.
func NewReader(r io.Reader) *Reader {
	return &Reader{lines: jsonl.NewReader(r, jsonl.Limits{Line: maxLine})}
}

// Next returns the next log, or io.EOF. With ErrBreaksOff the Log is there, and
// the next one can be read. After another error the Reader is of no further use.
func (r *Reader) Next() (*Log, error) {
	g := &Log{}
	if err := r.header(g); err != nil {
		return nil, err
	}
	p := parser{log: g, byN: map[int]int{}}
	for range maxRecords {
		line, err := r.lines.Next()
		if err == io.EOF {
			return g, fmt.Errorf("audit: %w after %d entries", ErrBreaksOff, len(g.Entries))
		} else if err != nil {
			return nil, fmt.Errorf("audit: %w", err)
		}
		if kindOf(line) == "audit" {
			line.Data = slices.Clone(line.Data)
			r.held = &line
			return g, fmt.Errorf("audit: line %d: %w after %d entries, another one begins", line.Number, ErrBreaksOff, len(g.Entries))
		}
		last, err := p.add(line)
		if err != nil {
			return nil, fmt.Errorf("audit: %w", at(line, err))
		}
		if last {
			return g, nil
		}
	}
	return nil, fmt.Errorf("audit: a log of more than %d records", maxRecords)
}

// first is the line that the next log begins with.
func (r *Reader) first() (line jsonl.Line, err error) {
	if r.held == nil {
		return r.lines.Next()
	}
	line, r.held = *r.held, nil
	return line, nil
}

func (r *Reader) header(g *Log) error {
	line, err := r.first()
	if err == io.EOF {
		return io.EOF
	} else if err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	if kind := kindOf(line); kind != "audit" {
		return fmt.Errorf("audit: line %d: record %q where a log must start", line.Number, kind)
	}
	if err := line.Decode(&g.Header); err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	if g.Header.Version != Version {
		return fmt.Errorf("audit: line %d: version %d, this program reads version %d", line.Number, g.Header.Version, Version)
	}
	if m := g.Header.OnFault; m != Open && m != Closed {
		return fmt.Errorf("audit: line %d: unknown fault mode %q", line.Number, m)
	}
	return nil
}

// at names the line, where the error does not.
func at(line jsonl.Line, err error) error {
	var has *jsonl.LineError
	if errors.As(err, &has) {
		return err
	}
	return &jsonl.LineError{Line: line.Number, Err: err}
}

func kindOf(line jsonl.Line) string {
	var k struct {
		Kind string `json:"kind"`
	}
	_ = json.Unmarshal(line.Data, &k) // a broken line has no kind; Decode says what is wrong
	return k.Kind
}

// parser puts the records of one log together.
type parser struct {
	log    *Log
	byN    map[int]int // number of an intervention without an outcome -> entry
	count  int         // interventions
	faults int
}

// add takes one record. True means that it was the footer.
func (p *parser) add(line jsonl.Line) (last bool, err error) {
	switch kind := kindOf(line); kind {
	case "intervention":
		return false, p.intervention(line)
	case "outcome":
		return false, p.outcome(line)
	case "mark":
		m := &Mark{}
		p.log.Entries = append(p.log.Entries, Entry{Mark: m})
		return false, line.Decode(m)
	case "fault":
		f := &Fault{}
		p.faults++
		p.log.Entries = append(p.log.Entries, Entry{Fault: f})
		return false, line.Decode(f)
	case "end":
		return true, p.footer(line)
	default:
		return false, fmt.Errorf("unknown record %q", kind)
	}
}

func (p *parser) intervention(line jsonl.Line) error {
	i := &Intervention{}
	if err := line.Decode(i); err != nil {
		return err
	}
	if p.count++; i.N != p.count {
		return fmt.Errorf("intervention %d where %d must come", i.N, p.count)
	}
	p.byN[i.N] = len(p.log.Entries)
	p.log.Entries = append(p.log.Entries, Entry{Intervention: i})
	return nil
}

func (p *parser) outcome(line jsonl.Line) error {
	var o Outcome
	if err := line.Decode(&o); err != nil {
		return err
	}
	switch o.Outcome {
	case Safe, Accepted, Violated, Refused, Stopped, Exhausted, Cut:
	default:
		return fmt.Errorf("unknown outcome %q", o.Outcome)
	}
	i, ok := p.byN[o.N]
	if !ok {
		return fmt.Errorf("an outcome of intervention %d, which there is not or which has one", o.N)
	}
	delete(p.byN, o.N)
	p.log.Entries[i].Outcome = o.Outcome
	return nil
}

func (p *parser) footer(line jsonl.Line) error {
	f := &p.log.Footer
	if err := line.Decode(f); err != nil {
		return err
	}
	switch {
	case len(p.byN) > 0:
		return fmt.Errorf("%d interventions have no outcome", len(p.byN))
	case f.Interventions != p.count || f.Faults != p.faults:
		return fmt.Errorf("%d interventions and %d faults, the footer counts %d and %d", p.count, p.faults, f.Interventions, f.Faults)
	}
	return nil
}
