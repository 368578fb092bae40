package llamacpp

import (
	"context"
	"slices"
	"testing"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/internal/gguf"
	"github.com/trimtab/trimtab/runtime/engine"
	"github.com/trimtab/trimtab/steer"
)

// TestCaptureChangesNothing: reading residuals, by either path, leaves every
// logit as it was, to the bit. Not so at the last block: there the rows that
// nobody asked logits of must be computed as well, and the larger product sums
// in another order.
func TestCaptureChangesNothing(t *testing.T) {
	prompt := []decode.Token{65, 66, 67, 68, 69, 70, 71}
	for _, preset := range []string{"tiny", "tiny-qwen3", "tiny-gemma3"} {
		for _, typ := range []gguf.TensorType{gguf.F32, gguf.Q8_0} {
			t.Run(preset+" "+typ.String(), func(t *testing.T) {
				run := func(layers ...int) (rows []decode.Logits) {
					e := open(t, preset, typ, Options{Threads: 1})
					s := sequence(t, e)
					feed := engine.Feed{Seq: s, Tokens: prompt}
					for _, l := range layers {
						feed.Capture = append(feed.Capture, steer.Site{Layer: l})
					}
					for range 12 {
						if err := e.Forward(context.Background(), []engine.Feed{feed}); err != nil {
							t.Fatal(err)
						}
						rows = append(rows, slices.Clone(s.Logits()))
						feed.Tokens = []decode.Token{argmax(s.Logits())}
					}
					return rows
				}
				want := run()
				for _, layers := range [][]int{{0}, {1}, {0, 1, 2}} {
					for i, row := range run(layers...) {
						if !slices.Equal(row, want[i]) {
							t.Errorf("capturing layers %v changed row %d of the logits", layers, i)
							break
						}
					}
				}
			})
		}
	}
}

// TestCapturePathsAgree: the recorded input of a block and the evaluation
// callback show the same residual, to the bit.
func TestCapturePathsAgree(t *testing.T) {
	for _, preset := range []string{"tiny", "tiny-qwen3"} {
		e := open(t, preset, gguf.Q8_0, Options{Threads: 1, Ubatch: 4})
		site := steer.Site{Layer: 1}
		read := func() []float32 {
			s := sequence(t, e)
			defer s.Close()
			feed := engine.Feed{Seq: s, Tokens: []decode.Token{65, 66, 67, 68, 69, 70, 71}, Capture: []steer.Site{site}}
			if err := e.Forward(context.Background(), []engine.Feed{feed}); err != nil {
				t.Fatal(err)
			}
			x, err := s.Activation(site)
			if err != nil {
				t.Fatal(err)
			}
			return slices.Clone(x)
		}
		if !e.viaInput(site.Layer) {
			t.Fatalf("%s does not record block inputs", preset)
		}
		fast := read()
		arch := e.info.Arch
		e.info.Arch = "of which nothing is known"
		if slow := read(); !slices.Equal(fast, slow) {
			t.Errorf("%s: the two paths show different residuals", preset)
		}
		e.info.Arch = arch
	}
}
