package onllama

import (
	"context"
	"math"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"

	"github.com/trimtab/trimtab/bindings/llamacpp"
	"github.com/trimtab/trimtab/bindings/llamacpp/llamatest"
	"github.com/trimtab/trimtab/internal/randmodel"
	"github.com/trimtab/trimtab/monitors"
	"github.com/trimtab/trimtab/monitors/perceiver"
	"github.com/trimtab/trimtab/runtime/engine"
)

func open(t *testing.T, o llamacpp.Options) *llamacpp.Engine {
	t.Helper()
	spec, err := randmodel.Preset("tiny")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "tiny.gguf")
	if err := randmodel.Write(path, spec); err != nil {
		t.Fatal(err)
	}
	return llamatest.Open(t, path, o)
}

var words = []string{"all", " is", " well", ".", " And", " so", "\n", " \u00e9t\u00e9", " on", "ward"}

// observe shows pieces to a watcher.
func observe(t *testing.T, w monitors.Watcher, step int, pieces ...string) (v monitors.Verdict) {
	for i, piece := range pieces {
		var err error
		if v, err = w.Observe(context.Background(), &monitors.Observation{Step: step + i, Piece: []byte(piece)}); err != nil {
			t.Error(err)
		}
	}
	return v
}

func draw(r *rand.Rand, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = words[r.IntN(len(words))]
	}
	return out
}

// tolerance is how much a logit moves when llama.cpp computes it in another
// batch or at other cells; see the conformance tests of the binding.
const tolerance = 1e-4

// TestPerceiver holds its mechanics on a real cache: a margin from forks, pieces
// and rewinds is that of the whole text fed at once, and a rewound watcher is a
// fresh one. A random model judges nothing, so signs are asked for at every
// read-out.
func TestPerceiver(t *testing.T) {
	e := open(t, llamacpp.Options{Threads: 1, Context: 1024, Cells: 4096, MaxSequences: 4, KV: llamacpp.KVF32, Flash: llamacpp.FlashOff})
	o := perceiver.Options{Hierarchy: short(), Prompt: "Judge.\n", Readout: " Verdict:", Every: 6, Threshold: perceiver.Unread, Watchers: 2}
	p, err := perceiver.New(context.Background(), e, o)
	if err != nil {
		t.Fatal(err)
	}
	m, err := p.Monitor("")
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(4, 2))
	for range 6 {
		kept, w := []string(nil), m.Start()
		for range 4 {
			more := draw(r, 1+r.IntN(20))
			observe(t, w, len(kept), more...)
			kept = append(kept, more...)
			n := r.IntN(len(kept))
			if err := w.Rewind(n); err != nil {
				t.Fatal(err)
			}
			kept = kept[:len(kept)-n]
		}
		kept = append(kept, "!\n")
		got, want := observe(t, w, len(kept)-1, kept[len(kept)-1], ""), observe(t, m.Start(), 0, append(kept, "")...)
		if math.Abs(got.Score-want.Score) > tolerance {
			t.Fatalf("%q: margin %v after rewinds, %v of a fresh watcher", kept, got.Score, want.Score)
		}
	}

	text := "all is well"
	got := observe(t, m.Start(), 0, "all is", " well", "")
	if want := direct(t, e, "Judge.\n", "Text:\n", "all is", " well Verdict:"); math.Abs(got.Score-want) > tolerance {
		t.Errorf("%q: margin %v, of the whole text %v", text, got.Score, want)
	}
	if got.Note == "" {
		t.Errorf("no signs were asked for: %+v", got)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

func short() *perceiver.Hierarchy {
	h := perceiver.Default()
	for i := range h.Principles {
		h.Principles[i].Text = "Be good."
	}
	return h
}

// direct feeds parts, encoded one by one, in one go to a sequence of its own.
func direct(t *testing.T, e engine.Engine, parts ...string) float64 {
	t.Helper()
	tok := e.Info().Tokenizer
	feed := engine.Feed{}
	for i, part := range parts {
		tokens, err := tok.Encode(part, engine.EncodeOptions{Start: i == 0, Markup: i == 0})
		if err != nil {
			t.Fatal(err)
		}
		feed.Tokens = append(feed.Tokens, tokens...)
	}
	seq, err := e.NewSequence(context.Background(), engine.Origin{})
	if err != nil {
		t.Fatal(err)
	}
	defer seq.Close()
	var last [2]int
	for i, end := range []string{" V", " R"} {
		tokens, err := tok.Encode(" Verdict:"+end, engine.EncodeOptions{Markup: true})
		if err != nil {
			t.Fatal(err)
		}
		last[i] = int(tokens[len(tokens)-1])
		if i == 0 {
			plain, _ := tok.Encode(" Verdict:", engine.EncodeOptions{Markup: true})
			feed.Tokens = append(feed.Tokens, tokens[len(plain):len(tokens)-1]...) // the space, where it is a token
		}
	}
	feed.Seq = seq
	if err := e.Forward(context.Background(), []engine.Feed{feed}); err != nil {
		t.Fatal(err)
	}
	return float64(seq.Logits()[last[0]]) - float64(seq.Logits()[last[1]])
}

// TestPerceiverShared: watchers of several sessions take turns on one engine.
func TestPerceiverShared(t *testing.T) {
	e := open(t, llamacpp.Options{Threads: 1, Context: 1024, Cells: 4096, MaxSequences: 3, KV: llamacpp.KVF32, Flash: llamacpp.FlashOff})
	p, err := perceiver.New(context.Background(), e, perceiver.Options{Hierarchy: short(), Prompt: "Judge.\n", Every: 5})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	m, err := p.Monitor("Go on.")
	if err != nil {
		t.Fatal(err)
	}
	texts := make([][]string, 5)
	want := make([]float64, len(texts))
	for i := range texts {
		texts[i] = draw(rand.New(rand.NewPCG(uint64(i), 9)), 40)
		want[i] = observe(t, m.Start(), 0, texts[i]...).Score
	}
	var wg sync.WaitGroup
	for i := range texts {
		wg.Go(func() {
			if got := observe(t, m.Start(), 0, texts[i]...).Score; math.Abs(got-want[i]) > tolerance {
				t.Errorf("text %d: margin %v beside others, %v alone", i, got, want[i])
			}
		})
	}
	wg.Wait()
}
