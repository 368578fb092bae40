package main

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/trimtab/trimtab/runtime/engine/enginetest"
)

// TestSteerCompare prints two answers side by side, as the golden texts have
// it: one unscripted, whose texts part, one with characters of several kinds.
func TestSteerCompare(t *testing.T) {
	v := vectorFor(t, "")
	for name, c := range map[string]struct {
		cfg  enginetest.FakeConfig
		args string
	}{
		"compare-part.txt":   {enginetest.FakeConfig{}, "--steer v:8 --max-tokens 24"},
		"compare-script.txt": {answers("A lake is quiet water.\n\tIt lies \x1b[31mstill\x07, 静かな湖, with trees all around that nobody has counted so far.\nEnd."), "--steer v:0.5[0:12]"},
		"compare-color.txt":  {enginetest.FakeConfig{}, "--steer v:8 --max-tokens 8 --color always"},
		"compare-empty.txt":  {answers(""), "--steer v:0.5"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTest(t, "", c.cfg)
			args := append([]string{"steer", "compare", "--vector", "v=" + v, "-p", "What is a lake?", "--temp", "0"}, strings.Fields(c.args)...)
			if code := s.run(args...); code != codeOK {
				t.Fatalf("code %d: %s", code, s.err.String())
			}
			golden(t, name, s.out.String())
			if strings.Contains(s.out.String(), "\x1b") != strings.Contains(c.args, "--color") || strings.Contains(s.out.String(), "\x07") {
				t.Error("a control character came through")
			}
		})
	}
}

// TestSteerCompareColors: only where the terminal and the user agree.
func TestSteerCompareColors(t *testing.T) {
	v := vectorFor(t, "")
	for _, c := range []struct {
		tty, colors bool
		flag        string
		want        bool
	}{{true, true, "auto", true}, {true, false, "auto", false}, {false, true, "auto", false}, {true, true, "never", false}, {false, false, "always", true}} {
		s := newTest(t, "", enginetest.FakeConfig{})
		s.outTTY, s.colors = c.tty, c.colors
		if code := s.run("steer", "compare", "--vector", "v="+v, "-p", "hi", "--max-tokens", "8", "--color", c.flag); code != codeOK {
			t.Fatalf("code %d: %s", code, s.err.String())
		}
		if got := strings.Contains(s.out.String(), "\x1b[30;48;5;"); got != c.want {
			t.Errorf("%+v: colours %v", c, got)
		}
	}
}

func compareJSON(t *testing.T, args ...string) (r comparison) {
	t.Helper()
	s := newTest(t, "", enginetest.FakeConfig{})
	if code := s.run(append([]string{"steer", "compare", "-p", "hi", "--max-tokens", "12", "--json"}, args...)...); code != codeOK {
		t.Fatalf("code %d: %s", code, s.err.String())
	}
	if err := json.Unmarshal([]byte(s.out.String()), &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// TestSteerCompareJSON: dose 0 changes nothing at all, another dose does, and
// the same seed says the same.
func TestSteerCompareJSON(t *testing.T) {
	v := "v=" + vectorFor(t, "")
	same := compareJSON(t, "--vector", v, "--steer", "v:0", "--seed", "5")
	if same.Unsteered != same.Steered || same.MeanKL != 0 || same.MaxKL != 0 || same.Common != same.Steered.Count || len(same.Tokens) != same.Steered.Count {
		t.Errorf("dose 0: %+v", same)
	}
	for i, token := range same.Tokens {
		if token.KL != 0 || token.Steered != token.Unsteered {
			t.Errorf("dose 0, token %d: %+v", i, token)
		}
	}
	far := compareJSON(t, "--vector", v, "--seed", "5")
	sum := 0.0
	for _, token := range far.Tokens {
		sum += token.KL / float64(len(far.Tokens))
	}
	if far.Unsteered != same.Unsteered || far.Expression != "v" || !(far.MaxKL > 0) || math.Abs(sum-far.MeanKL) > 1e-9 || far.Common >= far.Steered.Count {
		t.Errorf("%+v", far)
	}
	if again := compareJSON(t, "--vector", v, "--seed", "5"); again.Steered != far.Steered || again.MeanKL != far.MeanKL {
		t.Error("an equal run says something else")
	}
}

func TestSteerCompareFaults(t *testing.T) {
	v := "v=" + vectorFor(t, "")
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"", codeUsage, "--vector is missing"},
		{"--vector " + v, codeUsage, "--prompt is missing"},
		{"--vector " + v + " -p hi --color red", codeUsage, `--color is "red"`},
		{"--vector " + v + " -p hi --steer w", codeUsage, "there is no --vector w=FILE"},
		{"--vector " + v + " -p hi --steer v@9", codeBadInput, "no direction for block 9"},
		{"--vector " + v + " -p hi --kl-budget 1", codeUsage, "kl-budget"},
		{"--vector " + v + " -p hi --monitor repetition", codeUsage, "--monitor is for run and batch"},
		{"--vector v=/nowhere.gguf -p hi", codeBadInput, "vector v: "},
		{"--vector " + v + " -p \xff", codeUsage, "valid UTF-8"},
		{"--vector " + v + " -p hi more", codeUsage, `takes no argument "more"`},
	} {
		s := newTest(t, "", enginetest.FakeConfig{})
		if code := s.run(append([]string{"steer", "compare"}, strings.Fields(c.args)...)...); code != c.code || !strings.Contains(s.err.String(), c.want) {
			t.Errorf("%s: code %d, %q; want %d and %q", c.args, code, s.err.String(), c.code, c.want)
		}
	}
	s := newTest(t, "", enginetest.FakeConfig{MaxSequences: 1})
	if code := s.run("steer", "compare", "--vector", v, "-p", "hi", "--max-tokens", "4"); code != codeBadInput || !strings.Contains(s.err.String(), "needs a second sequence") {
		t.Errorf("one sequence: code %d, %s", code, s.err.String())
	}
}

func TestWrap(t *testing.T) {
	for _, c := range []struct {
		text    string
		columns int
		want    string
	}{
		{"", 5, ""},
		{"one two three", 7, "one two|three"},
		{"one two three", 8, "one two|three"},
		{"abcdefgh", 3, "abc|def|gh"},
		{"a\n\nb", 9, "a||b"},
		{"静かな湖", 4, "静か|な湖"},
		{"静", 1, "静"},
		{" abc", 3, "| abc"},
	} {
		r := &comparison{}
		r.pieces[0] = [][]byte{[]byte(c.text)}
		var lines []string
		for _, l := range wrap(r.glyphs(0), c.columns) {
			lines = append(lines, r.paint(l, false))
		}
		if got := strings.Join(lines, "|"); got != c.want && !(c.text == " abc" && strings.ReplaceAll(got, "|", "") == " abc") {
			t.Errorf("%q in %d columns: %q, want %q", c.text, c.columns, got, c.want)
		}
	}
}
