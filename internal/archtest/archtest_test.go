package archtest

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/fstest"
)

// TestRepository holds this repository to the rules.
func TestRepository(t *testing.T) {
	root := os.DirFS("../..")
	if _, err := root.Open("go.mod"); err != nil {
		t.Fatalf("the repository's root is not where it should be: %v", err)
	}
	faults, err := Check(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range faults {
		t.Error(f)
	}
}

const imp = `import _ "github.com/trimtab/trimtab/`

// TestRules proves that every rule can fail, and that its neighbour passes.
func TestRules(t *testing.T) {
	for _, c := range []struct {
		name, path, text string
		want             string // "line rule", empty for no fault
	}{
		{"decode imports a kernel", "decode/a.go", "package decode\n" + imp + `internal/vec"`, ""},
		{"decode imports another leaf", "decode/a.go", "package decode\n" + imp + `internal/gguf"`, "2 imports"},
		{"decode imports steer", "decode/a.go", "package decode\n" + imp + `steer"`, "2 imports"},
		{"part of decode imports it", "decode/constrain/a.go", "package constrain\n" + imp + `decode"`, ""},
		{"part of decode imports its sister", "decode/constrain/a.go", "package constrain\n" + imp + `decode/mixture"`, "2 imports"},
		{"steer imports decode", "steer/a.go", "package steer\n" + imp + `decode"`, "2 imports"},
		{"bandit stays a leaf", "steer/bandit/a.go", "package bandit\n" + imp + `runtime/engine"`, "2 imports"},
		{"extract needs activations", "steer/extract/a.go", "package extract\n" + imp + `runtime/engine"`, ""},
		{"monitors import runtime", "monitors/a.go", "package monitors\n" + imp + `runtime"`, "2 imports"},
		{"a monitor imports the engine", "monitors/entropy/a.go", "package entropy\n" + imp + `runtime/engine"`, ""},
		{"conformal stays a leaf", "monitors/conformal/a.go", "package conformal\n" + imp + `decode"`, "2 imports"},
		{"engine imports runtime", "runtime/engine/a.go", "package engine\n" + imp + `runtime"`, "2 imports"},
		{"engine imports monitors", "runtime/engine/a.go", "package engine\n" + imp + `monitors"`, "2 imports"},
		{"chat imports its own parts", "runtime/engine/chat/a.go", "package chat\n" + imp + `runtime/engine/chat/internal/jinja"`, ""},
		{"chat imports steer", "runtime/engine/chat/a.go", "package chat\n" + imp + `steer"`, "2 imports"},
		{"runtime imports a binding", "runtime/a.go", "package runtime\n" + imp + `bindings/llamacpp"`, "2 imports"},
		{"runtime imports plugins", "runtime/a.go", "package runtime\n" + imp + `plugins"`, "2 imports"},
		{"runtime imports its sub-package", "runtime/a.go", "package runtime\n" + imp + `runtime/policy"`, "2 imports"},
		{"runtime imports the fake", "runtime/a.go", "package runtime\n" + imp + `runtime/engine/enginetest"`, "2 imports"},
		{"runtime tests with the fake", "runtime/a_test.go", "package runtime\n" + imp + `runtime/engine/enginetest"`, ""},
		{"runtime tests with a monitor", "runtime/policy/a_test.go", "package policy\n" + imp + `monitors/entropy"`, ""},
		{"policy imports runtime", "runtime/policy/a.go", "package policy\n" + imp + `runtime"`, ""},
		{"policy imports plugins", "runtime/policy/a.go", "package policy\n" + imp + `plugins"`, "2 imports"},
		{"plugins import runtime", "plugins/a.go", "package plugins\n" + imp + `runtime"`, ""},
		{"plugins import a binding", "plugins/a.go", "package plugins\n" + imp + `bindings/llamacpp"`, "2 imports"},
		{"a binding imports its parts", "bindings/llamacpp/judge/a.go", "package judge\n" + imp + `bindings/llamacpp/libs"`, ""},
		{"a binding imports another", "bindings/ollama/a.go", "package ollama\n" + imp + `bindings/openai"`, "2 imports"},
		{"a binding imports runtime", "bindings/ollama/a.go", "package ollama\n" + imp + `runtime"`, "2 imports"},
		{"a binding's test imports monitors", "bindings/ollama/a_test.go", "package ollama\n" + imp + `monitors"`, "2 imports"},
		{"the command imports anything", "cmd/trimtab/a.go", "package main\n" + imp + `plugins"`, ""},
		{"a leaf imports a leaf", "internal/nano/a.go", "package nano\n" + imp + `internal/gguf"`, ""},
		{"a leaf imports decode", "internal/nano/a.go", "package nano\n" + imp + `decode"`, "2 imports"},
		{"a leaf's test imports a binding", "internal/nano/a_test.go", "package nano\n" + imp + `bindings/llamacpp"`, ""},
		{"a package without a row", "testdata2/a.go", "package a\n" + imp + `decode"`, "0 top level,2 imports"},
		{"an example's neighbour", "examples/chat/a.go", "package main\n" + imp + `cmd/trimtab"`, "2 imports"},

		{"unsafe in the binding", "bindings/llamacpp/a.go", "package llamacpp\nimport _ \"unsafe\"", ""},
		{"unsafe elsewhere", "decode/a.go", "package decode\nimport _ \"unsafe\"", "2 unsafe"},
		{"unsafe in a test", "runtime/a_test.go", "package runtime\nimport _ \"unsafe\"", "2 unsafe"},
		{"purego elsewhere", "cmd/trimtab/a.go", "package main\nimport _ \"github.com/ebitengine/purego\"", "2 unsafe"},
		{"cgo", "bindings/llamacpp/a.go", "package llamacpp\nimport \"C\"", "2 cgo"},
		{"init", "decode/a.go", "package decode\n\nfunc init() {}", "3 init"},
		{"init in a test", "decode/a_test.go", "package decode\n\nfunc init() {}", "3 init"},
		{"a method named init", "decode/a.go", "package decode\n\ntype t int\n\nfunc (t) init() {}", ""},
		{"a vague package", "internal/util/a.go", "package util", "1 name"},
		{"a vague folder", "internal/core/a.go", "package kernel", "1 name"},
		{"a vague test package", "internal/nano/a_test.go", "package helpers_test", "1 name"},
		{"not Go", "decode/a.go", "package decode\nfunc {", "0 syntax"},

		{"type without comment", "decode/a.go", "package decode\n\ntype T int", "3 docs"},
		{"type with comment", "decode/a.go", "package decode\n\n// T is.\ntype T int", ""},
		{"function without comment", "decode/a.go", "package decode\n\nfunc F() {}", "3 docs"},
		{"method without comment", "decode/a.go", "package decode\n\n// T is.\ntype T[A any] int\n\nfunc (t *T[A]) F() {}", "6 docs"},
		{"method of a private type", "decode/a.go", "package decode\n\ntype t int\n\nfunc (t) F() {}", ""},
		{"obvious method", "decode/a.go", "package decode\n\n// T is.\ntype T int\n\nfunc (T) String() string { return \"\" }", ""},
		{"variable without comment", "decode/a.go", "package decode\n\nvar E = 1", "3 docs"},
		{"group with comments", "decode/a.go", "package decode\n\nvar (\n\t// E is.\n\tE = 1\n\tF = 2 // F is.\n)", ""},
		{"group with one missing", "decode/a.go", "package decode\n\nvar (\n\t// E is.\n\tE = 1\n\tF = 2\n)", "6 docs"},
		{"counted constants", "decode/a.go", "package decode\n\nconst (\n\tA int = iota // A and so on\n\tB\n)", ""},
		{"constants of a named type", "decode/a.go", "package decode\n\n// T is.\ntype T int\n\nconst (\n\tA T = iota\n\tB\n\tC T = 7\n)", ""},
		{"counted constants without comment", "decode/a.go", "package decode\n\nconst (\n\tA int = iota\n\tB\n)", "4 docs,5 docs"},
		{"exported name in a test", "decode/a_test.go", "package decode\n\nfunc TestX() {}", ""},
		{"long file", "decode/a.go", "package decode\n" + strings.Repeat("\n", 450), "451 length"},
		{"long test", "decode/a_test.go", "package decode\n" + strings.Repeat("\n", 450), ""},

		{"unfinished", "decode/a.go", "package decode\n// TO" + "DO: later", "2 unfinished"},
		{"unfinished script", "testdata/node/a.mjs", "\n\n// FIX" + "ME", "3 unfinished"},
		{"a word that holds another", "docs/a.md", "METO" + "DOS and PASTO" + "DOx", ""},
		{"registry in a lock file", "testdata/node/package-lock.json", "{\n\"resolved\": \"https://registry.npm" + "js.org/x\"}", "2 registry"},
		{"binary file", "docs/a.bin", "\x00TO" + "DO", ""},
		{"top level", "pkg/a.txt", "x", "0 top level"},
		{"ignored folder", "bin/a.go", "package util", ""},
		{"wrong Go in testdata", "decode/testdata/a.go", "package util", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			faults, err := Check(fstest.MapFS{
				".gitignore": {Data: []byte("/bin/\n*.tmp\n")},
				"go.mod":     {Data: []byte("module x\n")},
				c.path:       {Data: []byte(c.text)},
			})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, f := range faults {
				got = append(got, fmt.Sprintf("%d %s", f.Line, f.Rule))
			}
			if strings.Join(got, ",") != c.want {
				t.Errorf("got %q, want %q (%v)", strings.Join(got, ","), c.want, faults)
			}
		})
	}
}

// TestTableIsReachable checks that no row hides behind an earlier one.
func TestTableIsReachable(t *testing.T) {
	for i, r := range table {
		pkg := strings.TrimSuffix(r.packages, "/...")
		if rowOf(pkg) != &table[i] && rowOf(pkg+"/x") != &table[i] {
			t.Errorf("row %q is never reached", r.packages)
		}
	}
}
