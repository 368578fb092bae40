package libs

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// listing returns the files below dir, with slashes, sorted.
func listing(t *testing.T, dir string) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, p)
		out = append(out, filepath.ToSlash(rel))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestInstall(t *testing.T) {
	r := cpuRegistry(t)
	var stages []string
	r.o.Progress = func(p Progress) {
		if p.Finished {
			stages = append(stages, string(p.Stage))
		}
	}
	got, err := Install(context.Background(), r.o)
	if err != nil {
		t.Fatal(err)
	}
	want := Installed{Dir: filepath.Join(r.o.CacheDir, "trimtab", "engine", Version, "linux-x64"), Backend: CPU, Pinned: true}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	files := []string{"LICENSE-linux-x64", "libggml-base.so", "libggml-cpu-x64.so", "libggml.v0.5.0.so", "libllama.v0.5.0.so", "manifest.json"}
	if d := cmp.Diff(files, listing(t, got.Dir)); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"download", "check", "unpack"}, stages); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{".lock", "linux-x64"}, names(t, filepath.Dir(got.Dir))); d != "" {
		t.Errorf("left behind: %s", d)
	}
	set, err := Find("", Env{OS: "linux", Arch: "amd64", Cache: r.o.CacheDir})
	if err != nil {
		t.Fatal(err)
	}
	if set.Dir != got.Dir || set.Source != "installed" {
		t.Errorf("Find gave %+v", set)
	}
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	n, err := readNames(dir)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestInstallAgainIsOffline(t *testing.T) {
	r := cpuRegistry(t)
	if _, err := Install(context.Background(), r.o); err != nil {
		t.Fatal(err)
	}
	r.mode("offline")
	got, err := Install(context.Background(), r.o)
	if err != nil || !got.Already {
		t.Errorf("second install: %+v, %v", got, err)
	}
	if r.calls() != 1 {
		t.Errorf("npm ran %d times, want once", r.calls())
	}
}

