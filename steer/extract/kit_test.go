package extract

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"go.uber.org/goleak"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/runtime/engine"
	"github.com/trimtab/trimtab/runtime/engine/enginetest"
	"github.com/trimtab/trimtab/steer"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// chatML renders for the Fake: its control words frame turns, whose texts are
// plain bytes.
func chatML(turns []engine.Message, header bool) ([]decode.Token, error) {
	out := []decode.Token{enginetest.BOS}
	open := func(role string) {
		out = append(append(out, enginetest.TurnStart), enginetest.Tokens(role+"\n")...)
	}
	for _, m := range turns {
		open(m.Role)
		out = append(append(append(out, enginetest.Tokens(m.Content)...), enginetest.EOT), '\n')
	}
	if header {
		open("assistant")
	}
	return out, nil
}

func newFake(t testing.TB, cfg enginetest.FakeConfig) *enginetest.Fake {
	t.Helper()
	f, err := enginetest.NewFake(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// planted is a Fake whose states show one direction more, at one layer, in
// every row behind a "!" in the text.
type planted struct {
	*enginetest.Fake
	layer     int
	direction []float32
}

type plantedSequence struct {
	engine.Sequence
	of     *planted
	tokens []decode.Token
	fed    int
	copied []float32
}

func (p *planted) NewSequence(ctx context.Context, from engine.Origin) (engine.Sequence, error) {
	var tokens []decode.Token
	if of, ok := from.Fork.(*plantedSequence); ok {
		from.Fork, tokens = of.Sequence, append(tokens, of.tokens[:from.Len]...)
	}
	s, err := p.Fake.NewSequence(ctx, from)
	return &plantedSequence{Sequence: s, of: p, tokens: tokens}, err
}

func (p *planted) Forward(ctx context.Context, feeds []engine.Feed) error {
	inner := append([]engine.Feed(nil), feeds...)
	for i := range inner {
		inner[i].Seq = feeds[i].Seq.(*plantedSequence).Sequence
	}
	if err := p.Fake.Forward(ctx, inner); err != nil {
		return err
	}
	for i := range feeds {
		s := feeds[i].Seq.(*plantedSequence)
		s.tokens, s.fed = append(s.tokens, feeds[i].Tokens...), len(feeds[i].Tokens)
	}
	return nil
}

func (s *plantedSequence) Activation(site steer.Site) ([]float32, error) {
	x, err := s.Sequence.Activation(site)
	if err != nil || site.Layer != s.of.layer {
		return x, err
	}
	s.copied = append(s.copied[:0], x...)
	w, seen := len(x)/s.fed, false
	for i, t := range s.tokens {
		seen = seen || t == '!'
		if row := i - (len(s.tokens) - s.fed); seen && row >= 0 {
			for k, v := range s.of.direction {
				s.copied[row*w+k] += v
			}
		}
	}
	return s.copied, nil
}

// somePairs have chosen answers with a "!" early on and else equal letters.
func somePairs(n int, seed uint64) (out []Pair) {
	r := rand.New(rand.NewPCG(seed, 1))
	for i := range n {
		p := Pair{Turns: []engine.Message{{Role: "user", Content: fmt.Sprintf("question %d %s", i, letters(r))}}}
		p.Chosen, p.Rejected = "!"+letters(r), "?"+letters(r)
		out = append(out, p)
	}
	return out
}

func letters(r *rand.Rand) string {
	b := make([]byte, 3+r.IntN(5))
	for i := range b {
		b[i] = byte('a' + r.IntN(26))
	}
	return string(b)
}

func wide(a []float32) []float64 {
	out := make([]float64, len(a))
	for i, x := range a {
		out[i] = float64(x)
	}
	return out
}

func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tolerance) {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}
