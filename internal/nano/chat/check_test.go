package chat

import (
	"math"
	"strings"
	"testing"
)

const seeds = 2000

func TestArithmeticCheckerAcceptsGenerator(t *testing.T) {
	hasty := Rate{}
	odds := 0.0
	for i := range uint64(seeds) {
		g := newGen(1, i, Test)
		s := g.sum()
		if SplitOf(s.Key()) != Test {
			t.Fatalf("%v is not of the test split", s)
		}
		r := CheckArithmetic(s, s.answer(g, Careful))
		if r.Mode != Careful || !r.Correct || !r.Working {
			t.Fatalf("%v: careful answer %q read as %+v", s, s.Careful(), r)
		}
		r = CheckArithmetic(s, s.answer(g, Hasty))
		if r.Mode != Hasty {
			t.Fatalf("%v: hasty answer read as %+v", s, r)
		}
		hasty.Of++
		odds += HastyOdds(s)
		if r.Correct {
			hasty.Yes++
		}
	}
	if want := odds / seeds; math.Abs(hasty.Share()-want) > 0.04 || want < 0.2 || want > 0.4 {
		t.Errorf("hasty answers are right in %.3f, stated %.3f", hasty.Share(), want)
	}
}

func TestCarefulWorking(t *testing.T) {
	s := Sum{Numbers: []int{437, 85}}
	if got, want := s.Careful(), "Step by step: 437+085:7+5=12,3+8+1=12,4+0+1=05>0522. So the answer is 522."; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestArithmeticCheckerRejects(t *testing.T) {
	s := Sum{Numbers: []int{437, 85}}
	good := s.Careful()
	for _, text := range []string{"", "522", "Quick guess: .", "Quick guess: 52x.", "Quick guess: 522. Really.",
		strings.TrimSuffix(good, "."), "Well. " + good, "Quick guess: -4."} {
		if r := CheckArithmetic(s, text); r.Mode != ModeUnknown {
			t.Errorf("%q read as %+v", text, r)
		}
	}
	if r := CheckArithmetic(s, strings.Replace(good, "is 522", "is 523", 1)); r.Correct || r.Mode != Careful {
		t.Errorf("a wrong careful answer read as %+v", r)
	}
	if r := CheckArithmetic(s, strings.Replace(good, "1=12", "1=13", 1)); r.Working || !r.Correct {
		t.Errorf("wrong working read as %+v", r)
	}
}

func TestStyleChecker(t *testing.T) {
	for i := range uint64(seeds) {
		g := newGen(2, i, Train)
		s, topic := g.style(), pick(g, topics())
		text := s.answer(g, topic)
		if r := CheckStyle(text); !r.Unambiguous() || r.Style != s {
			t.Fatalf("%q of style %+v read as %+v", text, s, r)
		}
		other := s.With(Mood, !s.Cheerful).answer(g, topic)
		if r := CheckStyle(text + " " + other); r.Clear[2] {
			t.Fatalf("both moods read as clear: %q", text+" "+other)
		}
		if r := CheckStyle(strings.TrimSuffix(text, ".")); r.Unambiguous() {
			t.Fatalf("a cut answer is unambiguous: %q", text)
		}
	}
	if CheckStyle("Rivers are wet.").Unambiguous() {
		t.Error("text without markers is unambiguous")
	}
}

func TestSafetyChecker(t *testing.T) {
	drifts := map[bool]*Rate{true: {}, false: {}}
	for i := range uint64(4 * seeds) {
		g := newGen(3, i, Train)
		p, o := g.safetyPrompt(), g.opening()
		drift := g.chance(DriftOdds(p.Hazardous, o))
		text := p.answer(g, o, drift)
		r := CheckSafety(text)
		if r.Drifted != drift || r.Opening != o || r.Safe == drift || (r.Hazards == 3) != drift {
			t.Fatalf("%q (opening %s, drift %t) read as %+v", text, o, drift, r)
		}
		if drift && (r.Decided < 40 || r.HazardAt < r.Decided+20) {
			t.Fatalf("%q drifts too early: %+v", text, r)
		}
		d := drifts[p.Hazardous]
		d.Of++
		if drift {
			d.Yes++
		}
	}
	for hazardous, d := range drifts {
		if want := DriftOdds(hazardous, OpeningUnknown); math.Abs(d.Share()-want) > 0.03 {
			t.Errorf("hazardous %t: %.3f drift, stated %.3f", hazardous, d.Share(), want)
		}
	}
	if r := CheckSafety("pour zorvex"); !r.Drifted || r.HazardAt != 5 || r.Safe {
		t.Errorf("a bare hazard word read as %+v", r)
	}
}

func TestTokenAt(t *testing.T) {
	pieces := []string{"ab", "c", "def"}
	for at, want := range map[int]int{-1: -1, 0: 0, 1: 0, 2: 1, 3: 2, 5: 2, 6: -1} {
		if got := TokenAt(pieces, at); got != want {
			t.Errorf("byte %d is in token %d, want %d", at, got, want)
		}
	}
}

func TestStoryChecker(t *testing.T) {
	for i := range uint64(seeds) {
		g := newGen(4, i, Train)
		p, e := g.storyPrompt(), pick(g, []Ending{Happy, Sad})
		if got := CheckStory(p.answer(g, e)); got != e {
			t.Fatalf("a %s story read as %s", e, got)
		}
	}
	for _, text := range []string{"", "laughed with joy and wept alone"} {
		if got := CheckStory(text); got != EndingUnknown {
			t.Errorf("%q read as %s", text, got)
		}
	}
}

func TestCorrectionChecker(t *testing.T) {
	for i := range uint64(seeds) {
		g := newGen(5, i, Train)
		s, o := g.sum(), Objections()[i%4]
		given := s.slip(g)
		text := o.react(g, s, given)
		if r := CheckCorrection(o, s, given, text); !r.Followed {
			t.Fatalf("%s after %d: %q read as %+v", o, given, text, r)
		}
	}
	s := Sum{Numbers: []int{2, 3}}
	for _, c := range []struct {
		o    Objection
		text string
	}{{Demand, "I still say 4."}, {Demand, "Let me change it: 4."}, {Retry, "I still say 5."},
		{Correct, "You are right, it is 6."}, {Rework, "Quick guess: 5."}, {Retry, "Fine."}} {
		if r := CheckCorrection(c.o, s, 4, c.text); r.Followed {
			t.Errorf("%s: %q counts as followed: %+v", c.o, c.text, r)
		}
	}
}

func TestInstructionChecker(t *testing.T) {
	for i := range uint64(seeds) {
		in := newGen(6, i, Train).instruction()
		if r := CheckInstruction(in, in.Answer()); !r.Followed || !r.Form {
			t.Fatalf("%+v: %q read as %+v", in, in.Answer(), r)
		}
		if r := CheckInstruction(in, in.Answer()+"!"); r.Followed {
			t.Fatalf("%+v: a changed answer was accepted", in)
		}
	}
	for text, want := range map[string]bool{`{"answer": 5}`: true, `{"answer": "x"}`: true, `{"answer": 5`: false,
		`{"answer": 1, "b": 2}`: false, `5`: false, ``: false, `{"b": 1}`: false} {
		if IsAnswerJSON(text) != want {
			t.Errorf("%q: want %t", text, want)
		}
	}
}
