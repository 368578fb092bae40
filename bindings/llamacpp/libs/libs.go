// Package libs finds and installs the llama.cpp shared libraries.
//
// Trimtab loads llama.cpp at run time instead of linking it, so the libraries
// have to come from somewhere. [Find] looks for them in a fixed order and
// loads nothing: it only reads folders and answers with a [Set] of paths.
// [Install] puts the prebuilt libraries that this version of Trimtab was tested
// with into the user's cache, where Find sees them next time.
//
// Everything a search depends on is in an [Env]; [Host] fills one from this
// machine. All functions are safe for concurrent use, Install between
// processes as well.
package libs

import (
	"errors"
	"fmt"
	"strings"
)

// The release that [Install] installs and that the bindings are tested with.
const (
	// Version of the packages, which also names the folder in the cache.
	Version = "3.22.1"
	// LlamaVersion is the llama.cpp release inside them.
	LlamaVersion = "v0.5.0"
)

// EnvVar is the environment variable whose value belongs into [Env.Lib].
const EnvVar = "TRIMTAB_LLAMA_LIB"

// ErrNotFound: no place that was looked at holds a usable set of libraries.
// The error that wraps it is a *[NotFoundError].
var ErrNotFound = errors.New("no llama.cpp libraries found")

// Set is one usable set of llama.cpp libraries on disk.
type Set struct {
	// Source says which place of the search order it came from, for people:
	// "--lib", "TRIMTAB_LLAMA_LIB", "installed", "next to the program", "system".
	Source string
	// Dir is the folder that holds the three libraries, absolute.
	Dir string
	// Base, GGML and Llama are the full paths of ggml-base, ggml and llama, to
	// be loaded in this order.
	Base, GGML, Llama string
	// Modules are the folders that hold back end modules, in the order in
	// which they should be loaded. Empty when the folder shows none, because
	// they are built into GGML.
	Modules []string
	// Fallback is a folder with builds of GPU modules for older drivers, to be
	// loaded only when Modules gave no GPU. Empty when there is none.
	Fallback string
	// Backends names the back ends that Modules hold, sorted and each once:
	// "cpu", "cuda", "vulkan", "metal", "blas".
	Backends []string
}

// Look is one place that [Find] tried and why it was not used.
type Look struct {
	Source string // as in [Set.Source]
	Dir    string // empty when the place is not set on this machine
	Why    string
}

// NotFoundError lists every place that [Find] tried. It wraps [ErrNotFound].
type NotFoundError struct {
	Looked []Look
	Want   string // file name of the llama library on this system
}

// Error lists the places one per line and ends with what to do.
func (e *NotFoundError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v; looked in:\n", ErrNotFound)
	for _, l := range e.Looked {
		fmt.Fprintf(&b, "  %-20s %s\n", l.Source, strings.TrimPrefix(l.Dir+": "+l.Why, ": "))
	}
	fmt.Fprintf(&b, "run `trimtab engine install`, or name a folder that holds %s with --lib or %s", e.Want, EnvVar)
	return b.String()
}

// Unwrap makes errors.Is(err, ErrNotFound) true.
func (e *NotFoundError) Unwrap() error { return ErrNotFound }
