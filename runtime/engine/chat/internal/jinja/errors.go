package jinja

import "fmt"

// Error is a fault of the template, or of what it was given, at a line of its
// source. Lines count from 1; 0 means unknown.
type Error struct {
	Line int
	Msg  string
}

func (e *Error) Error() string {
	if e.Line == 0 {
		return e.Msg
	}
	return fmt.Sprintf("line %d: %s", e.Line, e.Msg)
}

// Raised is what the template itself said through raise_exception.
type Raised struct {
	Line    int
	Message string
}

func (e *Raised) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.Message) }

// LimitError says which bound a template ran into.
type LimitError struct {
	Line int
	What string // for example "work"
	Max  int
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("line %d: template needs more than %d %s", e.Line, e.Max, e.What)
}

func errorf(line int, format string, args ...any) error {
	return &Error{Line: line, Msg: fmt.Sprintf(format, args...)}
}

// fail is an error whose line the nearest node fills in.
func fail(format string, args ...any) error { return errorf(0, format, args...) }

// at puts a line on an error that has none yet.
func at(err error, line int) error {
	switch e := err.(type) {
	case *Error:
		if e.Line == 0 {
			e.Line = line
		}
	case *Raised:
		if e.Line == 0 {
			e.Line = line
		}
	case *LimitError:
		if e.Line == 0 {
			e.Line = line
		}
	}
	return err
}
