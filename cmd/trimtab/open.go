package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/trimtab/trimtab/bindings/llamacpp"
	"github.com/trimtab/trimtab/bindings/llamacpp/libs"
	"github.com/trimtab/trimtab/internal/gguf"
	"github.com/trimtab/trimtab/internal/nano"
	"github.com/trimtab/trimtab/runtime/engine"
)

// openFunc opens a model for the commands. Tests replace it.
type openFunc func(ctx context.Context, o openOptions) (engine.Engine, error)

// openOptions say which model to open and how.
type openOptions struct {
	model    string // a path, or "nano"
	lib      string
	env      libs.Env
	llama    llamacpp.Options
	parallel int // texts that run at once
	progress func(share float32) bool
}

// engineFlags are the flags that choose the model and the machine.
type engineFlags struct {
	model, lib string
	threads    int
	context    int
	gpuLayers  int
	cells      int  // of `batch`
	shadows    bool // every text runs with a second sequence
	command    *cobra.Command
}

// nanoModel is the name of the model inside the program.
const nanoModel = "nano"

func newEngineFlags(c *cobra.Command) *engineFlags {
	e := &engineFlags{command: c}
	f := c.Flags()
	f.StringVarP(&e.model, "model", "m", nanoModel, "GGUF `FILE`, or nano for the small built-in model")
	f.StringVar(&e.lib, "lib", "", "`DIR` with the llama.cpp libraries (default: "+libs.EnvVar+", the installed ones, the system's)")
	f.IntVar(&e.threads, "threads", 0, "processor threads (default: one a core, at most 16; 1 for a file under 32 MiB)")
	f.IntVar(&e.context, "ctx", 0, "longest text in tokens, prompt and answer (default 4096 or what the model takes)")
	f.IntVar(&e.gpuLayers, "gpu-layers", -1, "blocks to put on the GPU: -1 all, 0 none")
	return e
}

// check reports wrong values before anything is loaded.
func (e *engineFlags) check() error {
	switch {
	case e.model == "":
		return usagef(e.command, "--model is empty: name a GGUF file, or nano")
	case e.threads < 0 || e.threads > 512:
		return usagef(e.command, "--threads is %d, must be between 1 and 512", e.threads)
	case e.context < 0 || (e.context > 0 && e.context < 8) || e.context > 1<<24:
		return usagef(e.command, "--ctx is %d, must be between 8 and %d", e.context, 1<<24)
	case e.gpuLayers < -1:
		return usagef(e.command, "--gpu-layers is %d, must be -1 or more", e.gpuLayers)
	}
	return nil
}

// spareSequences are left for the prefix cache besides those that run.
const spareSequences = 3

func (e *engineFlags) options(a *app, parallel int) openOptions {
	if e.shadows {
		parallel *= 2
	}
	o := openOptions{model: e.model, lib: e.lib, env: a.env, parallel: parallel}
	o.llama = llamacpp.Options{Threads: e.threads, Context: e.context, Cells: e.cells, MaxSequences: min(parallel+spareSequences, 256)}
	switch {
	case e.gpuLayers == 0:
		o.llama.CPUOnly = true
	case e.gpuLayers > 0:
		o.llama.GPULayers = e.gpuLayers
	}
	return o
}

// openModel finds the libraries, loads them and opens the model.
func openModel(ctx context.Context, o openOptions) (engine.Engine, error) {
	set, err := libs.Find(o.lib, o.env)
	if err != nil {
		return nil, err
	}
	path, err := modelPath(o.model, o.env)
	if err != nil {
		return nil, err
	}
	if err := o.shareCells(path); err != nil {
		return nil, err
	}
	l, err := llamacpp.Load(set)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	o.llama.Progress = o.progress
	e, err := l.Open(path, o.llama)
	if err != nil {
		return nil, err
	}
	return e, nil
}

// modelPath turns a model name into a file.
func modelPath(name string, env libs.Env) (string, error) {
	if name == nanoModel {
		return nanoPath(env)
	}
	st, err := os.Stat(name)
	if err != nil {
		return "", badInput("model: %w", err)
	}
	if st.IsDir() {
		return "", badInput("model %s is a folder: name the GGUF file in it", name)
	}
	return name, nil
}

// nanoPath writes the built-in model where llama.cpp can map it: in the cache,
// or the folder for temporary files where there is no cache to write to.
func nanoPath(env libs.Env) (string, error) {
	var faults []error
	for _, dir := range []string{env.Cache, os.TempDir()} {
		if dir == "" {
			continue
		}
		path, err := nano.WriteChat(filepath.Join(dir, "trimtab", "models"))
		if err == nil {
			return path, nil
		}
		faults = append(faults, err)
	}
	// %v: a folder that is not there is no mistake in a path that the user gave.
	return "", fmt.Errorf("built-in model: %v; let HOME or TMPDIR name a folder that can be written to", errors.Join(faults...))
}

// shareCells gives sequences that run at once room for texts of full length,
// up to maxFullTexts of them; shorter texts share that room.
func (o *openOptions) shareCells(path string) error {
	l := &o.llama
	if l.MaxSequences <= 1 || l.Cells > 0 {
		return nil
	}
	if l.Context == 0 {
		trained, err := trainedContext(path)
		if err != nil {
			return err
		}
		l.Context = min(defaultContext, trained)
	}
	l.Cells = min(l.Context*min(o.parallel, maxFullTexts), 1<<24)
	return nil
}

const (
	defaultContext = 4096
	maxFullTexts   = 4
)

func trainedContext(path string) (int, error) {
	f, err := gguf.Open(path)
	if err != nil {
		return 0, badInput("model %s: %w", path, err)
	}
	defer f.Close()
	arch, err := f.String("general.architecture")
	if err != nil {
		return 0, badInput("model %s: %w", path, err)
	}
	n, err := f.Uint(arch + ".context_length")
	if err != nil {
		return 0, badInput("model %s: %w", path, err)
	}
	return int(min(n, 1<<24)), nil
}
