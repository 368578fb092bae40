package enginetest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/runtime/engine"
	"github.com/trimtab/trimtab/steer"
)

func newFake(t *testing.T, cfg FakeConfig) *Fake {
	t.Helper()
	f, err := NewFake(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func newSeq(t *testing.T, f engine.Engine, from engine.Origin) engine.Sequence {
	t.Helper()
	s, err := f.NewSequence(t.Context(), from)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func argmax(l decode.Logits) decode.Token {
	return decode.Token(slices.Index(l, slices.Max(l)))
}

// generate continues a sequence greedily until an end token or n tokens.
func generate(t *testing.T, f engine.Engine, s engine.Sequence, prompt []decode.Token, n int) (out []decode.Token) {
	t.Helper()
	feed := engine.Feed{Seq: s, Tokens: prompt, PromptLen: s.Len() + len(prompt)}
	for range n {
		if err := f.Forward(t.Context(), []engine.Feed{feed}); err != nil {
			t.Fatal(err)
		}
		tok := argmax(s.Logits())
		if f.Info().Tokenizer.Kind(tok)&engine.KindEnd != 0 {
			return out
		}
		out = append(out, tok)
		feed.Tokens = []decode.Token{tok}
	}
	return out
}

func text(f engine.Engine, tokens []decode.Token) string {
	var b []byte
	for _, t := range tokens {
		b = f.Info().Tokenizer.AppendPiece(b, t)
	}
	return string(b)
}

func TestScripts(t *testing.T) {
	answer := Tokens("héllo €")
	for _, c := range []struct {
		name   string
		script Script
		prompt string
		want   string
	}{
		{"say", Say(answer, EOS), "anything", "héllo €"},
		{"after", After(Tokens("Q:"), answer, EOT), "Q: Q:", "héllo €"},
		{"first", First(After(Tokens("no"), Tokens("x"), EOS), Say(answer, EOS)), "Q", "héllo €"},
		{"first wins", First(After(Tokens("no"), Tokens("x"), EOS), Say(answer, EOS)), "no", "x"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFake(t, FakeConfig{Script: c.script})
			got := text(f, generate(t, f, newSeq(t, f, engine.Origin{}), Tokens(c.prompt), 20))
			if got != c.want {
				t.Fatalf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestUnscriptedTextIsPrintable(t *testing.T) {
	f := newFake(t, FakeConfig{})
	got := text(f, generate(t, f, newSeq(t, f, engine.Origin{}), Tokens("hi"), 200))
	if len(got) != 200 || strings.IndexFunc(got, func(r rune) bool { return r < ' ' || r > '~' }) >= 0 {
		t.Fatalf("got %q", got)
	}
}

func TestStrongPlanBeatsScript(t *testing.T) {
	f := newFake(t, FakeConfig{Script: Say(Tokens("aaaa"), EOS)})
	s := newSeq(t, f, engine.Origin{})
	v := make([]float32, 16)
	v['b'%16] = 1
	for _, scale := range []float32{500, -500} {
		plan, err := steer.NewPlan(steer.Intervention{Site: steer.Site{Layer: 3}, Vector: v, Scale: scale})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Steer(plan); err != nil {
			t.Fatal(err)
		}
		if got := generate(t, f, s, Tokens("x"), 1); got[0] == 'a' {
			t.Fatalf("scale %v: still %q", scale, text(f, got))
		}
	}
}

func TestTokenizer(t *testing.T) {
	f := newFake(t, FakeConfig{Words: []string{"the ", "the", " \xe2\x82", "\xac!"}, Vocab: 300})
	tok := f.Info().Tokenizer
	for _, c := range []struct {
		in   string
		o    engine.EncodeOptions
		want []decode.Token
	}{
		{"the €!", engine.EncodeOptions{}, []decode.Token{FirstWord, 0xe2, 0x82, FirstWord + 3}},
		{"the", engine.EncodeOptions{Start: true}, []decode.Token{BOS, FirstWord + 1}},
		{"a €", engine.EncodeOptions{}, []decode.Token{'a', FirstWord + 2, 0xac}},
		{"<|eos|>", engine.EncodeOptions{Markup: true}, []decode.Token{EOS}},
		{"<|eos|>", engine.EncodeOptions{}, Tokens("<|eos|>")},
	} {
		got, err := tok.Encode(c.in, c.o)
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%q: got %v, %v; want %v", c.in, got, err, c.want)
		}
	}
	if _, err := tok.Encode("ab\xffc", engine.EncodeOptions{}); err == nil || !strings.Contains(err.Error(), "byte 2") {
		t.Errorf("invalid UTF-8: %v", err)
	}
	if utf8.ValidString(text(f, []decode.Token{FirstWord + 2})) {
		t.Error("a word should be able to cut a character apart")
	}
	if tok.Kind(299) != engine.KindUnused || tok.Text(EOT) != "<|im_end|>" {
		t.Error("kinds or texts are wrong")
	}
}

func TestEmbeddingOfTokenIsToken(t *testing.T) {
	f := newFake(t, FakeConfig{})
	a, b := newSeq(t, f, engine.Origin{}), newSeq(t, f, engine.Origin{})
	err := f.Forward(t.Context(), []engine.Feed{
		{Seq: a, Tokens: []decode.Token{7, 8}},
		{Seq: b, Embeddings: append(f.Embedding(7), f.Embedding(8)...)},
	})
	if err != nil || !slices.Equal(a.Logits(), b.Logits()) {
		t.Fatalf("differ, %v", err)
	}
}

func TestCellsAreShared(t *testing.T) {
	f := newFake(t, FakeConfig{Cells: 10, Context: 8, MaxSequences: 3})
	a := newSeq(t, f, engine.Origin{})
	if err := f.Forward(t.Context(), []engine.Feed{{Seq: a, Tokens: Tokens("123456")}}); err != nil {
		t.Fatal(err)
	}
	b := newSeq(t, f, engine.Origin{Fork: a, Len: 5})
	if f.UsedCells() != 6 || f.OpenSequences() != 2 {
		t.Fatalf("%d cells, %d sequences", f.UsedCells(), f.OpenSequences())
	}
	if err := a.Rewind(3); err != nil || f.UsedCells() != 5 {
		t.Fatalf("%d cells after the rewind, %v", f.UsedCells(), err)
	}
	if a.Close() != nil || b.Close() != nil || f.UsedCells() != 0 || f.OpenSequences() != 0 {
		t.Fatalf("%d cells after closing", f.UsedCells())
	}
}

func TestHooks(t *testing.T) {
	broken := errors.New("broken")
	entered, release := make(chan struct{}, 1), make(chan struct{})
	for _, c := range []struct {
		name  string
		hooks Hooks
		check func(f *Fake, feed []engine.Feed) error
		want  error
	}{
		{"fail", Hooks{Before: FailAt(1, broken)}, nil, broken},
		{"block", Hooks{Before: BlockAt(1, entered, release)}, nil, context.DeadlineExceeded},
		{"delay", Hooks{Delay: time.Hour}, nil, context.DeadlineExceeded},
		{"row delay", Hooks{RowDelay: time.Hour}, nil, context.DeadlineExceeded},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFake(t, FakeConfig{Hooks: c.hooks})
			s := newSeq(t, f, engine.Origin{})
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
			defer cancel()
			err := f.Forward(ctx, []engine.Feed{{Seq: s, Tokens: Tokens("abc")}})
			if !errors.Is(err, c.want) || s.Len() != 0 || f.UsedCells() != 0 || f.RowsFed() != 0 || f.Forwards() != 1 {
				t.Fatalf("%v, %d rows, %d cells", err, s.Len(), f.UsedCells())
			}
		})
	}
}

func TestPanicLeavesEngineUsable(t *testing.T) {
	f := newFake(t, FakeConfig{Hooks: Hooks{Before: PanicAt(1, "boom")}, Record: true})
	s := newSeq(t, f, engine.Origin{})
	feed := []engine.Feed{{Seq: s, Tokens: Tokens("abc"), PromptLen: 3, Phase: steer.PhasePrompt}}
	func() {
		defer func() {
			if recover() != "boom" {
				t.Error("no panic")
			}
		}()
		f.Forward(t.Context(), feed)
	}()
	if err := f.Forward(t.Context(), feed); err != nil || s.Len() != 3 {
		t.Fatal(err)
	}
	if log := f.Log(); len(log) != 1 || log[0].Forward != 2 || log[0].Rows != 3 || !slices.Equal(log[0].Tokens, Tokens("abc")) {
		t.Fatalf("%+v", log)
	}
}

func TestSecondDriverIsNoticed(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	f := newFake(t, FakeConfig{Hooks: Hooks{Before: BlockAt(1, entered, release)}})
	s := newSeq(t, f, engine.Origin{})
	done := make(chan error)
	go func() { done <- f.Forward(t.Context(), []engine.Feed{{Seq: s, Tokens: Tokens("a")}}) }()
	<-entered
	if _, err := f.NewSequence(t.Context(), engine.Origin{}); err == nil {
		t.Error("a second driver was let in")
	}
	close(release)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func TestDecodeStepAllocatesNothing(t *testing.T) {
	f := newFake(t, FakeConfig{Cells: 1 << 16, Context: 1 << 15, Script: Say(Tokens("abc"), EOS)})
	s := newSeq(t, f, engine.Origin{})
	site := steer.Site{Layer: 1}
	plan, err := steer.NewPlan(steer.Intervention{Site: site, Vector: f.Embedding(3), Scale: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Steer(plan); err != nil {
		t.Fatal(err)
	}
	feeds := []engine.Feed{{Seq: s, Tokens: make([]decode.Token, 2000), Capture: []steer.Site{site}}}
	if err := f.Forward(t.Context(), feeds); err != nil {
		t.Fatal(err)
	}
	if err := s.Rewind(2000); err != nil {
		t.Fatal(err)
	}
	feeds[0].Tokens = feeds[0].Tokens[:1]
	if n := testing.AllocsPerRun(500, func() {
		if err := f.Forward(t.Context(), feeds); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Fatalf("%v allocations a step", n)
	}
}

func TestBadConfig(t *testing.T) {
	_, err := NewFake(FakeConfig{Width: -1, Layers: -2, Vocab: 10})
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{"width", "layers", "vocabulary"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not name %s", err, want)
		}
	}
}

func BenchmarkDecodeStep(b *testing.B) {
	f, err := NewFake(FakeConfig{Context: 1 << 20, Cells: 1 << 20})
	if err != nil {
		b.Fatal(err)
	}
	s, err := f.NewSequence(b.Context(), engine.Origin{})
	if err != nil {
		b.Fatal(err)
	}
	feeds := []engine.Feed{{Seq: s, Tokens: []decode.Token{1}}}
	b.ReportAllocs()
	for b.Loop() {
		if err := f.Forward(b.Context(), feeds); err != nil {
			b.Fatal(err)
		}
		if s.Len() > 1<<19 {
			if err := s.Rewind(s.Len()); err != nil {
				b.Fatal(err)
			}
		}
	}
}
