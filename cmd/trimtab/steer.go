package main

import (
	"encoding/json"

	"github.com/spf13/cobra"

	"github.com/trimtab/trimtab/internal/bake"
	"github.com/trimtab/trimtab/internal/gguf"
	"github.com/trimtab/trimtab/steer"
)

func newSteer(a *app) *cobra.Command {
	return group(a, "steer", "Look into and use steering vectors",
		"Steering vectors are directions in a model's residual stream. Adding one while\nthe model writes changes how it writes, without training.",
		newSteerFit(a), newSteerInspect(a), newSteerSweep(a), newSteerCompare(a))
}

const steerInspectLong = `Read a vector file, without the engine, and print what it is for, what it was
made from and its directions. Every fault of the file is named.

Read are llama.cpp control vectors (also those of repeng and EasySteer), GLP
files and Trimtab's own. In all of them direction.N acts on the output of block
N, counted from 0. llama.cpp's own generator (llama-cvector-generator) names
what it measured at block N direction.N+1, so its vectors act one block late;
--one-late moves them back. No file says so, and nothing is guessed.`

func newSteerInspect(a *app) *cobra.Command {
	var o steer.VectorOptions
	var model string
	var asJSON bool
	c := &cobra.Command{
		Use: "inspect VECTOR", Short: "Show what a vector file holds and whether it fits a model",
		Long: steerInspectLong, Args: oneArg("a vector file"),
		Example: "  trimtab steer inspect calm.gguf\n  trimtab steer inspect calm.gguf --model model.gguf --json",
	}
	f := c.Flags()
	f.StringVarP(&model, "model", "m", "", "also check it against this GGUF `FILE`, or nano")
	f.BoolVar(&o.OneLate, "one-late", false, "the file is from llama-cvector-generator: direction.N is for block N-1")
	f.BoolVar(&asJSON, "json", false, "print one JSON object, without the directions' values")
	c.RunE = func(_ *cobra.Command, args []string) error {
		v, err := steer.ReadVector(args[0], o)
		if err != nil {
			return badInput("%w", err)
		}
		r := vectorReportOf(v)
		if model != "" {
			if err := r.compare(a, v, model); err != nil {
				return err
			}
		}
		if asJSON {
			enc := json.NewEncoder(a.out)
			enc.SetIndent("", "  ")
			return enc.Encode(r)
		}
		r.print(a.out, args[0])
		return nil
	}
	return c
}

// compare adds whether the vector fits the model.
func (r *vectorReport) compare(a *app, v *steer.Vector, model string) error {
	path, err := modelPath(model, a.env)
	if err != nil {
		return err
	}
	f, err := gguf.Open(path)
	if err != nil {
		return badInput("inspect: %w", err)
	}
	defer f.Close()
	if err := gguf.CheckModel(f); err != nil {
		return badInput("inspect: %s: %w", model, err)
	}
	facts, err := bake.FactsOf(f)
	if err != nil {
		return badInput("inspect: %s: %w", model, err)
	}
	r.Fit = &fitReport{Model: model, OK: true}
	if err := v.Check(facts); err != nil {
		r.Fit.OK, r.Fit.Why = false, err.Error()
	}
	return nil
}
