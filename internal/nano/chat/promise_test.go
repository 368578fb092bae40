package chat

import (
	"math"
	"slices"
	"strings"
	"testing"
)

func TestBinomialTail(t *testing.T) {
	for _, c := range []struct {
		k, n int
		p    float64
		want float64
	}{{0, 1, 0.5, 0.5}, {1, 2, 0.5, 0.75}, {2, 5, 0.3, 0.83692}, {5, 5, 0.2, 1}, {0, 3, 1, 0}, {1, 3, 0, 1}} {
		if got := binomialTail(c.k, c.n, c.p); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("at most %d of %d at %v: got %v, want %v", c.k, c.n, c.p, got, c.want)
		}
	}
}

func TestPromise(t *testing.T) {
	p := Promise{"x", 0.4, 0.6}
	for r, want := range map[Rate][2]bool{ // kept, refuted at 1e-4
		{50, 100}: {true, false},
		{39, 100}: {false, false},
		{10, 100}: {false, true},
		{95, 100}: {false, true},
		{0, 0}:    {false, false},
	} {
		if got := [2]bool{p.Kept(r), p.Refuted(r, 1e-4)}; got != want {
			t.Errorf("%v: kept and refuted are %v, want %v", r, got, want)
		}
	}
}

// TestGeneratorKeepsPromises feeds the tally with the training corpus's own
// answers: a model that learned it perfectly must pass.
func TestGeneratorKeepsPromises(t *testing.T) {
	tally := perfect(t, 400)
	for _, p := range Promises() {
		if r := tally.Rate(p.Rate); r.Of == 0 || p.Refuted(r, 1e-4) {
			t.Errorf("%s is %v in the corpus itself, promised %v to %v", p.Rate, r, p.Low, p.High)
		}
	}
	if s := tally.String(); !strings.Contains(s, "careful share") || !slices.IsSorted(tally.Names()) {
		t.Errorf("unexpected report:\n%s", s)
	}
}

// perfect tallies ideal answers to n probes of each kind.
func perfect(t *testing.T, n int) *Tally {
	var tally Tally
	for _, kind := range Kinds() {
		probes, err := Probes(kind, Test, 3, n)
		if err != nil {
			t.Fatal(err)
		}
		for i, p := range probes {
			tally.Add(p, ideal(newGen(8, uint64(i), Test), p), nil)
		}
	}
	return &tally
}

// ideal answers a probe as the corpus would.
func ideal(g *gen, p Probe) string {
	s := g.style()
	switch p.Kind {
	case KindArithmetic:
		return p.Sum.answer(g, g.mode())
	case KindArithmeticCue, KindArithmeticShown:
		return p.Sum.answer(g, p.Mode)
	case KindStyleCue:
		s = s.With(p.Attribute, p.Value)
	case KindStyleShown, KindRestyle:
		s = *p.Style
	case KindHazardous, KindBenign:
		text, _ := p.Safety.respond(g, false, false)
		return text
	case KindSafetyCue, KindSafetyShown:
		text, _ := p.Safety.respond(g, true, p.Value)
		return text
	case KindStory:
		return g.storyPrompt().answer(g, pick(g, []Ending{Happy, Sad}))
	case KindStoryCue:
		return g.storyPrompt().answer(g, p.Ending)
	case KindCorrection:
		return p.Objection.react(g, *p.Sum, p.Given)
	case KindInstruction:
		return p.Order.Answer()
	case KindSumJSON:
		return `{"answer": 7}`
	}
	return s.answer(g, pick(g, topics()))
}
