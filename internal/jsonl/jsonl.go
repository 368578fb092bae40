// Package jsonl reads files with one JSON value per line from untrusted hands.
//
// A [Reader] hands out one [Line] at a time and never holds more than one. A
// bad line is an error of its own, with its number, and the reader goes on
// behind it: so one torn record does not cost the file. [Line.Decode] is strict,
// because a field that is not understood would otherwise be dropped silently.
package jsonl

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"
)

// Limits bound what one line may hold. Zero values mean the defaults.
type Limits struct {
	Line  int // bytes of a line, default 4 MiB
	Depth int // nesting of arrays and objects, default 64
}

// Defaults of [Limits].
const (
	DefaultLine  = 4 << 20
	DefaultDepth = 64
)

// Faults of a line, wrapped by [LineError].
var (
	ErrTooLong = errors.New("line is too long")
	ErrUTF8    = errors.New("not valid UTF-8")
	ErrTooDeep = errors.New("nested too deep")
	ErrSyntax  = errors.New("not a valid record")
)

// LineError is a fault of one line. Reading can go on.
type LineError struct {
	Line int // counted from 1, blank lines included
	Err  error
}

func (e *LineError) Error() string { return fmt.Sprintf("line %d: %v", e.Line, e.Err) }

// Unwrap gives the fault.
func (e *LineError) Unwrap() error { return e.Err }

// Line is one line that is not blank, in valid UTF-8.
type Line struct {
	Number int    // counted from 1, blank lines included
	Data   []byte // without the line break; valid until the next call of Next
	End    int64  // offset in the input just behind the line
	Whole  bool   // a line break ended it; false for a last line without one

	depth int
}

// Reader splits its input into lines. It is not safe for concurrent use.
type Reader struct {
	in     *bufio.Reader
	limits Limits
	number int
	offset int64
	buf    []byte
}

// NewReader returns a Reader over r.
func NewReader(r io.Reader, l Limits) *Reader {
	if l.Line <= 0 {
		l.Line = DefaultLine
	}
	if l.Depth <= 0 {
		l.Depth = DefaultDepth
	}
	return &Reader{in: bufio.NewReaderSize(r, 64<<10), limits: l}
}

// Next returns the next line that is not blank. At the end it returns io.EOF.
// A [LineError] concerns one line, which is skipped; every other error is of
// the input itself and final.
func (r *Reader) Next() (Line, error) {
	for {
		l, err := r.line()
		if err != nil {
			return l, err
		}
		if l.Number == 1 {
			l.Data = bytes.TrimPrefix(l.Data, []byte("\xef\xbb\xbf")) // byte order mark
		}
		if len(bytes.TrimSpace(l.Data)) == 0 {
			continue
		}
		if at := invalidUTF8(l.Data); at >= 0 {
			return l, &LineError{l.Number, fmt.Errorf("%w at byte %d", ErrUTF8, at+1)}
		}
		return l, nil
	}
}

// line reads up to the next line break. What is over the limit is read and
// thrown away.
func (r *Reader) line() (Line, error) {
	r.buf = r.buf[:0]
	long, any := false, false
	for {
		part, err := r.in.ReadSlice('\n')
		r.offset += int64(len(part))
		any = any || len(part) > 0
		if long = long || len(r.buf)+len(part) > r.limits.Line+len("\r\n"); !long {
			r.buf = append(r.buf, part...)
		}
		if err == bufio.ErrBufferFull {
			continue
		}
		if err != nil && (err != io.EOF || !any) {
			return Line{Number: r.number}, err
		}
		return r.finish(long, err == nil)
	}
}

func (r *Reader) finish(long, whole bool) (Line, error) {
	r.number++
	data := bytes.TrimSuffix(bytes.TrimSuffix(r.buf, []byte("\n")), []byte("\r"))
	l := Line{Number: r.number, Data: data, End: r.offset, Whole: whole, depth: r.limits.Depth}
	if long || len(data) > r.limits.Line {
		l.Data = nil
		return l, &LineError{r.number, fmt.Errorf("%w: the limit is %d bytes", ErrTooLong, r.limits.Line)}
	}
	return l, nil
}

func invalidUTF8(b []byte) int {
	if utf8.Valid(b) {
		return -1
	}
	for i := 0; i < len(b); {
		c, n := utf8.DecodeRune(b[i:])
		if c == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return -1
}

// Decode parses the line, which must hold one JSON value and nothing else, into
// v. Unknown fields, broken surrogate escapes and too deep nesting are errors.
// Every error is a [LineError].
func (l Line) Decode(v any) error {
	if err := scan(l.Data, l.depth); err != nil {
		return &LineError{l.Number, err}
	}
	d := json.NewDecoder(bytes.NewReader(l.Data))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return &LineError{l.Number, fmt.Errorf("%w: %w", ErrSyntax, plain(err))}
	}
	if _, err := d.Token(); err != io.EOF {
		return &LineError{l.Number, fmt.Errorf("%w: something follows the record", ErrSyntax)}
	}
	return nil
}

// plain says what json's errors mean without naming Go types.
func plain(err error) error {
	var t *json.UnmarshalTypeError
	switch {
	case errors.As(err, &t) && t.Field != "":
		return fmt.Errorf("field %q cannot be a %s", t.Field, t.Value)
	case errors.As(err, &t):
		return fmt.Errorf("it is a %s, not an object", t.Value)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("it breaks off")
	}
	return errors.New(trimPrefix(err.Error(), "json: "))
}

func trimPrefix(s, p string) string {
	if len(s) >= len(p) && s[:len(p)] == p {
		return s[len(p):]
	}
	return s
}
