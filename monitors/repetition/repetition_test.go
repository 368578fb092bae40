package repetition

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/monitors"
	"github.com/trimtab/trimtab/monitors/monitortest"
)

func monitor(t testing.TB, o Options) monitors.Monitor {
	t.Helper()
	m, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// first feeds letters as tokens and returns the first flagged one.
func first(t *testing.T, o Options, text string) (at int, v monitors.Verdict) {
	t.Helper()
	w := monitor(t, o).Start()
	for i, c := range text {
		v, err := w.Observe(t.Context(), &monitors.Observation{Step: i, Token: decode.Token(c)})
		if err != nil {
			t.Fatal(err)
		}
		if v.Flag {
			return i, v
		}
	}
	return -1, v
}

func TestSigns(t *testing.T) {
	small := Options{Repeats: 3, MinTokens: 6, Gram: 3, Limit: 3}
	for _, tt := range []struct {
		name, text string
		o          Options
		at, onset  int
		note       string
	}{
		{"loop", "xyabcabcabcabc", small, 10, 5, "a loop of 3 tokens"},
		{"one token", "xyaaaaaaaa", small, 7, 4, "a loop of 1 tokens"},
		{"two copies are none", "xyabcabcxyabcabc", Options{Repeats: 3, MinTokens: 6, Limit: -1}, -1, 0, ""},
		{"not in a row", "abc1abc2abc3", small, -1, 0, ""},
		{"worn", "abc1abc2abc3abc4", small, 14, 10, "3 tokens said 4 times"},
		{"worn, n-grams off", "abc1abc2abc3abc4", Options{Repeats: 3, MinTokens: 6, Gram: 3, Limit: -1}, -1, 0, ""},
		{"worn out of the window", "abc1abc2abc3abc4", Options{Repeats: 3, MinTokens: 6, Gram: 3, Limit: 3, Window: 11}, -1, 0, ""},
		{"period over the window", "abcdabcdabcd", Options{Repeats: 3, Window: 3, Gram: 9}, -1, 0, ""},
		{"defaults", strings.Repeat("ha ", 10), Options{}, 23, 20, "a loop of 3 tokens"},
	} {
		at, v := first(t, tt.o, tt.text)
		if at != tt.at || v.Onset != tt.onset || v.Note != tt.note {
			t.Errorf("%s: token %d, %+v, want token %d, onset %d, %q", tt.name, at, v, tt.at, tt.onset, tt.note)
		}
	}
}

// brute is the definition, over the whole text, without the table.
func brute(o Options, text []decode.Token) monitors.Verdict {
	n := len(text)
	equal := func(i, j, size int) bool {
		for k := range size {
			if text[i+k] != text[j+k] {
				return false
			}
		}
		return true
	}
	var v monitors.Verdict
	loop := 0.0
	for p := 1; p <= o.Window && 2*p <= n; p++ {
		r := 0
		for r < n-p && r < maxRun && text[n-1-r] == text[n-1-r-p] {
			r++
		}
		if score := float64(r+p) / float64(max(p*o.Repeats, o.MinTokens)); r >= p && score > loop {
			loop = score
			v = monitors.Verdict{Score: score, Flag: score >= 1, Onset: r - 1, Note: fmt.Sprintf("a loop of %d tokens", p)}
		}
	}
	if o.Limit >= 0 && n >= o.Gram {
		starts := []int{n - o.Gram}
		for i := n - 2*o.Gram; i >= 0 && n-o.Gram-i <= o.Window; i-- {
			if equal(i, n-o.Gram, o.Gram) && starts[len(starts)-1]-i >= o.Gram {
				starts = append(starts, i)
			}
		}
		score := float64(len(starts)) / float64(o.Limit+1)
		if len(starts) == 1 {
			score = 0
		}
		if loop < 1 && score >= 1 {
			v = monitors.Verdict{Flag: true, Onset: n - 1 - starts[len(starts)-2], Note: fmt.Sprintf("%d tokens said %d times", o.Gram, len(starts))}
		}
		v.Score = max(loop, score)
	}
	if !v.Flag {
		v.Onset, v.Note = 0, ""
	}
	return v
}

// TestAgainstBruteForce: random texts over few tokens, with stretches copied
// into them, and rewinds on the way.
func TestAgainstBruteForce(t *testing.T) {
	for seed := range uint64(150) {
		r := rand.New(rand.NewPCG(seed, 5))
		o := Options{
			Name: "r", Window: 1 + r.IntN(40), Repeats: 2 + r.IntN(3), MinTokens: 1 + r.IntN(12), Gram: 1 + r.IntN(5), Limit: 1 + r.IntN(4),
		}
		w := monitor(t, o).Start()
		var text []decode.Token
		copied := 0
		for range 150 {
			if r.IntN(12) == 0 {
				n := r.IntN(len(text) + 1)
				if r.IntN(3) > 0 {
					n = min(n, 3)
				}
				if err := w.Rewind(n); err != nil {
					t.Fatal(err)
				}
				text = text[:len(text)-n]
			}
			tok := decode.Token(r.IntN(4))
			if copied == 0 && r.IntN(10) == 0 {
				copied = 1 + r.IntN(8)
			}
			if copied > 0 && copied <= len(text) && r.IntN(15) > 0 {
				tok = text[len(text)-copied]
			} else {
				copied = 0
			}
			step := len(text)
			text = append(text, tok)
			got, err := w.Observe(t.Context(), &monitors.Observation{Step: step, Token: tok})
			if err != nil {
				t.Fatal(err)
			}
			if want := brute(o, text); got != want {
				t.Fatalf("seed %d, %+v, text %v: %+v, want %+v", seed, o, text, got, want)
			}
		}
	}
}

// TestLongLoop: the table's bound does not stand in the way of a rewind.
func TestLongLoop(t *testing.T) {
	o := Options{}.filled()
	w := monitor(t, o).Start()
	var text []decode.Token
	for i := range maxRun + 500 {
		tok := decode.Token(i % 3)
		text = append(text, tok)
		if _, err := w.Observe(t.Context(), &monitors.Observation{Step: i, Token: tok}); err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range []int{1, 300, 1000, 3000} {
		if err := w.Rewind(n); err != nil {
			t.Fatal(err)
		}
		text = text[:len(text)-n]
		tok := decode.Token(len(text) % 3)
		got, err := w.Observe(t.Context(), &monitors.Observation{Step: len(text), Token: tok})
		text = append(text, tok)
		if want := brute(o, text); err != nil || got != want {
			t.Errorf("%d tokens: %+v, %v, want %+v", len(text), got, err, want)
		}
	}
}

func TestConformance(t *testing.T) {
	for name, o := range map[string]Options{
		"small": {Window: 12, Repeats: 2, MinTokens: 4, Gram: 3, Limit: 2},
		"loops": {Window: 8, Repeats: 3, MinTokens: 3, Limit: -1},
	} {
		t.Run(name, func(t *testing.T) {
			monitortest.Run(t, monitor(t, o), monitortest.Options{
				Next:  func(r *rand.Rand) monitortest.Input { return monitortest.Input{Token: decode.Token(r.IntN(2))} },
				Bad:   []monitortest.Input{{Token: -1}},
				Walks: 10,
			})
		})
	}
}

func TestRefused(t *testing.T) {
	for want, o := range map[string]Options{
		"window of -1, must be 1 to 4096":  {Window: -1},
		"window of 4097":                   {Window: MaxWindow + 1},
		"repeats of 1, must be 2":          {Repeats: 1},
		"min tokens of -1":                 {MinTokens: -1},
		"gram of 257, must be 1 to 256":    {Gram: MaxGram + 1},
		"limit of 1025, must be 1 to 1024": {Limit: MaxLimit + 1},
	} {
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

func BenchmarkObserve(b *testing.B) {
	w := monitor(b, Options{}).Start()
	o := &monitors.Observation{}
	r := rand.New(rand.NewPCG(1, 1))
	b.ReportAllocs()
	for b.Loop() {
		o.Token = decode.Token(r.IntN(50))
		if _, err := w.Observe(b.Context(), o); err != nil {
			b.Fatal(err)
		}
		if o.Step++; o.Step == 2048 {
			if err := w.Rewind(o.Step); err != nil {
				b.Fatal(err)
			}
			o.Step = 0
		}
	}
}
