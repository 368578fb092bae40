package enginetest

import (
	"testing"

	"github.com/trimtab/trimtab/runtime/engine"
	"github.com/trimtab/trimtab/steer"
)

func TestFakeConforms(t *testing.T) {
	odd := func(s steer.Site) error {
		if s.Layer%2 == 0 {
			return engine.Unsupported("layer", "even layers are closed")
		}
		return nil
	}
	for _, c := range []struct {
		name string
		cfg  FakeConfig
	}{
		{"all", FakeConfig{}},
		{"none", FakeConfig{NoEmbeddings: true, NoRewind: true, NoFork: true, NoSave: true, NoInterrupt: true, NoCapture: true, NoEdit: true}},
		{"no rewind", FakeConfig{NoRewind: true}},
		{"no capture", FakeConfig{NoCapture: true}},
		{"no edit, no tokenizer", FakeConfig{NoEdit: true, NoTokenizer: true}},
		{"no fork, no save", FakeConfig{NoFork: true, NoSave: true}},
		{"odd layers", FakeConfig{CanCapture: odd, CanEdit: func(s steer.Site, op steer.Op) error { return odd(s) }}},
		{"add only", FakeConfig{CanEdit: func(_ steer.Site, op steer.Op) error {
			if op != steer.Add {
				return engine.Unsupported(op.String(), "only add")
			}
			return nil
		}}},
		{"small and crowded", FakeConfig{Width: 3, Layers: 1, Context: 100, Cells: 300, MaxSequences: 5, MaxBatch: 8}},
		{"deep, every sequence has its own cells", FakeConfig{Layers: 9, Context: 64, Cells: 512, MaxSequences: 8, Vocab: 1000}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			Run(t, func(t *testing.T) engine.Engine { return newFake(t, c.cfg) }, Options{})
		})
	}
}
