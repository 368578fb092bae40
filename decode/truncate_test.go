package decode

import (
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"strings"
	"testing"
)

func TestTruncations(t *testing.T) {
	geometric := ofProbs(0.5, 0.25, 0.125, 0.0625, 0.0625)
	for _, tt := range []struct {
		name string
		p    Processor
		row  Logits
		want []Token
	}{
		{"top-k 2", NewTopK(2), geometric, []Token{0, 1}},
		{"top-k takes the lower of equals", NewTopK(4), geometric, []Token{0, 1, 2, 3}},
		{"top-k 0 keeps all", NewTopK(0), geometric, []Token{0, 1, 2, 3, 4}},
		{"top-k beyond the row", NewTopK(9), geometric, []Token{0, 1, 2, 3, 4}},
		{"top-k treats the zeros as equal", NewTopK(1), Logits{float32(math.Copysign(0, -1)), 0}, []Token{0}},
		{"top-p includes the token that crosses", must(NewTopP(0.7)), geometric, []Token{0, 1}},
		{"top-p is reached by equality", must(NewTopP(0.5)), Logits{0, 0}, []Token{0}},
		{"top-p just above equality", must(NewTopP(0.51)), Logits{0, 0}, []Token{0, 1}},
		{"top-p 0 keeps the best", must(NewTopP(0)), geometric, []Token{0}},
		{"top-p 1 keeps all", must(NewTopP(1)), geometric, []Token{0, 1, 2, 3, 4}},
		{"top-p ignores bans", must(NewTopP(0.9)), Logits{negInf, 0, negInf, 0}, []Token{1, 3}},
		{"min-p quarter", must(NewMinP(0.2)), geometric, []Token{0, 1, 2}},
		{"min-p includes equality", must(NewMinP(1)), Logits{2, 1, 2}, []Token{0, 2}},
		{"min-p 0 keeps all", must(NewMinP(0)), geometric, []Token{0, 1, 2, 3, 4}},
		// Entropy of geometric: 1.2997 nats. Surprises: 0.693, 1.386, 2.079, 2.773.
		{"typical nearest first", must(NewTypical(0.2)), geometric, []Token{1}},
		{"typical then the next", must(NewTypical(0.3)), geometric, []Token{0, 1}},
		{"typical needs more than p", must(NewTypical(0.5)), Logits{0, 0}, []Token{0, 1}},
		{"typical 0 keeps one", must(NewTypical(0)), geometric, []Token{1}},
		// Logits 4, 2, 0: deviation sqrt(8/3) = 1.633.
		{"top-n-sigma 1", must(NewTopNSigma(1)), Logits{4, 2, 0}, []Token{0}},
		{"top-n-sigma 1.3", must(NewTopNSigma(1.3)), Logits{4, 2, 0}, []Token{0, 1}},
		{"top-n-sigma skips bans", must(NewTopNSigma(1.3)), Logits{4, negInf, 2, 0, negInf}, []Token{0, 2}},
		{"top-n-sigma off", must(NewTopNSigma(-1)), Logits{4, 2, 0}, []Token{0, 1, 2}},
		{"xtc keeps the least of the top", must(NewXTC(1, 0.1, 0)), geometric, []Token{2, 3, 4}},
		{"xtc with one at the threshold", must(NewXTC(1, 0.4, 0)), geometric, []Token{0, 1, 2, 3, 4}},
		{"xtc among equals keeps the last", must(NewXTC(1, 0.3, 0)), Logits{1, 1, 1}, []Token{2}},
		{"xtc threshold past a half", must(NewXTC(1, 0.51, 0)), geometric, []Token{0, 1, 2, 3, 4}},
		{"xtc off", must(NewXTC(0, 0.1, 0)), geometric, []Token{0, 1, 2, 3, 4}},
		{"temperature 0 keeps the first best", must(NewTemperature(0)), Logits{1, 3, 3}, []Token{1}},
	} {
		l := slices.Clone(tt.row)
		if err := tt.p.Process(t.Context(), l); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		if got := allowed(l); !slices.Equal(got, tt.want) {
			t.Errorf("%s: kept %v, want %v", tt.name, got, tt.want)
		}
		for _, j := range allowed(l) {
			if l[j] != tt.row[j] {
				t.Errorf("%s: logit of kept token %d is %v, want %v", tt.name, j, l[j], tt.row[j])
			}
		}
	}
}

