package decode

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// toy is a vocabulary of the given pieces, encoded greedily.
func toy(pieces ...string) Vocab {
	return Vocab{
		Size:  len(pieces),
		Piece: func(dst []byte, t Token) []byte { return append(dst, pieces[t]...) },
		Encode: func(text string) (ts []Token, err error) {
			for text != "" {
				best := -1
				for i, p := range pieces {
					if p != "" && strings.HasPrefix(text, p) && (best < 0 || len(p) > len(pieces[best])) {
						best = i
					}
				}
				if best < 0 {
					return nil, errors.New("cannot spell " + text)
				}
				ts, text = append(ts, Token(best)), text[len(pieces[best]):]
			}
			return ts, nil
		},
	}
}

func TestNewBreakers(t *testing.T) {
	//         0    1     2    3     4      5    6     7
	v := toy("a", "\n", "x\ny", "", "END", "E", "ND", "xE", "N", "D", "EEN")
	b := must(NewBreakers(v, []string{"\n", "END"}))
	if diff := cmp.Diff(map[Token]bool{1: true, 2: true, 4: true}, b.single); diff != "" {
		t.Errorf("single tokens (-want +got):\n%s", diff)
	}
	want := map[Token][][]Token{5: {{6}}, 7: {{6}}, 10: {{9}}}
	if diff := cmp.Diff(want, b.tails); diff != "" {
		t.Errorf("heads and tails (-want +got):\n%s", diff)
	}
}

func TestBreakersOverlapThemselves(t *testing.T) {
	v := toy("aa", "a", "b", "ba")
	b := must(NewBreakers(v, []string{"aab"}))
	want := map[Token][][]Token{
		0: {{2}, {1, 2}}, // "aa"+"b", and the second a of "aa" as the first: "a"+"b"
		1: {{1, 2}},
		3: {{1, 2}},
	}
	if diff := cmp.Diff(want, b.tails); diff != "" {
		t.Errorf("heads and tails (-want +got):\n%s", diff)
	}
}

func TestNewBreakersFaults(t *testing.T) {
	v := toy("E")
	for name, err := range map[string]error{
		"empty":      second(NewBreakers(v, []string{""})),
		"long":       second(NewBreakers(v, []string{strings.Repeat("x", 41)})),
		"many":       second(NewBreakers(v, strings.Split(strings.Repeat("x,", 65), ","))),
		"unspelled":  second(NewBreakers(v, []string{"END"})),
		"no encoder": second(NewBreakers(Vocab{Size: 3}, []string{"x"})),
		"tokens":     second(TokenBreakers([]Token{1}, []Token{-1, 2})),
	} {
		if err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := NewBreakers(Vocab{}, nil); err != nil {
		t.Errorf("no texts need no vocabulary: %v", err)
	}
}

func TestTheLongestBreakerMatches(t *testing.T) {
	b := must(TokenBreakers([]Token{1, 2, 3}, []Token{1, 2}, []Token{1}, []Token{1, 2, 3, 4, 5}))
	past := []Token{1, 9, 1, 2, 9, 1, 2, 3, 4}
	for i, want := range map[int]int{0: 0, 1: -1, 2: 1, 5: 2, 8: -1} {
		if got := b.match(past, i); got != want {
			t.Errorf("at %d: %d tokens follow, want %d", i, got, want)
		}
	}
}
