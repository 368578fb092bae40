package batch

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/trimtab/trimtab/internal/jsonl"
)

// Done is what an earlier run has written. The zero value is nothing.
type Done struct {
	answered map[key]struct{}
	faults   map[key]key // by id or line: the hash of the message
	Answered int         // records with an answer
	Torn     int64       // bytes of a torn last line that Resume cut off
}

func (d *Done) has(k key) bool {
	_, ok := d.answered[k]
	return ok
}

// sameFault reports whether the same fault is on record already.
func (d *Done) sameFault(k key, err error) bool {
	m, ok := d.faults[k]
	return ok && m == hashKey(err.Error())
}

// recordStart is how encode begins every line.
const recordStart = `{"id":`

// maxRecord bounds a line of an output that is read back.
const maxRecord = 256 << 20

// File is what Resume needs of an *os.File open for reading and writing.
type File interface {
	io.ReadWriteSeeker
	Truncate(size int64) error
}

var _ File = (*os.File)(nil)

// Resume reads the output of an earlier run, cuts off a last line that was not
// finished, and leaves f at its end, ready to append. Records with an error are
// not done: their lines are tried again, and only a changed outcome is
// written. A file that holds anything but batch records is refused unchanged.
func Resume(f File) (*Done, error) {
	d := &Done{answered: map[key]struct{}{}, faults: map[key]key{}}
	in := jsonl.NewReader(f, jsonl.Limits{Line: maxRecord})
	var end int64
	for {
		line, err := in.Next()
		if err == io.EOF {
			return d, d.cut(f, end)
		}
		if err == nil {
			if torn(line) {
				return d, d.cut(f, end)
			}
			err = d.add(line)
		} else if isLineError(err) && torn(line) { // in the middle of a character
			return d, d.cut(f, end)
		}
		if err != nil {
			return nil, fmt.Errorf("the output is there, but is no batch output: %w", err)
		}
		end = line.End
	}
}

// torn reports whether a line is the beginning of a record that was not
// finished. Anything else without a line break is somebody's file.
func torn(l jsonl.Line) bool {
	n := min(len(l.Data), len(recordStart))
	return !l.Whole && n > 0 && string(l.Data[:n]) == recordStart[:n]
}

func isLineError(err error) bool {
	var le *jsonl.LineError
	return errors.As(err, &le)
}

// add takes note of one record.
func (d *Done) add(line jsonl.Line) error {
	var r struct {
		ID     json.RawMessage `json:"id"`
		Reason *string         `json:"finish_reason"`
		Error  *Fault          `json:"error"`
	}
	if err := json.Unmarshal(line.Data, &r); err != nil || (r.Reason == nil) == (r.Error == nil) {
		return &jsonl.LineError{Line: line.Number, Err: errors.New("not a record with an answer or an error")}
	}
	hasID := checkID(r.ID) == nil
	switch {
	case r.Error == nil && !hasID:
		return &jsonl.LineError{Line: line.Number, Err: errors.New("an answer without an id")}
	case r.Error == nil:
		d.answered[idKey(r.ID)] = struct{}{}
		d.Answered++
	case hasID:
		d.faults[idKey(r.ID)] = hashKey(r.Error.Message)
	default:
		d.faults[lineKey(r.Error.Line)] = hashKey(r.Error.Message)
	}
	return nil
}

// cut drops what follows the last whole record.
func (d *Done) cut(f File, end int64) error {
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return fmt.Errorf("resume: %w", err)
	}
	if d.Torn = size - end; d.Torn > 0 {
		if err := f.Truncate(end); err != nil {
			return fmt.Errorf("cut off the torn last line: %w", err)
		}
	}
	_, err = f.Seek(end, io.SeekStart)
	return err
}
