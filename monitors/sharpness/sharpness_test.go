package sharpness

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/runtime/engine"
	"github.com/trimtab/trimtab/runtime/engine/enginetest"
)

func TestOf(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, c := range []struct {
		weights []float32
		want    float64
	}{
		{[]float32{1}, 2},                         // one place: 1 + 1
		{[]float32{0.3}, 2},                       // the rest went to a sink
		{[]float32{1, 0, 0}, 2},                   // one of three
		{[]float32{0.25, 0.25, 0.25, 0.25}, 0.25}, // all alike: 1/n
		{[]float32{0.1, 0.1, 0.1, 0.1}, 0.25},
		{[]float32{0.5, 0.5, 0, 0}, 1},             // 1/2 + 1 - log 2/log 4
		{[]float32{0.75, 0.25}, 0.938721875540867}, // 3/4 + 1 - (2 - 3/4 log2 3)
		{[]float32{0.375, 0.125}, 0.938721875540867},
		{nil, math.NaN()},
		{[]float32{0, 0}, math.NaN()},
		{[]float32{0.5, nan}, math.NaN()},
		{[]float32{inf, 1}, math.NaN()},
		{[]float32{1.5, -0.5}, math.NaN()},
	} {
		got := Of(c.weights)
		if math.IsNaN(c.want) != math.IsNaN(got) || math.Abs(got-c.want) > 1e-12 {
			t.Errorf("Of(%v) = %v, want %v", c.weights, got, c.want)
		}
	}
}

// TestOfAgainstReference: the scores of a network and a formula that were
// written down a second time, in another language.
func TestOfAgainstReference(t *testing.T) {
	data, err := os.ReadFile("../../bindings/llamacpp/testdata/attention/reference.json")
	if err != nil {
		t.Fatal(err)
	}
	var reference map[string]struct {
		Weights   map[int][]float32
		Sharpness []float64
	}
	if err := json.Unmarshal(data, &reference); err != nil || len(reference) == 0 {
		t.Fatal(err, len(reference))
	}
	for name, r := range reference {
		for row, weights := range r.Weights {
			if got := Of(weights); math.Abs(got-r.Sharpness[row]) > 2e-6 {
				t.Errorf("%s, row %d: %v, want %v", name, row, got, r.Sharpness[row])
			}
		}
	}
}

