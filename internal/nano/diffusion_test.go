package nano

import (
	"bytes"
	"os"
	"testing"
)

func TestDiffusionIsSmallGGUF(t *testing.T) {
	if n := len(Diffusion()); n > 4<<20 || n+len(Chat()) > 8<<20 {
		t.Errorf("nano-diffusion has %d bytes, want at most 4 MiB, and 8 MiB with nano-chat", n)
	}
	if !bytes.HasPrefix(Diffusion(), []byte("GGUF")) {
		t.Error("nano-diffusion is no GGUF file")
	}
}

func TestWriteDiffusion(t *testing.T) {
	path, err := WriteDiffusion(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(got, Diffusion()) {
		t.Errorf("file differs from the model, error %v", err)
	}
}
