package libs

import (
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strings"
)

// Library file names, by what the systems and package makers do:
//
//	linux    libllama.so  libllama.so.0  libllama.v0.5.0.so  libllama.cuda.v0.5.0.so
//	darwin   libllama.dylib  libllama.0.dylib  libllama.metal.v0.5.0.dylib
//	windows  llama.dll  llama.v0.5.0.dll  llama.cuda.v0.5.0.dll
//
// Group 1 is the name, group 2 the tag: back end, version and soname number.
var (
	linuxLib   = regexp.MustCompile(`^lib(llama|ggml-base|ggml)((?:\.(?:cuda|vulkan|metal|cpu))?(?:\.v[0-9.]+)?\.so(?:\.[0-9]+)*)$`)
	darwinLib  = regexp.MustCompile(`^lib(llama|ggml-base|ggml)((?:\.(?:cuda|vulkan|metal|cpu))?(?:\.v[0-9.]+)?(?:\.[0-9]+)*\.dylib)$`)
	windowsLib = regexp.MustCompile(`(?i)^(?:lib)?(llama|ggml-base|ggml)((?:\.(?:cuda|vulkan|metal|cpu))?(?:\.v[0-9.]+)?\.dll)$`)

	// A back end module: group 1 is its name without the CPU level. On macOS
	// modules end in .so, because ggml builds them as bundles.
	unixModule    = regexp.MustCompile(`^libggml-([a-z]+)(?:[-_.].*)?\.(?:so|dylib)(?:\.[0-9]+)*$`)
	windowsModule = regexp.MustCompile(`(?i)^(?:lib)?ggml-([a-z]+)(?:[-_.].*)?\.dll$`)
)

func libraryPattern(goos string) *regexp.Regexp {
	switch goos {
	case "windows":
		return windowsLib
	case "darwin":
		return darwinLib
	}
	return linuxLib
}

// libraryName is the plain file name of a library, for messages.
func libraryName(goos, name string) string {
	switch goos {
	case "windows":
		return name + ".dll"
	case "darwin":
		return "lib" + name + ".dylib"
	}
	return "lib" + name + ".so"
}

// candidate is a library file and the tag in its name.
type candidate struct{ name, tag string }

// candidates returns the files in dir that may be the named library, best
// first: the tested version, then plain names, then the rest. Dangling links
// and folders are left out.
func candidates(goos, dir, lib string, names []string) []candidate {
	var cs []candidate
	re := libraryPattern(goos)
	for _, n := range names {
		m := re.FindStringSubmatch(n)
		if m == nil || strings.ToLower(m[1]) != lib || !regular(filepath.Join(dir, n)) {
			continue
		}
		cs = append(cs, candidate{name: n, tag: strings.ToLower(m[2])})
	}
	sort.SliceStable(cs, func(i, j int) bool { return rank(cs[i]) < rank(cs[j]) })
	return cs
}

func rank(c candidate) int {
	switch {
	case strings.Contains(c.tag, "."+LlamaVersion+"."):
		return 0
	case strings.Count(c.tag, ".") == 1: // only the extension
		return 1
	}
	return 2
}

// matching returns the candidate with the same tag as c, else the best one.
func matching(cs []candidate, c candidate) candidate {
	for _, o := range cs {
		if o.tag == c.tag {
			return o
		}
	}
	return cs[0]
}

// modules returns the back ends among the names, in order, with repeats.
func modules(goos string, names []string) []string {
	re := unixModule
	if goos == "windows" {
		re = windowsModule
	}
	var out []string
	for _, n := range names {
		if m := re.FindStringSubmatch(n); m != nil && !strings.EqualFold(m[1], "base") {
			out = append(out, strings.ToLower(m[1]))
		}
	}
	return out
}

func regular(path string) bool {
	st, err := os.Stat(path) // follows links
	return err == nil && st.Mode().IsRegular()
}
