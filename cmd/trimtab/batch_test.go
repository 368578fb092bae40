package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/trimtab/trimtab/runtime/engine/enginetest"
)

// withoutTimings removes what no two runs have in common.
func withoutTimings(t *testing.T, lines string) string {
	t.Helper()
	var b strings.Builder
	for _, l := range strings.Split(strings.TrimSuffix(lines, "\n"), "\n") {
		var m map[string]json.RawMessage
		if err := json.Unmarshal([]byte(l), &m); err != nil {
			t.Fatalf("%q: %v", l, err)
		}
		delete(m, "timings")
		out, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		b.Write(out)
		b.WriteByte('\n')
	}
	return b.String()
}

func prompts(n int) string {
	var b strings.Builder
	for i := range n {
		if i%2 == 0 {
			fmt.Fprintf(&b, "{\"id\":\"r%d\",\"prompt\":\"text %d\"}\n", i, i)
		} else {
			fmt.Fprintf(&b, "{\"id\":%d,\"messages\":[{\"role\":\"user\",\"content\":\"message %d\"}]}\n", i, i)
		}
	}
	return b.String()
}

func TestBatchStreams(t *testing.T) {
	s := newTest(t, prompts(3)+"rubbish\n", answers("ok"))
	if code := s.run("batch", "--temp", "0"); code != codeBadInput {
		t.Errorf("code %d", code)
	}
	if s.err.String() != "trimtab: 1 of 4 lines are faulty: their records say why\n" {
		t.Errorf("said %q", s.err.String())
	}
	golden(t, "batch.jsonl", withoutTimings(t, s.out.String()))
}

// TestBatchEqualsAlone: what is batched with a request does not change it, and
// the output has the input's order.
func TestBatchEqualsAlone(t *testing.T) {
	in := prompts(40)
	var outs []string
	for _, n := range []string{"1", "3", "16"} {
		s := newTest(t, in, enginetest.FakeConfig{})
		if code := s.run("batch", "--temp", "1.5", "--seed", "5", "--max-tokens", "12", "--parallel", n); code != codeOK {
			t.Fatal(s.err.String())
		}
		outs = append(outs, withoutTimings(t, s.out.String()))
		if s.fake.OpenSequences() != 0 {
			t.Errorf("%d sequences left open", s.fake.OpenSequences())
		}
	}
	if d := cmp.Diff(outs[0], outs[1]) + cmp.Diff(outs[0], outs[2]); d != "" {
		t.Error(d)
	}
}

func TestBatchResumes(t *testing.T) {
	dir := t.TempDir()
	in, out := filepath.Join(dir, "in"), filepath.Join(dir, "out")
	if err := os.WriteFile(in, []byte(prompts(9)), 0o644); err != nil {
		t.Fatal(err)
	}
	args := []string{"batch", "--temp", "0", "--in", in, "--out", out, "--max-tokens", "6"}
	first := newTest(t, "", enginetest.FakeConfig{})
	if code := first.run(args...); code != codeOK || first.out.String() != "" {
		t.Fatal(first.err.String())
	}
	whole := readFile(t, out)
	if err := os.Truncate(out, int64(len(whole))/2); err != nil {
		t.Fatal(err)
	}
	second := newTest(t, "", enginetest.FakeConfig{})
	if code := second.run(args...); code != codeOK || !strings.Contains(second.err.String(), "holds 4 answers") {
		t.Fatal(second.err.String())
	}
	if d := cmp.Diff(withoutTimings(t, whole), withoutTimings(t, readFile(t, out))); d != "" {
		t.Error(d)
	}
	third := newTest(t, "", enginetest.FakeConfig{})
	if code := third.run(args...); code != codeOK || third.fake.Forwards() != 0 {
		t.Errorf("a finished batch computed %d times", third.fake.Forwards())
	}
}

func TestBatchFaultyRequests(t *testing.T) {
	cfg := answers("ok")
	cfg.Context = 64
	cfg.Template = `{% for m in messages %}{% if m.role == "alien" %}{{ raise_exception("no aliens") }}{% endif %}{{ m.content }}{% endfor %}`
	in := `{"id":1,"prompt":"` + strings.Repeat("x", 100) + `"}` + "\n" +
		`{"id":2,"messages":[{"role":"alien","content":"hi"}]}` + "\n" + `{"id":3,"prompt":"x"}` + "\n"
	s := newTest(t, in, cfg)
	if code := s.run("batch"); code != codeBadInput {
		t.Errorf("code %d", code)
	}
	lines := strings.Split(s.out.String(), "\n")
	for i, w := range []string{"context full", "no aliens", `"text":"ok"`} {
		if !strings.Contains(lines[i], w) {
			t.Errorf("line %d is %s, want %q", i+1, lines[i], w)
		}
	}
	s = newTest(t, in, cfg)
	if code := s.run("batch", "--abort"); code != codeBadInput || s.out.String() != "" || !strings.Contains(s.err.String(), "line 1: ") {
		t.Errorf("with --abort: code %d, %s", code, s.err.String())
	}
}

func TestBatchEngineFault(t *testing.T) {
	cfg := answers("ok")
	cfg.Hooks.Before = enginetest.FailAt(1, fmt.Errorf("the GPU fell off"))
	s := newTest(t, prompts(5), cfg)
	if code := s.run("batch"); code != codeFailure || !strings.Contains(s.err.String(), "the GPU fell off") {
		t.Errorf("code %d, %s", code, s.err.String())
	}
}

func TestBatchInterrupted(t *testing.T) {
	s := newTest(t, "", answers("ok"))
	r, w := io.Pipe()
	s.in = r
	code := make(chan int)
	go func() { code <- s.run("batch", "--temp", "0") }()
	io.WriteString(w, prompts(2))
	waitFor(t, &s.out, `{"id":1,`)
	s.sig <- os.Interrupt
	if c := <-code; c != codeInterrupted {
		t.Errorf("code %d, %s", c, s.err.String())
	}
	w.Close()
}

func TestBatchProgress(t *testing.T) {
	in := writeFile(t, "in.jsonl", prompts(4)+"rubbish\n")
	s := newTest(t, "", answers("ok"))
	s.errTTY = true
	s.run("batch", "--in", in)
	if !strings.Contains(s.err.String(), "[####################] 100%  4 answered, 1 faulty, ") {
		t.Errorf("showed %q", s.err.String())
	}
	quiet := newTest(t, "", answers("ok"))
	if quiet.run("batch", "--in", in, "--stats"); strings.Contains(quiet.err.String(), "\x1b") || !strings.Contains(quiet.err.String(), "4 answered") {
		t.Errorf("showed %q without a terminal", quiet.err.String())
	}
}

func TestStatusLineFits(t *testing.T) {
	s := newTest(t, "", enginetest.FakeConfig{})
	s.errTTY, s.width = true, 10
	l := newStatusLine(s.app)
	l.set("0123456789abc", true)
	l.set("too soon", false)
	l.clear()
	l.clear()
	if got := s.err.String(); got != "\r\x1b[K012345678\r\x1b[K" {
		t.Errorf("got %q", got)
	}
}
