//go:build linux || darwin

package judge

import (
	"math/rand/v2"
	"runtime"
	"testing"
	"unsafe"

	"github.com/ebitengine/purego"

	"github.com/trimtab/trimtab/decode"
)

// walker commits the same tokens to ours and to llama.cpp's samplers. These
// cannot rewind, so after a rewind they start again with the tokens kept.
type walker struct {
	accept func(decode.Token) error
	rewind func(int) error
	refs   []uintptr
	l      *library
	kept   []decode.Token
	few    int // draw tokens below this number, so that they repeat; 0 for all
}

func (w *walker) step(t *testing.T, r *rand.Rand, vocab int) {
	t.Helper()
	if w.few > 0 {
		vocab = w.few
	}
	for range r.IntN(12) {
		w.commit(t, decode.Token(r.IntN(min(vocab, 30))))
	}
	if n := len(w.kept); n > 0 && r.IntN(3) == 0 {
		w.back(t, r.IntN(min(n, 20)+1))
	}
}

func (w *walker) commit(t *testing.T, tok decode.Token) {
	t.Helper()
	if err := w.accept(tok); err != nil {
		t.Fatal(err)
	}
	for _, s := range w.refs {
		w.l.accept(s, int32(tok))
	}
	w.kept = append(w.kept, tok)
}

func (w *walker) back(t *testing.T, n int) {
	t.Helper()
	if err := w.rewind(n); err != nil {
		t.Fatal(err)
	}
	w.kept = w.kept[:len(w.kept)-n]
	for _, s := range w.refs {
		w.l.reset(s)
		for _, tok := range w.kept {
			w.l.accept(s, int32(tok))
		}
	}
}

func TestPenaltiesEqualLlamaCpp(t *testing.T) {
	l := llama(t)
	var n tally
	for seed := range uint64(60) {
		r := decode.NewRand(seed)
		vocab := []int{31, 500, 4000}[seed%3]
		o := decode.PenaltyOptions{
			LastN: r.IntN(90), Repeat: dose(r, 0.5, 2), Frequency: dose(r, -1, 1), Presence: dose(r, -1, 1),
		}
		p := must(decode.NewPenalties(o))
		ref := l.penalties(int32(vocab), int32(o.LastN), o.Repeat, o.Frequency, o.Presence)
		w := walker{accept: p.Accept, rewind: p.Rewind, refs: []uintptr{ref}, l: l}
		for range 25 {
			w.step(t, r, vocab)
			compare(t, l, pair{name: "penalties", ours: p, ref: ref}, shape(r, vocab, true), &n)
		}
		l.free(ref)
	}
	n.report(t, "penalties")
}

// vector is std::vector of libstdc++ and libc++: begin, end, end of storage.
// The ends are numbers, as Go must not hold a pointer past an object; begin
// keeps the elements alive and off the stack.
type vector struct {
	begin      unsafe.Pointer
	end, limit uintptr
}

func vectorOf[T any](list []T) vector {
	if len(list) == 0 {
		return vector{}
	}
	begin := unsafe.Pointer(&list[0])
	end := uintptr(begin) + uintptr(len(list))*unsafe.Sizeof(list[0])
	return vector{begin, end, end}
}

// dryTesting is llama_sampler_init_dry_testing, which takes token sequences.
const dryTesting = "_Z30llama_sampler_init_dry_testingffiiRKSt6vectorIS_IiSaIiEESaIS1_EE"

func TestDRYEqualsLlamaCpp(t *testing.T) {
	l := llama(t)
	p, err := purego.Dlsym(l.handle, dryTesting)
	if err != nil {
		missing(t, "the export "+dryTesting)
	}
	var initDRY func(multiplier, base float32, allowed, lastN int32, breakers *vector) uintptr
	purego.RegisterFunc(&initDRY, p)
	var n tally
	for seed := range uint64(400) {
		r := decode.NewRand(seed)
		o := randomDRY(r)
		heads := make([][]decode.Token, r.IntN(6)) // of few tokens, so that they share beginnings
		inner := make([]vector, len(heads))
		for i := range heads {
			for range 1 + r.IntN(3) {
				heads[i] = append(heads[i], decode.Token(r.IntN(3)))
			}
			inner[i] = vectorOf(heads[i])
		}
		outer := vectorOf(inner)
		ref := initDRY(o.Multiplier, o.Base, int32(o.AllowedLength), int32(o.LastN), &outer)
		runtime.KeepAlive(inner)
		runtime.KeepAlive(heads)
		o.Breakers = must(decode.TokenBreakers(heads...))
		compareDRY(t, l, r, o, ref, 40, &n)
		if t.Failed() {
			t.Fatalf("seed %d, %+v", seed, o)
		}
	}
	n.report(t, "dry")
}

func randomDRY(r *rand.Rand) decode.DRYOptions {
	return decode.DRYOptions{
		Multiplier: dose(r, 0.1, 3), Base: dose(r, 1, 4), AllowedLength: r.IntN(5), LastN: 1 + r.IntN(150),
	}
}

func compareDRY(t *testing.T, l *library, r *rand.Rand, o decode.DRYOptions, ref uintptr, vocab int, n *tally) {
	t.Helper()
	defer l.free(ref)
	p := must(decode.NewDRY(o))
	w := walker{accept: p.Accept, rewind: p.Rewind, refs: []uintptr{ref}, l: l, few: 1 + r.IntN(8)}
	for range 25 {
		w.step(t, r, vocab)
		compare(t, l, pair{name: "dry", ours: p, ref: ref, huge: true}, shape(r, vocab, true), n)
	}
}
