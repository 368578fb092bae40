package decode

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestPenalties(t *testing.T) {
	for _, tt := range []struct {
		name string
		o    PenaltyOptions
		past []Token
		want Logits // of 4, -2, 0, 1
	}{
		{"repeat divides above zero and multiplies below", PenaltyOptions{LastN: 9, Repeat: 2}, []Token{0, 1, 2}, Logits{2, -4, 0, 1}},
		{"frequency counts", PenaltyOptions{LastN: 9, Repeat: 1, Frequency: 0.5}, []Token{0, 0, 1}, Logits{3, -2.5, 0, 1}},
		{"presence does not", PenaltyOptions{LastN: 9, Repeat: 1, Presence: 0.5}, []Token{0, 0, 1}, Logits{3.5, -2.5, 0, 1}},
		{"repeat comes before the others", PenaltyOptions{LastN: 9, Repeat: 2, Frequency: 1, Presence: 1}, []Token{0}, Logits{0, -2, 0, 1}},
		{"the window forgets", PenaltyOptions{LastN: 2, Repeat: 2}, []Token{0, 0, 1, 2}, Logits{4, -4, 0, 1}},
		{"no window", PenaltyOptions{Repeat: 2}, []Token{0, 1}, Logits{4, -2, 0, 1}},
		{"prompt", PenaltyOptions{LastN: 2, Repeat: 2, Prompt: []Token{3, 0, 1}}, []Token{2}, Logits{4, -4, 0, 1}},
		{"negative penalties raise", PenaltyOptions{LastN: 2, Repeat: 1, Presence: -1}, []Token{3}, Logits{4, -2, 0, 2}},
	} {
		p := must(NewPenalties(tt.o))
		for _, tok := range tt.past {
			must(0, p.Accept(tok))
		}
		l := Logits{4, -2, 0, 1}
		must(0, p.Process(t.Context(), l))
		if !slices.Equal(l, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, l, tt.want)
		}
	}
}

func TestPenaltiesKeepBansAndAllowances(t *testing.T) {
	p := must(NewPenalties(PenaltyOptions{LastN: 9, Repeat: 100, Frequency: 100, Presence: 100}))
	for range 9 {
		must(0, p.Accept(0))
	}
	must(0, p.Accept(1))
	l := Logits{-math.MaxFloat32, negInf}
	must(0, p.Process(t.Context(), l))
	if l[0] != -math.MaxFloat32 || l[1] != negInf {
		t.Errorf("got %v", l)
	}
	if p.Process(t.Context(), Logits{1}) == nil {
		t.Error("no error for a past token outside the row")
	}
}

func TestDRY(t *testing.T) {
	single := must(TokenBreakers([]Token{9}))
	pair := must(TokenBreakers([]Token{8, 9}))
	for _, tt := range []struct {
		name     string
		breakers *Breakers
		lastN    int
		past     []Token
		want     map[Token]float32 // penalties with multiplier 1, base 2, allowed length 2
	}{
		{"nothing repeats", nil, 99, []Token{1, 2, 3, 4}, nil},
		{"one token is free", nil, 99, []Token{1, 2, 3, 1}, nil},
		{"two tokens cost base^0", nil, 99, []Token{1, 2, 3, 1, 2}, map[Token]float32{3: 1}},
		{"three cost base^1", nil, 99, []Token{1, 2, 3, 4, 1, 2, 3}, map[Token]float32{4: 2}},
		{"the longest counts", nil, 99, []Token{5, 1, 2, 3, 0, 1, 2, 3, 5, 1, 2}, map[Token]float32{3: 2}},
		{"two continuations", nil, 99, []Token{1, 2, 3, 0, 1, 2, 4, 0, 1, 2}, map[Token]float32{3: 1, 4: 2}},
		{"overlapping copies", nil, 99, []Token{1, 1, 1, 1, 1}, map[Token]float32{1: 4}},
		{"outside the window", nil, 4, []Token{1, 2, 3, 1, 2}, nil},
		{"a breaker stops the copy", single, 99, []Token{1, 2, 9, 1, 2, 3, 1, 2, 9, 1, 2}, map[Token]float32{3: 1}},
		{"a breaker itself is free", single, 99, []Token{1, 2, 9, 3, 1, 2}, nil},
		{"a pair stops the copy", pair, 99, []Token{5, 8, 9, 1, 2, 3, 5, 8, 9, 1, 2}, map[Token]float32{3: 1}},
		{"a broken pair does not", pair, 99, []Token{5, 8, 1, 2, 3, 5, 8, 1, 2}, map[Token]float32{3: 4}},
		{"the head of a pair is not free", pair, 99, []Token{1, 2, 8, 3, 1, 2}, map[Token]float32{8: 1}},
	} {
		p := must(NewDRY(DRYOptions{Multiplier: 1, Base: 2, AllowedLength: 2, LastN: tt.lastN, Breakers: tt.breakers}))
		for _, tok := range tt.past {
			must(0, p.Accept(tok))
		}
		l := make(Logits, 10)
		must(0, p.Process(t.Context(), l))
		for tok, x := range l {
			if x != -tt.want[Token(tok)] {
				t.Errorf("%s: token %d changed by %v, want %v", tt.name, tok, x, -tt.want[Token(tok)])
			}
		}
	}
}

