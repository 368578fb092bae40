package sharpness

import (
	"context"
	"errors"
	"testing"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/runtime/engine"
	"github.com/trimtab/trimtab/runtime/engine/enginetest"
)

// seer is a fake engine whose attention is made up from the rows before, so that
// anyone who knows the text can say what it is.
type seer struct {
	*enginetest.Fake
	texts map[engine.Sequence][]decode.Token
	cant  error
	fail  error // of the next Attend
	wrong float32

	attended [][2]int // rows from, to
}

func newSeer(t testing.TB, cfg enginetest.FakeConfig) *seer {
	t.Helper()
	f, err := enginetest.NewFake(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if n := f.OpenSequences(); n != 0 {
			t.Errorf("%d sequences are still open", n)
		}
		f.Close()
	})
	return &seer{Fake: f, texts: map[engine.Sequence][]decode.Token{}}
}

func (e *seer) CanAttend() error { return e.cant }

func (e *seer) Forward(ctx context.Context, feeds []engine.Feed) error {
	if err := e.Fake.Forward(ctx, feeds); err != nil {
		return err
	}
	for _, f := range feeds {
		n := f.Seq.Len() - len(f.Tokens)
		e.texts[f.Seq] = append(e.texts[f.Seq][:n:n], f.Tokens...)
	}
	return nil
}

func (e *seer) Attend(ctx context.Context, feeds []engine.Feed, layers int, see func(feed, row int, weights []float32)) error {
	if err := e.fail; err != nil {
		e.fail = nil
		return err
	}
	if err := e.Forward(ctx, feeds); err != nil {
		return err
	}
	for i, f := range feeds {
		from := f.Seq.Len() - len(f.Tokens)
		e.attended = append(e.attended, [2]int{from, f.Seq.Len()})
		for r := range f.Tokens {
			w := glance(e.texts[f.Seq][:from+r+1], layers)
			w[0] += e.wrong
			see(i, r, w)
		}
	}
	return nil
}

// glance is the attention of the last row of a text.
func glance(text []decode.Token, layers int) []float32 {
	w, sum := make([]float32, len(text)), float32(0)
	for i, t := range text {
		w[i] = float32((int(t)+1)*(i+layers)%17) + 1
		sum += w[i]
	}
	for i := range w {
		w[i] /= sum
	}
	return w
}

// expected is what Scores should say.
func expected(text []decode.Token, last, layers int) []float64 {
	out := make([]float64, last)
	for i := range out {
		out[i] = Of(glance(text[:len(text)-last+i], layers))
	}
	return out
}

var errBroken = errors.New("the attention is broken")
