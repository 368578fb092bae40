package libs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Errors of [Install] that callers branch on. They are wrapped with what was
// tried and what to do.
var (
	// ErrPlatform: there is no prebuilt package for this system or back end.
	ErrPlatform = errors.New("no prebuilt llama.cpp for")
	// ErrNoNpm: the npm client is not installed.
	ErrNoNpm = errors.New("the npm client was not found")
	// ErrDownload: npm ran and did not deliver the package.
	ErrDownload = errors.New("npm could not get the package")
	// ErrHash: the package is not the one this version was tested with.
	ErrHash = errors.New("hash mismatch")
	// ErrUnpinned: no hash of the package is known; see [Options.Unpinned].
	ErrUnpinned = errors.New("no pinned hash")
	// ErrArchive: the package's archive is damaged or holds what it must not.
	ErrArchive = errors.New("bad package archive")
	// ErrDiskFull: the cache's disk has no room.
	ErrDiskFull = errors.New("disk full")
)

// Options say what to install and where. The zero value installs the best back
// end for Env's machine.
type Options struct {
	Env      Env    // the machine; [Host] describes this one
	Backend  string // [Auto] (also the empty string), [CPU], [CUDA], [Vulkan] or [Metal]
	CacheDir string // instead of Env.Cache
	Npm      string // program to run, a name or a path; "npm" when empty
	// Unpinned installs packages whose hash is not written in this version of
	// Trimtab, and relies on npm's own check against its registry.
	Unpinned bool
	// Progress, if set, is called on the goroutine of Install.
	Progress func(Progress)

	table []build // tests replace pinned
	disk  disk    // tests make writes fail
}

// Stage is a step of an installation.
type Stage string

// The stages, in order. StageDownload carries no byte counts while it runs,
// because npm reports none: Total is the package's size.
const (
	StageVerify   Stage = "verify"   // an install that is there already
	StageDownload Stage = "download" // npm gets a package
	StageCheck    Stage = "check"    // its hash
	StageUnpack   Stage = "unpack"
)

// Progress is one report. Done and Total count bytes; Total is 0 when unknown.
// A stage begins with Done 0 and ends with Finished.
type Progress struct {
	Stage       Stage
	Package     string
	Done, Total int64
	Finished    bool
}

// Installed says what Install did.
type Installed struct {
	Dir      string // the install folder
	Backend  string // the back end that was installed
	Already  bool   // everything was there and intact; nothing was fetched
	Repaired bool   // a damaged install was replaced
	Pinned   bool   // every package matched a hash written in this version
}

// Install makes sure that the pinned libraries for a back end are in the cache.
//
// When they are there and every file has its recorded sha256, it returns at
// once and needs no network. Otherwise it has npm fetch the packages, checks
// the sha512 of each, unpacks the libraries and the licence into a temporary
// folder and renames that into place, so that the folder is either complete or
// absent, also after a crash. Several processes may install at once: one works,
// the others wait for it. A context that ends stops npm and removes what is
// half done.
func Install(ctx context.Context, o Options) (Installed, error) {
	o = o.withDefaults()
	b, err := choose(o.table, o.Env, o.Backend)
	if err != nil {
		return Installed{}, err
	}
	if o.CacheDir == "" {
		return Installed{}, errors.New("install: no cache folder on this machine: set HOME, or name a folder with --cache")
	}
	root := engineDir(o.CacheDir)
	dir := filepath.Join(root, b.folder)
	if done := (Installed{Dir: dir, Backend: b.backend, Already: true, Pinned: b.isPinned()}); o.verify(dir, b) == nil {
		return done, nil
	}
	if !b.isPinned() && !o.Unpinned {
		return Installed{}, unpinnedError(b)
	}
	if err := os.MkdirAll(root, 0o755); err != nil {
		return Installed{}, o.explain("make the cache folder", root, err)
	}
	unlock, err := lockFile(ctx, filepath.Join(root, ".lock"))
	if err != nil {
		return Installed{}, fmt.Errorf("wait for another install in %s: %w", root, err)
	}
	defer unlock()
	return o.install(ctx, root, dir, b)
}

