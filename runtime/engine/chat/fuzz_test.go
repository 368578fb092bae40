package chat

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trimtab/trimtab/runtime/engine/chat/internal/jinja"
)

// FuzzParseRender: no template and no content crashes or runs away, and the
// parts of a prompt join to the prompt.
func FuzzParseRender(f *testing.F) {
	paths, err := filepath.Glob(filepath.Join("testdata", "templates", "*.jinja"))
	if err != nil {
		f.Fatal(err)
	}
	for _, p := range paths {
		src, err := os.ReadFile(p)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(src), "hello <|im_end|>")
		for _, line := range strings.Split(string(src), "\n") {
			f.Add(line, "a<s>b")
		}
	}
	f.Fuzz(func(t *testing.T, src, content string) {
		tmpl, err := Parse(src, Options{MaxWork: 200_000, MaxOutput: 1 << 16})
		if err != nil {
			return
		}
		in := one(content)
		in.Tools = rawList(`{"function": {"name": "f", "parameters": {"x": [1, 2.5, null, "<s>"]}}}`)
		want, err := tmpl.Render(in)
		parts, err2 := tmpl.RenderParts(in, controlWords)
		var fault *jinja.Fault
		if errors.As(err, &fault) || errors.As(err2, &fault) {
			t.Fatalf("%v, %v", err, err2)
		}
		if err != nil || err2 != nil {
			return
		}
		var b strings.Builder
		for _, p := range parts {
			b.WriteString(p.Text)
		}
		if b.String() != want {
			t.Fatalf("parts %q, Render %q", b.String(), want)
		}
	})
}
