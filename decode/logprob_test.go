package decode

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"
)

func TestLogprobs(t *testing.T) {
	seeds(t, 200, func(t *testing.T, r *rand.Rand) {
		row := randomRow(r, 1+r.IntN(800))
		if r.IntN(2) == 0 { // far from zero, where a careless sum overflows
			shift := float32(r.IntN(3)-1) * 1e4
			for i := range row {
				row[i] += shift
			}
		}
		if len(allowed(row)) == 0 {
			return
		}
		probs := softmax64(row)
		chosen, n := Token(r.IntN(len(row))), r.IntN(len(row)+3)
		got, top, err := Logprobs(nil, row, chosen, n)
		if err != nil {
			t.Fatal(err)
		}
		want := allowed(row)
		sort.SliceStable(want, func(a, b int) bool { return row[want[a]] > row[want[b]] })
		want = want[:min(n, len(want))]
		if len(top) != len(want) {
			t.Fatalf("%d best, want %d", len(top), len(want))
		}
		for i, p := range append(top, got) {
			if i < len(want) && p.Token != want[i] {
				t.Errorf("best %d is token %d, want %d", i, p.Token, want[i])
			}
			if q := math.Log(probs[p.Token]); math.Abs(p.Logprob-q) > 1e-9*max(1, -q) && !(math.IsInf(p.Logprob, -1) && math.IsInf(q, -1)) {
				if probs[p.Token] > 0 {
					t.Errorf("token %d has %v, want %v", p.Token, p.Logprob, q)
				}
			}
		}
	})
}

func TestLogprobsClosedForms(t *testing.T) {
	p, top, err := Logprobs(nil, Logits{0, 0, 0, 0, negInf}, 4, 9)
	if err != nil || !math.IsInf(p.Logprob, -1) || len(top) != 4 {
		t.Fatal(p, top, err)
	}
	for i, q := range top {
		if q.Token != Token(i) || math.Abs(q.Logprob+math.Log(4)) > 1e-15 {
			t.Errorf("best %d: %+v", i, q)
		}
	}
	if p, _, _ := Logprobs(nil, Logits{math.MaxFloat32, -math.MaxFloat32}, 1, 0); p.Logprob != -2*math.MaxFloat32 {
		t.Errorf("the widest row: %v", p)
	}
	if p, _, _ := Logprobs(nil, Logits{7}, 0, 0); p.Logprob != 0 {
		t.Errorf("the only token: %v", p)
	}
}

func TestLogprobsRefuses(t *testing.T) {
	for _, tt := range []struct {
		l      Logits
		chosen Token
		n      int
	}{{Logits{1}, 1, 0}, {Logits{1}, -1, 0}, {Logits{1}, 0, -1}, {Logits{1, nan}, 0, 0}, {Logits{inf, 1}, 1, 1}, {nil, 0, 0}} {
		if _, _, err := Logprobs(nil, tt.l, tt.chosen, tt.n); err == nil {
			t.Errorf("accepted %+v", tt)
		}
	}
	if _, _, err := Logprobs(nil, Logits{negInf}, 0, 1); !errors.Is(err, ErrNoToken) {
		t.Error(err)
	}
}

func TestLogprobsUsesTheBuffer(t *testing.T) {
	buf := make([]Logprob, 3, 8)
	_, top, err := Logprobs(buf, Logits{1, 2, 3}, 0, 2)
	if err != nil || len(top) != 2 || &top[0] != &buf[0] {
		t.Error(top, err)
	}
	if got := []Token{top[0].Token, top[1].Token}; !slices.Equal(got, []Token{2, 1}) {
		t.Error(got)
	}
}
