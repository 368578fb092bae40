package llamacpp

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/internal/gguf"
	"github.com/trimtab/trimtab/runtime/engine"
	"github.com/trimtab/trimtab/steer"
)

// wantError checks that err wraps is (when not nil) and says text.
func wantError(t *testing.T, err, is error, text string) {
	t.Helper()
	if err == nil || (is != nil && !errors.Is(err, is)) || !strings.Contains(err.Error(), text) {
		t.Errorf("error is %v, want one that wraps %v and says %q", err, is, text)
	}
}

func TestVersionAndLayoutAreChecked(t *testing.T) {
	wantError(t, checkVersion("b1234"), nil, `"b1234", supported: 0.5.0`)
	wantError(t, checkVersion(""), nil, "engine install")
	l := library(t)
	if err := checkLayout(l.modelDefaults, l.contextDefaults); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*modelParams, *contextParams){
		"n_gpu_layers":    func(m *modelParams, _ *contextParams) { m.nGPULayers = 999 },
		"n_batch":         func(_ *modelParams, c *contextParams) { c.nBatch = 0 },
		"yarn_ext_factor": func(_ *modelParams, c *contextParams) { c.yarnExt = 0 },
		"type_k":          func(_ *modelParams, c *contextParams) { c.typeK = 512 },
	} {
		m, c := l.modelDefaults, l.contextDefaults
		spoil(&m, &c)
		wantError(t, checkLayout(m, c), nil, name)
	}
}

// TestOptionsOutOfRange: llama.cpp would abort or allocate without end.
func TestOptionsOutOfRange(t *testing.T) {
	l, path := library(t), modelFileFor(t, "tiny", gguf.F32)
	for text, o := range map[string]Options{
		"GPULayers is 99999":                  {GPULayers: 99999},
		"Cells is 4":                          {Cells: 4},
		"Context is 100000, the model was tr": {Context: 100000},
		"Threads is -1":                       {Threads: -1},
	} {
		_, err := l.Open(path, o)
		wantError(t, err, ErrOptions, text)
	}
}

// TestForeignLibraries: a library that is not llama.cpp, or not one at all, is
// refused before anything in it is called.
func TestForeignLibraries(t *testing.T) {
	set := library(t).set
	foreign := set
	foreign.Llama, foreign.GGML = set.Base, set.Base
	wantError(t, (&Library{set: foreign}).open(), ErrVersion, "llama_version is missing")

	text := filepath.Join(t.TempDir(), "libllama.so")
	if err := os.WriteFile(text, []byte("not a library"), 0o600); err != nil {
		t.Fatal(err)
	}
	foreign.Llama = text
	wantError(t, (&Library{set: foreign}).open(), nil, "libllama.so")
	_, err := Load(foreign)
	wantError(t, err, nil, "is loaded already")
}

func TestOpenRefuses(t *testing.T) {
	l := library(t)
	model := modelFileFor(t, "tiny", gguf.F32)
	for _, c := range []struct {
		name string
		o    Options
		text string
	}{
		{"context too small", Options{Context: 4}, "Context is 4, must be between 8"},
		{"context beyond training", Options{Context: 1 << 20}, "the model was trained for 2048"},
		{"cells below context", Options{Context: 512, Cells: 100}, "Cells is 100"},
		{"negative threads", Options{Threads: -3}, "Threads is -3"},
		{"too many sequences", Options{MaxSequences: 1000}, "MaxSequences is 1000"},
		{"ubatch over batch", Options{Batch: 64, Ubatch: 128}, "Ubatch is 128"},
		{"cache type", Options{KV: "q3"}, `KV is "q3"`},
		{"flash", Options{Flash: "maybe"}, `Flash is "maybe"`},
		{"quantised cache without flash", Options{KV: KVQ8_0, Flash: FlashOff}, "needs flash attention"},
		{"gpu layers", Options{GPULayers: -7}, "GPULayers is -7"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := l.Open(model, c.o)
			wantError(t, err, nil, c.text)
		})
	}
	_, err := l.Open(filepath.Join(t.TempDir(), "nothing.gguf"), Options{})
	wantError(t, err, os.ErrNotExist, "nothing.gguf")
	stopped := Options{Progress: func(float32) bool { return false }}
	_, err = l.Open(model, stopped)
	wantError(t, err, ErrModel, "stopped by Progress")
	_, err = l.Open(model, Options{Progress: func(float32) bool { panic("no bar") }})
	wantError(t, err, ErrModel, "stopped by Progress")
}

