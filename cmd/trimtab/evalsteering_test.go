package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trimtab/trimtab/cmd/trimtab/internal/eval"
	"github.com/trimtab/trimtab/runtime/engine/enginetest"
)

// half scores every text with a half.
const half = `sed 's/.*"id":\("[0-9]*"\).*/{"id":\1,"score":0.5}/'`

func TestEvalSteering(t *testing.T) {
	pairs, out := writeFile(t, "pairs.jsonl", manyPairs(40)), filepath.Join(t.TempDir(), "steering.md")
	s := newTest(t, "", enginetest.FakeConfig{Template: enginetest.Template, MaxSequences: 8})
	code := s.run("eval", "steering", "--pairs", "kind="+pairs, "--cue", "kind=be kind.", "--check", half, "--methods", "caa", "--seeds", "2",
		"--max-tokens", "8", "--max-kl", "100", "--quick", "--json", "--out", out)
	if code != codeOK {
		t.Fatalf("code %d: %s", code, s.err.String())
	}
	var r eval.Report
	if err := json.Unmarshal([]byte(s.out.String()), &r); err != nil || len(r.Outcomes) != 1 || len(r.Outcomes[0].Rows) != 6 || r.Outcomes[0].Rows[1].Shown.Mean != 0.5 {
		t.Errorf("%v in %s", err, s.out.String())
	}
	for _, want := range []string{"## kind", "**caa**", "random", "shuffled", "negated", `prompt ("be kind.")`} {
		if !strings.Contains(readFile(t, out), want) {
			t.Errorf("%q is missing in %s", want, readFile(t, out))
		}
	}
	if !strings.Contains(s.err.String(), "kind, caa: choosing the dose") {
		t.Errorf("no progress in %s", s.err.String())
	}
}

func TestEvalSteeringFaults(t *testing.T) {
	few, good := writeFile(t, "few.jsonl", manyPairs(3)), writeFile(t, "good.jsonl", manyPairs(40))
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--pairs", "x"}, codeUsage, "want NAME=FILE"},
		{[]string{"--pairs", "x=y"}, codeUsage, "--pairs and --check belong together"},
		{[]string{"--check", "true"}, codeUsage, "--pairs and --check belong together"},
		{[]string{"--cue", "x=y"}, codeUsage, "--cue needs --pairs"},
		{[]string{"--methods", "magic"}, codeUsage, `unknown method "magic"`},
		{[]string{"--seeds", "-1"}, codeUsage, "--seeds must be"},
		{[]string{"--pairs", "x=" + few, "--check", "true"}, codeBadInput, "each needs at least 4"},
		{[]string{"--pairs", "x=none.jsonl", "--check", "true"}, codeBadInput, "none.jsonl"},
		{[]string{"--pairs", "x=" + good, "--check", "echo nonsense", "--methods", "caa", "--max-kl", "100"}, codeFailure, "is not a JSON object"},
	} {
		s := newTest(t, "", enginetest.FakeConfig{Template: enginetest.Template})
		if code := s.run(append([]string{"eval", "steering"}, c.args...)...); code != c.code || !strings.Contains(s.err.String(), c.want) {
			t.Errorf("%v: code %d, want %d; %q is not in %s", c.args, code, c.code, c.want, s.err.String())
		}
	}
}

func TestEvalSteeringHelp(t *testing.T) {
	s := newTest(t, "", enginetest.FakeConfig{})
	if code := s.run("eval", "steering", "--help"); code != codeOK {
		t.Errorf("code %d, %s", code, s.err.String())
	}
	golden(t, "help/trimtab-eval-steering.txt", s.out.String())
}
