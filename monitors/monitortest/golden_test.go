package monitortest

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden texts anew")

func TestGolden(t *testing.T) { Golden(t, mutant(""), "testdata/again.jsonl", *update) }

// TestGoldenFails: what is expected and what came are told apart, and updating
// makes the file right without touching the lines that were.
func TestGoldenFails(t *testing.T) {
	good, err := os.ReadFile("testdata/again.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range [][2]string{
		{`"score":0.5`, `"score":0.51`}, {`"flag":true,`, ``}, {`"onset":2`, `"onset":1`}, {`"note":"again"`, `"note":"once"`},
		{`there is none`, `there are many`},
	} {
		bad := strings.Replace(string(good), change[0], change[1], 1)
		if bad == string(good) {
			t.Fatalf("%s is not in the file", change[0])
		}
		got, err := play(t.Context(), mutant(""), []byte(bad))
		if err != nil || string(got) == bad {
			t.Errorf("%s: accepted, or %v", change[1], err)
		}
		path := filepath.Join(t.TempDir(), "x.jsonl")
		if err := os.WriteFile(path, []byte(bad), 0o644); err != nil {
			t.Fatal(err)
		}
		Golden(t, mutant(""), path, true)
		if Golden(t, mutant(""), path, false); t.Failed() {
			t.Error("an updated file is not right")
		}
	}
	for in, want := range map[string]string{
		`{"piece":"a","what":1}`:               "line 1: ",
		"# c\n{\"piece\":1}":                   "line 2: ",
		`{"piece":"a","rows":{"x":[1]}}`:       `"x" is not a site`,
		`{"piece":"a","rows":{"01.post":[1]}}`: "is not a site",
	} {
		if _, err := play(t.Context(), mutant(""), []byte(in)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", in, err)
		}
	}
	if _, err := play(t.Context(), mutant("writes to the row"), good); err == nil || !strings.Contains(err.Error(), "wrote to") {
		t.Errorf("a broken promise in a golden text: %v", err)
	}
}
