package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/trimtab/trimtab/internal/gguf"
	"github.com/trimtab/trimtab/internal/randmodel"
)

func newModel(a *app) *cobra.Command {
	return group(a, "model", "Inspect and make model files",
		"Look into GGUF model files, or make one with random weights for tests.",
		newModelInspect(a), newModelRandom(a), newModelBake(a))
}

func newModelInspect(a *app) *cobra.Command {
	var o inspectOptions
	c := &cobra.Command{
		Use: "inspect FILE", Short: "Show what a GGUF file holds and whether it can be run",
		Long: "Read a GGUF file in Go, without the engine, and print what it is: metadata,\ntensors and their sizes, and what Trimtab supports of it. Nothing is loaded.",
		Args: oneArg("a GGUF file"), Example: "  trimtab model inspect model.gguf\n  trimtab model inspect model.gguf --meta --tensors",
	}
	c.Flags().BoolVar(&o.meta, "meta", false, "list all metadata")
	c.Flags().BoolVar(&o.tensors, "tensors", false, "list all tensors")
	c.Flags().BoolVar(&o.json, "json", false, "print one JSON object, with metadata and tensors")
	c.RunE = func(_ *cobra.Command, args []string) error {
		f, err := gguf.Open(args[0])
		if err != nil {
			return badInput("inspect: %w", err)
		}
		defer f.Close()
		r := inspect(f)
		if o.json {
			enc := json.NewEncoder(a.out)
			enc.SetIndent("", "  ")
			return enc.Encode(r)
		}
		r.print(a.out, args[0], o)
		return nil
	}
	return c
}

const randomLong = `Make a GGUF model file with random weights. It writes nonsense, but runs like a
trained model of the same shape: for tests and for measuring speed. The same
flags give the same bytes.

Shapes: tiny, tiny-spm, tiny-qwen3, tiny-gemma3, 0.5b (494 million weights,
525 MB), 0.3b (315 million, 335 MB).`

func newModelRandom(a *app) *cobra.Command {
	var shape, arch, out string
	var seed uint64
	var force bool
	c := &cobra.Command{
		Use: "random", Short: "Make a model file with random weights", Long: randomLong, Args: noArgs,
		Example: "  trimtab model random --shape 0.5b --out big.gguf\n  trimtab model random --arch gemma3 --out tiny.gguf --seed 7",
	}
	f := c.Flags()
	f.StringVar(&shape, "shape", "", "`NAME` of the shape (default: the tiny one of --arch)")
	f.StringVar(&shape, "preset", "", "the same as --shape")
	f.StringVar(&arch, "arch", "", "architecture: llama, qwen3 or gemma3")
	f.StringVar(&out, "out", "", "`FILE` to write (required)")
	f.Uint64Var(&seed, "seed", 1, "seed of the weights")
	f.BoolVar(&force, "force", false, "write over an existing file")
	_ = f.MarkHidden("preset")
	c.RunE = func(c *cobra.Command, _ []string) error {
		spec, err := randomSpec(shape, arch)
		if err != nil {
			return usagef(c, "%w", err)
		}
		if out == "" {
			return usagef(c, "--out is missing: name the file to write")
		}
		if _, err := os.Lstat(out); err == nil && !force {
			return usagef(c, "%s exists; add --force to write over it", out)
		}
		spec.Seed = seed
		if err := randmodel.Write(out, spec); err != nil {
			return fmt.Errorf("model random: %w", err)
		}
		fmt.Fprintf(a.out, "%s: %s, %d layers, width %d, %d tokens, %s, seed %d\n", out, spec.Arch, spec.Layers, spec.Width, spec.Vocab, spec.Type, seed)
		return nil
	}
	return c
}

// tinyShapes are the presets that --arch alone stands for.
var tinyShapes = map[string]string{randmodel.Llama: "tiny", randmodel.Qwen3: "tiny-qwen3", randmodel.Gemma3: "tiny-gemma3"}

// randomSpec combines --shape and --arch. Both may be given when they agree in
// size: the shape's numbers are then used for the other architecture.
func randomSpec(shape, arch string) (randmodel.Spec, error) {
	tiny, known := tinyShapes[arch]
	switch {
	case arch != "" && !known:
		return randmodel.Spec{}, fmt.Errorf("unknown architecture %q: choose llama, qwen3 or gemma3", arch)
	case arch == "" && shape == "":
		shape = "tiny"
	case shape == "":
		shape = tiny
	}
	spec, err := randmodel.Preset(shape)
	if err != nil {
		return spec, err
	}
	if arch != "" {
		spec.Arch = arch
	}
	return spec, nil
}
