package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trimtab/trimtab/runtime/engine/enginetest"
)

// TestDataExport: every set is written whole, as JSON lines, the same each time,
// and no combination is in two splits.
func TestDataExport(t *testing.T) {
	a, b := t.TempDir(), t.TempDir()
	for _, dir := range []string{a, b} {
		s := newTest(t, "", enginetest.FakeConfig{})
		if code := s.run("data", "export", "all", "--dir", dir); code != codeOK {
			t.Fatalf("code %d: %s", code, s.err.String())
		}
	}
	for _, set := range dataSets() {
		x, err := os.ReadFile(filepath.Join(a, set.name+".jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		y, err := os.ReadFile(filepath.Join(b, set.name+".jsonl"))
		if err != nil || !bytes.Equal(x, y) {
			t.Errorf("%s is not the same twice (%v)", set.name, err)
		}
		splitOf := map[string]string{}
		lines := bytes.Split(bytes.TrimSpace(x), []byte("\n"))
		for i, line := range lines {
			var r struct{ Key, Split string }
			if err := json.Unmarshal(line, &r); err != nil {
				t.Fatalf("%s line %d: %v", set.name, i+1, err)
			}
			if was, ok := splitOf[r.Key]; ok && r.Key != "" && was != r.Split {
				t.Errorf("%s: combination %q is in %s and in %s", set.name, r.Key, was, r.Split)
			}
			splitOf[r.Key] = r.Split
		}
		if len(lines) != set.size {
			t.Errorf("%s has %d records, want %d", set.name, len(lines), set.size)
		}
	}
}

func TestDataRefuses(t *testing.T) {
	for args, want := range map[string]string{
		"data show nothing":                        `no data set "nothing"`,
		"data show neutral --split middle":         `--split is "middle"`,
		"data show neutral --n -1":                 "--n is -1",
		"data export":                              "needs the names of data sets",
		"data export neutral nothing --dir /never": `no data set "nothing"`,
		"data show":                                "needs one argument",
	} {
		s := newTest(t, "", enginetest.FakeConfig{})
		code := s.run(strings.Fields(args)...)
		if (code != codeUsage && code != codeBadInput) || !strings.Contains(s.err.String(), want) {
			t.Errorf("%s: code %d, %q, want %q", args, code, s.err.String(), want)
		}
	}
}