func TestTemperature(t *testing.T) {
	for _, tt := range []struct {
		t         float32
		row, want Logits
	}{
		{2, Logits{4, -2, negInf}, Logits{2, -1, negInf}},
		{1, Logits{4, -2}, Logits{4, -2}},
		// Plain division would overflow; the shifted row is the same distribution.
		{1e-39, Logits{30, 29, 30}, Logits{0, negInf, 0}},
		{0.1, Logits{-3e38, negInf}, Logits{0, negInf}},
	} {
		l := slices.Clone(tt.row)
		if err := must(NewTemperature(tt.t)).Process(t.Context(), l); err != nil {
			t.Error(err)
		}
		if !slices.Equal(l, tt.want) {
			t.Errorf("temperature %v of %v: %v, want %v", tt.t, tt.row, l, tt.want)
		}
	}
}

// TestAgainstDefinitions compares with the definitions in float64 on rows whose
// decisions are clear: a draw is skipped when a border is closer than rounding.
func TestAgainstDefinitions(t *testing.T) {
	skipped := 0
	seeds(t, 300, func(t *testing.T, r *rand.Rand) {
		row := make(Logits, 2+r.IntN(3000))
		width := 4 * r.Float64() // flat rows need more than the first few ranks
		for i := range row {
			row[i] = float32(r.NormFloat64() * width)
		}
		p := float32(0.05 + 0.9*r.Float64())
		probs, h := softmax64(row), 0.0
		for _, q := range probs {
			h -= q * math.Log(q)
		}
		for _, tt := range []struct {
			p     Processor
			score func(i int) float64 // lowest first
		}{
			{must(NewTopP(p)), func(i int) float64 { return -float64(row[i]) }},
			{must(NewTypical(p)), func(i int) float64 { return math.Abs(-math.Log(probs[i]) - h) }},
		} {
			want, clear := prefixByScore(probs, tt.score, float64(p))
			if !clear {
				skipped++
				continue
			}
			l := slices.Clone(row)
			must(0, tt.p.Process(t.Context(), l))
			if got := allowed(l); !slices.Equal(got, want) {
				t.Errorf("%T %v on %d tokens: %d kept, want %d", tt.p, p, len(row), len(got), len(want))
			}
		}
	})
	if skipped > 300 {
		t.Errorf("%d of 600 comparisons skipped: the test tests little", skipped)
	}
}

// prefixByScore returns the tokens of lowest score that together pass p, in
// ascending order, and whether neither the mass nor the score at the border is
// so close that float32 may decide otherwise.
func prefixByScore(probs []float64, score func(int) float64, p float64) (want []Token, clear bool) {
	order := make([]int, len(probs))
	for i := range order {
		order[i] = i
	}
	sort.SliceStable(order, func(a, b int) bool { return score(order[a]) < score(order[b]) })
	cum := 0.0
	clear = true
	for n, i := range order {
		cum += probs[i]
		want = append(want, Token(i))
		clear = clear && math.Abs(cum-p) > 3e-5
		if cum > p {
			if n+1 < len(order) {
				clear = clear && score(order[n+1])-score(i) > 1e-6
			}
			break
		}
	}
	slices.Sort(want)
	return want, clear
}

// TestBestIsASort compares the selection with a plain sort of all entries.
func TestBestIsASort(t *testing.T) {
	seeds(t, 400, func(t *testing.T, r *rand.Rand) {
		l := randomRow(r, 1+r.IntN(2000))
		switch r.IntN(4) {
		case 0: // the worst order for a running selection
			slices.Sort(l)
		case 1:
			slices.SortFunc(l, func(a, b float32) int { return int(ascending(b)>>1) - int(ascending(a)>>1) })
		}
		k := 1 + r.IntN(len(l)+3)
		want := allowed(l)
		sort.SliceStable(want, func(a, b int) bool { return l[want[a]] > l[want[b]] })
		want = want[:min(k, len(want))]
		var v view
		v.reset(l)
		keys, err := v.best(v.values(), k)
		if err != nil {
			t.Fatal(err)
		}
		got := make([]Token, len(keys))
		for i, key := range keys {
			got[i] = Token(uint32(key))
		}
		if !slices.Equal(got, want) {
			t.Errorf("best %d of %d: %v, want %v", k, len(l), got, want)
		}
	})
}

