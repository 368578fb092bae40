package llamacpp

import (
	"fmt"

	"golang.org/x/sys/windows"
)

// openLibrary loads a DLL so that the DLLs it needs are looked for beside it.
func openLibrary(path string) (uintptr, error) {
	h, err := windows.LoadLibraryEx(path, 0, windows.LOAD_WITH_ALTERED_SEARCH_PATH)
	if err != nil {
		return 0, fmt.Errorf("open %s: %w", path, err)
	}
	return uintptr(h), nil
}

func findSymbol(lib uintptr, name string) (uintptr, error) {
	return windows.GetProcAddress(windows.Handle(lib), name)
}

// libcSymbol finds a function of the C runtime.
func libcSymbol(name string) (uintptr, error) {
	h, err := windows.LoadLibraryEx("msvcrt.dll", 0, windows.LOAD_LIBRARY_SEARCH_SYSTEM32)
	if err != nil {
		return 0, err
	}
	return windows.GetProcAddress(h, name)
}
