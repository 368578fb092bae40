package main

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/trimtab/trimtab/cmd/trimtab/internal/batch"
	"github.com/trimtab/trimtab/runtime/engine/enginetest"
)

// TestShadowFlags: what is wrong with them.
func TestShadowFlags(t *testing.T) {
	v := "--vector v=" + vectorFor(t, "")
	for _, c := range []struct {
		command, args string
		says          string
	}{
		{"run", "--shadow", "nothing steers: give --vector NAME=FILE"},
		{"run", "--kl-budget 0.1", "nothing steers"},
		{"run", "--clean-turns", "nothing steers"},
		{"batch", "--shadow", "nothing steers"},
		{"run", v + " --kl-budget -1", "--kl-budget is -1, must be 0 or more"},
		{"run", v + " --kl-budget nan", "--kl-budget is NaN"},
		{"run", v + " --clean-turns --raw", "exclude each other"},
	} {
		s := newTest(t, "", enginetest.FakeConfig{})
		args := []string{c.command}
		if c.command == "run" {
			args = append(args, "-p", "x")
		}
		if code := s.run(append(args, strings.Fields(c.args)...)...); code != codeUsage || !strings.Contains(s.err.String(), c.says) {
			t.Errorf("%s %s: code %d, %q; want %q", c.command, c.args, code, s.err.String(), c.says)
		}
	}
}

// TestShadowAnswers: run and batch report what was measured, and a budget
// changes the answer: of 0 to that without a vector, endless to that with it.
func TestShadowAnswers(t *testing.T) {
	v := vectorFor(t, "")
	answer := func(args ...string) (*batch.Answer, string) {
		s := newTest(t, "", enginetest.FakeConfig{})
		if code := s.run(append([]string{"run", "-p", "hello", "--temp", "0", "--max-tokens", "12", "--json", "--stats"}, args...)...); code != codeOK {
			t.Fatalf("%v: code %d: %s", args, code, s.err.String())
		}
		a := &batch.Answer{}
		if err := json.Unmarshal([]byte(s.out.String()), a); err != nil {
			t.Fatal(err)
		}
		return a, s.err.String()
	}
	plain, _ := answer()
	steered, _ := answer("--vector", "v="+v)
	for _, c := range []struct {
		args  []string
		want  *batch.Answer
		check func(d *batch.Divergence) bool
		says  string
	}{
		{[]string{"--shadow"}, steered, func(d *batch.Divergence) bool { return d.Max > 0.1 && d.LeastDose == 1 }, "KL(steered || unsteered)"},
		{[]string{"--kl-budget", "0"}, plain, func(d *batch.Divergence) bool { return d.Total == 0 && d.Lowered > 0 }, "at a lower dose (least 0.00)"},
		{[]string{"--kl-budget", "inf"}, steered, func(d *batch.Divergence) bool { return d.LeastDose == 1 }, "nats a token, most"},
		{[]string{"--kl-budget", "0.01"}, nil, func(d *batch.Divergence) bool { return d.Total <= 0.16 && d.Total > 0 }, "at a lower dose"},
	} {
		got, stats := answer(append(c.args, "--vector", "v="+v)...)
		if c.want != nil && !slices.Equal(got.Tokens, c.want.Tokens) {
			t.Errorf("%v: %v, want %v", c.args, got.Tokens, c.want.Tokens)
		}
		if d := got.Shadow; d == nil || len(d.KL) != len(got.Tokens) || !c.check(d) || !strings.Contains(stats, c.says) {
			t.Errorf("%v: %+v, %q", c.args, d, stats)
		}
	}
	if plain.Shadow != nil || steered.Shadow != nil {
		t.Error("a divergence without a shadow")
	}
	in := `{"id":1,"prompt":"hello"}` + "\n" + `{"id":2,"prompt":"bye"}` + "\n"
	s := newTest(t, in, enginetest.FakeConfig{})
	if code := s.run("batch", "--vector", "v="+v, "--kl-budget", "0.01", "--max-tokens", "9"); code != codeOK {
		t.Fatal(s.err.String())
	}
	if o := s.opened[0]; o.llama.MaxSequences < 8 {
		t.Errorf("%d sequences for four texts with shadows", o.llama.MaxSequences)
	}
	for _, line := range strings.Split(strings.TrimSpace(s.out.String()), "\n") {
		a := &batch.Answer{}
		if err := json.Unmarshal([]byte(line), a); err != nil || a.Shadow == nil || a.Shadow.Total > 0.16 || math.Abs(a.Shadow.Mean*float64(len(a.Tokens))-a.Shadow.Total) > 1e-9 {
			t.Errorf("%s: %v", line, err)
		}
	}
}

// TestCleanTurns: the second turn finds the first one fed again without
// steering, and is steered from its own start on only.
func TestCleanTurns(t *testing.T) {
	v := vectorFor(t, "")
	second := func(args ...string) string {
		s := newTest(t, "one\ntwo\n/bye\n", enginetest.FakeConfig{Record: true})
		s.inTTY = true
		if code := s.run(append([]string{"run", "--temp", "0", "--max-tokens", "60", "--vector", "v=" + v}, args...)...); code != codeOK {
			t.Fatal(s.err.String())
		}
		steered, clean := "", 0
		for _, f := range s.fake.Log() {
			if f.Plan == 0 && f.Rows > 4 {
				clean += f.Rows
			}
			if f.Plan != 0 && f.Prompt > 3 && f.Rows > 4 {
				steered += fmt.Sprintf(" %d at %d", f.Rows, f.Start)
			}
		}
		return fmt.Sprintf("steered prompts%s; %v unsteered", steered, clean > 60)
	}
	with, without := second("--clean-turns"), second()
	if with == without || !strings.Contains(with, "true unsteered") || !strings.Contains(without, "false unsteered") {
		t.Errorf("with: %s\nwithout: %s", with, without)
	}
	t.Log(with)
	t.Log(without)
}
