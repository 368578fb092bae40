//go:build unix

package llamacpp

import "github.com/ebitengine/purego"

func openLibrary(path string) (uintptr, error) {
	return purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_GLOBAL)
}

func findSymbol(lib uintptr, name string) (uintptr, error) { return purego.Dlsym(lib, name) }

// libcSymbol finds a function of the C library, which every process has loaded.
func libcSymbol(name string) (uintptr, error) { return purego.Dlsym(purego.RTLD_DEFAULT, name) }
