package libs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
)

// maxEntries bounds how many names of one folder are read. A system library
// folder holds some thousands.
const maxEntries = 65536

// Find returns the first usable set of libraries. The order is: explicit, the
// value of --lib; [Env.Lib]; the install folders in [Env.Cache]; the folders
// next to the program; [Env.System].
//
// A folder that the user named must be usable: a set explicit or Env.Lib that
// holds no libraries is an error and is not skipped. The error is a
// *[NotFoundError] that lists every place tried.
func Find(explicit string, env Env) (Set, error) {
	fail := &NotFoundError{Want: libraryName(env.OS, "llama")}
	for _, p := range env.places(explicit) {
		set, why := p.inspect(env.OS)
		if why == "" {
			return set, nil
		}
		fail.Looked = append(fail.Looked, Look{Source: p.source, Dir: p.dir, Why: why})
	}
	return Set{}, fail
}

// place is one folder of the search order.
type place struct {
	source    string
	dir       string
	installed bool // made by Install: must have its manifest
}

// places lists the folders to look at, in order. A folder that the user named
// is the only one.
func (e Env) places(explicit string) []place {
	if explicit != "" {
		return []place{{source: "--lib", dir: explicit}}
	}
	if e.Lib != "" {
		return []place{{source: EnvVar, dir: e.Lib}}
	}
	var ps []place
	for _, d := range e.installDirs() {
		ps = append(ps, place{source: "installed", dir: d, installed: true})
	}
	for _, d := range e.programDirs() {
		ps = append(ps, place{source: "next to the program", dir: d})
	}
	for _, d := range e.System {
		ps = append(ps, place{source: "system", dir: d})
	}
	return ps
}

// installDirs are the folders that Install may have made for this machine,
// those with a GPU first: their sets hold the CPU back ends as well.
func (e Env) installDirs() []string {
	if e.Cache == "" {
		return nil
	}
	var ds []string
	for _, name := range []string{CUDA, Metal, Vulkan, CPU} {
		if b, ok := findBuild(pinned, e.OS, e.Arch, name); ok {
			ds = append(ds, filepath.Join(engineDir(e.Cache), b.folder))
		}
	}
	return ds
}

func (e Env) programDirs() []string {
	if e.Program == "" {
		return nil
	}
	return []string{e.Program, filepath.Join(e.Program, "lib"), filepath.Join(e.Program, "..", "lib", "trimtab")}
}

// inspect returns the set in the place's folder, or why there is none.
func (p place) inspect(goos string) (Set, string) {
	dir, err := filepath.Abs(p.dir)
	if err != nil {
		return Set{}, err.Error()
	}
	names, err := readNames(dir)
	if err != nil {
		return Set{}, reason(err)
	}
	if p.installed {
		if err := checkSizes(dir); err != nil {
			return Set{}, "incomplete install (" + err.Error() + "); run `trimtab engine install` to repair it"
		}
	}
	set, why := pick(goos, dir, names)
	set.Source = p.source
	return set, why
}

// pick chooses the three libraries among the names of a folder.
func pick(goos, dir string, names []string) (Set, string) {
	llama := candidates(goos, dir, "llama", names)
	ggml := candidates(goos, dir, "ggml", names)
	base := candidates(goos, dir, "ggml-base", names)
	var missing []string
	for _, c := range []struct {
		n    int
		name string
	}{{len(base), "ggml-base"}, {len(ggml), "ggml"}, {len(llama), "llama"}} {
		if c.n == 0 {
			missing = append(missing, libraryName(goos, c.name))
		}
	}
	switch {
	case len(missing) == 3:
		return Set{}, "no llama.cpp libraries in it"
	case len(missing) > 0:
		return Set{}, "half a set: no " + strings.Join(missing, ", no ")
	}
	l := llama[0]
	g := matching(ggml, l)
	s := Set{
		Dir:   dir,
		Base:  filepath.Join(dir, matching(base, g).name),
		GGML:  filepath.Join(dir, g.name),
		Llama: filepath.Join(dir, l.name),
	}
	s.addModules(goos, names)
	return s, ""
}

// addModules fills in Modules, Backends and Fallback. Debian keeps the modules
// in ggml/backends0 below the library folder; the CUDA packages bring a module
// for older drivers in "fallback".
func (s *Set) addModules(goos string, names []string) {
	s.addModuleDir(goos, s.Dir, names)
	more, _ := filepath.Glob(filepath.Join(escapeGlob(s.Dir), "ggml", "backends*"))
	for _, d := range more {
		if sub, err := readNames(d); err == nil {
			s.addModuleDir(goos, d, sub)
		}
	}
	sort.Strings(s.Backends)
	s.Backends = slices.Compact(s.Backends)
	fallback := filepath.Join(s.Dir, "fallback")
	if sub, err := readNames(fallback); err == nil && len(modules(goos, sub)) > 0 {
		s.Fallback = fallback
	}
}

func (s *Set) addModuleDir(goos, dir string, names []string) {
	found := modules(goos, names)
	if len(found) == 0 {
		return
	}
	s.Modules = append(s.Modules, dir)
	s.Backends = append(s.Backends, found...)
}

// readNames returns the sorted names in a folder.
func readNames(dir string) ([]string, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	names, err := f.Readdirnames(maxEntries)
	if len(names) > 0 {
		err = nil // an empty folder answers io.EOF
	}
	if st, e := f.Stat(); e == nil && !st.IsDir() {
		return nil, errors.New("not a folder")
	} else if e == nil && len(names) == 0 {
		err = nil
	}
	sort.Strings(names)
	return names, err
}

// reason says in few words why a folder could not be read.
func reason(err error) string {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "no such folder"
	case errors.Is(err, fs.ErrPermission):
		return "permission denied"
	}
	return err.Error()
}

// escapeGlob quotes the characters that filepath.Glob would expand.
func escapeGlob(dir string) string {
	if filepath.Separator == '\\' {
		return dir // Windows has no escape, and * and ? cannot occur in names
	}
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(dir)
}
