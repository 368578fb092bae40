package runtime

import (
	"context"
	"testing"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/monitors"
	"github.com/trimtab/trimtab/runtime/engine/enginetest"
)

// fake makes an engine that is closed with the test.
func fake(t testing.TB, cfg enginetest.FakeConfig) *enginetest.Fake {
	t.Helper()
	f, err := enginetest.NewFake(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if n := f.OpenSequences(); n != 0 && !t.Failed() {
			t.Errorf("%d sequences are still open", n)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

// saying makes an engine that answers every prompt with text and ends.
func saying(t testing.TB, text string, words ...string) *enginetest.Fake {
	t.Helper()
	cfg := enginetest.FakeConfig{Words: words}
	tok := fake(t, cfg).Info().Tokenizer
	var tokens []decode.Token
	for i := 0; i < len(text); {
		n := 1
		for w, word := range words {
			if len(word) > 1 && len(text)-i >= len(word) && text[i:i+len(word)] == word {
				tokens, n = append(tokens, enginetest.FirstWord+decode.Token(w)), len(word)
				break
			}
		}
		if n == 1 {
			tokens = append(tokens, decode.Token(text[i]))
		}
		i += n
	}
	_ = tok
	cfg.Script = enginetest.Say(tokens, enginetest.EOS)
	return fake(t, cfg)
}

// generate runs one session and returns its chunks joined beside the result.
func generate(t testing.TB, cfg Config) (*Result, string, error) {
	t.Helper()
	s, err := NewSession(context.Background(), cfg)
	if err != nil {
		return nil, "", err
	}
	defer s.Close()
	var streamed []byte
	for {
		c, err := s.Next(context.Background())
		streamed = append(streamed, c.Text...)
		if r := s.Result(); r != nil && c.empty() {
			if s.err == nil {
				return r, string(streamed), nil
			}
			return r, string(streamed), err
		}
	}
}

var prompt = enginetest.Tokens("Hello, who are you?")

// judge is a policy from a function.
type judge func(s *Step) (Action, error)

func (f judge) Decide(_ context.Context, s *Step) (Action, error) { return f(s) }

// seen is a monitor whose watcher keeps the tokens it has seen, and flags what
// flag says.
type seen struct {
	tokens []decode.Token
	flag   func(o *monitors.Observation) (monitors.Verdict, error)
}

func (w *seen) Observe(_ context.Context, o *monitors.Observation) (monitors.Verdict, error) {
	w.tokens = append(w.tokens, o.Token)
	if w.flag == nil {
		return monitors.Verdict{Score: float64(len(w.tokens))}, nil
	}
	return w.flag(o)
}

func (w *seen) Rewind(n int) error {
	w.tokens = w.tokens[:len(w.tokens)-n]
	return nil
}

func (w *seen) monitor(name string) monitors.Monitor {
	return monitors.Monitor{Name: name, Start: func() monitors.Watcher { return w }}
}
