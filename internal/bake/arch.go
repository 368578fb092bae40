package bake

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/trimtab/trimtab/internal/gguf"
	"github.com/trimtab/trimtab/steer"
)

// A scaling says by what an architecture multiplies the output of its
// feed-forward part, bias included, before the residual is added to it.
type scaling uint8

const (
	unscaled     scaling = iota
	residual             // by ARCH.residual_scale; 1 when absent or 0
	residualDeep         // likewise, but 1.4/sqrt(blocks) when absent
)

// architectures load blk.N.ffn_down.bias, if it is there or always, and add it
// to the block's output for every row at the place of the control vector: in
// the graphs of llama.cpp v0.5.0 (src/models/*.cpp) nothing stands between the
// end of build_ffn, where the bias is added, and build_cvec but sums and the
// scaling. qwen2, qwen3, gemma and others do not load the tensor at all, and
// mixtures of experts have no dense part; they are not here. llama, mistral3, deci,
// granite and minicpm are also tested against the engine.
var architectures = map[string]scaling{
	"llama": unscaled, "mistral3": unscaled, "deci": unscaled, "nemotron": unscaled, "refact": unscaled,
	"mpt": unscaled, "llada": unscaled, "falcon-h1": unscaled,
	"granite": residual, "minicpm": residualDeep,
	// These always have the bias; it is summed.
	"gpt2": unscaled, "gptneox": unscaled, "bloom": unscaled, "codeshell": unscaled, "starcoder": unscaled,
	"starcoder2": unscaled, "phi2": unscaled, "jais": unscaled, "jais2": unscaled,
}

// residualFactor is what a bias of this model is multiplied by.
func residualFactor(f *gguf.File, facts steer.Facts) (float64, error) {
	s, ok := architectures[facts.Arch]
	if !ok {
		return 0, fmt.Errorf("%s: %w; it can be steered at run time instead (baking works for %s)",
			facts.Arch, ErrArchitecture, strings.Join(slices.Sorted(maps.Keys(architectures)), ", "))
	}
	if s == unscaled {
		return 1, nil
	}
	key := facts.Arch + ".residual_scale"
	x, err := f.Float(key)
	switch {
	case errors.Is(err, gguf.ErrMissing) && s == residualDeep:
		return 1.4 / math.Sqrt(float64(facts.Layers)), nil
	case errors.Is(err, gguf.ErrMissing), err == nil && x == 0:
		return 1, nil
	case err != nil:
		return 0, err
	case x-x != 0:
		return 0, fmt.Errorf("%s: is %v, want a finite number", key, x)
	}
	return x, nil
}
