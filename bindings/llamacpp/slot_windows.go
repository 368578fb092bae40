package llamacpp

import "github.com/ebitengine/purego"

// newPlainCallback makes a C function of f. Windows wants a result, which
// nobody reads.
func newPlainCallback(f func()) uintptr {
	return purego.NewCallback(func() uintptr { f(); return 0 })
}