func TestSelectLowestOnBadInput(t *testing.T) {
	for _, n := range []int{0, 1, 16, 17, 1000} {
		for _, k := range []int{0, 1, n / 2, n} {
			a := make([]uint64, n)
			for i := range a {
				a[i] = uint64(i % 7) // equal keys do not occur, but must not hang
			}
			want := slices.Sorted(slices.Values(a))
			k = min(k, n)
			selectLowest(a, k)
			if got := slices.Sorted(slices.Values(a[:k])); !slices.Equal(got, want[:k]) {
				t.Errorf("%d lowest of %d: %v", k, n, got)
			}
		}
	}
}

func TestNeverAllBanned(t *testing.T) {
	seeds(t, 300, func(t *testing.T, r *rand.Rand) {
		row := randomRow(r, 1+r.IntN(400))
		had := len(allowed(row)) > 0
		for _, p := range truncations(r) {
			l := slices.Clone(row)
			if err := p.Process(t.Context(), l); err != nil {
				t.Errorf("%T: %v", p, err)
			}
			if has := len(allowed(l)) > 0; has != had {
				t.Errorf("%T: allowed tokens before: %v, after: %v", p, had, has)
			}
		}
	})
}

func TestBadLogitsAreErrors(t *testing.T) {
	r := NewRand(1)
	for _, bad := range []float32{nan, inf} {
		for _, p := range truncations(r) {
			if x, ok := p.(*XTC); ok {
				x.probability = 1
			}
			if x, ok := p.(*Temperature); ok {
				x.t = 0.5
			}
			for _, at := range []int{0, 700, 1999} {
				l := peaked(r, 2000)
				l[at] = bad
				err := p.Process(t.Context(), l)
				if err == nil || !strings.Contains(err.Error(), "logit of token") {
					t.Errorf("%T with %v at %d: error %v", p, bad, at, err)
				}
			}
		}
	}
}

// TestOrderDoesNotMatter: truncations that look only at the order of logits or
// at their distance to the best commute with one another.
func TestOrderDoesNotMatter(t *testing.T) {
	seeds(t, 200, func(t *testing.T, r *rand.Rand) {
		row := randomRow(r, 1+r.IntN(500))
		p := r.Float32()
		k := 1 + r.IntN(50)
		a, b := slices.Clone(row), slices.Clone(row)
		ctx := t.Context()
		must(0, must(NewChain(NewTopK(k), must(NewMinP(p)))).Process(ctx, a))
		must(0, must(NewChain(must(NewMinP(p)), NewTopK(k))).Process(ctx, b))
		if !sameBits(a, b) {
			t.Errorf("top-k %d and min-p %v do not commute", k, p)
		}
	})
}

func TestRanges(t *testing.T) {
	for _, err := range []error{
		second(NewTopP(1.1)), second(NewTopP(nan)), second(NewTopP(-0.1)),
		second(NewMinP(2)), second(NewTypical(nan)), second(NewTopNSigma(inf)),
		second(NewTemperature(-1)), second(NewTemperature(inf)), second(NewXTC(2, 0, 0)), second(NewXTC(0, nan, 0)),
		second(NewBias(map[Token]float32{1: inf})), second(NewBias(map[Token]float32{-1: 0})), second(NewBias(map[Token]float32{1: nan})),
		second(NewMinTokens(-1, nil)), second(NewMinTokens(1, []Token{-1})),
		second(NewPenalties(PenaltyOptions{})), second(NewPenalties(PenaltyOptions{Repeat: 1, LastN: -1})),
		second(NewDRY(DRYOptions{LastN: MaxWindow + 1})), second(NewDRY(DRYOptions{LastN: 3, Prompt: []Token{-1}})),
		second(NewTokenSet(-1)), second(NewTokenSet(3, 3)), second(NewTokenSet(3, -1)),
		second(NewChain(nil)), second(TokenBreakers(nil)),
	} {
		if err == nil {
			t.Error("accepted, want an error")
		}
	}
}

// TestThinnedRowsAreListed: the stage after a truncation sees only what is left.
func TestThinnedRowsAreListed(t *testing.T) {
	var v view
	v.reset(Logits{1, 5, 2, 4, 3})
	must(0, NewTopK(3).edit(t.Context(), &v))
	if !v.listed || !slices.Equal(v.ids, []Token{1, 3, 4}) || !slices.Equal(v.values(), []float32{5, 4, 3}) {
		t.Errorf("after top-k 3: listed %v, ids %v", v.listed, v.ids)
	}
	must(0, NewTopK(1).edit(t.Context(), &v))
	if !slices.Equal(v.ids, []Token{1}) || !slices.Equal(allowed(v.row), []Token{1}) {
		t.Errorf("after top-k 1: ids %v, row %v", v.ids, v.row)
	}
}
