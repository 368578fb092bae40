package policy

import (
	"testing"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/monitors"
	"github.com/trimtab/trimtab/runtime"
)

// BenchmarkDecide is what a policy costs per token of a text that nobody flags,
// with 4 monitors and 1000 tokens.
func BenchmarkDecide(b *testing.B) {
	tokens := make([]decode.Token, 1000)
	s := &runtime.Step{Piece: []byte(" word"), RewindsLeft: 9, DiscardLeft: 99, Rewindable: 16}
	for _, name := range []string{"a", "b", "c", "d"} {
		s.Verdicts = append(s.Verdicts, runtime.Verdict{Monitor: name, Verdict: monitors.Verdict{Score: 0.1}})
	}
	for name, make := range map[string]func() runtime.Policy{
		"flag":      func() runtime.Policy { return Flag{} },
		"backtrack": func() runtime.Policy { return must(NewBacktrack(BacktrackOptions{})) },
		"filtered": func() runtime.Policy {
			return must(NewFiltered(FilteredOptions{Otherwise: must(NewBacktrack(BacktrackOptions{}))}))
		},
	} {
		b.Run(name, func(b *testing.B) {
			p := make()
			for i := 0; b.Loop(); i++ {
				if s.Index = i % len(tokens); s.Index == 0 {
					p = make()
				}
				s.Tokens = tokens[:s.Index]
				if a, err := p.Decide(b.Context(), s); err != nil || a.Kind != runtime.Commit {
					b.Fatal(a, err)
				}
			}
		})
	}
}
