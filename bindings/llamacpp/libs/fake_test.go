package libs

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// fakeNpm makes the test binary act as the npm client. Its value is a folder
// with one tarball per package, named by the package.
const fakeNpm = "TRIMTAB_TEST_FAKE_NPM"

func TestMain(m *testing.M) {
	if dir := os.Getenv(fakeNpm); dir != "" {
		os.Exit(actAsNpm(dir, os.Args[1:]))
	}
	goleak.VerifyTestMain(m)
}

// actAsNpm serves "pack NAME@VERSION --pack-destination DIR …" from files, and
// does what the file "mode" asks for.
func actAsNpm(dir string, args []string) int {
	mode, _ := os.ReadFile(filepath.Join(dir, "mode"))
	calls, _ := os.OpenFile(filepath.Join(dir, "calls"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	fmt.Fprintln(calls, strings.Join(args, " "))
	calls.Close()
	if len(args) < 4 || args[0] != "pack" || args[2] != "--pack-destination" {
		fmt.Fprintln(os.Stderr, "npm error unexpected arguments", args)
		return 1
	}
	name := strings.TrimSuffix(strings.TrimPrefix(args[1], scope), "@"+Version)
	switch string(mode) {
	case "offline":
		fmt.Fprintln(os.Stderr, "npm error code ENOTFOUND\nnpm error request failed, reason: getaddrinfo")
		return 1
	case "hang":
		time.Sleep(time.Minute)
	case "nothing":
		return 0
	case "two":
		os.WriteFile(filepath.Join(args[3], "other.tgz"), nil, 0o644)
	}
	b, err := os.ReadFile(filepath.Join(dir, name+".tgz"))
	if err != nil {
		fmt.Fprintln(os.Stderr, "npm error code E404", err)
		return 1
	}
	if err := os.WriteFile(filepath.Join(args[3], "node-llama-cpp-"+name+"-"+Version+".tgz"), b, 0o644); err != nil {
		return 1
	}
	return 0
}

// entry is one member of a fixture tarball.
type entry struct {
	name, body string
	kind       byte // tar.TypeReg when 0
	size       int64
}

// libEntries are what a Linux CPU package holds.
func libEntries(folder string) []entry {
	p := "package/bins/" + folder + "/"
	return []entry{
		{name: "package/package.json", body: "{}"},
		{name: "package/LICENSE", body: "MIT License"},
		{name: "package/dist/index.js", body: "export {}"},
		{name: p + "libggml-base.so", body: "base"},
		{name: p + "libggml.v0.5.0.so", body: "ggml"},
		{name: p + "libllama.v0.5.0.so", body: "llama"},
		{name: p + "libllama-common.so", body: "not needed"},
		{name: p + "llama-addon.node", body: "not needed"},
		{name: p + "libggml-cpu-x64.so", body: strings.Repeat("cpu", 1000)},
	}
}

func tarball(t *testing.T, entries []entry) []byte {
	t.Helper()
	var b bytes.Buffer
	zw := gzip.NewWriter(&b)
	tw := tar.NewWriter(zw)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Typeflag: e.kind, Mode: 0o644, Size: int64(len(e.body))}
		if h.Typeflag == 0 {
			h.Typeflag = tar.TypeReg
		}
		if h.Typeflag == tar.TypeSymlink {
			h.Linkname, h.Size, e.body = e.body, 0, ""
		}
		if e.size != 0 {
			h.Size = e.size
		}
		if err := tw.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := tw.Write([]byte(e.body)); err != nil {
			t.Fatal(err)
		}
	}
	if len(entries) == 0 || entries[len(entries)-1].size == 0 {
		if err := tw.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := zw.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func integrity(b []byte) string {
	s := sha512.Sum512(b)
	return "sha512-" + base64.StdEncoding.EncodeToString(s[:])
}

// registry is a fake npm with packages, and the options to install from it.
type registry struct {
	t   *testing.T
	dir string
	o   Options
}

func newRegistry(t *testing.T) *registry {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r := &registry{t: t, dir: t.TempDir()}
	t.Setenv(fakeNpm, r.dir)
	r.o = Options{Env: Env{OS: "linux", Arch: "amd64"}, CacheDir: filepath.Join(t.TempDir(), "cache"), Npm: self, Backend: CPU}
	return r
}

// add puts a package into the registry and pins it.
func (r *registry) add(b build, contents ...[]entry) {
	r.t.Helper()
	for i, c := range contents {
		tgz := tarball(r.t, c)
		b.packages[i].pin = integrity(tgz)
		r.put(b.packages[i].name, tgz)
	}
	r.o.table = append(r.o.table, b)
}

func (r *registry) put(name string, tgz []byte) {
	r.t.Helper()
	if err := os.WriteFile(filepath.Join(r.dir, name+".tgz"), tgz, 0o644); err != nil {
		r.t.Fatal(err)
	}
}

func (r *registry) mode(m string) {
	r.t.Helper()
	if err := os.WriteFile(filepath.Join(r.dir, "mode"), []byte(m), 0o644); err != nil {
		r.t.Fatal(err)
	}
}

// calls is how often npm ran.
func (r *registry) calls() int {
	b, _ := os.ReadFile(filepath.Join(r.dir, "calls"))
	return bytes.Count(b, []byte("\n"))
}

func cpuBuild() build {
	return build{os: "linux", arch: "amd64", backend: CPU, folder: "linux-x64", packages: []pkg{{name: "linux-x64"}}}
}

func cpuRegistry(t *testing.T) *registry {
	r := newRegistry(t)
	r.add(cpuBuild(), libEntries("linux-x64"))
	return r
}
