package decode

import (
	"math/rand/v2"
	"slices"
	"testing"
)

const small = 60

// TestRewindIsExact: after any walk of accepts and rewinds every processor edits
// rows exactly as a fresh one that saw only the tokens kept.
func TestRewindIsExact(t *testing.T) {
	seeds(t, 60, func(t *testing.T, r *rand.Rand) {
		dose := r.Uint64()
		walked := everything(NewRand(dose), small)
		kept := wander(t, r, walked)
		fresh := everything(NewRand(dose), small)
		for i := range fresh {
			for _, tok := range kept {
				must(0, fresh[i].Accept(tok))
			}
			for range 3 {
				row := randomRow(r, small)
				a, b := slices.Clone(row), slices.Clone(row)
				must(0, walked[i].Process(t.Context(), a))
				must(0, fresh[i].Process(t.Context(), b))
				if !sameBits(a, b) {
					t.Errorf("%T after a walk to %d tokens differs from a fresh run", fresh[i], len(kept))
				}
			}
		}
	})
}

// wander accepts and rewinds at random, with a Process now and then, which must
// not change state, and returns the tokens kept.
func wander(t *testing.T, r *rand.Rand, ps []Processor) (kept []Token) {
	alphabet := 2 + r.IntN(small-2)
	for range 300 {
		n, tok := 0, Token(r.IntN(alphabet))
		if r.IntN(3) == 0 {
			n = r.IntN(1 + min(len(kept), 1<<r.IntN(8)))
		}
		for _, p := range ps {
			if n > 0 {
				must(0, p.Rewind(n))
			} else {
				must(0, p.Accept(tok))
			}
			if r.IntN(10) == 0 {
				must(0, p.Process(t.Context(), randomRow(r, small)))
			}
		}
		if kept = kept[:len(kept)-n]; n == 0 {
			kept = append(kept, tok)
		}
	}
	return kept
}

// TestHistoryDropsAndStaysExact walks past the limit, where old tokens go.
func TestHistoryDropsAndStaysExact(t *testing.T) {
	const window = 50
	r := NewRand(7)
	p := must(NewPenalties(PenaltyOptions{LastN: window, Repeat: 1.5, Frequency: 0.3}))
	var all []Token
	most := 0
	for range 3*(window+RewindLimit) + 11 {
		tok := Token(r.IntN(small))
		must(0, p.Accept(tok))
		all = append(all, tok)
		most = max(most, len(p.past.toks))
	}
	if limit := 2 * (window + RewindLimit); most > limit {
		t.Errorf("held %d tokens, the documented bound is %d", most, limit)
	}
	for _, n := range []int{1, window, 3 * window, RewindLimit - 4*window - 1} {
		must(0, p.Rewind(n))
		all = all[:len(all)-n]
		compareWithFresh(t, p, all, window)
	}
	for _, n := range []int{2 * RewindLimit, len(p.past.toks) - window + 1} {
		if p.Rewind(n) == nil {
			t.Errorf("rewound %d tokens into a window that was dropped", n)
		}
	}
	compareWithFresh(t, p, all, window)
}

func compareWithFresh(t *testing.T, p *Penalties, all []Token, window int) {
	t.Helper()
	fresh := must(NewPenalties(PenaltyOptions{LastN: window, Repeat: 1.5, Frequency: 0.3, Prompt: all}))
	if !slices.Equal(p.counts, fresh.counts) {
		t.Fatalf("counts %v, want %v", p.counts, fresh.counts)
	}
}

func TestRewindTooFar(t *testing.T) {
	prompt := []Token{1, 2, 3, 4}
	for _, p := range []Processor{
		must(NewPenalties(PenaltyOptions{LastN: 3, Repeat: 2, Prompt: prompt})),
		must(NewDRY(DRYOptions{LastN: 3, Prompt: prompt})),
		must(NewMinTokens(3, nil)), must(NewXTC(1, 0.1, 1)), must(NewChain()),
	} {
		must(0, p.Accept(5))
		must(0, p.Accept(6))
		if p.Rewind(3) == nil || p.Rewind(-1) == nil || p.Accept(-1) == nil {
			t.Errorf("%T accepted an impossible step", p)
		}
		must(0, p.Rewind(2))
		if p.Rewind(1) == nil {
			t.Errorf("%T rewound into its prompt", p)
		}
	}
}

// TestChainEqualsItsStages: with and without the shared list, the same bits.
func TestChainEqualsItsStages(t *testing.T) {
	seeds(t, 400, func(t *testing.T, r *rand.Rand) {
		n := 5 + r.IntN(600)
		dose := r.Uint64()
		alone, chained := everything(NewRand(dose), n), everything(NewRand(dose), n)
		order := r.Perm(len(alone))[:1+r.IntN(len(alone))]
		var list []Processor
		for _, i := range order {
			list = append(list, chained[i])
			if r.IntN(4) == 0 {
				list = append(list, foreign{})
			}
		}
		c := must(NewChain(list[:len(list)/2]...)) // nested: a chain is a stage as well
		outer := must(NewChain(append([]Processor{c}, list[len(list)/2:]...)...))
		for range 4 {
			row := randomRow(r, n)
			a, b := slices.Clone(row), slices.Clone(row)
			for _, i := range order {
				must(0, alone[i].Process(t.Context(), a))
			}
			must(0, outer.Process(t.Context(), b))
			if !sameBits(a, b) {
				t.Fatalf("stages %v on %d tokens: alone %v, in a chain %v", order, n, allowed(a), allowed(b))
			}
			tok := Token(r.IntN(n))
			must(0, outer.Accept(tok))
			for _, p := range alone {
				must(0, p.Accept(tok))
			}
		}
	})
}

// TestForeignStageMayAllowAgain: a chain forgets its list at a processor that
// it does not know.
func TestForeignStageMayAllowAgain(t *testing.T) {
	c := must(NewChain(NewTopK(1), raise{2}, NewTopK(1)))
	l := Logits{5, 4, 3, 2}
	must(0, c.Process(t.Context(), l))
	if got := allowed(l); !slices.Equal(got, []Token{2}) {
		t.Errorf("kept %v, want [2]", got)
	}
}
