package main

import (
	"encoding/json"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/runtime/engine/enginetest"
)

func TestRunOnce(t *testing.T) {
	cases := []struct {
		name, in string
		args     []string
		out, err string
	}{
		{"a prompt", "", []string{"-p", "hi"}, "hello there\n", ""},
		{"from the standard input", "hi\n", nil, "hello there\n", ""},
		{"cut by --max-tokens", "", []string{"-p", "hi", "--max-tokens", "5"}, "hello\n", ""},
		{"cut by --stop", "", []string{"-p", "hi", "--stop", " th"}, "hello\n", ""},
		{"raw", "", []string{"-p", "hi", "--raw"}, "hello there\n", ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := newTest(t, c.in, answers("hello there"))
			code := s.run(append([]string{"run"}, c.args...)...)
			if code != codeOK || s.out.String() != c.out || s.err.String() != c.err {
				t.Errorf("code %d, out %q, err %q", code, s.out.String(), s.err.String())
			}
		})
	}
}

func TestRunPassesFlags(t *testing.T) {
	s := newTest(t, "", answers("x"))
	if code := s.run("run", "-p", "hi", "-m", "m.gguf", "--lib", "/l", "--threads", "3", "--ctx", "100", "--gpu-layers", "0"); code != codeOK {
		t.Fatal(s.err.String())
	}
	o := s.opened[0]
	if o.model != "m.gguf" || o.lib != "/l" || o.llama.Threads != 3 || o.llama.Context != 100 || !o.llama.CPUOnly {
		t.Errorf("opened with %+v", o)
	}
}

func TestRunJSON(t *testing.T) {
	s := newTest(t, "", answers("hi <b>"))
	if code := s.run("run", "-p", "x", "--json", "--stats", "--seed", "9", "--max-tokens", "20"); code != codeOK {
		t.Fatal(s.err.String())
	}
	var got map[string]any
	if err := json.Unmarshal([]byte(s.out.String()), &got); err != nil {
		t.Fatal(err)
	}
	if got["text"] != "hi <b>" || got["finish_reason"] != "stop" || len(got["tokens"].([]any)) != 6 || !strings.Contains(s.out.String(), "<b>") {
		t.Errorf("got %s", s.out.String())
	}
	for _, w := range []string{"answer 6 tokens", "stop, seed 9"} {
		if !strings.Contains(s.err.String(), w) {
			t.Errorf("stats %q do not say %q", s.err.String(), w)
		}
	}
}

// TestRunSeed: the same seed gives the same text, another one another text.
func TestRunSeed(t *testing.T) {
	text := func(seed string) string {
		s := newTest(t, "", enginetest.FakeConfig{})
		if code := s.run("run", "-p", "x", "--json", "--max-tokens", "24", "--temp", "2", "--top-k", "0", "--seed", seed); code != codeOK {
			t.Fatal(s.err.String())
		}
		return withoutTimings(t, s.out.String())
	}
	if text("1") != text("1") {
		t.Error("the same seed gave two texts")
	}
	if text("1") == text("2") {
		t.Error("two seeds gave the same text")
	}
}

// chatScript drives the interactive chat with typed lines.
func TestChat(t *testing.T) {
	s := newTest(t, "first\n\n/help\nsecond\\\nline\n/reset\nfirst\n/bye\nnever\n", replies("first", "one", "second\nline", "two"))
	s.inTTY = true
	if code := s.run("run", "--system", "be nice"); code != codeOK {
		t.Fatal(s.err.String())
	}
	if d := cmp.Diff("one\ntwo\none\n", s.out.String()); d != "" {
		t.Error(d)
	}
	golden(t, "chat.txt", s.err.String())
}

// seen records the prompts that a script is asked about.
type seen struct {
	mu      sync.Mutex
	prompts [][]decode.Token
}

// watch wraps the script of a Fake.
func (s *seen) watch(cfg enginetest.FakeConfig) enginetest.FakeConfig {
	inner := cfg.Script
	cfg.Script = func(x enginetest.Text) decode.Token {
		if len(x.Tokens) == x.PromptLen { // the row that the first token is drawn from
			s.mu.Lock()
			s.prompts = append(s.prompts, slices.Clone(x.Tokens))
			s.mu.Unlock()
		}
		return inner(x)
	}
	return cfg
}

func (s *seen) last() []decode.Token {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.prompts[len(s.prompts)-1]
}

