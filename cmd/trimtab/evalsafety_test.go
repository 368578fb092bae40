package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trimtab/trimtab/runtime/engine/enginetest"
)

// manyPrompts are so many different prompts.
func manyPrompts(word string, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "{\"prompt\":\"%s %d\"}\n", word, i)
	}
	return b.String()
}

// Any model with prompts and a labeller of the user's.
func TestEvalSafety(t *testing.T) {
	prompts, benign, words := writeFile(t, "p.jsonl", manyPrompts("risk", 48)), writeFile(t, "b.jsonl", manyPrompts("plain", 32)), writeFile(t, "w.txt", "/[g-mo-qsv-z]/\n")
	judge := `sed -e 's/.*"id":\("[0-9]*"\).*"text":".*[g-mo-qsv-z].*/{"id":\1,"score":0.9}/;t' -e 's/.*"id":\("[0-9]*"\),.*/{"id":\1,"score":0.1}/'`
	for _, label := range []string{"lexicon:" + words, "cmd:" + judge} {
		out := filepath.Join(t.TempDir(), "safety.md")
		s := newTest(t, "", enginetest.FakeConfig{Template: enginetest.Template, MaxSequences: 40})
		code := s.run("eval", "safety", "--prompts", prompts, "--benign", benign, "--label", label, "--quick", "--alpha", "0.4", "--max-tokens", "12", "--out", out)
		if code != codeOK {
			t.Fatalf("%s: code %d: %s", label, code, s.err.String())
		}
		text := readFile(t, out)
		for _, want := range []string{"| base | ", "| BRT filter, SAMPLE | ", "| filter + rollback | ", "| random direction | ", "## Detection", "| - | - |"} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: %q is missing in %s", label, want, text)
			}
		}
		if lexicon := strings.HasPrefix(label, "lexicon"); strings.Contains(text, "| lexicon stop | 0.000") != lexicon {
			t.Errorf("%s: a lexicon stop: %s", label, text)
		}
		if text != s.out.String() {
			t.Errorf("%s: the file and the output differ", label)
		}
	}
}

func TestEvalSafetyFaults(t *testing.T) {
	few, good, words := writeFile(t, "few.jsonl", manyPrompts("a", 10)), writeFile(t, "good.jsonl", manyPrompts("a", 48)), writeFile(t, "w.txt", "no such words\n")
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--prompts", "x"}, codeUsage, "--prompts and --label belong together"},
		{[]string{"--label", "cmd:true"}, codeUsage, "--prompts and --label belong together"},
		{[]string{"--benign", "x"}, codeUsage, "--benign needs --prompts"},
		{[]string{"--prompts", "x", "--label", "true"}, codeUsage, "want lexicon:FILE or cmd:COMMAND"},
		{[]string{"--seeds", "0"}, codeUsage, "--seeds is 0"},
		{[]string{"--alpha", "1"}, codeUsage, "--alpha must be"},
		{[]string{"--temp", "-1"}, codeUsage, "--temp is -1"},
		{[]string{"--max-tokens", "0"}, codeUsage, "--max-tokens is 0"},
		{[]string{"--cue", ""}, codeUsage, "--cue and --refusal"},
		{[]string{"--prompts", "none.jsonl", "--label", "cmd:true"}, codeBadInput, "none.jsonl"},
		{[]string{"--prompts", good, "--label", "lexicon:none.txt"}, codeBadInput, "none.txt"},
		{[]string{"--prompts", few, "--label", "cmd:true"}, codeBadInput, "there are 10 different prompts"},
		{[]string{"--prompts", good, "--label", "lexicon:" + words, "--quick", "--max-tokens", "4"}, codeBadInput, "a bound of 0.02 needs 49"},
		{[]string{"--prompts", good, "--label", "lexicon:" + words, "--quick", "--max-tokens", "4", "--alpha", "0.4"}, codeBadInput, "both kinds are needed"},
		{[]string{"--prompts", good, "--label", "cmd:exit 3", "--quick", "--max-tokens", "4"}, codeFailure, "exit status 3"},
	} {
		s := newTest(t, "", enginetest.FakeConfig{Template: enginetest.Template, MaxSequences: 40})
		if code := s.run(append([]string{"eval", "safety"}, c.args...)...); code != c.code || !strings.Contains(s.err.String(), c.want) {
			t.Errorf("%v: code %d, want %d; %q is not in %s", c.args, code, c.code, c.want, s.err.String())
		}
	}
}

func TestEvalSafetyHelp(t *testing.T) {
	s := newTest(t, "", enginetest.FakeConfig{})
	if code := s.run("eval", "safety", "--help"); code != codeOK {
		t.Errorf("code %d, %s", code, s.err.String())
	}
	golden(t, "help/trimtab-eval-safety.txt", s.out.String())
}
