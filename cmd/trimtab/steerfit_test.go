package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/trimtab/trimtab/runtime/engine/enginetest"
	"github.com/trimtab/trimtab/steer"
)

func manyPairs(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `{"prompt":"question %d","chosen":"yes %d","rejected":"no %d"}`+"\n", i, i, i*7)
	}
	return b.String()
}

func TestSteerFit(t *testing.T) {
	pairs, out := writeFile(t, "pairs.jsonl", manyPairs(40)), filepath.Join(t.TempDir(), "kind.gguf")
	s := newTest(t, "", enginetest.FakeConfig{Template: enginetest.Template})
	if code := s.run("steer", "fit", "--pairs", pairs, "--out", out, "--doses", "0.1,0.3", "--layers", "1", "--method", "caa", "--cue", "be kind."); code != codeOK {
		t.Fatalf("code %d: %s", code, s.err.String())
	}
	for _, want := range []string{"caa, block 1, read at answer-mean", "from the file: kind", "unsteered", "negated", "random", "shuffled", "prompt"} {
		if !strings.Contains(s.out.String(), want) {
			t.Errorf("%q is missing in %s", want, s.out.String())
		}
	}
	v, err := steer.ReadVector(out, steer.VectorOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if v.Name != "kind" || v.Method != "caa" || v.Layer != 1 || v.ModelHash != s.fake.Info().Hash || v.Calibration == nil || v.Dose == 0 {
		t.Errorf("the file holds %+v", v)
	}
	if code := s.run("steer", "fit", "--pairs", pairs, "--out", out); code != codeUsage || !strings.Contains(s.err.String(), "--force") {
		t.Errorf("writing over: code %d, %s", code, s.err.String())
	}
}

// TestSteerFitRows: a file steers the rows that were chosen.
func TestSteerFitRows(t *testing.T) {
	pairs, out := writeFile(t, "pairs.jsonl", manyPairs(40)), filepath.Join(t.TempDir(), "kind.gguf")
	s := newTest(t, "", enginetest.FakeConfig{Template: enginetest.Template})
	if code := s.run("steer", "fit", "--pairs", pairs, "--out", out, "--doses", "0.2", "--layers", "1", "--json"); code != codeOK {
		t.Fatalf("code %d: %s", code, s.err.String())
	}
	var r fitResultReport
	if err := json.Unmarshal([]byte(s.out.String()), &r); err != nil {
		t.Fatal(err)
	}
	v, err := steer.ReadVector(out, steer.VectorOptions{})
	if err != nil {
		t.Fatal(err)
	}
	x, err := steer.ParseExpr(r.Use)
	if err != nil {
		t.Fatal(err)
	}
	p, err := x.Plan(map[string]*steer.Vector{"kind": v})
	if err != nil {
		t.Fatal(err)
	}
	if iv := p.At(0); !cmp.Equal(iv.When.From, r.Chosen.Rows.From) || !cmp.Equal(iv.When.To, r.Chosen.Rows.To) || iv.Scale != float32(r.Chosen.Dose) {
		t.Errorf("%q steers %+v with dose %v; chosen were %+v", r.Use, iv.When, iv.Scale, r.Chosen)
	}
}

func TestSteerFitJSON(t *testing.T) {
	var b strings.Builder
	for i := range 40 {
		fmt.Fprintf(&b, `{"prompt":"question %d"}`+"\n", i)
	}
	s := newTest(t, "", enginetest.FakeConfig{})
	out := filepath.Join(t.TempDir(), "v.gguf")
	code := s.run("steer", "fit", "--prompts", writeFile(t, "p.jsonl", b.String()), "--instruction", "obey.", "--out", out, "--doses", "0.2", "--layers", "1-2", "--json")
	if code != codeOK {
		t.Fatalf("code %d: %s", code, s.err.String())
	}
	var r fitResultReport
	if err := json.Unmarshal([]byte(s.out.String()), &r); err != nil || len(r.Controls) < 4 || len(r.Trials) == 0 || r.Pairs[0] == 0 {
		t.Errorf("%v in %s", err, s.out.String())
	}
}

func TestSteerFitFaults(t *testing.T) {
	dir := t.TempDir()
	few, bad := writeFile(t, "few.jsonl", manyPairs(3)), writeFile(t, "bad.jsonl", `{"prompt":"x","chosen":"y"}`)
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"", codeUsage, "--out is missing"},
		{"--out V", codeUsage, "give either --pairs, or --prompts with --instruction"},
		{"--out V --pairs a --prompts b --instruction c", codeUsage, "give either"},
		{"--out V --prompts b", codeUsage, "belong together"},
		{"--out V --pairs " + few + " --method magic", codeUsage, `unknown method "magic"`},
		{"--out V --pairs " + few + " --layers 9-2", codeUsage, "not a block or a range"},
		{"--out V --pairs " + few + " --max-kl 0", codeUsage, "--max-kl is 0"},
		{"--out V --pairs " + few, codeBadInput, "each needs at least 4"},
		{"--out V --pairs " + bad, codeBadInput, `line 1: "rejected" is missing`},
		{"--out V --pairs " + filepath.Join(dir, "none"), codeBadInput, "none"},
	} {
		s := newTest(t, "", enginetest.FakeConfig{})
		out := filepath.Join(dir, "v.gguf")
		code := s.run(append([]string{"steer", "fit"}, strings.Fields(strings.ReplaceAll(c.args, "V", out))...)...)
		if code != c.code || !strings.Contains(s.err.String(), c.want) {
			t.Errorf("%s: code %d, want %d; %q is not in %s", c.args, code, c.code, c.want, s.err.String())
		}
		if _, err := os.Lstat(out); err == nil {
			t.Errorf("%s: a file was written", c.args)
		}
	}
}

func TestSteerFitHelp(t *testing.T) {
	s := newTest(t, "", enginetest.FakeConfig{})
	if code := s.run("steer", "fit", "--help"); code != codeOK {
		t.Errorf("code %d, %s", code, s.err.String())
	}
	golden(t, "help/trimtab-steer-fit.txt", s.out.String())
}
