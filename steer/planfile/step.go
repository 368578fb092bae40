package planfile

import (
	"errors"
	"fmt"

	"github.com/trimtab/trimtab/steer"
)

// intervention fills iv with what the step says. Values are judged by
// steer.NewPlan; here, only what it cannot see.
func (s *step) intervention(iv *steer.Intervention) error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	op, err := named("op", s.Op, steer.Add)
	if err != nil {
		faults = append(faults, err)
	} else if err := s.useless(op); err != nil {
		faults = append(faults, err)
	}
	*iv = steer.Intervention{Op: op, Vector: s.Vector, Toward: s.Toward, Renorm: s.Renorm, Group: int(s.Group)}
	if err := place(s.Layer, s.Point, &iv.Site); err != nil {
		faults = append(faults, err)
	}
	if s.Scale == nil {
		fault("scale is missing")
	} else {
		iv.Scale = *s.Scale
	}
	switch {
	case err != nil:
	case op == steer.Clamp && (s.Min == nil || s.Max == nil):
		fault("clamp needs min and max")
	case op == steer.Clamp:
		iv.Min, iv.Max = *s.Min, *s.Max
	case op == steer.Replace && s.Value == nil:
		fault("replace needs a value")
	case op == steer.Replace:
		iv.Value = *s.Value
	}
	if m := s.Map; m != nil {
		iv.Map = &steer.LowRank{Rank: int(m.Rank), Down: m.Down, Up: m.Up}
	}
	if a := s.Ascent; a != nil {
		var err error
		if iv.Ascent, err = a.ascent(); err != nil {
			fault("ascent: %w", err)
		}
	}
	faults = append(faults, s.conditions(iv)...)
	return errors.Join(faults...)
}

// conditions fills in what decides on rows and doses.
func (s *step) conditions(iv *steer.Intervention) (faults []error) {
	if w := s.When; w != nil {
		iv.When = steer.When{From: w.From.ptr(), To: w.To.ptr()}
		for _, t := range w.Tokens {
			if t != whole(int32(t)) {
				faults = append(faults, fmt.Errorf("token %d is out of range", t))
			}
			iv.When.Tokens = append(iv.When.Tokens, int32(t))
		}
		for _, name := range w.Phases {
			phase, ok := steer.PhaseNamed(name)
			if !ok {
				faults = append(faults, fmt.Errorf("unknown phase %q", name))
			}
			iv.When.Phases |= phase
		}
	}
	if c := s.Schedule; c != nil {
		kind, err := named("schedule", c.Kind, steer.Constant)
		if err != nil {
			faults = append(faults, err)
		}
		iv.Schedule = steer.Schedule{Kind: kind, Start: c.Start, End: c.End, Over: int(c.Over)}
	}
	if g := s.Gate; g != nil {
		kind, err := named("gate", g.Kind, steer.Cosine)
		if err != nil {
			faults = append(faults, err)
		}
		iv.Gate = &steer.Gate{Kind: kind, Vector: g.Vector, Bias: g.Bias, Below: g.Below}
		if err := place(g.Layer, g.Point, &iv.Gate.Site); err != nil {
			faults = append(faults, fmt.Errorf("gate: %w", err))
		}
		if g.Threshold == nil {
			faults = append(faults, errors.New("gate: threshold is missing"))
		} else {
			iv.Gate.Threshold = *g.Threshold
		}
	}
	return faults
}

func place(layer *whole, point string, site *steer.Site) error {
	if layer == nil {
		return errors.New("layer is missing")
	}
	if point != "" && point != steer.ResidPost.String() {
		return fmt.Errorf("unknown point %q, want %q", point, steer.ResidPost)
	}
	*site = steer.Site{Layer: int(*layer)}
	return nil
}

// named finds the constant of an enumeration, which starts at first, by its
// name.
func named[T interface {
	~uint8
	Known() bool
	String() string
}](what, name string, first T) (T, error) {
	for v := first; v.Known(); v++ {
		if v.String() == name {
			return v, nil
		}
	}
	if name == "" {
		return first, fmt.Errorf("%s is missing", what)
	}
	return first, fmt.Errorf("unknown %s %q", what, name)
}
