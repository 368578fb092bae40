package randmodel

import (
	"bytes"
	"testing"

	"github.com/trimtab/trimtab/internal/gguf"
)

func TestPresetsRead(t *testing.T) {
	for _, name := range []string{"tiny", "tiny-spm", "tiny-qwen3", "tiny-gemma3"} {
		t.Run(name, func(t *testing.T) {
			s, err := Preset(name)
			if err != nil {
				t.Fatal(err)
			}
			var a, b bytes.Buffer
			if err := WriteTo(&a, s); err != nil {
				t.Fatal(err)
			}
			if err := WriteTo(&b, s); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(a.Bytes(), b.Bytes()) {
				t.Error("two writes differ")
			}
			f, err := gguf.Read(bytes.NewReader(a.Bytes()), int64(a.Len()))
			if err != nil {
				t.Fatal(err)
			}
			if n, err := f.Uint(s.Arch + ".block_count"); err != nil || n != uint64(s.Layers) {
				t.Errorf("block_count %d, %v", n, err)
			}
		})
	}
}
