package libs

import (
	"fmt"
	"path/filepath"
	"sort"
	"strings"
)

// Names of back ends, as [Options.Backend] takes them.
const (
	Auto   = "auto" // the best one for this machine
	CPU    = "cpu"
	CUDA   = "cuda"
	Vulkan = "vulkan"
	Metal  = "metal"
)

// build is a set of packages that together make one install folder.
type build struct {
	os, arch, backend string
	folder            string // name of the install folder
	packages          []pkg
}

// pkg is one npm package. A pin is the sha512 of its tarball, as npm writes it;
// an empty pin means that the package could not be checked when this version
// was made, and installing it needs [Options.Unpinned].
type pkg struct {
	name string
	pin  string
	size int64 // of the tarball, bytes; 0 when unknown. Only for display.
}

const scope = "@node-llama-cpp/"

// pinned lists what Install knows. The CUDA builds come in two packages: the
// second holds only fallback/…ggml-cuda…, built with an older CUDA. There is no
// 32-bit build: linux-armv7l 3.22.1 holds 64-bit libraries, and the bindings
// are for 64-bit machines only.
var pinned = []build{
	{"linux", "amd64", CPU, "linux-x64", []pkg{
		{"linux-x64", "sha512-5uCCDNqWCNfaAm8aR/Uzxbo4HBpKgNF91kCHPepKhgMgV2OAmatoefbOlMihsqCiH2Od35E/eUHQCFbfRBJuOg==", 10_824_547}}},
	{"linux", "amd64", CUDA, "linux-x64-cuda", []pkg{
		{"linux-x64-cuda", "sha512-8rQCjyNNLZJUFit+YpjwlC4hwkKgOMIkB2wuycKBf8NU2O3ySKbiWZQ8aw9ku2nUTXjSnUIrE6KB88itduTBuA==", 142_898_030},
		{"linux-x64-cuda-ext", "sha512-4e5ajkiM2aR2WAdB/N/ACk4weEhHvOAIrzxZPsIX0xDFW5+6hhShuy1/vs88SK9NGdgAco9IyE28eYS0H1efpA==", 176_664_119}}},
	{"linux", "amd64", Vulkan, "linux-x64-vulkan", []pkg{
		{"linux-x64-vulkan", "sha512-bBxqU+JOcBu1nb5Qj2zcMci+JByT1E8EajHvYodyNfVIPkEhXh+/HMwR1/BT7xP08YK0hks+kM8fglER0P8JEg==", 24_311_427}}},
	{"linux", "arm64", CPU, "linux-arm64", []pkg{
		{"linux-arm64", "sha512-W+7naKCXX9/eEjjFmRS8vvx91QyLXDbeFxexZc3bh/PtQABZgmRL3C0AtYYXn4YGTj/3Qor4lWZn2tpjZFPLdQ==", 7_340_902}}},
	{"darwin", "arm64", Metal, "mac-arm64-metal", []pkg{{name: "mac-arm64-metal"}}},
	{"darwin", "amd64", CPU, "mac-x64", []pkg{{name: "mac-x64"}}},
	{"windows", "amd64", CPU, "win-x64", []pkg{{name: "win-x64"}}},
	{"windows", "amd64", CUDA, "win-x64-cuda", []pkg{{name: "win-x64-cuda"}, {name: "win-x64-cuda-ext"}}},
	{"windows", "amd64", Vulkan, "win-x64-vulkan", []pkg{{name: "win-x64-vulkan"}}},
	{"windows", "arm64", CPU, "win-arm64", []pkg{{name: "win-arm64"}}},
}

func (p pkg) spec() string { return scope + p.name + "@" + Version }

func (b build) isPinned() bool {
	for _, p := range b.packages {
		if p.pin == "" {
			return false
		}
	}
	return true
}

func findBuild(table []build, goos, arch, backend string) (build, bool) {
	for _, b := range table {
		if b.os == goos && b.arch == arch && b.backend == backend {
			return b, true
		}
	}
	return build{}, false
}

// engineDir is where the installs of this version live below the user's cache.
func engineDir(cache string) string {
	return filepath.Join(cache, "trimtab", "engine", Version)
}

// Backends returns the back ends that Install knows for a platform, sorted.
func Backends(goos, arch string) []string { return backendsOf(pinned, goos, arch) }

func backendsOf(table []build, goos, arch string) []string {
	var out []string
	for _, b := range table {
		if b.os == goos && b.arch == arch {
			out = append(out, b.backend)
		}
	}
	sort.Strings(out)
	return out
}

// choose returns the build for a back end name on this machine.
func choose(table []build, env Env, backend string) (build, error) {
	known := backendsOf(table, env.OS, env.Arch)
	if len(known) == 0 {
		return build{}, fmt.Errorf("%w %s/%s: build llama.cpp %s yourself and name its folder with --lib or %s",
			ErrPlatform, env.OS, env.Arch, LlamaVersion, EnvVar)
	}
	if backend == "" || backend == Auto {
		backend = best(known, env.CUDA)
	}
	b, ok := findBuild(table, env.OS, env.Arch, backend)
	if !ok {
		return build{}, fmt.Errorf("%w %s/%s with back end %q: choose one of %s, %s",
			ErrPlatform, env.OS, env.Arch, backend, Auto, strings.Join(known, ", "))
	}
	return b, nil
}

// best picks what Auto stands for. CUDA needs both the driver and the CUDA
// runtime on this machine, else 300 MB would be fetched for nothing; Vulkan is
// never chosen, because a software Vulkan driver is slower than the CPU code.
func best(known []string, cuda bool) string {
	has := func(name string) bool {
		for _, k := range known {
			if k == name {
				return true
			}
		}
		return false
	}
	switch {
	case has(Metal):
		return Metal
	case has(CUDA) && cuda:
		return CUDA
	}
	return CPU
}

// cudaReady reports whether an NVIDIA driver and a CUDA runtime that the
// packages can use (major version 12 or 13) lie in the usual places.
func cudaReady() bool {
	driver := anyFile("/proc/driver/nvidia/version", "/dev/nvidiactl", `C:\Windows\System32\nvcuda.dll`)
	return driver && anyFile(
		"/usr/local/cuda*/lib64/libcudart.so.1[23]", "/usr/lib/x86_64-linux-gnu/libcudart.so.1[23]", "/usr/lib64/libcudart.so.1[23]",
		`C:\Program Files\NVIDIA GPU Computing Toolkit\CUDA\v1[23]*\bin\cudart64_1[23].dll`)
}

func anyFile(patterns ...string) bool {
	for _, p := range patterns {
		if m, _ := filepath.Glob(p); len(m) > 0 {
			return true
		}
	}
	return false
}
