package llamacpp

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/ebitengine/purego"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/internal/gguf"
	"github.com/trimtab/trimtab/internal/randmodel"
	"github.com/trimtab/trimtab/runtime/engine"
	"github.com/trimtab/trimtab/steer"
)

var keepModels = flag.String("models", "", "a folder to write the models of the attention reference to")

// attentive are the models of testdata/attention, all in float32. The blocks of
// gemma3 see 8 tokens, apart from its sixth of eight, which the last one lacks.
func attentive(t testing.TB, name string) randmodel.Spec {
	t.Helper()
	preset := map[string]string{"llama": "tiny", "qwen3": "tiny-qwen3", "gemma3": "tiny-gemma3", "gemma3-windows": "tiny-gemma3"}
	s, err := randmodel.Preset(preset[name])
	if err != nil {
		t.Fatal(err)
	}
	s.Type = gguf.F32
	if s.Window > 0 {
		s.Window = 8
	}
	switch name {
	case "gemma3":
		s.Layers = 8
	case "gemma3-windows":
		s.Layers = 5
	}
	return s
}

var attentiveNames = []string{"llama", "qwen3", "gemma3", "gemma3-windows"}

func openAttentive(t testing.TB, name string, o Options) *Engine {
	t.Helper()
	path := filepath.Join(t.TempDir(), name+".gguf")
	if *keepModels != "" {
		path = filepath.Join(*keepModels, name+".gguf")
	}
	if err := randmodel.Write(path, attentive(t, name)); err != nil {
		t.Fatal(err)
	}
	o.Threads, o.Attention = 1, true
	if o.MaxSequences == 0 {
		o.MaxSequences = 1
	}
	e, err := library(t).Open(path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

// attended collects what Attend shows, by feed and row.
func attended(t testing.TB, e *Engine, blocks int, feeds ...engine.Feed) [][][]float32 {
	t.Helper()
	out := make([][][]float32, len(feeds))
	err := e.Attend(context.Background(), feeds, blocks, func(feed, row int, weights []float32) {
		if row != len(out[feed]) {
			t.Errorf("feed %d: row %d was shown after %d others", feed, row, len(out[feed]))
		}
		out[feed] = append(out[feed], slices.Clone(weights))
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func difference(a, b []float32) float64 {
	if len(a) != len(b) {
		return math.Inf(1)
	}
	worst := 0.0
	for i := range a {
		worst = max(worst, math.Abs(float64(a[i])-float64(b[i])))
	}
	return worst
}

// TestAttentionReference holds the weights against a network that was written
// down a second time, see testdata/attention/reference.py. A single sequence
// lies in the cells in its own order. Gemma is held to less: ggml rounds its
// activation function to half precision, or does not, as the CPU has it.
func TestAttentionReference(t *testing.T) {
	data, err := os.ReadFile("testdata/attention/reference.json")
	if err != nil {
		t.Fatal(err)
	}
	var reference map[string]struct {
		Tokens  []decode.Token
		Blocks  int
		Weights map[int][]float32
	}
	if err := json.Unmarshal(data, &reference); err != nil {
		t.Fatal(err)
	}
	for _, name := range attentiveNames {
		e := openAttentive(t, name, Options{KV: KVF32})
		want, ok := reference[name]
		if !ok {
			t.Errorf("no reference for %s", name)
			continue
		}
		for _, cuts := range [][]int{{48}, {16, 47, 48}} { // in one piece, and behind a prompt in pieces
			s := sequence(t, e)
			var rows [][]float32
			for from := 0; len(cuts) > 0; cuts = cuts[1:] {
				rows = append(rows, attended(t, e, want.Blocks, engine.Feed{Seq: s, Tokens: want.Tokens[from:cuts[0]]})[0]...)
				from = cuts[0]
			}
			worst, most := 0.0, 1e-5
			if strings.HasPrefix(name, "gemma3") {
				most = 3e-4
			}
			for row, weights := range want.Weights {
				worst = max(worst, difference(rows[row], weights))
			}
			t.Logf("%s: greatest difference %.2g", name, worst)
			if worst > most {
				t.Errorf("%s: the weights differ by up to %g", name, worst)
			}
			s.Close()
		}
	}
}

// TestAttentionInvariants: weights are a distribution over the places that a
// row may look at, of which there are as many as rows so far, or as fit into the
// window.
func TestAttentionInvariants(t *testing.T) {
	for _, name := range attentiveNames {
		e := openAttentive(t, name, Options{Ubatch: 64})
		s := sequence(t, e)
		text, at := randomTokens(e, 150, 1), 0
		for n := range steps(text, 64, 1, 33, 2) {
			for i, weights := range attended(t, e, 4, engine.Feed{Seq: s, Tokens: text[at : at+n]})[0] {
				want, sum := at+i+1, 0.0
				if name == "gemma3-windows" {
					want = min(want, 8)
				}
				for _, w := range weights {
					sum += float64(w)
				}
				if len(weights) != want || math.Abs(sum-1) > 1e-5 || slices.Min(weights) < 0 {
					t.Fatalf("%s: row %d has %d weights, want %d; they sum to %v", name, at+i, len(weights), want, sum)
				}
			}
			at += n
		}
	}
}

// steps goes through a text in pieces of these sizes, over and over.
func steps(text []decode.Token, sizes ...int) func(yield func(int) bool) {
	return func(yield func(int) bool) {
		for at, i := 0, 0; at < len(text); i++ {
			n := min(sizes[i%len(sizes)], len(text)-at)
			if !yield(n) {
				return
			}
			at += n
		}
	}
}

func randomTokens(e *Engine, n int, seed uint64) []decode.Token {
	r, out := rand.New(rand.NewPCG(seed, 0)), make([]decode.Token, n)
	for i := range out {
		out[i] = decode.Token(r.IntN(e.info.Vocab))
	}
	return out
}

// TestAttentionOfMixedBatches: what a sequence looks at does not depend on what
// else is in the batch or in the cells, nor on the order of the feeds.
func TestAttentionOfMixedBatches(t *testing.T) {
	const n = 4
	for _, name := range []string{"llama", "qwen3"} {
		e := openAttentive(t, name, Options{MaxSequences: n + 1, KV: KVF32, Cells: 4096})
		texts, want := make([][]decode.Token, n), make([][][]float32, n)
		for i := range texts {
			texts[i] = randomTokens(e, 20+7*i, uint64(i))
			s := sequence(t, e)
			want[i] = attendInTwo(t, e, texts[i], s)
			s.Close()
		}
		for _, order := range [][]int{{0, 1, 2, 3}, {3, 1, 0, 2}, {2}, {1, 3}} {
			hole := sequence(t, e) // leaves cells empty before the others
			attended(t, e, 4, engine.Feed{Seq: hole, Tokens: texts[3][:9]})
			seqs := make([]engine.Sequence, len(order))
			heads, tails := make([]engine.Feed, len(order)), make([]engine.Feed, len(order))
			for k, i := range order {
				seqs[k] = sequence(t, e)
				cut := len(texts[i]) - 10
				heads[k] = engine.Feed{Seq: seqs[k], Tokens: texts[i][:cut], Output: engine.OutputNone}
				tails[k] = engine.Feed{Seq: seqs[k], Tokens: texts[i][cut:]}
			}
			if err := e.Forward(context.Background(), heads); err != nil {
				t.Fatal(err)
			}
			hole.Close()
			for k, rows := range attended(t, e, 4, tails...) {
				for r := range rows {
					a, b := slices.Sorted(slices.Values(rows[r])), slices.Sorted(slices.Values(want[order[k]][r]))
					if d := difference(a, b); d > 1e-5 {
						t.Errorf("%s: in the order %v row %d of text %d differs by %g from the text alone", name, order, r, order[k], d)
					}
				}
			}
			for _, s := range seqs {
				s.Close()
			}
		}
	}
}

// attendInTwo shows the last ten rows of a text.
func attendInTwo(t *testing.T, e *Engine, text []decode.Token, s engine.Sequence) [][]float32 {
	t.Helper()
	cut := len(text) - 10
	if err := e.Forward(context.Background(), []engine.Feed{{Seq: s, Tokens: text[:cut], Output: engine.OutputNone}}); err != nil {
		t.Fatal(err)
	}
	return attended(t, e, 4, engine.Feed{Seq: s, Tokens: text[cut:]})[0]
}

// TestAttendIsForward: logits, captures and edits are those of Forward, to the
// bit, and those of an engine that does not show attention.
func TestAttendIsForward(t *testing.T) {
	site := steer.Site{Layer: 1}
	plan, err := steer.NewPlan(steer.Intervention{Site: steer.Site{Layer: 2}, Op: steer.Add, Vector: slices.Repeat([]float32{1}, 64), Scale: 1})
	if err != nil {
		t.Fatal(err)
	}
	plain, shows := open(t, "tiny", gguf.F32, Options{Threads: 1}), openAttentive(t, "llama", Options{})
	feed := func(s engine.Sequence) []engine.Feed {
		return []engine.Feed{{Seq: s, Tokens: randomTokens(plain, 40, 3), Output: engine.OutputAll, Capture: []steer.Site{site}}}
	}
	var logits, rows [][]float32
	keep := func(s engine.Sequence) {
		x, err := s.Activation(site)
		if err != nil {
			t.Fatal(err)
		}
		logits, rows = append(logits, slices.Clone(s.Logits())), append(rows, slices.Clone(x))
	}
	for i, e := range []*Engine{plain, shows, shows} {
		s := sequence(t, e)
		if err := s.Steer(plan); err != nil {
			t.Fatal(err)
		}
		if i == 2 {
			attended(t, e, 4, feed(s)...)
		} else if err := e.Forward(context.Background(), feed(s)); err != nil {
			t.Fatal(err)
		}
		keep(s)
		s.Close()
	}
	for i := 1; i < len(logits); i++ {
		if !slices.Equal(logits[0], logits[i]) || !slices.Equal(rows[0], rows[i]) {
			t.Errorf("engine %d of plain, showing, asked to show: other logits or rows than the first", i)
		}
	}
}

func TestAttendRefuses(t *testing.T) {
	ctx := context.Background()
	see := func(int, int, []float32) { t.Error("something was shown") }
	plain := open(t, "tiny", gguf.F32, Options{Threads: 1})
	if err := plain.CanAttend(); !errors.Is(err, engine.ErrUnsupported) {
		t.Errorf("an engine opened without Options.Attention: %v", err)
	}
	if err := openAttentive(t, "gemma3", Options{MaxSequences: 2}).CanAttend(); !errors.Is(err, engine.ErrUnsupported) {
		t.Errorf("windows and two sequences: %v", err)
	}
	for _, o := range []Options{{Attention: true, Flash: FlashOn}, {Attention: true, KV: KVQ8_0}} {
		if _, err := library(t).Open(modelFileFor(t, "tiny", gguf.F32), o); !errors.Is(err, ErrOptions) {
			t.Errorf("%+v: %v, want ErrOptions", o, err)
		}
	}
	e := openAttentive(t, "llama", Options{})
	s := sequence(t, e)
	feed := func(n int) []engine.Feed { return []engine.Feed{{Seq: s, Tokens: randomTokens(e, n, 1)}} }
	embedded := []engine.Feed{{Seq: s, Embeddings: make([]float32, e.info.Width)}}
	over, stop := context.WithCancel(ctx)
	stop()
	for name, err := range map[string]error{
		"no rows":       e.Attend(ctx, nil, 4, see),
		"no blocks":     e.Attend(ctx, feed(2), 0, see),
		"five blocks":   e.Attend(ctx, feed(2), 5, see),
		"65 rows":       e.Attend(ctx, feed(AttendRows+1), 4, see),
		"embeddings":    e.Attend(ctx, embedded, 4, see),
		"ended context": e.Attend(over, feed(2), 4, see),
		"bad token":     e.Attend(ctx, []engine.Feed{{Seq: s, Tokens: []decode.Token{-1}}}, 4, see),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if s.Len() != 0 {
		t.Errorf("%d rows were fed", s.Len())
	}
	e.Close()
	if err := e.Attend(ctx, feed(1), 4, see); !errors.Is(err, engine.ErrClosed) {
		t.Errorf("a closed engine: %v", err)
	}
}

// TestAttentionThatIsNotShown: a graph without the named table is an error, and
// the rows are taken back.
func TestAttentionThatIsNotShown(t *testing.T) {
	e := openAttentive(t, "llama", Options{})
	s := sequence(t, e)
	e.info.Layers++ // as if there were a block more than the graph has
	e.hook.passes = append(e.hook.passes, 0)
	err := e.Attend(context.Background(), []engine.Feed{{Seq: s, Tokens: []decode.Token{1, 2, 3}}}, 2, func(int, int, []float32) { t.Error("something was shown") })
	e.info.Layers--
	if !errors.Is(err, engine.ErrUnsupported) || s.Len() != 0 {
		t.Errorf("error %v, %d rows", err, s.Len())
	}
	attended(t, e, 4, engine.Feed{Seq: s, Tokens: []decode.Token{1, 2, 3}})
}

// TestAttentionFromADevice: tables that are copied, as from a GPU, are the same.
func TestAttentionFromADevice(t *testing.T) {
	for _, name := range []string{"llama", "gemma3"} {
		e := openAttentive(t, name, Options{})
		text := randomTokens(e, 50, 4)
		look := func() [][]float32 {
			s := sequence(t, e)
			defer s.Close()
			return slices.Concat(attended(t, e, 4, engine.Feed{Seq: s, Tokens: text[:30]})[0], attended(t, e, 4, engine.Feed{Seq: s, Tokens: text[30:]})[0])
		}
		want, host := look(), e.lib.bufferIsHost
		e.lib.bufferIsHost = purego.NewCallback(func(uintptr) uintptr { return 0 })
		got := look()
		e.lib.bufferIsHost = host
		if !slices.EqualFunc(got, want, slices.Equal) {
			t.Errorf("%s: other weights by way of a copy", name)
		}
	}
}

func TestAttentionNames(t *testing.T) {
	for name, want := range map[string]int{
		"kq_soft_max-0": 0, "kq_soft_max-7": 7, "kq_soft_max-1023": 1023,
		"kq_soft_max-1024": -1, "kq_soft_max-99999999999": -1, "kq_soft_max-": -1, "kq_soft_max": -1, "": -1,
		"kq_soft_max-3 (view)": -1, "kq_soft_max-x": -1, "kq_soft_max--3": -1, "kq_soft_maxs-3": -1, "kq-3": -1, "l_out-3": -1,
	} {
		tensor := named(name)
		got, ok := attentionOf(uintptr(unsafe.Pointer(tensor)))
		if !ok {
			got = -1
		}
		if got != want {
			t.Errorf("%q is block %d, want %d", name, got, want)
		}
		for _, s := range []*sight{nil, {}, {on: true}, {on: true, first: 4}} {
			if want, got := s != nil && s.on && want >= s.first, s.wants(uintptr(unsafe.Pointer(tensor))); got != want {
				t.Errorf("%q with %+v: %v, want %v", name, s, got, want)
			}
		}
	}
}

func BenchmarkAttend(b *testing.B) {
	e := openAttentive(b, "llama", Options{})
	s, text := sequence(b, e), randomTokens(e, 1024, 1)
	ctx, none := context.Background(), func(int, int, []float32) {}
	if err := e.Forward(ctx, []engine.Feed{{Seq: s, Tokens: text, Output: engine.OutputNone}}); err != nil {
		b.Fatal(err)
	}
	feed := []engine.Feed{{Seq: s, Tokens: text[:32], Output: engine.OutputNone}}
	for name, run := range map[string]func() error{
		"shown":   func() error { return e.Attend(ctx, feed, 4, none) },
		"forward": func() error { return e.Forward(ctx, feed) },
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if err := errors.Join(run(), s.Rewind(32)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
