package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trimtab/trimtab/runtime/engine/enginetest"
)

const (
	auditSample = "../../runtime/audit/testdata/golden.jsonl"
	traceSample = "../../runtime/testdata/rewind.trace"
)

func TestTraceShow(t *testing.T) {
	for name, file := range map[string]string{"trace-audit.txt": auditSample, "trace-steps.txt": traceSample} {
		s := newTest(t, "", enginetest.FakeConfig{})
		if code := s.run("trace", "show", file); code != codeOK {
			t.Fatal(s.err.String())
		}
		golden(t, name, s.out.String())
		for _, colors := range []bool{true, false} { // false: NO_COLOR
			tty := newTest(t, "", enginetest.FakeConfig{})
			tty.outTTY, tty.colors = true, colors
			if code := tty.run("trace", "show", file); code != codeOK || strings.Contains(tty.out.String(), "\x1b[31m") != colors {
				t.Errorf("%s: on a terminal, colours %v: %s", name, colors, tty.out.String())
			}
		}
	}
}

// TestTraceShowIsPlain: nothing in a log acts on the terminal.
func TestTraceShowIsPlain(t *testing.T) {
	for _, file := range []string{auditSample, traceSample} {
		text := strings.NewReplacer(`"rude"`, `"ru\u001b[2Jde"`, `"model":"fake"`, `"model":"fa\u0007ke"`, `"I am b"`, `"I\u009bam"`, `"piece":"I am "`, `"piece":"\u001b]0;x"`).Replace(readFile(t, file))
		s := newTest(t, "", enginetest.FakeConfig{})
		s.run("trace", "show", writeFile(t, "a.jsonl", text))
		for _, r := range s.out.String() {
			if r < ' ' && r != '\n' || r >= 0x7f && r < 0xa0 {
				t.Errorf("%s: %q in the output", file, r)
			}
		}
		if !strings.Contains(s.out.String(), `ru\x1b[2Jde`) {
			t.Errorf("%s: %s", file, s.out.String())
		}
	}
}

func TestTraceFaults(t *testing.T) {
	audit, steps := readFile(t, auditSample), readFile(t, traceSample)
	for _, tt := range []struct {
		name, command, text string
		code                int
		says                string
	}{
		{"broken off", "show", audit[:strings.LastIndex(audit, `{"kind":"end"`)], codeOK, ""},
		{"steps broken off", "show", steps[:strings.LastIndex(steps, `{"kind":"end"`)], codeOK, ""},
		{"empty", "show", "", codeBadInput, "is empty"},
		{"something else", "show", "{}", codeBadInput, "where a log must start"},
		{"half a line", "show", audit[:len(audit)-20], codeBadInput, "line 10"},
		{"another version", "show", strings.Replace(steps, `"version":1`, `"version":9`, 1), codeBadInput, "version 9"},
		{"replay", "replay", steps + steps, codeOK, ""},
		{"replay of a part", "replay", steps[:strings.LastIndex(steps, `{"kind":"end"`)] + steps, codeOK, ""},
		{"a difference", "replay", steps + strings.Replace(steps, `"rewound":`, `"rewound":1`, 1), codeFailure, "session 2 of"},
		{"replay of an audit log", "replay", audit, codeBadInput, "where the trace must start"},
		{"replay of nothing", "replay", "\n", codeBadInput, "holds no trace"},
	} {
		s := newTest(t, "", enginetest.FakeConfig{})
		if code := s.run("trace", tt.command, writeFile(t, "f.jsonl", tt.text)); code != tt.code || !strings.Contains(s.err.String(), tt.says) {
			t.Errorf("%s: code %d, %s", tt.name, code, s.err.String())
		}
	}
	s := newTest(t, "", enginetest.FakeConfig{})
	if code := s.run("trace", "show", filepath.Join(t.TempDir(), "none")); code != codeBadInput {
		t.Errorf("no file: code %d", code)
	}
}

// TestRecording: run and batch append what they did, in whole pieces, and it
// runs again.
func TestRecording(t *testing.T) {
	dir := t.TempDir()
	audits, steps := filepath.Join(dir, "a.jsonl"), filepath.Join(dir, "t.jsonl")
	in := writeFile(t, "in.jsonl", `{"id":"x","prompt":"one"}
{"id":2,"prompt":"two"}
{"id":"y","messages":[{"role":"user","content":"three"}]}
`)
	for _, args := range [][]string{
		{"run", "-p", "hi", "--temp", "1", "--max-tokens", "12"},
		{"run", "-p", "hi", "--max-tokens", "5"},
		{"batch", "--in", in, "--max-tokens", "20", "--parallel", "3"},
		{"batch", "--in", in, "--max-tokens", "20", "--parallel", "1", "--trace-rows", "--repeat-penalty", "1.2", "--min-tokens", "3"},
	} {
		s := newTest(t, "", enginetest.FakeConfig{})
		if code := s.run(append(args, "--audit", audits, "--trace", steps)...); code != codeOK {
			t.Fatal(s.err.String())
		}
	}
	s := newTest(t, "", enginetest.FakeConfig{})
	if code := s.run("trace", "replay", steps); code != codeOK || !strings.HasPrefix(s.out.String(), "8 sessions, ") || !strings.Contains(s.out.String(), "the tokens of 3 sessions were drawn again") {
		t.Errorf("code %d, %s%s", code, s.out.String(), s.err.String())
	}
	show := newTest(t, "", enginetest.FakeConfig{})
	if code := show.run("trace", "show", audits); code != codeOK || strings.Count(show.out.String(), "session ") != 8 || !strings.Contains(show.out.String(), ` 2: model`) {
		t.Errorf("code %d, %s%s", code, show.out.String(), show.err.String())
	}
	if st, err := os.Stat(audits); err != nil || st.Mode().Perm()&0o077 != 0 && os.PathSeparator == '/' {
		t.Errorf("%v: others may read the log: %v", err, st.Mode())
	}
}

func TestRecordingFlags(t *testing.T) {
	dir := t.TempDir()
	for _, tt := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"--audit="}, codeUsage, "--audit is empty"},
		{[]string{"--trace="}, codeUsage, "--trace is empty"},
		{[]string{"--trace-rows"}, codeUsage, "--trace-rows needs --trace"},
		{[]string{"--audit", dir + "/x", "--trace", dir + "/x"}, codeUsage, "the same file"},
		{[]string{"--audit", dir}, codeBadInput, "--audit: open"},
		{[]string{"--trace", dir + "/no/such"}, codeBadInput, "--trace: open"},
	} {
		s := newTest(t, "", answers("x"))
		if code := s.run(append([]string{"run", "-p", "hi"}, tt.args...)...); code != tt.code || !strings.Contains(s.err.String(), tt.says) {
			t.Errorf("%v: code %d, %s", tt.args, code, s.err.String())
		}
	}
}
