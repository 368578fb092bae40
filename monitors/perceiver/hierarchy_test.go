package perceiver

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const small = `version: 1
prior: I care.
principles:
  - {name: Kindness, text: Be kind., guidance: "{prior} Mind {name}: {text}"}
  - {name: Truth, text: Do not lie., guidance: I check the facts.}
`

func TestRead(t *testing.T) {
	want := &Hierarchy{Prior: "I care.", Principles: []Principle{
		{"Kindness", "Be kind.", "{prior} Mind {name}: {text}"}, {"Truth", "Do not lie.", "I check the facts."}}}
	json := "{\"version\": 1,\n\t\"prior\": \"I care.\", \"principles\": [\n\t{\"name\": \"Kindness\", \"text\": \"Be kind.\", \"guidance\": \"{prior} Mind {name}: {text}\"}," +
		"{\"name\": \"Truth\", \"text\": \"Do not lie.\", \"guidance\": \"I check the facts.\"}]}"
	for _, text := range []string{small, json} {
		got, err := Read(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Error(d)
		}
	}
	if text, ok := want.Guidance("Kindness"); !ok || text != "I care. Mind Kindness: Be kind." {
		t.Errorf("guidance: %q, %v", text, ok)
	}
	if _, ok := want.Guidance("kindness"); ok {
		t.Error("a name in another case was found")
	}
	path := filepath.Join(t.TempDir(), "p.yaml")
	if _, err := ReadFile(path); err == nil || !os.IsNotExist(unwrapAll(err)) {
		t.Error("a missing file:", err)
	}
	if err := os.WriteFile(path, []byte(small), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := ReadFile(path); err != nil || cmp.Diff(want, got) != "" {
		t.Error(got, err)
	}
	if err := Default().Validate(); err != nil {
		t.Error(err)
	}
}

func unwrapAll(err error) error {
	for {
		u, ok := err.(interface{ Unwrap() error })
		if !ok {
			return err
		}
		err = u.Unwrap()
	}
}

func TestReadFaults(t *testing.T) {
	change := func(from, to string) string { return strings.Replace(small, from, to, 1) }
	for _, c := range []struct {
		name, text string
		want       []string
	}{
		{"nothing", "", []string{"the file is empty"}},
		{"a word", "hello", []string{"cannot unmarshal"}},
		{"no version", change("version: 1\n", ""), []string{"version is 0, this program reads 1"}},
		{"another version", change("version: 1", "version: 2"), []string{"version is 2"}},
		{"unknown field", change("prior:", "preface:"), []string{"preface"}},
		{"unknown field inside", change("text: Be kind.", "text: Be kind., rank: 1"), []string{"rank"}},
		{"a field twice", change("prior: I care.", "prior: I care.\nprior: a"), []string{"already"}},
		{"two documents", small + "\n---\n{}", []string{"something follows"}},
		{"no principles", "version: 1\n", []string{"there are 0, want 1 to 8"}},
		{"too many", "version: 1\nprinciples: [" + strings.Repeat("{name: a, text: b, guidance: c},", 9) + "]", []string{"there are 9"}},
		{"all at once", "version: 1\nprinciples: [{name: a b, text: '', guidance: ' '}, {name: A, text: x, guidance: x}, {name: a, text: x, guidance: x}]",
			[]string{`' ' is not a letter`, "principle 0: the text is empty", "principle 0: the guidance is empty", "principle 2: the name a stands twice"}},
		{"no name", change("name: Truth", "name: ''"), []string{"principle 1: name: it has 0 bytes"}},
		{"a long name", change("name: Truth", "name: "+strings.Repeat("x", 49)), []string{"it has 49 bytes"}},
		{"a name with a note in it", change("name: Truth", "name: 'Truth; signs'"), []string{"is not a letter"}},
		{"long text", change("Be kind.", strings.Repeat("x", 2049)), []string{"text: 2049 bytes, the limit is 2048"}},
		{"guidance that grows", change("I check the facts.", "'"+strings.Repeat("{text} ", 290)+"'"), []string{"principle 1: guidance:", "the limit is 2048"}},
		{"control characters", change("Be kind.", `"Be \e[2J kind"`), []string{"control character U+001B"}},
		{"a long file", small + "#" + strings.Repeat("x", MaxFile), []string{"longer than 65536 bytes"}},
		{"a bomb", "version: 1\nprior: &a [x,x]\nprinciples: &b [*a,*a,*a]\n", []string{"cannot unmarshal"}},
	} {
		_, err := Read(strings.NewReader(c.text))
		for _, want := range c.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v does not say %q", c.name, err, want)
			}
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(small))
	f.Add([]byte(`{"version": 1, "principles": [{"name": "a", "text": "b", "guidance": "{prior}{text}"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		h, err := Read(strings.NewReader(string(data)))
		if err != nil {
			return
		}
		if err := h.Validate(); err != nil {
			t.Error(err)
		}
		for _, p := range h.Principles {
			if text, ok := h.Guidance(p.Name); !ok || len(text) > MaxText {
				t.Errorf("guidance of %q: %v, %d bytes", p.Name, ok, len(text))
			}
		}
		if !strings.Contains(Prompt(h), h.Principles[0].Text) {
			t.Error("the prompt lacks a principle")
		}
	})
}

// TestDocs reads the principles in docs/perceiver.md.
func TestDocs(t *testing.T) {
	text, err := os.ReadFile("../../docs/perceiver.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "```yaml\n")
	yaml, _, ok := strings.Cut(rest, "```")
	if h, err := Read(strings.NewReader(yaml)); !ok || err != nil || h.Principles[1].Name != "Honesty" {
		t.Errorf("%v in\n%s", err, yaml)
	}
}
