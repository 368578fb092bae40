// Package window smooths a stream of scores over its last values, exactly
// undoable: after a rewind a [Series] is what it would be had it never seen the
// values. Monitors share it.
package window

import (
	"fmt"
	"strconv"
	"strings"
)

// MaxLen bounds how many values a window holds.
const MaxLen = 1024

// Kind says how the values of a window become one.
type Kind uint8

const (
	None Kind = iota // the last value alone
	Mean             // the arithmetic mean of the last Len values, fewer at the start
	Max              // the largest of them
	EWMA             // e = Alpha*x + (1-Alpha)*e before; the first value starts it
)

// Window is a way to smooth. The zero value does nothing.
type Window struct {
	Kind  Kind
	Len   int     // Mean and Max: 1 to MaxLen values
	Alpha float64 // EWMA: 0 < Alpha <= 1
}

// Parse reads a window as flags and files spell it: "" or "none", "mean:8",
// "max:8", "ewma:0.3".
func Parse(s string) (Window, error) {
	if s == "" || s == "none" {
		return Window{}, nil
	}
	name, arg, _ := strings.Cut(s, ":")
	w := Window{}
	var err error
	switch name {
	case "mean", "max":
		w.Kind = Mean
		if name == "max" {
			w.Kind = Max
		}
		w.Len, err = strconv.Atoi(arg)
		if err != nil || w.Len < 1 || w.Len > MaxLen {
			return Window{}, fmt.Errorf("window %.40q: want %s:N with N from 1 to %d values", s, name, MaxLen)
		}
	case "ewma":
		w.Kind = EWMA
		w.Alpha, err = strconv.ParseFloat(arg, 64)
		if err != nil || !(w.Alpha > 0 && w.Alpha <= 1) {
			return Window{}, fmt.Errorf("window %.40q: want ewma:A with 0 < A <= 1", s)
		}
	default:
		return Window{}, fmt.Errorf("window %.40q: want none, mean:N, max:N or ewma:A", s)
	}
	return w, nil
}

// String spells the window as Parse reads it.
func (w Window) String() string {
	switch w.Kind {
	case Mean:
		return fmt.Sprintf("mean:%d", w.Len)
	case Max:
		return fmt.Sprintf("max:%d", w.Len)
	case EWMA:
		return "ewma:" + strconv.FormatFloat(w.Alpha, 'g', -1, 64)
	}
	return "none"
}

// Series is a stream under a window. It keeps 8 bytes a value, so that every
// rewind is exact. It is not safe for concurrent use.
type Series struct {
	w      Window
	values []float64 // as pushed; for EWMA the averages
}

// NewSeries starts an empty stream. The window must have come from Parse.
func NewSeries(w Window) *Series { return &Series{w: w} }

// Len is the number of values that were pushed and not taken back.
func (s *Series) Len() int { return len(s.values) }

// Push appends a value and returns the smoothed one. It costs up to the
// window's length; nothing is carried along that rounding could pile up in.
func (s *Series) Push(x float64) float64 {
	if s.w.Kind == EWMA {
		if n := len(s.values); n > 0 {
			x = s.values[n-1] + s.w.Alpha*(x-s.values[n-1])
		}
		s.values = append(s.values, x)
		return x
	}
	s.values = append(s.values, x)
	if s.w.Kind == None {
		return x
	}
	last := s.values[max(0, len(s.values)-s.w.Len):]
	sum := 0.0
	for _, v := range last {
		sum += v
		x = max(x, v)
	}
	if s.w.Kind == Max {
		return x
	}
	return sum / float64(len(last))
}

// Rewind takes the last n values back.
func (s *Series) Rewind(n int) error {
	if n < 0 || n > len(s.values) {
		return fmt.Errorf("rewind by %d of %d values", n, len(s.values))
	}
	s.values = s.values[:len(s.values)-n]
	return nil
}
