package llamacpp

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/trimtab/trimtab/bindings/llamacpp/libs"
	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/internal/gguf"
	"github.com/trimtab/trimtab/internal/randmodel"
	"github.com/trimtab/trimtab/runtime/engine"
)

// library loads llama.cpp, or skips the test saying what is missing; on CI
// that is a failure.
func library(t testing.TB) *Library {
	t.Helper()
	set, err := libs.Find("", libs.Host())
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	l, err := Load(set)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

var models sync.Map // file name -> *sync.Once of its making

// modelFileFor makes a random model once per test process.
func modelFileFor(t testing.TB, preset string, typ gguf.TensorType) string {
	t.Helper()
	spec, err := randmodel.Preset(preset)
	if err != nil {
		t.Fatal(err)
	}
	spec.Type = typ
	path := filepath.Join(modelDir, fmt.Sprintf("%s-%s.gguf", preset, typ))
	once, _ := models.LoadOrStore(path, new(sync.Once))
	once.(*sync.Once).Do(func() {
		if err := randmodel.Write(path, spec); err != nil {
			t.Fatal(err)
		}
	})
	return path
}

var modelDir string

func TestMain(m *testing.M) {
	var err error
	if modelDir, err = os.MkdirTemp("", "trimtab-llamacpp-*"); err != nil {
		panic(err)
	}
	code := m.Run()
	os.RemoveAll(modelDir)
	os.Exit(code)
}

func open(t testing.TB, preset string, typ gguf.TensorType, o Options) *Engine {
	t.Helper()
	e, err := library(t).Open(modelFileFor(t, preset, typ), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

func argmax(l decode.Logits) decode.Token {
	best := 0
	for i, x := range l {
		if x > l[best] {
			best = i
		}
	}
	return decode.Token(best)
}

// greedy continues the prompt by n tokens on its own sequence.
func greedy(t testing.TB, e *Engine, prompt []decode.Token, n int) []decode.Token {
	t.Helper()
	ctx := context.Background()
	s, err := e.NewSequence(ctx, engine.Origin{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var out []decode.Token
	feed := prompt
	for range n {
		if err := e.Forward(ctx, []engine.Feed{{Seq: s, Tokens: feed}}); err != nil {
			t.Fatal(err)
		}
		out = append(out, argmax(s.Logits()))
		feed = out[len(out)-1:]
	}
	return out
}

func TestGreedySmoke(t *testing.T) {
	for _, arch := range []string{"tiny", "tiny-spm", "tiny-qwen3", "tiny-gemma3"} {
		e := open(t, arch, gguf.F32, Options{Threads: 1})
		toks, err := e.Info().Tokenizer.Encode("hello world", engine.EncodeOptions{Start: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %+v", arch, *e.Info())
		t.Logf("%v -> %v", toks, greedy(t, e, toks, 16))
	}
}
