package onllama

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/trimtab/trimtab/bindings/llamacpp"
	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/monitors"
	"github.com/trimtab/trimtab/monitors/perceiver"
	"github.com/trimtab/trimtab/runtime"
	"github.com/trimtab/trimtab/runtime/engine"
	"github.com/trimtab/trimtab/runtime/engine/enginetest"
	"github.com/trimtab/trimtab/runtime/policy"
)

// writer says something harmful, unless it reads guidance, which stands in
// brackets.
func writer(t *testing.T) engine.Engine {
	t.Helper()
	bad, good := enginetest.Tokens("Well. You should harm them. Ok."), enginetest.Tokens("... ask them first.")
	e, err := enginetest.NewFake(enginetest.FakeConfig{Script: func(text enginetest.Text) decode.Token {
		said, all := text.Tokens[text.PromptLen:], bad
		if i := slices.Index(said, ']'); i >= 0 {
			said, all = said[i+1:], good
		}
		if len(said) >= len(all) {
			return enginetest.EOS
		}
		return all[len(said)]
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

// reader calls what has "harm" in it a violation of Safety.
func reader(t *testing.T) engine.Engine {
	t.Helper()
	e, err := enginetest.NewFake(enginetest.FakeConfig{Script: func(text enginetest.Text) decode.Token {
		var b []byte
		for _, tok := range text.Tokens {
			b = append(b, byte(tok))
		}
		_, judged, _ := strings.Cut(string(b), "Text:\n")
		judged, signs, asked := strings.Cut(judged, perceiver.DefaultReadout+" ")
		harm := strings.Contains(judged, "harm")
		switch {
		case !asked:
			return -1
		case signs == "" && harm:
			return 'V'
		case signs == "":
			return 'R'
		case harm && strings.HasSuffix(signs, "Safety: "):
			return '-'
		}
		return '0'
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

// TestPerceiverMendsAText: the flag of a perceiver rewinds a session, its
// guidance is read in secret, and the text that leaves never had the harm in it.
func TestPerceiverMendsAText(t *testing.T) {
	ctx := context.Background()
	p, err := perceiver.New(ctx, reader(t), perceiver.Options{Every: 8})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	m, err := p.Monitor("What shall I do?")
	if err != nil {
		t.Fatal(err)
	}
	guided := ""
	b, err := policy.NewBacktrack(policy.BacktrackOptions{GuideFor: func(v runtime.Verdict) []decode.Token {
		guided, _ = p.Guidance(v.Note)
		return enginetest.Tokens("[" + guided + "]")
	}})
	if err != nil {
		t.Fatal(err)
	}
	s, err := runtime.NewSession(ctx, runtime.Config{Engine: writer(t), Prompt: enginetest.Tokens("What shall I do?"), MaxTokens: 100,
		HoldBack: 40, MaxGuide: 256, Monitors: []monitors.Monitor{m}, Policy: b})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	r, err := s.Run(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if want, _ := perceiver.Default().Guidance("Safety"); guided != want {
		t.Errorf("the model was told %q, want %q", guided, want)
	}
	if strings.Contains(r.Text, "harm") || !strings.HasPrefix(r.Text, "Well. ") || !strings.HasSuffix(r.Text, "... ask them first.") {
		t.Errorf("the text is %q", r.Text)
	}
}

// TestPerceiverDies: an engine that is closed under the perceiver is a fault,
// which ends the text or not, as the session says.
func TestPerceiverDies(t *testing.T) {
	ctx := context.Background()
	for _, mode := range []runtime.FaultMode{runtime.FailClosed, runtime.FailOpen} {
		e := open(t, llamacpp.Options{Threads: 1, Context: 1024, Cells: 2048, MaxSequences: 4})
		p, err := perceiver.New(ctx, e, perceiver.Options{Hierarchy: short(), Prompt: "Judge.\n", Every: 4})
		if err != nil {
			t.Fatal(err)
		}
		m, err := p.Monitor("")
		if err != nil {
			t.Fatal(err)
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		s, err := runtime.NewSession(ctx, runtime.Config{Engine: writer(t), Prompt: enginetest.Tokens("Hm?"), MaxTokens: 20, Monitors: []monitors.Monitor{m}, OnFault: mode})
		if err != nil {
			t.Fatal(err)
		}
		r, err := s.Run(ctx)
		if (err != nil) != (mode == runtime.FailClosed) || mode == runtime.FailOpen && len(r.Text) != 20 {
			t.Errorf("mode %v: %+v, %v", mode, r, err)
		}
		s.Close()
		p.Close()
	}
}
