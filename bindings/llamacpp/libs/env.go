package libs

import (
	"os"
	"path/filepath"
	"runtime"
)

// Env is everything a search depends on besides the folders themselves.
type Env struct {
	OS, Arch string   // as in runtime.GOOS and GOARCH
	Lib      string   // the value of [EnvVar]; empty when unset
	Cache    string   // the user's cache folder; empty when there is none
	Program  string   // the folder of the running program; empty when unknown
	System   []string // folders where package managers put libraries
	CUDA     bool     // an NVIDIA driver and a CUDA runtime are there: what [Auto] asks
}

// Host describes this machine and process. It reads the environment, looks for
// the llama.cpp programs on the PATH and never fails: what is unknown stays
// empty.
func Host() Env {
	e := Env{OS: runtime.GOOS, Arch: runtime.GOARCH, Lib: os.Getenv(EnvVar), CUDA: cudaReady()}
	e.Cache, _ = os.UserCacheDir()
	if exe, err := os.Executable(); err == nil {
		if real, err := filepath.EvalSymlinks(exe); err == nil {
			exe = real
		}
		e.Program = filepath.Dir(exe)
	}
	home, _ := os.UserHomeDir()
	e.System = append(pathDirs(e.OS, os.Getenv("PATH")), systemDirs(e.OS, e.Arch, home, os.Getenv)...)
	return e
}

// pathDirs finds installs through the programs that come with llama.cpp: the
// libraries lie next to the program, or in lib beside its folder. This covers
// nix, winget, scoop and a build folder that was put on the PATH.
func pathDirs(goos, path string) []string {
	names := []string{"llama-server", "llama-cli"}
	if goos == "windows" {
		names = []string{"llama-server.exe", "llama-cli.exe"}
	}
	var out []string
	for _, dir := range filepath.SplitList(path) {
		for _, n := range names {
			if real, err := filepath.EvalSymlinks(filepath.Join(dir, n)); dir != "" && err == nil {
				bin := filepath.Dir(real)
				out = appendNew(out, bin, filepath.Join(filepath.Dir(bin), "lib"))
			}
		}
	}
	return out
}

// systemDirs lists where brew, apt, dnf, nix, winget and scoop put libraries.
func systemDirs(goos, arch, home string, getenv func(string) string) []string {
	switch goos {
	case "darwin":
		return below(home, []string{"/opt/homebrew/lib", "/usr/local/lib", "/opt/local/lib", "/run/current-system/sw/lib"}, ".nix-profile/lib")
	case "windows":
		return windowsDirs(home, getenv)
	}
	triplet := map[string]string{"amd64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu"}[arch]
	dirs := []string{"/usr/local/lib", "/usr/local/lib64"}
	if triplet != "" {
		dirs = append(dirs, "/usr/lib/"+triplet, "/usr/lib/"+triplet+"/llama.cpp")
	}
	dirs = append(dirs, "/usr/lib64", "/usr/lib", "/home/linuxbrew/.linuxbrew/lib", "/run/current-system/sw/lib")
	return below(home, dirs, ".nix-profile/lib", ".local/lib")
}

func windowsDirs(home string, getenv func(string) string) []string {
	var out []string
	if local := getenv("LOCALAPPDATA"); local != "" {
		found, _ := filepath.Glob(filepath.Join(local, "Microsoft", "WinGet", "Packages", "ggml.llamacpp_*"))
		out = appendNew(out, found...)
	}
	if files := getenv("ProgramFiles"); files != "" {
		out = appendNew(out, filepath.Join(files, "llama.cpp"), filepath.Join(files, "llama.cpp", "bin"))
	}
	return below(home, out, "scoop/apps/llama.cpp/current")
}

// below appends folders below home, unless there is no home.
func below(home string, dirs []string, sub ...string) []string {
	if home == "" {
		return dirs
	}
	for _, s := range sub {
		dirs = append(dirs, filepath.Join(home, filepath.FromSlash(s)))
	}
	return dirs
}

func appendNew(dirs []string, more ...string) []string {
	for _, m := range more {
		seen := false
		for _, d := range dirs {
			seen = seen || d == m
		}
		if !seen {
			dirs = append(dirs, m)
		}
	}
	return dirs
}
