//go:build unix

package llamacpp

import (
	"fmt"
	"runtime"

	"github.com/ebitengine/purego"
)

// openLibrary loads a shared library with its symbols visible to those loaded
// later. dlerror speaks per thread, hence the lock.
func openLibrary(path string) (uintptr, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	h, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_GLOBAL)
	if err != nil {
		return 0, fmt.Errorf("open %s: %w", path, err)
	}
	return h, nil
}

func findSymbol(lib uintptr, name string) (uintptr, error) { return purego.Dlsym(lib, name) }

// libcSymbol finds a function of the C library, which every process has loaded.
func libcSymbol(name string) (uintptr, error) { return purego.Dlsym(purego.RTLD_DEFAULT, name) }
