package llamacpp

import (
	"slices"
	"testing"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/internal/gguf"
)

// TestThreadsThatStay: an engine with threads of its own makes what one thread
// makes, also beside a second such engine, and leaves none behind.
func TestThreadsThatStay(t *testing.T) {
	prompt := []decode.Token{65, 66, 67, 68}
	want := greedy(t, open(t, "tiny", gguf.F32, Options{Threads: 1}), prompt, 8)
	for range 3 {
		var engines []*Engine
		for range 2 {
			e, err := library(t).Open(modelFileFor(t, "tiny", gguf.F32), Options{Threads: 2, Context: 64})
			if err != nil {
				t.Fatal(err)
			}
			if e.pool.handle == 0 {
				t.Fatal("no pool: the libraries' thread functions were not found or not recognised")
			}
			engines = append(engines, e)
		}
		for _, e := range engines {
			if got := greedy(t, e, prompt, 8); !slices.Equal(got, want) {
				t.Errorf("two threads wrote %v, one %v", got, want)
			}
			if err := e.Close(); err != nil || e.pool.handle != 0 {
				t.Errorf("close: %v, pool %#x", err, e.pool.handle)
			}
		}
	}
}
