package decode

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestTokenSetIsASet compares with a map after random operations.
func TestTokenSetIsASet(t *testing.T) {
	seeds(t, 200, func(t *testing.T, r *rand.Rand) {
		n := r.IntN(300)
		s := must(NewTokenSet(n))
		want := map[Token]bool{}
		for range 200 {
			tok := Token(r.IntN(310) - 5)
			in := tok >= 0 && int(tok) < n
			switch r.IntN(5) {
			case 0:
				s.Remove(tok)
				delete(want, tok)
			case 1:
				if r.IntN(40) == 0 {
					s.Invert()
					for i := range Token(n) {
						want[i] = !want[i]
					}
				}
			default:
				if err := s.Add(tok); (err == nil) != in {
					t.Fatalf("add %d of %d: %v", tok, n, err)
				}
				if in {
					want[tok] = true
				}
			}
			if s.Has(tok) != want[tok] {
				t.Fatalf("has %d: %v", tok, s.Has(tok))
			}
		}
		var list []Token
		for i := range Token(n) {
			if want[i] {
				list = append(list, i)
			}
		}
		if got := slices.Collect(s.All()); !slices.Equal(got, list) || s.Len() != len(list) {
			t.Errorf("tokens %v, want %v", got, list)
		}
		checkMasks(t, r, s, want)
	})
}

func checkMasks(t *testing.T, r *rand.Rand, s *TokenSet, want map[Token]bool) {
	row := randomRow(r, s.Vocab())
	in, out := slices.Clone(row), slices.Clone(row)
	must(0, s.Restrict(in))
	must(0, s.Ban(out))
	for i, x := range row {
		a, b := x, negInf
		if !want[Token(i)] {
			a, b = b, a
		}
		if in[i] != a || out[i] != b {
			t.Errorf("token %d: restrict %v, ban %v", i, in[i], out[i])
		}
	}
	if s.Restrict(make(Logits, s.Vocab()+1)) == nil {
		t.Error("a row of another width was accepted")
	}
}

func TestTokenSetAlgebra(t *testing.T) {
	a, b := must(NewTokenSet(100, 1, 2, 70)), must(NewTokenSet(100, 2, 3, 70, 99))
	c := a.Clone()
	must(0, c.Union(b))
	if got := slices.Collect(c.All()); !slices.Equal(got, []Token{1, 2, 3, 70, 99}) {
		t.Error("union", got)
	}
	must(0, c.Intersect(must(NewTokenSet(100, 3, 99))))
	if !c.Equal(must(NewTokenSet(100, 99, 3))) || c.Equal(must(NewTokenSet(101, 99, 3))) {
		t.Error("intersection", slices.Collect(c.All()))
	}
	if c.Union(must(NewTokenSet(99))) == nil {
		t.Error("sets of two vocabularies were joined")
	}
	c.Clear()
	if c.Len() != 0 || a.Len() != 3 {
		t.Error("clear reached a copy")
	}
	for tok := range a.All() {
		if tok != 1 {
			t.Error("first token", tok)
		}
		break
	}
}

func TestMasks(t *testing.T) {
	ends := must(NewMinTokens(2, []Token{0, 2}))
	for step, want := range [][]Token{{1, 3}, {1, 3}, {0, 1, 2, 3}} {
		l := Logits{1, 1, 1, 1}
		must(0, ends.Process(t.Context(), l))
		if got := allowed(l); !slices.Equal(got, want) {
			t.Errorf("step %d: %v, want %v", step, got, want)
		}
		must(0, ends.Accept(1))
	}
	bias := must(NewBias(map[Token]float32{0: 2, 1: negInf, 2: -MaxBias, 3: 1}))
	l := Logits{1, 1, -3.4e38, negInf}
	must(0, bias.Process(t.Context(), l))
	if !slices.Equal(l, Logits{3, negInf, -3.4e38, negInf}) {
		t.Errorf("bias: %v", l)
	}
	for _, p := range []Processor{bias, NewAllow(must(NewTokenSet(3))), NewBan(must(NewTokenSet(3))), must(NewMinTokens(1, []Token{9}))} {
		if p.Process(t.Context(), Logits{1}) == nil {
			t.Errorf("%T accepted a row that is too narrow", p)
		}
	}
}