func TestInstallRepairs(t *testing.T) {
	damage := map[string]func(dir string) error{
		"changed byte":     func(d string) error { return os.WriteFile(filepath.Join(d, "libggml-base.so"), []byte("BASE"), 0o644) },
		"cut file":         func(d string) error { return os.Truncate(filepath.Join(d, "libllama.v0.5.0.so"), 1) },
		"missing file":     func(d string) error { return os.Remove(filepath.Join(d, "libggml.v0.5.0.so")) },
		"missing manifest": func(d string) error { return os.Remove(filepath.Join(d, manifestName)) },
		"torn manifest":    func(d string) error { return os.Truncate(filepath.Join(d, manifestName), 40) },
		"huge manifest":    func(d string) error { return os.Truncate(filepath.Join(d, manifestName), maxManifest+1) },
		"a file instead of the folder": func(d string) error {
			return errors.Join(os.RemoveAll(d), os.WriteFile(d, nil, 0o644))
		},
		"manifest that points outside": func(d string) error {
			return os.WriteFile(filepath.Join(d, manifestName), []byte(`{"version":"`+Version+`","files":[{"path":"../../x"}]}`), 0o644)
		},
	}
	for name, do := range damage {
		t.Run(name, func(t *testing.T) {
			r := cpuRegistry(t)
			first, err := Install(context.Background(), r.o)
			if err != nil {
				t.Fatal(err)
			}
			before := listing(t, first.Dir)
			if err := do(first.Dir); err != nil {
				t.Fatal(err)
			}
			got, err := Install(context.Background(), r.o)
			if err != nil || !got.Repaired || got.Already {
				t.Fatalf("%+v, %v", got, err)
			}
			if d := cmp.Diff(before, listing(t, got.Dir)); d != "" {
				t.Error(d)
			}
			if err := r.o.withDefaults().verify(got.Dir, r.o.table[0]); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestInstallFails is the table of what can go wrong. After each, nothing of
// the install may be left, and a second try with a healthy npm must work.
func TestInstallFails(t *testing.T) {
	good := libEntries("linux-x64")
	var many []entry
	for i := range maxArchiveEntries {
		many = append(many, entry{name: fmt.Sprintf("package/dist/%d.js", i)})
	}
	with := func(e ...entry) func(*registry) {
		return func(r *registry) { r.o.table = nil; r.add(cpuBuild(), append(libEntries("linux-x64"), e...)) }
	}
	cases := []struct {
		name  string
		setup func(*registry)
		is    error
		says  []string
	}{
		{"npm is missing", func(r *registry) { r.o.Npm = "no-such-npm-" + t.Name() }, ErrNoNpm, []string{"install Node.js", "--lib"}},
		{"offline", func(r *registry) { r.mode("offline") }, ErrDownload, []string{"check the network", "ENOTFOUND", "getaddrinfo"}},
		{"not in the registry", func(r *registry) { os.Remove(filepath.Join(r.dir, "linux-x64.tgz")) }, ErrDownload, []string{"E404"}},
		{"npm leaves nothing", func(r *registry) { r.mode("nothing") }, ErrDownload, []string{"0 tarballs"}},
		{"npm leaves two files", func(r *registry) { r.mode("two") }, ErrDownload, []string{"2 tarballs"}},
		{"another package", func(r *registry) { r.put("linux-x64", tarball(t, good[:8])) }, ErrHash, []string{"expected sha512-", "got      sha512-", "nothing was installed"}},
		{"unknown platform", func(r *registry) { r.o.Env.OS = "plan9" }, ErrPlatform, []string{"plan9/amd64", "--lib"}},
		{"32-bit ARM", func(r *registry) { r.o.Env.Arch = "arm" }, ErrPlatform, []string{"linux/arm"}},
		{"unknown back end", func(r *registry) { r.o.Backend = "rocm" }, ErrPlatform, []string{`"rocm"`, "auto, cpu"}},
		{"no cache folder", func(r *registry) { r.o.CacheDir = "" }, nil, []string{"no cache folder", "--cache"}},
		{"no pin", func(r *registry) { r.o.table[0].packages[0].pin = "" }, ErrUnpinned, []string{"--unpinned"}},
		{"disk full", func(r *registry) { r.o.disk = fullDisk }, ErrDiskFull, []string{"make room"}},
		{"not gzip", func(r *registry) { raw(r, []byte("hello")) }, ErrArchive, nil},
		{"torn archive", func(r *registry) { b := tarball(t, good); raw(r, b[:len(b)/2]) }, ErrArchive, nil},
		{"no libraries", func(r *registry) { r.o.table = nil; r.add(cpuBuild(), good[:3]) }, ErrArchive, []string{"no libraries"}},
		{"half a set", func(r *registry) { r.o.table = nil; r.add(cpuBuild(), good[:5]) }, ErrArchive, []string{"no libllama.so"}},
		{"empty archive", func(r *registry) { r.o.table = nil; r.add(cpuBuild(), []entry{}) }, ErrArchive, nil},
		{"path traversal", with(entry{name: "package/bins/linux-x64/../../../evil.so", body: "x"}), ErrArchive, []string{"unsafe path"}},
		{"absolute path", with(entry{name: "/evil.so", body: "x"}), ErrArchive, []string{"unsafe path"}},
		{"path that only climbs", with(entry{name: "../evil.so", body: "x"}), ErrArchive, []string{"unsafe path"}},
		{"backslashes", with(entry{name: `package/bins/linux-x64/..\..\evil.so`, body: "x"}), ErrArchive, []string{"unsafe path"}},
		{"a drive letter", with(entry{name: `package/bins/linux-x64/C:evil.so`, body: "x"}), ErrArchive, []string{"unsafe path"}},
		{"a deep folder", with(entry{name: "package/bins/linux-x64/a/b/c.so", body: "x"}), ErrArchive, []string{"unsafe path"}},
		{"symbolic link", with(entry{name: "package/bins/linux-x64/libx.so", body: "/etc/passwd", kind: tar.TypeSymlink}), ErrArchive, []string{"link"}},
		{"device", with(entry{name: "package/bins/linux-x64/libx.so", kind: tar.TypeChar}), ErrArchive, []string{"special file"}},
		{"same file twice", with(entry{name: "package/bins/linux-x64/libggml-base.so", body: "x"}), os.ErrExist, nil},
		{"file over the limit", with(entry{name: "package/bins/linux-x64/libx.so", size: maxArchiveFile + 1}), ErrArchive, []string{"size limit"}},
		{"too many entries", with(many...), ErrArchive, []string{"entries"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r := cpuRegistry(t)
			healthy := r.o
			healthy.table = append([]build(nil), r.o.table...)
			healthy.table[0].packages = append([]pkg(nil), r.o.table[0].packages...)
			c.setup(r)
			got, err := Install(context.Background(), r.o)
			if err == nil {
				t.Fatalf("no error, got %+v", got)
			}
			t.Log(err)
			if c.is != nil && !errors.Is(err, c.is) {
				t.Errorf("error is not %v", c.is)
			}
			for _, s := range c.says {
				if !strings.Contains(err.Error(), s) {
					t.Errorf("error does not say %q", s)
				}
			}
			checkNothingLeft(t, healthy.CacheDir)
			r.mode("")
			r.put("linux-x64", tarball(t, libEntries("linux-x64")))
			if _, err := Install(context.Background(), healthy); err != nil {
				t.Errorf("second try: %v", err)
			}
		})
	}
}

func raw(r *registry, b []byte) {
	r.put("linux-x64", b)
	r.o.table[0].packages[0].pin = integrity(b)
}

func checkNothingLeft(t *testing.T, cache string) {
	t.Helper()
	if _, err := os.Stat(cache); err != nil {
		return
	}
	for _, f := range listing(t, cache) {
		if filepath.Base(f) != ".lock" {
			t.Errorf("left behind: %s", f)
		}
	}
}

// fullDisk takes a few bytes and is full then.
var fullDisk = disk{create: func(path string) (file, error) {
	f, err := realDisk.create(path)
	return &fullFile{file: f, path: path}, err
}}

type fullFile struct {
	file
	path string
}

func (f *fullFile) Write([]byte) (int, error) {
	code := syscall.ENOSPC
	if runtime.GOOS == "windows" {
		code = 112 // ERROR_DISK_FULL
	}
	return 0, &fs.PathError{Op: "write", Path: f.path, Err: code}
}

func TestInstallCancelled(t *testing.T) {
	r := cpuRegistry(t)
	r.mode("hang")
	ctx, cancel := context.WithCancel(context.Background())
	r.o.Progress = func(p Progress) {
		if p.Stage == StageDownload {
			cancel()
		}
	}
	if _, err := Install(ctx, r.o); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	checkNothingLeft(t, r.o.CacheDir)
}

func TestInstallCancelledWhileUnpacking(t *testing.T) {
	r := cpuRegistry(t)
	ctx, cancel := context.WithCancel(context.Background())
	r.o.Progress = func(p Progress) {
		if p.Stage == StageUnpack {
			cancel()
		}
	}
	if _, err := Install(ctx, r.o); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	checkNothingLeft(t, r.o.CacheDir)
}

func TestInstallWaitsForLock(t *testing.T) {
	r := cpuRegistry(t)
	root := engineDir(r.o.CacheDir)
	if err := os.MkdirAll(root, 0o755); err != nil {
		t.Fatal(err)
	}
	unlock, err := lockFile(context.Background(), filepath.Join(root, ".lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if _, err := Install(ctx, r.o); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

func TestInstallConcurrent(t *testing.T) {
	r := cpuRegistry(t)
	if err := os.MkdirAll(filepath.Join(engineDir(r.o.CacheDir), tempPrefix+"dead"), 0o755); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if _, err := Install(context.Background(), r.o); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if r.calls() != 1 {
		t.Errorf("npm ran %d times, want once", r.calls())
	}
	if d := cmp.Diff([]string{".lock", "linux-x64"}, names(t, engineDir(r.o.CacheDir))); d != "" {
		t.Error(d)
	}
}

func TestInstallMergesCUDAPackages(t *testing.T) {
	r := newRegistry(t)
	b := build{os: "linux", arch: "amd64", backend: CUDA, folder: "linux-x64-cuda", packages: []pkg{{name: "linux-x64-cuda"}, {name: "linux-x64-cuda-ext"}}}
	p := "package/bins/linux-x64-cuda/"
	r.add(b, []entry{
		{name: "package/LICENSE", body: "MIT"}, {name: p + "libggml-base.so"}, {name: p + "libggml.cuda.v0.5.0.so"},
		{name: p + "libllama.cuda.v0.5.0.so"}, {name: p + "libggml-cuda.so"}, {name: p + "libggml-cpu-x64.so"},
	}, []entry{{name: "package/LICENSE", body: "MIT"}, {name: p + "fallback/libggml-cuda.so"}})
	r.o.Backend, r.o.Env.CUDA = Auto, true
	got, err := Install(context.Background(), r.o)
	if err != nil {
		t.Fatal(err)
	}
	set, err := Find("", Env{OS: "linux", Arch: "amd64", Cache: r.o.CacheDir})
	if err != nil {
		t.Fatal(err)
	}
	at := func(n ...string) string { return filepath.Join(append([]string{got.Dir}, n...)...) }
	want := Set{Source: "installed", Dir: got.Dir, Base: at("libggml-base.so"), GGML: at("libggml.cuda.v0.5.0.so"),
		Llama: at("libllama.cuda.v0.5.0.so"), Modules: []string{got.Dir}, Fallback: at("fallback"), Backends: []string{CPU, CUDA}}
	if d := cmp.Diff(want, set); d != "" {
		t.Error(d)
	}
}

func TestBest(t *testing.T) {
	cases := []struct {
		known []string
		cuda  bool
		want  string
	}{
		{[]string{CPU, CUDA, Vulkan}, false, CPU},
		{[]string{CPU, CUDA, Vulkan}, true, CUDA},
		{[]string{CPU}, true, CPU},
		{[]string{Metal}, false, Metal},
	}
	for _, c := range cases {
		if got := best(c.known, c.cuda); got != c.want {
			t.Errorf("best(%v, %v) = %s, want %s", c.known, c.cuda, got, c.want)
		}
	}
}

func TestPins(t *testing.T) {
	seen := map[string]bool{}
	for _, b := range pinned {
		key := b.os + "/" + b.arch + "/" + b.backend
		if seen[key] || seen[b.folder] || len(b.packages) == 0 {
			t.Errorf("%s: listed twice or empty", key)
		}
		seen[key], seen[b.folder] = true, true
		for _, p := range b.packages {
			if p.pin != "" && (len(p.pin) != len("sha512-")+88 || !strings.HasPrefix(p.pin, "sha512-") || seen[p.pin]) {
				t.Errorf("%s: bad pin %q", p.name, p.pin)
			}
			seen[p.pin] = p.pin != ""
		}
		if b.os == "linux" && !b.isPinned() {
			t.Errorf("%s: Linux packages must be pinned", b.folder)
		}
	}
}

func TestUnpackBoundsTotal(t *testing.T) {
	u := &unpacker{out: t.TempDir(), disk: realDisk, left: 5, meter: &meter{ctx: t.Context(), report: func(Progress) {}}}
	var err error
	for i := 0; err == nil && i < 3; i++ {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: fmt.Sprintf("package/bins/x/lib%d.so", i), Size: 3}
		err = u.entry(h, strings.NewReader("abc"))
	}
	if !errors.Is(err, ErrArchive) || len(u.files) != 1 {
		t.Errorf("wrote %d files, %v", len(u.files), err)
	}
}

func TestTailWriter(t *testing.T) {
	w := &tailWriter{max: 8}
	for i := range 100 {
		fmt.Fprintf(w, "%d,", i)
	}
	if got := w.String(); got != "7,98,99," {
		t.Errorf("got %q", got)
	}
	if len(w.buf) > 3*w.max {
		t.Errorf("holds %d bytes", len(w.buf))
	}
}

// TestInstallReal fetches the real package for this machine.
func TestInstallReal(t *testing.T) {
	if testing.Short() {
		t.Skip("-short")
	}
	env := Host()
	if _, err := choose(pinned, env, CPU); err != nil {
		t.Skip("no CPU package for this platform")
	}
	o := Options{Env: env, Backend: CPU, CacheDir: t.TempDir()}
	got, err := Install(context.Background(), o)
	if err != nil {
		if os.Getenv("CI") == "true" || !(errors.Is(err, ErrNoNpm) || errors.Is(err, ErrDownload) || errors.Is(err, ErrUnpinned)) {
			t.Fatal(err)
		}
		t.Skipf("npm or its registry is missing: %v", err)
	}
	set, err := Find("", Env{OS: env.OS, Arch: env.Arch, Cache: o.CacheDir})
	if err != nil {
		t.Fatal(err)
	}
	if set.Dir != got.Dir || len(set.Backends) == 0 {
		t.Errorf("found %+v", set)
	}
	o.Npm = "no-such-npm"
	if again, err := Install(context.Background(), o); err != nil || !again.Already {
		t.Errorf("second install: %+v, %v", again, err)
	}
}
