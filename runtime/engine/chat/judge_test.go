package chat

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestJudge compares every template and conversation with what Jinja2 itself
// gave: see testdata/judge.py.
func TestJudge(t *testing.T) {
	total := judgeDir(t, filepath.Join("testdata", "templates"), filepath.Join("testdata", "golden"))
	if total < 12*10 {
		t.Errorf("%d cases, want at least 120", total)
	}
}

func judgeDir(t *testing.T, templates, goldens string) int {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(templates, "*.jinja"))
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	for _, path := range paths {
		stem := strings.TrimSuffix(filepath.Base(path), ".jinja")
		var want map[string]verdict
		readJSON(t, filepath.Join(goldens, stem+".golden"), &want)
		for _, c := range conversations(t) {
			total++
			t.Run(stem+"/"+c.ID, func(t *testing.T) { judgeOne(t, path, &c, want[c.ID]) })
		}
	}
	return total
}

func judgeOne(t *testing.T, path string, c *conversation, want verdict) {
	src, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var got string
	tmpl, err := Parse(string(src), Options{})
	if err == nil {
		got, err = tmpl.Render(c.input())
	}
	var raised *RaisedError
	switch {
	case want.Text != nil:
		if err != nil {
			t.Fatalf("error: %v", err)
		}
		if d := cmp.Diff(*want.Text, got); d != "" {
			t.Fatalf("differs from Jinja2 (-want +got):\n%s", d)
		}
		checkParts(t, tmpl, c.input(), got)
	case want.Raised != nil:
		if !errors.As(err, &raised) || raised.Message != *want.Raised {
			t.Fatalf("error %v, want the template to raise %q", err, *want.Raised)
		}
	case want.Error != nil:
		if err == nil {
			t.Fatalf("no error, Jinja2 says %s", *want.Error)
		}
	default:
		t.Fatal("no golden: run testdata/judge.py")
	}
}

var controlWords = []string{
	"<s>", "</s>", "<|im_start|>", "<|im_end|>", "<|eot_id|>", "<|start_header_id|>", "<|end_header_id|>",
	"<start_of_turn>", "<end_of_turn>", "[INST]", "[/INST]", "<|user|>", "<|assistant|>", "<|end|>",
	"<｜end▁of▁sentence｜>", "<｜User｜>", "<｜Assistant｜>", "<|start|>", "<|message|>", "<|channel|>",
}

// checkParts: marks must not change a prompt, nor leave one in it.
func checkParts(t *testing.T, tmpl *Template, in Input, want string) {
	t.Helper()
	parts, err := tmpl.RenderParts(in, controlWords)
	if err != nil {
		t.Fatalf("RenderParts: %v", err)
	}
	var b strings.Builder
	for _, p := range parts {
		b.WriteString(p.Text)
	}
	if d := cmp.Diff(want, b.String()); d != "" {
		t.Fatalf("RenderParts differs from Render (-want +got):\n%s", d)
	}
}
