package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trimtab/trimtab/internal/bake"
	"github.com/trimtab/trimtab/internal/gguf"
	"github.com/trimtab/trimtab/internal/randmodel"
	"github.com/trimtab/trimtab/runtime/engine/enginetest"
	"github.com/trimtab/trimtab/steer"
)

const foreignVectors = "../../steer/testdata/"

// tinyModel writes a random llama of 4 blocks, 64 wide.
func tinyModel(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "m.gguf")
	spec, err := randmodel.Preset("tiny")
	if err == nil {
		err = randmodel.Write(path, spec)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func vectorFile(t *testing.T, v *steer.Vector) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "v.gguf")
	if err := v.WriteFile(path); err != nil {
		t.Fatal(err)
	}
	return path
}

// calm is a vector with everything stated.
func calm() *steer.Vector {
	d, e := make([]float32, 64), make([]float32, 64)
	for i := range d {
		d[i], e[i] = float32(i%5)-2, 0.01
	}
	e[7] = 3
	from, to := -1, 4
	return &steer.Vector{Name: "calm", Directions: map[int][]float32{0: d, 2: e}, Dose: 0.6, From: &from, To: &to, Arch: "llama",
		TemplateHash: steer.HashTemplate("x"), Method: "palrs", Layer: 2, Position: "-1", DataHash: "d1", MeanNorm: 11.25,
		Calibration: &steer.Calibration{Dose: 0.6, KL: 0.04, Effect: 1.5, Low: 1.1, High: 1.9, Metric: "margin", Pairs: 80}}
}

// TestSteerInspect prints three kinds of file as the golden texts have it.
func TestSteerInspect(t *testing.T) {
	for _, c := range []struct{ golden, file string }{
		{"vector-calm.txt", vectorFile(t, calm())},
		{"vector-repeng.txt", foreignVectors + "repeng.gguf"},
		{"vector-glp.txt", foreignVectors + "glp.gguf"},
	} {
		s := newTest(t, "", enginetest.FakeConfig{})
		if code := s.run("steer", "inspect", c.file); code != codeOK {
			t.Errorf("%s: code %d: %s", c.file, code, s.err.String())
		}
		golden(t, c.golden, strings.ReplaceAll(s.out.String(), c.file, "FILE"))
	}
}

func TestSteerInspectJSON(t *testing.T) {
	s := newTest(t, "", enginetest.FakeConfig{})
	if code := s.run("steer", "inspect", vectorFile(t, calm()), "--json", "--model", tinyModel(t)); code != codeOK {
		t.Fatalf("code %d: %s", code, s.err.String())
	}
	var r vectorReport
	if err := json.Unmarshal([]byte(s.out.String()), &r); err != nil {
		t.Fatal(err)
	}
	if r.Name != "calm" || r.Layer == nil || *r.Layer != 2 || len(r.Directions) != 2 || r.Calibration.Pairs != 80 || *r.Window.From != -1 || *r.Window.To != 4 || r.Directions[1].Top3 < 0.9 {
		t.Errorf("%+v", r)
	}
	if r.Fit == nil || r.Fit.OK || !strings.Contains(r.Fit.Why, "template hash") {
		t.Errorf("%+v", r.Fit)
	}
}

// TestSteerInspectOneLate moves the directions of a plain file only.
func TestSteerInspectOneLate(t *testing.T) {
	s := newTest(t, "", enginetest.FakeConfig{})
	if code := s.run("steer", "inspect", "--one-late", foreignVectors+"repeng.gguf"); code != codeOK || !strings.Contains(s.out.String(), "      3       12.58") {
		t.Errorf("code %d: %s%s", code, s.out.String(), s.err.String())
	}
	if code := s.run("steer", "inspect", "--one-late", foreignVectors+"glp.gguf"); code != codeBadInput || !strings.Contains(s.err.String(), "states its blocks") {
		t.Errorf("code %d: %s", code, s.err.String())
	}
}

func TestModelBake(t *testing.T) {
	model, dir := tinyModel(t), t.TempDir()
	v := calm()
	v.TemplateHash = ""
	windowed := vectorFile(t, v)
	v.From, v.To = nil, nil
	good, out := vectorFile(t, v), filepath.Join(dir, "out.gguf")
	foreign := calm()
	foreign.ModelHash, foreign.From, foreign.To = "0123456789abcdef", nil, nil
	other := vectorFile(t, foreign)
	for _, c := range []struct {
		name string
		args []string
		code int
		says string
	}{
		{"nothing", nil, codeUsage, "needs --model, --vector and --out"},
		{"scale 0", []string{"--scale", "0", "--model", model, "--vector", good, "--out", out}, codeUsage, "--scale is 0"},
		{"scale NaN", []string{"--scale", "NaN", "--model", model, "--vector", good, "--out", out}, codeUsage, "--scale is NaN"},
		{"no vector", []string{"--model", model, "--vector", filepath.Join(dir, "none"), "--out", out}, codeBadInput, "check the path"},
		{"a model as vector", []string{"--model", model, "--vector", model, "--out", out}, codeBadInput, "general.architecture"},
		{"a vector as model", []string{"--model", good, "--vector", good, "--out", out}, codeBadInput, "not a language model"},
		{"projection", []string{"--model", model, "--vector", foreignVectors + "glp.gguf", "--out", out}, codeBadInput, "glp.mode: project"},
		{"another model", []string{"--model", model, "--vector", other, "--out", out}, codeBadInput, "add --any-model"},
		{"no folder", []string{"--model", model, "--vector", good, "--out", filepath.Join(dir, "x", "y.gguf")}, codeBadInput, "y.gguf"},
		{"for some rows", []string{"--model", model, "--vector", windowed, "--out", out}, codeBadInput, "rows [-1:4] from the prompt's end\nadd --every-row"},
		{"for some rows, all the same", []string{"--model", model, "--vector", windowed, "--out", out, "--every-row"}, codeOK, "in this file it acts on every row"},
		{"done", []string{"--model", model, "--vector", good, "--out", out, "--force"}, codeOK, `llama with vector "calm" at scale 0.6 in blocks [0 2]`},
		{"is there", []string{"--model", model, "--vector", good, "--out", out}, codeUsage, "add --force"},
		{"over the model", []string{"--model", out, "--vector", good, "--out", out, "--force"}, codeBadInput, "is the model itself"},
		{"again, of another model", []string{"--model", model, "--vector", other, "--scale", "-1", "--any-model", "--out", out, "--force"}, codeOK, "at scale -1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newTest(t, "", enginetest.FakeConfig{})
			code := s.run(append([]string{"model", "bake"}, c.args...)...)
			if text := s.out.String() + s.err.String(); code != c.code || !strings.Contains(text, c.says) {
				t.Errorf("code %d, want %d: %s", code, c.code, text)
			}
		})
	}
	f, err := gguf.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if facts, err := bake.FactsOf(f); err != nil || facts.Width != 64 {
		t.Errorf("%+v, %v", facts, err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 1 {
		t.Errorf("left behind: %v", left)
	}
}
