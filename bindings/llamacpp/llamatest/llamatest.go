// Package llamatest opens llama.cpp for tests, so that every test treats
// missing libraries alike: a skip that says what is missing, and a failure
// where the environment says CI=true.
package llamatest

import (
	"os"
	"testing"

	"github.com/trimtab/trimtab/bindings/llamacpp"
	"github.com/trimtab/trimtab/bindings/llamacpp/libs"
)

// Library loads llama.cpp.
func Library(t testing.TB) *llamacpp.Library {
	t.Helper()
	set, err := libs.Find("", libs.Host())
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	l, err := llamacpp.Load(set)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// Open opens a model file and closes it when the test ends.
func Open(t testing.TB, path string, o llamacpp.Options) *llamacpp.Engine {
	t.Helper()
	e, err := Library(t).Open(path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}