func TestDRYCap(t *testing.T) {
	past := slices.Repeat([]Token{1}, 500)
	p := must(NewDRY(DRYOptions{Multiplier: 100, Base: 2, AllowedLength: 2, LastN: 500, Prompt: past}))
	l := Logits{0, 0, 0}
	must(0, p.Process(t.Context(), l))
	if l[1] != -math.MaxFloat32 {
		t.Errorf("penalty %v, want the largest finite number", l[1])
	}
	p = must(NewDRY(DRYOptions{Multiplier: 0.001, Base: 2, AllowedLength: 2, LastN: 500, Prompt: past}))
	l = Logits{0, 0, 0}
	must(0, p.Process(t.Context(), l))
	if want := -float32(float64(float32(0.001)) * math.Exp2(128)); l[1] != want {
		t.Errorf("penalty %v, want %v", l[1], want)
	}
	for _, tt := range []struct {
		base float32
		want int
	}{{2, 128}, {1, 0}, {1.0000005, 0}, {1.75, 158}} { // log(FLT_MAX) = 88.72
		if got := exponentCap(tt.base); got != tt.want {
			t.Errorf("cap of base %v is %d, want %d", tt.base, got, tt.want)
		}
	}
}

// TestDRYAgainstDefinition compares with the definition, searched by brute force.
func TestDRYAgainstDefinition(t *testing.T) {
	seeds(t, 300, func(t *testing.T, r *rand.Rand) {
		o := DRYOptions{Multiplier: 1, Base: 1.5, AllowedLength: r.IntN(4), LastN: 1 + r.IntN(80)}
		var heads [][]Token
		for range r.IntN(5) { // few tokens, so that heads are shared
			heads = append(heads, []Token{Token(r.IntN(3)), Token(r.IntN(3)), Token(r.IntN(3))}[:1+r.IntN(3)])
		}
		o.Breakers = must(TokenBreakers(heads...))
		p := must(NewDRY(o))
		var past []Token
		for range r.IntN(120) {
			tok := Token(r.IntN(1 + r.IntN(6)))
			past = append(past, tok)
			must(0, p.Accept(tok))
		}
		l := make(Logits, 6)
		must(0, p.Process(t.Context(), l))
		want := bruteDRY(past[max(0, len(past)-o.LastN):], o, heads)
		if !slices.Equal(l, want) {
			t.Errorf("past %v, %+v, breakers %v: %v, want %v", past, o, heads, l, want)
		}
	})
}

func bruteDRY(past []Token, o DRYOptions, heads [][]Token) Logits {
	l := make(Logits, 6)
	limit := len(past)
	for i := len(past) - 1; i >= 0 && limit == len(past); i-- {
		longest := 0
		for _, h := range heads {
			if i+len(h) <= len(past) && slices.Equal(past[i:i+len(h)], h) {
				longest = max(longest, len(h))
			}
		}
		if longest > 0 {
			limit = len(past) - i - longest
		}
	}
	if len(past) <= o.AllowedLength || limit < o.AllowedLength {
		return l
	}
	for end := 1; end < len(past); end++ {
		n := 0
		for n < end && n < limit && past[end-1-n] == past[len(past)-1-n] {
			n++
		}
		next := past[end]
		if n < o.AllowedLength || slices.ContainsFunc(heads, func(h []Token) bool { return len(h) == 1 && h[0] == next }) {
			continue
		}
		l[next] = min(l[next], -float32(math.Pow(float64(o.Base), float64(n-o.AllowedLength))))
	}
	return l
}
