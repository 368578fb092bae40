package diffusion_test

import (
	"os"
	"testing"

	"github.com/trimtab/trimtab/bindings/llamacpp"
	"github.com/trimtab/trimtab/bindings/llamacpp/libs"
	"github.com/trimtab/trimtab/internal/nano"
)

// library loads llama.cpp, or skips the test saying what is missing; on CI that
// is a failure.
func library(t testing.TB) *llamacpp.Library {
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

// open loads a model file for whole canvases.
func open(t testing.TB, path string, o llamacpp.Options) *llamacpp.Engine {
	t.Helper()
	o.CPUOnly, o.Canvas, o.Threads, o.MaxSequences = true, true, 1, 4
	e, err := library(t).Open(path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

// shipped writes the embedded nano-diffusion to a file and opens it.
func shipped(t testing.TB) *llamacpp.Engine {
	t.Helper()
	path, err := nano.WriteDiffusion(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return open(t, path, llamacpp.Options{})
}

// solverOn returns a solver on an engine, or ends the test.
func solverOn(t testing.TB, e *llamacpp.Engine) *solver {
	t.Helper()
	s, err := newSolver(e)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