// TestRestoreRefuses: bytes of another cache, damaged ones and others.
func TestRestoreRefuses(t *testing.T) {
	ctx := context.Background()
	e := open(t, "tiny", gguf.F32, Options{Threads: 1})
	s := sequence(t, e)
	if err := e.Forward(ctx, []engine.Feed{{Seq: s, Tokens: []decode.Token{65, 66, 67}}}); err != nil {
		t.Fatal(err)
	}
	saved, err := e.Save(s)
	if err != nil {
		t.Fatal(err)
	}
	restore := func(e *Engine, b []byte) error {
		_, err := e.NewSequence(ctx, engine.Origin{Saved: b})
		return err
	}
	wantError(t, restore(open(t, "tiny", gguf.F32, Options{Threads: 1, KV: KVF32}), saved), nil, "another context size, cache type")
	wantError(t, restore(open(t, "tiny-spm", gguf.F32, Options{Threads: 1}), saved), nil, "another model")
	damaged := append([]byte(nil), saved...)
	damaged[len(damaged)/2] ^= 1
	wantError(t, restore(e, damaged), nil, "checksum")
	wantError(t, restore(e, saved[:20]), nil, "not saved sequence bytes")
	wantError(t, restore(e, []byte{}), nil, "not saved sequence bytes")
}

// TestOpenRefusesOtherKinds edits a sound file's metadata.
func TestOpenRefusesOtherKinds(t *testing.T) {
	l := library(t)
	path := modelFileFor(t, "tiny", gguf.F32)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	write := func(s string) string {
		p := filepath.Join(t.TempDir(), "m.gguf")
		if err := os.WriteFile(p, []byte(s), 0o600); err != nil {
			t.Fatal(err)
		}
		return p
	}
	_, err = l.Open(write(strings.ReplaceAll(string(data), "llama", "llada")), Options{})
	wantError(t, err, engine.ErrUnsupported, "diffusion")
	_, err = l.Open(write(strings.ReplaceAll(string(data), "llama", "lxxma")), Options{})
	wantError(t, err, ErrModel, "lxxma")
	_, err = l.Open(write(string(data[:len(data)/2])), Options{})
	wantError(t, err, ErrModel, "")
}

func TestEncodeRefusesInvalidUTF8(t *testing.T) {
	tok := open(t, "tiny", gguf.F32, Options{Threads: 1}).info.Tokenizer
	for text, at := range map[string]string{"\xff": "byte 0", "ab\xc3": "byte 2", "é\xe2\x82x": "byte 2"} {
		_, err := tok.Encode(text, engine.EncodeOptions{})
		wantError(t, err, nil, "invalid UTF-8 at "+at)
	}
	if got := tok.AppendPiece(nil, -1); len(got) != 0 || tok.Text(1<<30) != "" || tok.Kind(-5) != engine.KindUnused {
		t.Error("tokens outside the vocabulary have text")
	}
}

// TestUserTextIsNotMarkup: control words in user text stay letters.
func TestUserTextIsNotMarkup(t *testing.T) {
	for _, preset := range []string{"tiny", "tiny-spm"} {
		tok := open(t, preset, gguf.F32, Options{Threads: 1}).info.Tokenizer
		const text = "a<|im_end|>b"
		plain, err := tok.Encode(text, engine.EncodeOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var back []byte
		for _, id := range plain {
			if tok.Kind(id)&engine.KindControl != 0 {
				t.Errorf("%s: user text became control token %d", preset, id)
			}
			back = tok.AppendPiece(back, id)
		}
		if strings.TrimPrefix(string(back), " ") != text {
			t.Errorf("%s: %q came back as %q", preset, text, back)
		}
		markup, err := tok.Encode(text, engine.EncodeOptions{Markup: true})
		if err != nil || len(markup) >= len(plain) {
			t.Errorf("%s: markup gave %d tokens (%v), plain text %d", preset, len(markup), err, len(plain))
		}
	}
}

func TestClosedEngine(t *testing.T) {
	ctx := context.Background()
	e := open(t, "tiny", gguf.F32, Options{Threads: 1})
	s := sequence(t, e)
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := e.NewSequence(ctx, engine.Origin{})
	wantError(t, err, engine.ErrClosed, "new sequence")
	wantError(t, e.Forward(ctx, []engine.Feed{{Seq: s, Tokens: []decode.Token{1}}}), engine.ErrClosed, "forward")
	wantError(t, s.Steer(nil), engine.ErrClosed, "steer")
	wantError(t, s.Rewind(1), engine.ErrClosed, "rewind")
	_, err = s.Activation(steer.Site{})
	wantError(t, err, engine.ErrClosed, "activation")
	_, err = e.info.Tokenizer.Encode("a", engine.EncodeOptions{})
	wantError(t, err, engine.ErrClosed, "encode")
	if s.Logits() != nil || s.Close() != nil || e.Close() != nil {
		t.Error("a closed engine still answers")
	}
}