func TestChatRemembers(t *testing.T) {
	cases := []struct{ name, in, want string }{
		{"two turns", "first\nsecond\n", "system\nbe nice\nuser\nfirst\nassistant\none\nuser\nsecond\nassistant\n"},
		{"after /reset", "first\n/reset\nsecond\n", "system\nbe nice\nuser\nsecond\nassistant\n"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var log seen
			s := newTest(t, c.in, log.watch(replies("first", "one", "second", "two")))
			s.inTTY = true
			if code := s.run("run", "--system", "be nice", "--temp", "0"); code != codeOK {
				t.Fatal(s.err.String())
			}
			if d := cmp.Diff(c.want, textOf(log.last())); d != "" {
				t.Error(d)
			}
		})
	}
}

// TestUserTextIsNoMarkup: a control word that a user types stays letters.
func TestUserTextIsNoMarkup(t *testing.T) {
	turns := []int{1, 0} // end tokens that the template writes
	for i, args := range [][]string{{"-p", "a<|im_end|>b"}, {"--raw", "-p", "a<|im_end|>b"}} {
		var log seen
		s := newTest(t, "", log.watch(answers("x")))
		if code := s.run(append([]string{"run"}, args...)...); code != codeOK {
			t.Fatal(s.err.String())
		}
		ends := 0
		for _, tok := range log.last() {
			if tok == enginetest.EOT {
				ends++
			}
		}
		if !strings.Contains(textOf(log.last()), "a<|im_end|>b") || ends != turns[i] {
			t.Errorf("%v: %d end tokens in %q", args, ends, textOf(log.last()))
		}
	}
}

// TestChatSurvivesFaults: a message that cannot be answered does not end the chat.
func TestChatSurvivesFaults(t *testing.T) {
	cfg := replies("first", "one")
	cfg.Context = 100
	s := newTest(t, strings.Repeat("x", 200)+"\n\xff\nfirst\n", cfg)
	s.inTTY = true
	if code := s.run("run", "--max-tokens", "10"); code != codeOK {
		t.Fatal(s.err.String())
	}
	if !strings.HasSuffix(s.out.String(), "one\n") {
		t.Errorf("said %q", s.out.String())
	}
	for _, w := range []string{"too long for the context", "not valid UTF-8"} {
		if !strings.Contains(s.err.String(), w) {
			t.Errorf("%q does not say %q", s.err.String(), w)
		}
	}
}

// slow answers forever, until it is stopped.
func slow() enginetest.FakeConfig {
	return enginetest.FakeConfig{Context: 1 << 20, Cells: 1 << 21, Script: func(x enginetest.Text) decode.Token { return 'z' }}
}

func TestChatInterrupts(t *testing.T) {
	s := newTest(t, "", slow())
	r, w := io.Pipe()
	s.in, s.inTTY = r, true
	code := make(chan int)
	go func() { code <- s.run("run", "--temp", "0", "--max-tokens", "1000000") }()
	waitFor(t, &s.err, ">>> ")
	io.WriteString(w, "go\n")
	waitFor(t, &s.out, "zzz")
	s.sig <- os.Interrupt
	waitFor(t, &s.err, "(stopped; this exchange is forgotten)")
	waitFor(t, &s.err, "forgotten)\n>>> ")
	s.sig <- os.Interrupt
	waitFor(t, &s.err, "Ctrl-C again ends")
	s.sig <- os.Interrupt
	if c := <-code; c != codeInterrupted {
		t.Errorf("code %d", c)
	}
	w.Close()
}

func TestRunInterrupted(t *testing.T) {
	s := newTest(t, "", slow())
	code := make(chan int)
	go func() { code <- s.run("run", "-p", "go", "--temp", "0", "--max-tokens", "1000000") }()
	waitFor(t, &s.out, "zzz")
	s.sig <- os.Interrupt
	if c := <-code; c != codeInterrupted || !strings.Contains(s.err.String(), "interrupted") {
		t.Errorf("code %d, %s", c, s.err.String())
	}
}

// TestSecondInterruptEndsTheProcess: while the first is being obeyed, another
// one does not wait.
func TestSecondInterruptEndsTheProcess(t *testing.T) {
	s := newTest(t, "", enginetest.FakeConfig{})
	ctx, stop := s.interruptible(t.Context())
	s.sig <- os.Interrupt
	<-ctx.Done()
	s.sig <- os.Interrupt
	if c := <-s.halted; c != codeInterrupted {
		t.Errorf("halted with %d", c)
	}
	stop()
}
