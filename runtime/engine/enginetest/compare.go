package enginetest

import (
	"errors"
	"math"
	"slices"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/runtime/engine"
	"github.com/trimtab/trimtab/steer"
)

// logits returns a copy of the sequence's logits, which must hold some rows.
func (s *suite) logits(seq engine.Sequence, rows int) decode.Logits {
	s.Helper()
	l := seq.Logits()
	if len(l) != rows*s.info.Vocab {
		s.Fatalf("%d logits, want %d rows of %d", len(l), rows, s.info.Vocab)
	}
	for i, x := range l {
		if x != x {
			s.Fatalf("logit %d of row %d is NaN", i%s.info.Vocab, i/s.info.Vocab)
		}
	}
	return slices.Clone(l)
}

// activation returns a copy of a captured residual, which must hold some rows.
func (s *suite) activation(seq engine.Sequence, site steer.Site, rows int) []float32 {
	s.Helper()
	a, err := seq.Activation(site)
	if err != nil {
		s.Fatalf("activation: %v", err)
	}
	if len(a) != rows*s.info.Width {
		s.Fatalf("activation at %s has %d values, want %d rows of %d", site, len(a), rows, s.info.Width)
	}
	for _, x := range a {
		if x != x {
			s.Fatalf("activation at %s holds NaN", site)
		}
	}
	return slices.Clone(a)
}

// near checks logits within the tolerance, and that the greedy tokens agree.
func (s *suite) near(what string, got, want decode.Logits) {
	s.Helper()
	if len(got) != len(want) || len(want) == 0 {
		s.Fatalf("%s: %d logits, want %d", what, len(got), len(want))
	}
	worst := 0.0
	for i := range want {
		worst = max(worst, math.Abs(float64(got[i])-float64(want[i])))
	}
	if worst > s.o.Tolerance {
		s.Fatalf("%s: logits differ by %.3g, at most %.3g is allowed", what, worst, s.o.Tolerance)
	}
	for at := 0; at < len(want); at += s.info.Vocab {
		g, w := top(got[at:at+s.info.Vocab]), top(want[at:at+s.info.Vocab])
		if g != w && float64(want[at+w]-want[at+g]) > s.o.Tolerance {
			s.Fatalf("%s: the greedy token is %d, want %d", what, g, w)
		}
	}
}

func top(l []float32) int { return slices.Index(l, slices.Max(l)) }

// same checks for equal bits.
func (s *suite) same(what string, got, want []float32) {
	s.Helper()
	if len(got) != len(want) || len(want) == 0 {
		s.Fatalf("%s: %d values, want %d", what, len(got), len(want))
	}
	for i := range want {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
			s.Fatalf("%s: value %d is %v, want exactly %v", what, i, got[i], want[i])
		}
	}
}

func equalBits(a, b []float32) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool { return math.Float32bits(x) == math.Float32bits(y) })
}

// refused checks that err is there and wraps want, if want is not nil.
func (s *suite) refused(what string, err, want error) {
	s.Helper()
	if err == nil {
		s.Errorf("%s: no error", what)
	} else if want != nil && !errors.Is(err, want) {
		s.Errorf("%s: %v does not wrap %q", what, err, want)
	}
}

// greedy is the token a row says comes next.
func greedy(row decode.Logits) decode.Token { return decode.Token(top(row)) }
