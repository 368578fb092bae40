package diffusion_test

import (
	"testing"

	"github.com/trimtab/trimtab/bindings/llamacpp"
	"github.com/trimtab/trimtab/bindings/llamacpp/llamatest"
	"github.com/trimtab/trimtab/internal/nano"
)

// open loads a model file for whole canvases.
func open(t testing.TB, path string, o llamacpp.Options) *llamacpp.Engine {
	t.Helper()
	o.CPUOnly, o.Canvas, o.Threads, o.MaxSequences = true, true, 1, 4
	return llamatest.Open(t, path, o)
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
