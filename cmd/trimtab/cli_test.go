package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/trimtab/trimtab/bindings/llamacpp"
	"github.com/trimtab/trimtab/bindings/llamacpp/libs"
	"github.com/trimtab/trimtab/internal/randmodel"
	"github.com/trimtab/trimtab/runtime/engine"
	"github.com/trimtab/trimtab/runtime/engine/enginetest"
)

func TestHelp(t *testing.T) {
	for _, args := range []string{"", "run", "batch", "engine", "engine install", "engine info", "model", "model inspect", "model random", "model bake", "steer", "steer inspect", "trace", "trace show", "trace replay", "data", "data list", "data show", "data export", "bench decode"} {
		t.Run(args, func(t *testing.T) {
			s := newTest(t, "", enginetest.FakeConfig{})
			if code := s.run(append(strings.Fields(args), "--help")...); code != codeOK || s.err.String() != "" {
				t.Errorf("code %d, %s", code, s.err.String())
			}
			golden(t, "help/"+strings.ReplaceAll("trimtab "+args, " ", "-")+".txt", s.out.String())
		})
	}
}

// TestExitCodes is the documented table, with the error texts beside it.
func TestExitCodes(t *testing.T) {
	model := filepath.Join(t.TempDir(), "m.gguf")
	spec, err := randmodel.Preset("tiny")
	if err == nil {
		err = randmodel.Write(model, spec)
	}
	if err != nil {
		t.Fatal(err)
	}
	text := writeFile(t, "t.gguf", "not a model")
	long := strings.Repeat("x", 5000)
	cases := []struct {
		args string
		open error // what opening the model says
		code int
		says []string
	}{
		{"", nil, codeOK, nil},
		{"model inspect " + model, nil, codeOK, nil},
		{"rum", nil, codeUsage, []string{`unknown command "rum"; did you mean "run"?`, "trimtab --help"}},
		{"xyzzy", nil, codeUsage, []string{`unknown command "xyzzy"`}},
		{"engine remove", nil, codeUsage, []string{`unknown command "remove"`, "trimtab engine --help"}},
		{"run extra", nil, codeUsage, []string{`takes no argument "extra"`, "trimtab run --help"}},
		{"run --tmp 1", nil, codeUsage, []string{"unknown flag: --tmp", "trimtab run --help"}},
		{"run --temp hot", nil, codeUsage, []string{`"hot"`}},
		{"run --temp NaN", nil, codeUsage, []string{"temperature"}},
		{"run --temp -1 --top-p 2", nil, codeUsage, []string{"temperature is -1", "top-p is 2"}},
		{"run --max-tokens 0", nil, codeUsage, []string{"--max-tokens is 0"}},
		{"run --max-tokens -5", nil, codeUsage, []string{"--max-tokens is -5"}},
		{"run --stop= -p x", nil, codeUsage, []string{"--stop text has 0 bytes"}},
		{"run --stop " + long, nil, codeUsage, []string{"--stop text has 5000 bytes"}},
		{"run --threads -1", nil, codeUsage, []string{"--threads is -1"}},
		{"run --ctx 7", nil, codeUsage, []string{"--ctx is 7"}},
		{"run --ctx -1", nil, codeUsage, []string{"--ctx is -1"}},
		{"run --gpu-layers -2", nil, codeUsage, []string{"--gpu-layers is -2"}},
		{"run --model=", nil, codeUsage, []string{"--model is empty"}},
		{"run --prompt=", nil, codeUsage, []string{"--prompt is empty"}},
		{"run --raw --system s", nil, codeUsage, []string{"--raw and --system"}},
		{"run -p \xff", nil, codeUsage, []string{"valid UTF-8"}},
		{"run", nil, codeBadInput, []string{"there is no prompt", "--prompt"}},
		{"batch --parallel 0", nil, codeUsage, []string{"--parallel is 0"}},
		{"batch --parallel 1000", nil, codeUsage, []string{"--parallel is 1000"}},
		{"batch --in=", nil, codeUsage, []string{"--in and --out"}},
		{"batch --in " + text + " --out " + text, nil, codeUsage, []string{"the same file"}},
		{"batch --in no-such-file", nil, codeBadInput, []string{"no-such-file", "check the path"}},
		{"batch --in .", nil, codeBadInput, []string{"is a folder"}},
		{"batch --out " + text, nil, codeBadInput, []string{"is no batch output", "name another file"}},
		{"run -p x", &libs.NotFoundError{Want: "libllama.so"}, codeNoEngine, []string{"no llama.cpp libraries found", "trimtab engine install"}},
		{"run -p x", fmt.Errorf("load: %w: 0.4.0", llamacpp.ErrVersion), codeNoEngine, []string{"0.4.0", "trimtab engine install"}},
		{"run -p x", fmt.Errorf("open: %w: torn", llamacpp.ErrModel), codeBadInput, []string{"torn", "trimtab model inspect"}},
		{"run -p x", fmt.Errorf("open: %w: option Context is 1000", llamacpp.ErrOptions), codeUsage, []string{"Context is 1000", "--ctx"}},
		{"run -p x", engine.Unsupported("architecture dream", "diffusion"), codeBadInput, []string{"architecture dream"}},
		{"run -p x", errors.New("out of memory"), codeFailure, []string{"trimtab: out of memory"}},
		{"run -p x", context.Canceled, codeInterrupted, []string{"interrupted"}},
		{"run --raw --max-tokens 4090 -p " + strings.Repeat("x", 10), nil, codeBadInput, []string{"context full", "--max-tokens"}},
		{"engine info", nil, codeNoEngine, []string{"looked in", "trimtab engine install"}},
		{"engine info --lib /no/such/dir", nil, codeNoEngine, []string{"--lib", "/no/such/dir: no such folder"}},
		{"engine install --backend rocm", nil, codeNoEngine, []string{`"rocm"`, "auto, cpu, cuda, vulkan"}},
		{"engine install", nil, codeNoEngine, []string{"npm client was not found"}},
		{"model inspect", nil, codeUsage, []string{"needs one argument"}},
		{"model inspect no-such-file", nil, codeBadInput, []string{"no-such-file", "check the path"}},
		{"model inspect " + text, nil, codeBadInput, []string{text, "magic"}},
		{"model random", nil, codeUsage, []string{"--out is missing"}},
		{"model random --arch gpt --out x", nil, codeUsage, []string{`unknown architecture "gpt"`}},
		{"model random --shape big --out x", nil, codeUsage, []string{"big"}},
		{"model random --out " + text, nil, codeUsage, []string{"exists", "--force"}},
	}
	for _, c := range cases {
		t.Run(fmt.Sprintf("%.40s", c.args), func(t *testing.T) {
			s := newTest(t, "", answers("hi"))
			s.npm = "no-such-npm"
			s.env.System, s.env.Program = nil, ""
			if c.open != nil {
				s.open = func(context.Context, openOptions) (engine.Engine, error) { return nil, c.open }
			}
			code := s.run(strings.Fields(c.args)...)
			if code != c.code {
				t.Errorf("code %d, want %d", code, c.code)
			}
			t.Log(s.err.String())
			for _, w := range c.says {
				if !strings.Contains(s.err.String(), w) {
					t.Errorf("does not say %q", w)
				}
			}
			if code != codeOK && s.out.String() != "" {
				t.Errorf("printed %q on the standard output", s.out.String())
			}
		})
	}
}