func (o Options) withDefaults() Options {
	if o.CacheDir == "" {
		o.CacheDir = o.Env.Cache
	}
	if o.Npm == "" {
		o.Npm = "npm"
	}
	if o.Progress == nil {
		o.Progress = func(Progress) {}
	}
	if o.table == nil {
		o.table = pinned
	}
	if o.disk.create == nil {
		o.disk = realDisk
	}
	return o
}

func unpinnedError(b build) error {
	return fmt.Errorf("%w: %s could not be checked when this version of Trimtab was made; "+
		"add --unpinned to trust the hash that npm's registry states, or install llama.cpp %s another way and use --lib",
		ErrUnpinned, b.packages[0].spec(), LlamaVersion)
}

// install runs under the lock.
func (o Options) install(ctx context.Context, root, dir string, b build) (Installed, error) {
	res := Installed{Dir: dir, Backend: b.backend, Pinned: b.isPinned()}
	if o.verify(dir, b) == nil { // another process was faster
		res.Already = true
		return res, nil
	}
	if _, err := os.Lstat(dir); err == nil {
		res.Repaired = true
	}
	if err := sweep(root); err != nil {
		return Installed{}, o.explain("clear what an interrupted install left", root, err)
	}
	work, err := os.MkdirTemp(root, tempPrefix)
	if err != nil {
		return Installed{}, o.explain("make a work folder", root, err)
	}
	defer os.RemoveAll(work)
	if err := o.build(ctx, work, b); err != nil {
		return Installed{}, o.explain("install "+b.folder, root, err)
	}
	if err := swap(filepath.Join(work, "out"), dir, work); err != nil {
		return Installed{}, o.explain("put the libraries into place (is a program still using them?)", dir, err)
	}
	return res, nil
}

// build makes the complete install folder in work/out.
func (o Options) build(ctx context.Context, work string, b build) error {
	out := filepath.Join(work, "out")
	if err := os.Mkdir(out, 0o755); err != nil {
		return err
	}
	man := manifest{Version: Version, Llama: LlamaVersion, Backend: b.backend}
	for i, p := range b.packages {
		tgz, err := o.fetch(ctx, filepath.Join(work, fmt.Sprintf("npm%d", i)), p)
		if err != nil {
			return err
		}
		sum, err := o.checkHash(ctx, tgz, p)
		if err != nil {
			return err
		}
		files, err := o.unpack(ctx, tgz, out, p)
		if err != nil {
			return fmt.Errorf("%s: %w", p.spec(), err)
		}
		man.Packages = append(man.Packages, manifestPackage{Name: scope + p.name, Integrity: sum})
		man.Files = append(man.Files, files...)
		if err := os.RemoveAll(filepath.Dir(tgz)); err != nil { // the tarball: free its space early
			return err
		}
	}
	if err := complete(o.Env.OS, out); err != nil {
		return err
	}
	return man.write(o.disk, out)
}

// complete makes sure that Find will be content with what was unpacked.
func complete(goos, out string) error {
	names, err := readNames(out)
	if err != nil {
		return err
	}
	if _, why := pick(goos, out, names); why != "" {
		return fmt.Errorf("%w: %s", ErrArchive, why)
	}
	return nil
}

const tempPrefix = ".tmp-"

// sweep removes the work folders of interrupted installs. The lock is held, so
// nobody works in them.
func sweep(root string) error {
	names, err := readNames(root)
	if err != nil {
		return err
	}
	for _, n := range names {
		if strings.HasPrefix(n, tempPrefix) {
			if err := os.RemoveAll(filepath.Join(root, n)); err != nil {
				return err
			}
		}
	}
	return nil
}

// swap renames out to dir. What is there already goes into the work folder,
// which is removed afterwards.
func swap(out, dir, work string) error {
	old := filepath.Join(work, "old")
	if err := os.Rename(dir, old); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := os.Rename(out, dir); err != nil {
		_ = os.Rename(old, dir) // back as it was
		return err
	}
	return syncDir(filepath.Dir(dir))
}

// explain names the operation and the folder, and says when the disk is full.
func (o Options) explain(op, dir string, err error) error {
	if isDiskFull(err) {
		return fmt.Errorf("%s: %w: make room on the disk of %s: %w", op, ErrDiskFull, dir, err)
	}
	if errors.Is(err, os.ErrPermission) {
		return fmt.Errorf("%s: %w: choose another folder with --cache", op, err)
	}
	return fmt.Errorf("%s: %w", op, err)
}
