package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/trimtab/trimtab/internal/bake"
	"github.com/trimtab/trimtab/steer"
)

const bakeLong = `Write a copy of a GGUF model with a steering vector in it, so that servers that
know nothing of vectors (Ollama, llama-server) serve the steered model. The
vector becomes the bias of the feed-forward part of its blocks, where the
architecture adds one to the residual: llama, mistral3, granite, minicpm,
nemotron, deci and others. Other architectures and projections are refused.

The model file is not touched. What was baked in stands in the copy's metadata,
under trimtab.baked. A vector always acts then: on every token of every request.
A vector that was calibrated for some rows only ("steer inspect" shows them) is
refused without --every-row: its effect was not measured that way.`

type bakeOptions struct {
	model, vector, out string
	scale              float32
	anyModel, force    bool
	everyRow           bool
	read               steer.VectorOptions
}

func newModelBake(a *app) *cobra.Command {
	var o bakeOptions
	c := &cobra.Command{
		Use: "bake", Short: "Write a copy of a model with a steering vector in it", Long: bakeLong, Args: noArgs,
		Example: "  trimtab model bake --model model.gguf --vector calm.gguf --scale 0.6 --out calm-model.gguf",
	}
	f := c.Flags()
	f.StringVarP(&o.model, "model", "m", "", "GGUF `FILE`, or nano (required)")
	f.StringVar(&o.vector, "vector", "", "vector `FILE` (required)")
	f.StringVar(&o.out, "out", "", "`FILE` to write (required)")
	f.Float32Var(&o.scale, "scale", 0, "dose (default: the one the vector states)")
	f.BoolVar(&o.anyModel, "any-model", false, "bake a vector that states another model, if its size fits")
	f.BoolVar(&o.everyRow, "every-row", false, "bake a vector that was calibrated for some rows, to act on all")
	f.BoolVar(&o.read.OneLate, "one-late", false, "the vector is from llama-cvector-generator: direction.N is for block N-1")
	f.BoolVar(&o.force, "force", false, "write over an existing file")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if o.model == "" || o.vector == "" || o.out == "" {
			return usagef(c, "model bake needs --model, --vector and --out")
		}
		if c.Flags().Changed("scale") && !(o.scale < 0 || o.scale > 0) {
			return usagef(c, "--scale is %v, the vector would do nothing", o.scale)
		}
		if _, err := os.Lstat(o.out); err == nil && !o.force {
			return usagef(c, "%s exists; add --force to write over it", o.out)
		}
		ctx, stop := a.interruptible(c.Context())
		defer stop()
		return o.run(ctx, a)
	}
	return c
}

func (o *bakeOptions) run(ctx context.Context, a *app) error {
	model, err := modelPath(o.model, a.env)
	if err != nil {
		return err
	}
	v, err := steer.ReadVector(o.vector, o.read)
	if err != nil {
		return badInput("%w", err)
	}
	if v.Name == "" {
		v.Name = nameOf(o.vector)
	}
	r, err := bake.Write(ctx, o.out, model, v, bake.Options{Scale: o.scale, Foreign: o.anyModel, EveryRow: o.everyRow})
	switch {
	case errors.Is(err, steer.ErrWrongModel):
		return badInput("%w\nadd --any-model to bake it all the same", err)
	case errors.Is(err, bake.ErrWindow):
		return badInput("%w\nadd --every-row to bake it all the same, and measure its effect anew", err)
	case err != nil && !isDisk(err):
		return badInput("%w", err)
	case err != nil:
		return err
	}
	fmt.Fprintf(a.out, "%s: %s with vector %q at scale %v in blocks %v\n", o.out, r.Arch, v.Name, r.Scale, r.Layers)
	if r.Window != "" {
		fmt.Fprintf(a.out, "warning: the vector was calibrated for rows %s; in this file it acts on every row\n", r.Window)
	}
	if len(r.Summed) > 0 {
		fmt.Fprintf(a.out, "added to the biases that were there in blocks %v\n", r.Summed)
	}
	return nil
}

// nameOf makes a name for a vector whose file states none.
func nameOf(path string) string {
	base := filepath.Base(path)
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == utf8.RuneError {
			return '_'
		}
		return r
	}, strings.TrimSuffix(base, filepath.Ext(base)))
}

// isDisk reports whether writing failed, or was interrupted, rather than the
// input being bad.
func isDisk(err error) bool {
	var p *fs.PathError
	var l *os.LinkError
	return errors.Is(err, errInterrupted) || errors.As(err, &l) || errors.As(err, &p) && p.Op != "stat" && p.Op != "open"
}
