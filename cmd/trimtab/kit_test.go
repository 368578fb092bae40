package main

import (
	"bytes"
	"context"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/trimtab/trimtab/bindings/llamacpp/libs"
	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/runtime/engine"
	"github.com/trimtab/trimtab/runtime/engine/enginetest"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// session is one run of the program with everything around it replaced.
type session struct {
	*app
	out, err lockedBuffer
	sig      chan os.Signal
	halted   chan int
	opened   []openOptions
	fake     *enginetest.Fake
}

// lockedBuffer may be read while a command writes.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// newTest makes a session whose model is a Fake with the given settings.
func newTest(t *testing.T, in string, cfg enginetest.FakeConfig) *session {
	t.Helper()
	s := &session{sig: make(chan os.Signal, 4), halted: make(chan int, 4)}
	s.app = &app{
		in: strings.NewReader(in), out: &s.out, err: &s.err, width: 80,
		env: libs.Env{OS: "linux", Arch: "amd64", Cache: t.TempDir()},
		now: time.Now, listen: func() {}, interrupts: s.sig, halt: func(code int) { s.halted <- code },
	}
	s.open = func(_ context.Context, o openOptions) (engine.Engine, error) {
		s.opened = append(s.opened, o)
		f, err := enginetest.NewFake(cfg)
		s.fake = f
		return f, err
	}
	return s
}

// answers is a Fake that says text to everything.
func answers(text string) enginetest.FakeConfig {
	return enginetest.FakeConfig{Script: enginetest.Say(enginetest.Tokens(text), enginetest.EOT)}
}

// replies is a Fake that answers by the last words of a chat prompt.
func replies(pairs ...string) enginetest.FakeConfig {
	var scripts []enginetest.Script
	for i := 0; i+1 < len(pairs); i += 2 {
		scripts = append(scripts, after(pairs[i], pairs[i+1]))
	}
	return enginetest.FakeConfig{Script: enginetest.First(scripts...)}
}

// after says answer when the last user message ends with asked.
func after(asked, answer string) enginetest.Script {
	say := enginetest.Say(enginetest.Tokens(answer), enginetest.EOT)
	return func(x enginetest.Text) decode.Token {
		if x.PromptLen > len(x.Tokens) {
			return -1
		}
		prompt := textOf(x.Tokens[:x.PromptLen])
		if i := strings.LastIndex(prompt, "user\n"); i < 0 || !strings.HasPrefix(prompt[i+len("user\n"):], asked) {
			return -1
		}
		return say(x)
	}
}

func textOf(tokens []decode.Token) string {
	var b strings.Builder
	for _, t := range tokens {
		if t < 256 {
			b.WriteByte(byte(t))
		}
	}
	return b.String()
}

// run executes a command line and returns the exit code.
func (s *session) run(args ...string) int { return execute(s.app, args) }

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(strings.ReplaceAll(string(want), "\r\n", "\n"), got); d != "" {
		t.Errorf("%s (go test -update writes it anew): %s", path, d)
	}
}

func writeFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// waitFor waits until the buffer holds text.
func waitFor(t *testing.T, b *lockedBuffer, text string) {
	t.Helper()
	for range 1000 {
		if strings.Contains(b.String(), text) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("never saw %q, only %q", text, b.String())
}

var _ io.Writer = (*lockedBuffer)(nil)
