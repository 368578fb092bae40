package steer

import (
	"fmt"
	"math"
)

// ScheduleKind is the shape of a [Schedule].
type ScheduleKind uint8

const (
	// Constant is the dose as it is, on every row.
	Constant ScheduleKind = iota
	// Decay falls or rises exponentially from Start towards End and has half
	// of the way behind it every Over rows: End + (Start-End)*2^(-t/Over).
	Decay
	// Ramp goes in a straight line from Start at t = 0 to End at t = Over and
	// stays there.
	Ramp
)

var scheduleNames = [...]string{Constant: "constant", Decay: "decay", Ramp: "ramp"}

func (k ScheduleKind) String() string {
	if k.Known() {
		return scheduleNames[k]
	}
	return fmt.Sprintf("schedule(%d)", uint8(k))
}

// Known reports whether this version of the package defines the shape.
func (k ScheduleKind) Known() bool { return int(k) < len(scheduleNames) }

// MaxScheduleRows bounds Schedule.Over.
const MaxScheduleRows = 1 << 20

// Schedule is a factor on the dose that depends on nothing but how many tokens
// of the answer came before the row, t = Row.Offset. Rows of the prompt have
// t = 0. The zero value is constant.
type Schedule struct {
	Kind       ScheduleKind
	Start, End float32 // factors on the dose; 0 for Constant
	Over       int     // rows, 1 to MaxScheduleRows; 0 for Constant
}

// At is the factor for a row that stands offset rows after the prompt's end.
func (s *Schedule) At(offset int) float32 {
	t := float64(max(offset, 0))
	start, end := float64(s.Start), float64(s.End)
	switch s.Kind {
	case Decay:
		return float32(end + (start-end)*math.Exp2(-t/float64(s.Over)))
	case Ramp:
		return float32(start + (end-start)*min(t/float64(s.Over), 1))
	}
	return 1
}

func (s *Schedule) faults() (faults []error) {
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	switch {
	case !s.Kind.Known():
		fault("unknown schedule %d", uint8(s.Kind))
		return faults
	case s.Kind == Constant:
		if *s != (Schedule{}) {
			fault("a constant schedule has no start, end or length")
		}
		return faults
	}
	if !finite(s.Start) || !finite(s.End) {
		fault("%s goes from %v to %v", s.Kind, s.Start, s.End)
	} else if s.Start == 0 && s.End == 0 {
		fault("%s goes from 0 to 0, the plan would do nothing", s.Kind)
	}
	if s.Over < 1 || s.Over > MaxScheduleRows {
		fault("%s over %d rows, want 1 to %d", s.Kind, s.Over, MaxScheduleRows)
	}
	return faults
}

// peak is the largest factor, without its sign.
func (s *Schedule) peak() float64 {
	if s.Kind == Constant {
		return 1
	}
	return max(math.Abs(float64(s.Start)), math.Abs(float64(s.End)))
}
