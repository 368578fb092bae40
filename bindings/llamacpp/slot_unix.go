//go:build !windows

package llamacpp

import "github.com/ebitengine/purego"

// newPlainCallback makes a C function of f.
func newPlainCallback(f func()) uintptr { return purego.NewCallback(f) }