func TestModelInspect(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tiny.gguf")
	s := newTest(t, "", enginetest.FakeConfig{})
	if code := s.run("model", "random", "--arch", "qwen3", "--out", path, "--seed", "7"); code != codeOK {
		t.Fatal(s.err.String())
	}
	made := s.out.String()
	for _, flag := range []string{"", "--meta", "--tensors", "--json"} {
		s := newTest(t, "", enginetest.FakeConfig{})
		if code := s.run(strings.Fields("model inspect " + path + " " + flag)...); code != codeOK {
			t.Fatal(s.err.String())
		}
		made += "\n$ trimtab model inspect tiny.gguf " + flag + "\n" + s.out.String()
	}
	golden(t, "inspect.txt", strings.ReplaceAll(made, path, "tiny.gguf"))
}

func TestModelRandomIsReproducible(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	for _, path := range []string{a, b} {
		if code := newTest(t, "", enginetest.FakeConfig{}).run("model", "random", "--shape", "tiny", "--out", path); code != codeOK {
			t.Fatal(code)
		}
	}
	if readFile(t, a) != readFile(t, b) {
		t.Error("two files of the same seed differ")
	}
	if code := newTest(t, "", enginetest.FakeConfig{}).run("model", "random", "--shape", "tiny", "--out", a, "--seed", "2", "--force"); code != codeOK {
		t.Fatal(code)
	}
	if readFile(t, a) == readFile(t, b) {
		t.Error("another seed gives the same file")
	}
}

func TestInspectEscapesTerminalCodes(t *testing.T) {
	for in, want := range map[string]string{"plain é": "plain é", "\x1b[2Jgone": `"\x1b[2Jgone"`, "a\u009bb": `"a\u009bb"`} {
		if got := printable(in); got != want {
			t.Errorf("printable(%q) = %s, want %s", in, got, want)
		}
	}
}

// TestRealEngine runs the program on the built-in model with the real engine:
// sampled, twice, the second time resumed from the middle.
func TestRealEngine(t *testing.T) {
	set, err := libs.Find("", libs.Host())
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skipf("llama.cpp is missing: %v", err)
	}
	out := filepath.Join(t.TempDir(), "out")
	run := func() string {
		s := newTest(t, prompts(12), enginetest.FakeConfig{})
		s.open = openModel
		s.env.Lib = set.Dir
		if code := s.run("batch", "--max-tokens", "24", "--parallel", "1", "--seed", "3", "--out", out); code != codeOK {
			t.Fatal(s.err.String())
		}
		return readFile(t, out)
	}
	whole := run()
	if err := os.Truncate(out, int64(len(whole))/2); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(withoutTimings(t, whole), withoutTimings(t, run())); d != "" {
		t.Error(d)
	}
	t.Log(whole)
}
