package policy

import (
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/monitors"
	"github.com/trimtab/trimtab/runtime"
)

// said is one candidate with the scores of monitors.
type said struct {
	piece  string
	scores map[string]float64
}

func (c said) step(index int) *runtime.Step {
	s := &runtime.Step{Index: index, Piece: []byte(c.piece), Tokens: make([]decode.Token, index)}
	for _, name := range []string{"a", "b"} {
		if x, ok := c.scores[name]; ok {
			s.Verdicts = append(s.Verdicts, runtime.Verdict{Monitor: name, Verdict: monitors.Verdict{Score: x}})
		}
	}
	return s
}

// TestRecordRewinds: after any walk of commits, rejections and rewinds, the
// record is that of the kept tokens alone.
func TestRecordRewinds(t *testing.T) {
	pieces := []string{"a", " b", ".", "! ", "\n", "\n\n", "\xe3\x80", "\x82", "\xff", "?\" C", "é", ""}
	equal := cmp.Options{cmp.AllowUnexported(Record{}, stream{}, scan{}), cmpopts.EquateEmpty()}
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		draw := func() said {
			c := said{pieces[r.IntN(len(pieces))], map[string]float64{"a": r.Float64()}}
			if r.IntN(3) > 0 {
				c.scores["b"] = r.Float64()
			}
			return c
		}
		first := said{"x", map[string]float64{"a": 1, "b": 2}} // so that both streams are known
		var got Record
		kept := []said{first}
		got.See(first.step(0))
		for range 60 {
			if r.IntN(4) == 0 {
				kept = kept[:1+r.IntN(len(kept))]
			}
			c := draw()
			got.See(c.step(len(kept)))
			kept = append(kept, c)
			if r.IntN(5) == 0 {
				kept = kept[:len(kept)-1] // rejected
			}
		}
		c := draw()
		got.See(c.step(len(kept)))
		var want Record
		for i, k := range append(kept, c) {
			want.See(k.step(i))
		}
		for i := range got.streams { // NaN is equal to NaN here
			if !cmp.Equal(got.streams[i].scores, want.streams[i].scores, cmpopts.EquateNaNs()) && len(want.streams[i].scores) > 0 {
				// a stream that ended in silence may be shorter by tokens without a score
				if !silent(got.streams[i].scores, want.streams[i].scores) {
					t.Fatalf("seed %d: %v, fresh %v", seed, got.streams[i], want.streams[i])
				}
			}
		}
		if !cmp.Equal(got.texts, want.texts, equal) {
			t.Fatalf("seed %d: %s", seed, cmp.Diff(want.texts, got.texts, equal))
		}
	}
}

// silent reports whether two streams are equal but for missing scores at the end.
func silent(a, b []float64) bool {
	n := min(len(a), len(b))
	for _, x := range append(a[n:len(a):len(a)], b[n:]...) {
		if x == x {
			return false
		}
	}
	return cmp.Equal(a[:n], b[:n], cmpopts.EquateNaNs())
}

func TestScan(t *testing.T) {
	for _, tt := range []struct {
		name      string
		pieces    []string
		lines     string // marks beside pieces: x where one begins
		sentences string
	}{
		{"one", []string{"Hello", " there"}, "x.", "x."},
		{"two", []string{"Hi", ".", " There", " you"}, "x...", "x.x."},
		{"a number", []string{"It is 3", ".", "14", " now."}, "x...", "x..."},
		{"space apart", []string{"Hi!", " ", "There"}, "x..", "x.x"},
		{"quotes", []string{"\"No.\"", " He"}, "x.", "xx"},
		{"in one token", []string{"A. B", " c"}, "x.", "x."},
		{"lines", []string{"a", "\n", "b", "\n\n", " c"}, "x.x.x", "x.x.x"},
		{"wide", []string{"好\xe3\x80", "\x82", "好"}, "x..", "x.x"},
		{"no character", []string{"a.", "\xff", " B"}, "x..", "x.."},
		{"broken off", []string{"a\xe2\x82", "\nb", "c\xf0\x9f", "好"}, "xx..", "xx.."},
		{"dots", []string{"Well", "...", " yes"}, "x..", "x.x"},
	} {
		var r Record
		lines, sentences := "", ""
		for i, p := range tt.pieces {
			r.See(said{piece: p}.step(i))
			lines += dot(r.Line(i))
			sentences += dot(r.Sentence(i))
		}
		if lines != tt.lines || sentences != tt.sentences {
			t.Errorf("%s: lines %s, want %s; sentences %s, want %s", tt.name, lines, tt.lines, sentences, tt.sentences)
		}
	}
}

func dot(b bool) string {
	if b {
		return "x"
	}
	return "."
}

func TestPoints(t *testing.T) {
	scores := []float64{0.1, 0.5, 0.2, 0.3, 0.9, 0.3, 0.4, 0.3, 0.6, 0.7}
	text := []string{"A", ".", " B", " c", ".", " D", " e", "\n", "F", " g"}
	var r Record
	for i := range scores {
		c := said{text[i], map[string]float64{"a": scores[i]}}
		if i%4 == 0 {
			c.scores["b"] = scores[i]
		}
		r.See(c.step(i))
	}
	for _, tt := range []struct {
		name     string
		p        Point
		reach    int
		failures int
		want     int
	}{
		{"fixed", Fixed(4), 9, 0, 4},
		{"fixed beyond reach", Fixed(4), 2, 0, 4},
		{"negative", Fixed(-4), 2, 0, 0},
		{"onset", Onset{}, 9, 0, 2},
		{"onset and more", Onset{Extra: 3}, 9, 0, 5},
		{"crossing", Crossing{Above: 0.5}, 9, 0, 1},
		{"crossing lower", Crossing{Above: 0.25}, 9, 0, 6},
		{"crossing in reach", Crossing{Above: 0.25}, 3, 0, 3},
		{"crossing of a sparse stream", Crossing{Monitor: "b", Above: 0.5}, 9, 0, 8},
		{"crossing of no stream", Crossing{Monitor: "c"}, 9, 0, 9},
		{"sentence", Beginning{}, 9, 0, 1},
		{"the one before", Beginning{}, 9, 2, 4},
		{"and before", Beginning{}, 9, 4, 7},
		{"too far", Beginning{}, 9, 40, 9},
		{"sentence in reach", Beginning{}, 2, 2, 2},
		{"line", Beginning{Line: true}, 9, 0, 1},
		{"the line before", Beginning{Line: true}, 9, 2, 9},
		{"highest", Highest{Monitor: "a"}, 9, 0, 5},
		{"highest in a window", Highest{Monitor: "a", Window: 4}, 9, 0, 0},
		{"highest of none", Highest{}, 9, 0, 0},
		{"peak", Peak{Monitor: "a"}, 9, 0, 3},
		{"peak after failures", Peak{Monitor: "a"}, 9, 2, 5},
		{"peak in reach", Peak{Monitor: "a"}, 4, 2, 3},
		{"no peak so high", Peak{Monitor: "a", Least: 2}, 9, 0, 3},
		{"a peak in the window", Peak{Monitor: "a", Window: 2, Else: 1}, 9, 0, 1},
		{"no stream", Peak{}, 9, 0, 3},
	} {
		trouble := &Trouble{Verdict: runtime.Verdict{Monitor: "a", Verdict: monitors.Verdict{Onset: 2}}, Index: 9, Reach: tt.reach, Failures: tt.failures}
		if got := tt.p.Back(&r, trouble); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
}
