package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/trimtab/trimtab/runtime/engine/enginetest"
	"github.com/trimtab/trimtab/steer"
)

// vectorFor writes a vector file that fits the fake engine, with a dose large
// enough to change its answer.
func vectorFor(t *testing.T, hash string) string {
	t.Helper()
	fake, err := enginetest.NewFake(enginetest.FakeConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer fake.Close()
	v := &steer.Vector{Name: "v", ModelHash: hash, Dose: 50, Directions: map[int][]float32{1: make([]float32, fake.Info().Width)}}
	v.Directions[1][0] = 1
	path := filepath.Join(t.TempDir(), "v.gguf")
	if err := v.WriteFile(path); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestSteerFlags: what is wrong with them, and that a plan reaches the model.
func TestSteerFlags(t *testing.T) {
	v, other := vectorFor(t, ""), vectorFor(t, "0123456789abcdef")
	for _, c := range []struct {
		args string
		code int
		says string
	}{
		{"--steer v:1", codeUsage, "there is no --vector v=FILE"},
		{"--vector v", codeUsage, "want NAME=FILE"},
		{"--vector =x", codeUsage, "want NAME=FILE"},
		{"--vector v=" + v + " --vector v=" + v, codeUsage, "given twice"},
		{"--vector v=" + v + " --vector w=" + v + " --steer v", codeUsage, "--vector w is not used"},
		{"--vector v=" + v + " --steer v:::", codeUsage, "column 3"},
		{"--vector v=/nowhere.gguf", codeBadInput, "vector v: "},
		{"--vector v=" + v + " --steer v@3", codeBadInput, "--steer: "},
		{"--vector v=" + other, codeBadInput, "--any-model"},
		{"--vector v=" + other + " --any-model", codeOK, ""},
		{"--vector v=" + v, codeOK, ""},
	} {
		s := newTest(t, "", enginetest.FakeConfig{})
		code := s.run(append([]string{"run", "-p", "hello", "--temp", "0", "--max-tokens", "12"}, strings.Fields(c.args)...)...)
		if code != c.code || !strings.Contains(s.err.String(), c.says) {
			t.Errorf("%s: code %d, %q; want %d and %q", c.args, code, s.err.String(), c.code, c.says)
		}
	}
	answer := func(args ...string) string {
		s := newTest(t, "", enginetest.FakeConfig{})
		if code := s.run(append([]string{"run", "-p", "hello", "--temp", "0", "--max-tokens", "12", "--json"}, args...)...); code != codeOK {
			t.Fatalf("code %d: %s", code, s.err.String())
		}
		_, text, _ := strings.Cut(s.out.String(), `"tokens"`)
		text, _, _ = strings.Cut(text, "]")
		return text
	}
	plain := answer()
	if steered := answer("--vector", "v="+v); steered == plain {
		t.Errorf("the vector changed nothing: %s", plain)
	}
	if zero := answer("--vector", "v="+v, "--steer", "v:0"); zero != plain {
		t.Errorf("dose 0 changed the answer from %s to %s", plain, zero)
	}
}
