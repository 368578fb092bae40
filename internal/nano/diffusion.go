package nano

import (
	_ "embed"
	"path/filepath"
)

//go:embed nano-diffusion.gguf
var diffusionModel []byte

// DiffusionName is the file name under which [WriteDiffusion] stores
// nano-diffusion.
const DiffusionName = "nano-diffusion.gguf"

// Diffusion returns nano-diffusion as a GGUF file of architecture "llada": a
// masked-diffusion model that fills the puzzles of package
// [github.com/trimtab/trimtab/internal/nano/diffusion]. The caller must not
// change the bytes.
func Diffusion() []byte { return diffusionModel }

// WriteDiffusion makes sure that dir holds nano-diffusion as a file and returns
// its path, with the promises of [WriteChat].
func WriteDiffusion(dir string) (string, error) {
	return write(filepath.Join(dir, DiffusionName), diffusionModel)
}
