package chat

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// conversations generates the first n training conversations.
func conversations(n uint64) []Conversation {
	out := make([]Conversation, n)
	for i := range out {
		out[i] = Generate(11, uint64(i), Train)
	}
	return out
}

func TestGenerateIsDeterministic(t *testing.T) {
	var a, b bytes.Buffer
	if err := Write(&a, 3, 0, 500); err != nil {
		t.Fatal(err)
	}
	if err := Write(&b, 3, 0, 500); err != nil {
		t.Fatal(err)
	}
	if a.String() != b.String() {
		t.Error("the same seed gave two corpora")
	}
	b.Reset()
	if err := Write(&b, 4, 0, 500); err != nil {
		t.Fatal(err)
	}
	if a.String() == b.String() {
		t.Error("two seeds gave the same corpus")
	}
}

func TestConversationsAlternate(t *testing.T) {
	for _, c := range conversations(3000) {
		ms := c.Messages
		if ms[0].Role == System {
			ms = ms[1:]
		}
		if len(ms)%2 != 0 {
			t.Fatalf("odd count of turns: %v", c)
		}
		for i, m := range ms {
			if want := []Role{User, Assistant}[i%2]; m.Role != want || m.Content == "" {
				t.Fatalf("turn %d is %q, want a %s turn: %v", i, m.Role, want, c)
			}
		}
	}
}

func TestMixtureSumsToOne(t *testing.T) {
	sum := 0.0
	for _, s := range mixture() {
		sum += s.part
	}
	if sum < 0.999 || sum > 1.001 {
		t.Errorf("parts sum to %v", sum)
	}
}

// TestHeldOutCombinations draws every kind of probe of the test split and looks
// for its question in a training corpus.
func TestHeldOutCombinations(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range conversations(20000) {
		for _, m := range c.Messages {
			if m.Role == User {
				seen[strings.ToLower(m.Content)] = true
			}
		}
	}
	for _, kind := range []Kind{KindArithmetic, KindStyle, KindHazardous, KindBenign, KindStory, KindInstruction} {
		for _, split := range []Split{Test, Validation} {
			probes, err := Probes(kind, split, 5, 50)
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range probes {
				if q := p.Messages[len(p.Messages)-1].Content; seen[strings.ToLower(q)] {
					t.Errorf("%s: %q of the %s split is in the training corpus", kind, q, split)
				}
			}
		}
	}
}

func TestSplitShares(t *testing.T) {
	counts := map[Split]int{}
	for a := range 100 {
		for b := range 100 {
			counts[SplitOf(Sum{Numbers: []int{a, b + 100}}.Key())]++
		}
	}
	for split, want := range map[Split]int{Train: 8000, Validation: 1000, Test: 1000} {
		if got := counts[split]; got < want*9/10 || got > want*11/10 {
			t.Errorf("%s holds %d of 10000 combinations, want about %d", split, got, want)
		}
	}
	if SplitOf(Sum{Numbers: []int{3, 8}}.Key()) != SplitOf(Sum{Numbers: []int{8, 3}}.Key()) {
		t.Error("the order of the numbers decides about their split")
	}
}

func TestProbesAreDeterministic(t *testing.T) {
	for _, kind := range Kinds() {
		a, err := Probes(kind, Test, 9, 20)
		if err != nil {
			t.Fatal(err)
		}
		b, _ := Probes(kind, Test, 9, 20)
		if d := cmp.Diff(a, b); d != "" {
			t.Errorf("%s: %s", kind, d)
		}
	}
	if _, err := Probes("nonsense", Test, 9, 1); err == nil {
		t.Error("an unknown kind was accepted")
	}
}
