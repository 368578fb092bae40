package llamacpp

import (
	"testing"

	"github.com/trimtab/trimtab/internal/gguf"
	"github.com/trimtab/trimtab/runtime/engine"
	"github.com/trimtab/trimtab/runtime/engine/enginetest"
)

// TestConformance runs the contract's suite over three architectures.
//
// The tolerance is how much a logit may change when its row is computed in
// another batch or at other places of the cache: llama.cpp sums in another
// order then. Logits of these models have a standard deviation near 1. Largest
// difference seen in 30 runs: 2e-6 with F32 weights, F32 cache and plain
// attention; 8e-3 on gemma3, whose GELU reads a table of half floats; 3e-2 with
// flash attention, which sums in half floats; 0.3 with Q8_0 weights, where the
// activations are rounded to 8 bits and a last bit decides which way.
//
// Sixteen sequences under sixteen plans in one batch, against each alone, stayed
// within 2e-5 with F32 weights, 2e-3 on gemma3 and with flash attention, and
// were equal to the bit with Q8_0 weights.
//
// nano-chat is held to the promises of plans by TestPlansDoWhatTheySay,
// TestNothingIsNothing and TestSixteenPlansInOneBatch instead: the suite wants
// every edit to move all later logits, and a trained model may attend to none of
// the edited rows.
func TestConformance(t *testing.T) {
	for _, c := range []struct {
		preset    string
		typ       gguf.TensorType
		flash     Flash
		tolerance float64
	}{
		{"tiny", gguf.F32, FlashOff, 1e-4},
		{"tiny", gguf.F32, FlashOn, 1e-1},
		{"tiny", gguf.Q8_0, FlashOff, 0.6},
		{"tiny-qwen3", gguf.F32, FlashOff, 1e-4},
		{"tiny-qwen3", gguf.Q8_0, FlashOff, 0.6},
		{"tiny-gemma3", gguf.F32, FlashOff, 3e-2},
		{"tiny-gemma3", gguf.Q8_0, FlashOff, 0.6},
	} {
		t.Run(c.preset+" "+c.typ.String()+" flash "+string(c.flash), func(t *testing.T) {
			enginetest.Run(t, func(t *testing.T) engine.Engine {
				return open(t, c.preset, c.typ, Options{
					Threads: 1, Context: 256, Cells: 1024, MaxSequences: 16, Batch: 64, Ubatch: 16, KV: KVF32, Flash: c.flash,
				})
			}, enginetest.Options{Tolerance: c.tolerance})
		})
	}
}
