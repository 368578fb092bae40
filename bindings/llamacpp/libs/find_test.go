package libs

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// fill makes a folder with empty files; a name "a -> b" is a link.
func fill(t *testing.T, names ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, n := range names {
		link, to, isLink := strings.Cut(n, " -> ")
		path := filepath.Join(dir, filepath.FromSlash(link))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		if isLink {
			err = os.Symlink(to, path)
		} else {
			err = os.WriteFile(path, nil, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestFindNames(t *testing.T) {
	cases := []struct {
		name, os          string
		files             []string
		base, ggml, llama string
		backends          []string
		why               string // of the failure
	}{
		{"npm linux", "linux", []string{"libggml-base.so", "libggml.v0.5.0.so", "libllama.v0.5.0.so", "libllama-common.so", "libggml-cpu-haswell.so", "libggml-cpu-x64.so"},
			"libggml-base.so", "libggml.v0.5.0.so", "libllama.v0.5.0.so", []string{"cpu"}, ""},
		{"npm cuda", "linux", []string{"libggml-base.so", "libggml.cuda.v0.5.0.so", "libllama.cuda.v0.5.0.so", "libggml-cuda.so", "libggml-cpu-x64.so"},
			"libggml-base.so", "libggml.cuda.v0.5.0.so", "libllama.cuda.v0.5.0.so", []string{"cpu", "cuda"}, ""},
		{"two versions", "linux", []string{"libggml-base.so", "libggml.v0.4.0.so", "libggml.v0.5.0.so", "libllama.v0.4.0.so", "libllama.v0.5.0.so"},
			"libggml-base.so", "libggml.v0.5.0.so", "libllama.v0.5.0.so", nil, ""},
		{"mixed variants", "linux", []string{"libggml-base.so", "libggml.v0.5.0.so", "libggml.cuda.v0.5.0.so", "libllama.cuda.v0.5.0.so"},
			"libggml-base.so", "libggml.cuda.v0.5.0.so", "libllama.cuda.v0.5.0.so", nil, ""},
		{"distribution", "linux", []string{"libggml-base.so.0", "libggml.so.0", "libllama.so.0", "libggml-cpu.so.0"},
			"libggml-base.so.0", "libggml.so.0", "libllama.so.0", []string{"cpu"}, ""},
		{"development links", "linux", []string{"libggml-base.so.0", "libggml-base.so -> libggml-base.so.0", "libggml.so.0", "libggml.so -> libggml.so.0", "libllama.so.0", "libllama.so -> libllama.so.0"},
			"libggml-base.so", "libggml.so", "libllama.so", nil, ""},
		{"dangling link", "linux", []string{"libggml-base.so", "libggml.so", "libllama.so -> gone", "libllama.so.0"},
			"libggml-base.so", "libggml.so", "libllama.so.0", nil, ""},
		{"only a dangling link", "linux", []string{"libggml-base.so", "libggml.so", "libllama.so -> gone"}, "", "", "", nil, "half a set: no libllama.so"},
		{"a folder of that name", "linux", []string{"libggml-base.so", "libggml.so", "libllama.so/x"}, "", "", "", nil, "half a set: no libllama.so"},
		{"debian modules", "linux", []string{"libggml-base.so.0", "libggml.so.0", "libllama.so.0", "ggml/backends0/libggml-cpu-haswell.so", "ggml/backends0/libggml-vulkan.so"},
			"libggml-base.so.0", "libggml.so.0", "libllama.so.0", []string{"cpu", "vulkan"}, ""},
		{"npm mac", "darwin", []string{"libggml-base.dylib", "libggml.metal.v0.5.0.dylib", "libllama.metal.v0.5.0.dylib", "libggml-metal.so", "libggml-blas.so", "libggml-cpu-apple_m1.so", "libllama-common.dylib"},
			"libggml-base.dylib", "libggml.metal.v0.5.0.dylib", "libllama.metal.v0.5.0.dylib", []string{"blas", "cpu", "metal"}, ""},
		{"brew", "darwin", []string{"libggml-base.dylib", "libggml-base.0.dylib", "libggml.dylib", "libllama.dylib", "libllama.0.dylib"},
			"libggml-base.dylib", "libggml.dylib", "libllama.dylib", nil, ""},
		{"npm windows", "windows", []string{"ggml-base.dll", "ggml.v0.5.0.dll", "llama.v0.5.0.dll", "llama-common.dll", "ggml-cpu-haswell.dll"},
			"ggml-base.dll", "ggml.v0.5.0.dll", "llama.v0.5.0.dll", []string{"cpu"}, ""},
		{"winget", "windows", []string{"GGML-base.dll", "ggml.dll", "Llama.dll", "ggml-vulkan.dll"},
			"GGML-base.dll", "ggml.dll", "Llama.dll", []string{"vulkan"}, ""},
		{"empty", "linux", nil, "", "", "", nil, "no llama.cpp libraries in it"},
		{"other system", "linux", []string{"llama.dll", "ggml.dll", "ggml-base.dll"}, "", "", "", nil, "no llama.cpp libraries in it"},
		{"half", "linux", []string{"libllama.so"}, "", "", "", nil, "half a set: no libggml-base.so, no libggml.so"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			dir := fill(t, c.files...)
			set, err := Find(dir, Env{OS: c.os, Arch: "amd64"})
			if c.why != "" {
				if err == nil || !strings.Contains(err.Error(), c.why) {
					t.Errorf("got %v, want %q", err, c.why)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got := []string{filepath.Base(set.Base), filepath.Base(set.GGML), filepath.Base(set.Llama)}
			if d := cmp.Diff([]string{c.base, c.ggml, c.llama}, got); d != "" {
				t.Error(d)
			}
			if d := cmp.Diff(c.backends, set.Backends); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestFindOrder(t *testing.T) {
	libs := []string{"libggml-base.so", "libggml.so", "libllama.so"}
	a, b, c, none := fill(t, libs...), fill(t, libs...), fill(t, libs...), t.TempDir()
	cases := []struct {
		name, explicit string
		env            Env
		dir, source    string
	}{
		{"the flag wins", a, Env{Lib: b, Program: c}, a, "--lib"},
		{"then the variable", "", Env{Lib: b, Program: c}, b, EnvVar},
		{"then the program's folder", "", Env{Program: c, System: []string{a}}, c, "next to the program"},
		{"then the system", "", Env{Program: none, System: []string{none, a, b}}, a, "system"},
		{"a flag without libraries is an error", none, Env{Lib: b, System: []string{a}}, "", ""},
		{"a variable without libraries is an error", "", Env{Lib: none, System: []string{a}}, "", ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			c.env.OS, c.env.Arch = "linux", "amd64"
			set, err := Find(c.explicit, c.env)
			if (err == nil) != (c.dir != "") || set.Dir != c.dir || set.Source != c.source {
				t.Errorf("got %q from %q, %v", set.Dir, set.Source, err)
			}
		})
	}
}

func TestFindListsEveryPlace(t *testing.T) {
	locked := filepath.Join(t.TempDir(), "locked")
	if err := os.Mkdir(locked, 0); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(fill(t, "file"), "file")
	half := fill(t, "libllama.so")
	cache := t.TempDir()
	_, err := Find("", Env{OS: "linux", Arch: "amd64", Cache: cache, Program: "/nowhere/bin", System: []string{locked, file, half}})
	if !errors.Is(err, ErrNotFound) {
		t.Fatal(err)
	}
	var nf *NotFoundError
	if !errors.As(err, &nf) || len(nf.Looked) != 3+3+3 {
		t.Fatalf("%d places: %v", len(nf.Looked), err)
	}
	t.Log(err)
	want := []string{cache, "/nowhere/bin: no such folder", "half a set: no libggml-base.so", "not a folder", "trimtab engine install", EnvVar}
	if runtime.GOOS != "windows" && os.Getuid() != 0 {
		want = append(want, "permission denied")
	}
	for _, w := range want {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("error does not say %q", w)
		}
	}
}

func TestFindRelativeDir(t *testing.T) {
	dir := fill(t, "libggml-base.so", "libggml.so", "libllama.so")
	t.Chdir(dir)
	set, err := Find(".", Env{OS: "linux", Arch: "amd64"})
	if err != nil || !filepath.IsAbs(set.Llama) {
		t.Errorf("%+v, %v", set, err)
	}
}

func TestFindRefusesHalfInstall(t *testing.T) {
	r := cpuRegistry(t)
	got, err := Install(t.Context(), r.o)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(got.Dir, "libggml-base.so"), 1); err != nil {
		t.Fatal(err)
	}
	_, err = Find("", Env{OS: "linux", Arch: "amd64", Cache: r.o.CacheDir})
	if err == nil || !strings.Contains(err.Error(), "incomplete install (libggml-base.so has 1 bytes, not 4)") {
		t.Errorf("got %v", err)
	}
}

func TestHost(t *testing.T) {
	t.Setenv(EnvVar, "/x")
	e := Host()
	if e.OS != runtime.GOOS || e.Lib != "/x" || e.Program == "" || len(e.System) == 0 {
		t.Errorf("%+v", e)
	}
}

func TestSystemDirs(t *testing.T) {
	env := map[string]string{"LOCALAPPDATA": t.TempDir(), "ProgramFiles": "P"}
	for _, goos := range []string{"linux", "darwin", "windows"} {
		with := systemDirs(goos, "amd64", "/h", func(k string) string { return env[k] })
		without := systemDirs(goos, "amd64", "", func(string) string { return "" })
		if len(with) <= len(without) {
			t.Errorf("%s: %v, %v", goos, with, without)
		}
	}
}

func TestPathDirs(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("links need a privilege on Windows")
	}
	real := fill(t, "bin/llama-server", "lib/libllama.so")
	path := fill(t, "llama-server -> "+filepath.Join(real, "bin", "llama-server"))
	real, err := filepath.EvalSymlinks(real)
	if err != nil {
		t.Fatal(err)
	}
	got := pathDirs("linux", t.TempDir()+string(filepath.ListSeparator)+path)
	if d := cmp.Diff([]string{filepath.Join(real, "bin"), filepath.Join(real, "lib")}, got); d != "" {
		t.Error(d)
	}
}
