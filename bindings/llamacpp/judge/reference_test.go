//go:build linux || darwin

package judge

import (
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"unsafe"

	"github.com/trimtab/trimtab/decode"
)

var negInf = float32(math.Inf(-1))

// run applies samplers of llama.cpp one after the other over a row and returns
// the row with everything banned that did not survive, and the array as it was
// left, in llama.cpp's order.
func (l *library) run(row decode.Logits, samplers ...uintptr) (decode.Logits, []tokenData, int64) {
	data := make([]tokenData, len(row))
	for i, x := range row {
		data[i] = tokenData{ID: int32(i), Logit: x}
	}
	a := &tokenArray{Data: &data[0], Size: uintptr(len(data)), Selected: -1}
	for _, s := range samplers {
		l.apply(s, a)
	}
	// The start may have moved within data, and only down.
	left := slices.Clone(unsafe.Slice(a.Data, a.Size))
	runtime.KeepAlive(data)
	out := make(decode.Logits, len(row))
	for i := range out {
		out[i] = negInf
	}
	for _, d := range left {
		out[d.ID] = d.Logit
	}
	return out, left, a.Selected
}

// pair is one of our processors and llama.cpp's sampler of the same name.
type pair struct {
	name string
	ours decode.Processor
	ref  uintptr
	// sums says that survival hangs on a running float32 sum.
	sums float32
	// huge says that llama.cpp lets a penalty overflow and so bans a token.
	// Ours stops at the largest finite number, which has probability 0 as well
	// but does not leave a row without any token.
	huge bool
}

// tally counts how comparisons ended.
type tally struct {
	cases, acted, ties, borders int     // acted: the processor changed the row
	worst                       float64 // largest difference of a probability
}

// compare runs both over the row and checks that the same tokens survive with
// the same logits and, within 1e-5, the same probabilities.
func compare(t *testing.T, l *library, p pair, row decode.Logits, n *tally) {
	t.Helper()
	ours := slices.Clone(row)
	if err := p.ours.Process(t.Context(), ours); err != nil {
		t.Fatalf("%s: %v", p.name, err)
	}
	ref, _, _ := l.run(row, p.ref)
	judge(t, p, row, ours, ref, n)
}

func judge(t *testing.T, p pair, row, ours, ref decode.Logits, n *tally) {
	t.Helper()
	n.cases++
	if !slices.Equal(row, ours) {
		n.acted++
	}
	if p.huge {
		ours, ref = overflowed(ours), overflowed(ref)
	}
	a, b := survivors(ours), survivors(ref)
	if !slices.Equal(a, b) {
		switch {
		case sameLogits(ours, ref):
			n.ties++ // equal logits: llama.cpp's sort is unstable, ours takes the lower token
		case p.sums > 0 && onBorder(row, p.sums, a, b):
			n.borders++ // the sums differ in the last bits of float32
		default:
			t.Fatalf("%s on %d tokens: %d survive, in llama.cpp %d", p.name, len(row), len(a), len(b))
		}
		return
	}
	for _, j := range a {
		if math.Float32bits(ours[j]) != math.Float32bits(ref[j]) {
			t.Fatalf("%s on %d tokens: logit %d is %v, in llama.cpp %v", p.name, len(row), j, ours[j], ref[j])
		}
	}
	if len(a) > 0 {
		n.probs(t, p.name, softmax(ours), softmax(ref))
	}
}

// overflowed is the row with its enormous penalties as bans.
func overflowed(l decode.Logits) decode.Logits {
	l = slices.Clone(l)
	for j, x := range l {
		if x < -3.4e38 { // the largest float32 is 3.4028e38
			l[j] = negInf
		}
	}
	return l
}

func (n *tally) probs(t *testing.T, name string, a, b []float64) {
	t.Helper()
	for j := range a {
		d := math.Abs(a[j] - b[j])
		n.worst = max(n.worst, d)
		if !(d <= 1e-5) {
			t.Fatalf("%s: token %d has probability %v, in llama.cpp %v", name, j, a[j], b[j])
		}
	}
}

// report fails when explanations are not the exception, or when there was
// little to compare.
func (n *tally) report(t *testing.T, name string) {
	t.Helper()
	t.Logf("%-12s %5d rows, %d edited, %d differ by ties, %d by float32 sums at the border, probabilities within %.1g",
		name, n.cases, n.acted, n.ties, n.borders, n.worst)
	if n.acted*3 < n.cases {
		t.Errorf("%s: only %d of %d rows were edited, the test tests little", name, n.acted, n.cases)
	}
	if n.borders*50 > n.cases {
		t.Errorf("%s: %d of %d rows differ at the border", name, n.borders, n.cases)
	}
}

func survivors(l decode.Logits) (ids []int) {
	for j, x := range l {
		if x != negInf {
			ids = append(ids, j)
		}
	}
	return ids
}

func sameLogits(a, b decode.Logits) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// onBorder reports whether one set continues the other and the mass at which
// they part is p but for what float32 loses.
func onBorder(row decode.Logits, p float32, a, b []int) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	in := map[int]bool{}
	for _, j := range a {
		in[j] = true
	}
	probs, mass := softmax(row), 0.0
	for _, j := range a {
		mass += probs[j]
	}
	extra := 0.0
	for _, j := range b {
		if !in[j] {
			extra += probs[j]
			in[j] = true
		}
	}
	const loss = 1e-5 // 150,000 roundings of 6e-8 that fall either way
	return len(in) == len(b) && math.Abs(mass-float64(p)) < loss && extra < loss
}

func softmax(l decode.Logits) []float64 {
	m := float64(slices.Max(l))
	p, sum := make([]float64, len(l)), 0.0
	for j, x := range l {
		p[j] = math.Exp(float64(x) - m)
		sum += p[j]
	}
	for j := range p {
		p[j] /= sum
	}
	return p
}

// sizes are the vocabularies, each with the number of rows to try.
var sizes = []struct{ vocab, rows int }{{2, 40}, {17, 60}, {300, 60}, {1025, 60}, {32000, 12}, {151936, 4}}

// shape makes rows of several kinds: flat, peaked, of few distinct values, and
// with bans.
func shape(r *rand.Rand, n int, bans bool) decode.Logits {
	l := make(decode.Logits, n)
	width := math.Exp(3*r.Float64() - 1)
	steps := r.IntN(4) == 0
	for i := range l {
		x := r.NormFloat64() * width
		if steps {
			x = math.Round(2*x) / 2
		}
		l[i] = float32(x)
	}
	for range r.IntN(20) {
		l[r.IntN(n)] += float32(r.Float64() * 8)
	}
	if bans && r.IntN(3) == 0 {
		for i := range l[1:] {
			if r.IntN(2) == 0 {
				l[i+1] = negInf
			}
		}
	}
	return l
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