func newScorer(t testing.TB, e Engine, o Options) *Scorer {
	t.Helper()
	s, err := New(e, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// TestScoresAreOfTheTextAlone: whatever was asked before, the scores are those
// of the rows before the tokens, and no row is fed that can be kept.
func TestScoresAreOfTheTextAlone(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	e := newSeer(t, enginetest.FakeConfig{})
	s := newScorer(t, e, Options{Layers: 2})
	var text []decode.Token
	for range 300 {
		if r.IntN(3) == 0 {
			text = text[:r.IntN(len(text)+1)]
		}
		for range 2 + r.IntN(50) {
			text = append(text, decode.Token(r.IntN(256)))
		}
		if len(text) > e.Info().Context {
			text = text[:e.Info().Context/2]
		}
		if len(text) < 2 {
			continue
		}
		last := 1 + r.IntN(min(MaxLast, len(text)-1))
		got, err := s.Scores(t.Context(), text, last)
		if err != nil {
			t.Fatal(err)
		}
		if want := expected(text, last, 2); !slices.Equal(got, want) {
			t.Fatalf("the last %d of %d tokens: %v, want %v", last, len(text), got, want)
		}
	}
}

// TestSecondLookIsShort: a text that was read before is read again from the
// last place where a chunk begins, always in the same pieces.
func TestSecondLookIsShort(t *testing.T) {
	e := newSeer(t, enginetest.FakeConfig{})
	s := newScorer(t, e, Options{})
	text := slices.Repeat([]decode.Token{65, 66, 67}, 40)
	for _, c := range []struct {
		tokens, last, fed int
		attended          [][2]int
	}{
		{101, 10, 100, [][2]int{{64, 96}, {96, 100}}},
		{101, 10, 36, [][2]int{{64, 96}, {96, 100}}},    // rows 0 to 64 are there
		{120, 10, 23, [][2]int{{96, 119}}},              // grown: rows to 96 are
		{91, 30, 58, [][2]int{{32, 64}, {64, 90}}},      // taken back
		{91, 1, 26, [][2]int{{64, 90}}},                 //
		{33, 32, 32, [][2]int{{0, 32}}},                 // the beginning
		{2, 1, 1, [][2]int{{0, 1}}},                     // one row
		{97, 64, 64 + 32, [][2]int{{32, 64}, {64, 96}}}, // a wide look
	} {
		e.attended = nil
		before := e.RowsFed()
		if _, err := s.Scores(t.Context(), text[:c.tokens], c.last); err != nil {
			t.Fatal(err)
		}
		if fed := e.RowsFed() - before; fed != c.fed || !slices.Equal(e.attended, c.attended) {
			t.Errorf("the last %d of %d tokens: fed %d rows and attended %v, want %d and %v", c.last, c.tokens, fed, e.attended, c.fed, c.attended)
		}
	}
}

func TestFaults(t *testing.T) {
	e := newSeer(t, enginetest.FakeConfig{Context: 128})
	s := newScorer(t, e, Options{})
	text := slices.Repeat([]decode.Token{65}, 200)
	ask := func(ctx context.Context, n, last int) error {
		t.Helper()
		_, err := s.Scores(ctx, text[:n], last)
		return err
	}
	ended, stop := context.WithCancel(t.Context())
	stop()
	for name, err := range map[string]error{
		"none":       ask(t.Context(), 10, 0),
		"too many":   ask(t.Context(), 100, MaxLast+1),
		"first":      ask(t.Context(), 10, 10),
		"no text":    ask(t.Context(), 0, 1),
		"a last one": ask(ended, 10, 5),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if err := ask(t.Context(), 130, 5); !errors.Is(err, engine.ErrContextFull) {
		t.Errorf("a long text: %v", err)
	}
	if err := ask(t.Context(), 129, 5); err != nil {
		t.Errorf("a text that just fits: %v", err)
	}
	e.fail = errBroken
	if err := ask(t.Context(), 100, 5); !errors.Is(err, errBroken) {
		t.Errorf("a broken engine: %v", err)
	}
	if n := e.OpenSequences(); n != 0 {
		t.Errorf("%d sequences after a fault", n)
	}
	e.wrong = float32(math.NaN())
	if err := ask(t.Context(), 100, 5); err == nil {
		t.Error("attention that is no number: no error")
	}
	e.wrong = 0
	if got, err := s.Scores(t.Context(), text[:100], 5); err != nil || !slices.Equal(got, expected(text[:100], 5, min(4, e.Info().Layers))) {
		t.Errorf("after the faults: %v, %v", got, err)
	}
	if err := errors.Join(s.Close(), s.Close()); err != nil {
		t.Error(err)
	}
	if err := ask(t.Context(), 10, 5); !errors.Is(err, errShut) {
		t.Errorf("closed: %v", err)
	}
}

func TestNewRefuses(t *testing.T) {
	e := newSeer(t, enginetest.FakeConfig{})
	for _, layers := range []int{-1, e.Info().Layers + 1} {
		if _, err := New(e, Options{Layers: layers}); err == nil {
			t.Errorf("%d blocks: no error", layers)
		}
	}
	e.cant = engine.Unsupported("attention", "it is a fake")
	if _, err := New(e, Options{}); !errors.Is(err, engine.ErrUnsupported) {
		t.Errorf("an engine that shows no attention: %v", err)
	}
	e = newSeer(t, enginetest.FakeConfig{NoRewind: true})
	if _, err := New(e, Options{}); !errors.Is(err, engine.ErrUnsupported) {
		t.Errorf("an engine that cannot rewind: %v", err)
	}
}

// TestSessionsTakeTurns asks for several texts at once.
func TestSessionsTakeTurns(t *testing.T) {
	e := newSeer(t, enginetest.FakeConfig{})
	s := newScorer(t, e, Options{Layers: 1})
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			text := slices.Repeat([]decode.Token{decode.Token(60 + i), 70}, 30)
			for n := 40; n < 60; n++ {
				got, err := s.Scores(t.Context(), text[:n], 12)
				if err != nil || !slices.Equal(got, expected(text[:n], 12, 1)) {
					t.Errorf("text %d, %d tokens: %v, %v", i, n, got, err)
				}
			}
		})
	}
	wg.Wait()
}

// TestWaitingEndsWithTheContext: who waits for the engine can give up.
func TestWaitingEndsWithTheContext(t *testing.T) {
	s := newScorer(t, newSeer(t, enginetest.FakeConfig{}), Options{})
	s.lock <- struct{}{}
	ctx, stop := context.WithCancel(t.Context())
	go stop()
	if _, err := s.Scores(ctx, []decode.Token{1, 2}, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	<-s.lock
}
