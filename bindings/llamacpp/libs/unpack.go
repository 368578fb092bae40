package libs

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

// Limits on what a package may hold. The largest real one has 27 entries and a
// file of 374 MB.
const (
	maxArchiveEntries = 256
	maxArchiveFile    = 1 << 30
	maxArchiveTotal   = 2 << 30
)

// wanted decides by path what is unpacked and where to, below the install
// folder. Node.js add-ons, import libraries and the library of llama.cpp's
// command-line programs are not needed.
var (
	inBins    = regexp.MustCompile(`^package/bins/[A-Za-z0-9_-]+/(.+)$`)
	plainPath = regexp.MustCompile(`^(?:[A-Za-z0-9_-]+/)?[A-Za-z0-9_][A-Za-z0-9_.-]*$`)
	isLibrary = regexp.MustCompile(`(?i)(\.so|\.dylib|\.dll)(\.[0-9]+)*$`)
)

func wanted(name string, p pkg) (string, error) {
	if name != path.Clean(name) || strings.Contains(name, `\`) || strings.HasPrefix(name, "/") || strings.HasPrefix(name, "..") {
		return "", fmt.Errorf("%w: unsafe path %q", ErrArchive, name)
	}
	if name == "package/LICENSE" {
		return "LICENSE-" + p.name, nil
	}
	m := inBins.FindStringSubmatch(name)
	if m == nil {
		return "", nil
	}
	rel := m[1]
	if !plainPath.MatchString(rel) {
		return "", fmt.Errorf("%w: unsafe path %q", ErrArchive, name)
	}
	if !isLibrary.MatchString(rel) || strings.Contains(rel, "llama-common") {
		return "", nil
	}
	return rel, nil
}

// unpack writes the libraries and the licence of a tarball below out, synced
// to disk, and returns what it wrote.
func (o Options) unpack(ctx context.Context, tgz, out string, p pkg) ([]manifestFile, error) {
	f, err := os.Open(tgz)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	zr, err := gzip.NewReader(f)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrArchive, err)
	}
	defer zr.Close()
	u := &unpacker{out: out, pkg: p, disk: o.disk, left: maxArchiveTotal,
		meter: &meter{ctx: ctx, report: o.Progress, p: Progress{Stage: StageUnpack, Package: p.spec()}}}
	u.meter.start()
	if err := u.run(tar.NewReader(io.LimitReader(zr, maxArchiveTotal+maxArchiveEntries*1024))); err != nil {
		return nil, err
	}
	u.meter.finish()
	return u.files, nil
}

type unpacker struct {
	out   string
	pkg   pkg
	disk  disk
	left  int64 // bytes that may still be written
	files []manifestFile
	meter *meter
}

func (u *unpacker) run(r *tar.Reader) error {
	for n := 0; ; n++ {
		h, err := r.Next()
		if err == io.EOF {
			return u.done()
		}
		if err != nil {
			return fmt.Errorf("%w: %w", ErrArchive, err)
		}
		if n >= maxArchiveEntries {
			return fmt.Errorf("%w: more than %d entries", ErrArchive, maxArchiveEntries)
		}
		if err := u.entry(h, r); err != nil {
			return err
		}
	}
}

// done checks that the package held what it is for.
func (u *unpacker) done() error {
	for _, f := range u.files {
		if isLibrary.MatchString(f.Path) {
			return syncDir(u.out)
		}
	}
	return fmt.Errorf("%w: no libraries in it", ErrArchive)
}

func (u *unpacker) entry(h *tar.Header, r io.Reader) error {
	rel, err := wanted(strings.TrimSuffix(h.Name, "/"), u.pkg)
	if err != nil || rel == "" || h.Typeflag == tar.TypeDir {
		return err
	}
	switch {
	case h.Typeflag != tar.TypeReg:
		return fmt.Errorf("%w: %q is a link or special file", ErrArchive, h.Name)
	case h.Size > maxArchiveFile || h.Size > u.left:
		return fmt.Errorf("%w: %q with %d bytes is over the size limit", ErrArchive, h.Name, h.Size)
	}
	sum, err := u.write(filepath.Join(u.out, filepath.FromSlash(rel)), r)
	if err != nil {
		return fmt.Errorf("unpack %s: %w", h.Name, err)
	}
	u.left -= h.Size
	u.files = append(u.files, manifestFile{Path: rel, Size: h.Size, SHA256: sum})
	return nil
}

// write makes one new file and returns its sha256. A name that is there
// already is an error: no package may overwrite another's file.
func (u *unpacker) write(dst string, r io.Reader) (string, error) {
	if err := os.MkdirAll(filepath.Dir(dst), 0o755); err != nil {
		return "", err
	}
	w, err := u.disk.create(dst)
	if err != nil {
		return "", err
	}
	h := sha256.New()
	_, err = io.Copy(io.MultiWriter(w, h, u.meter), r)
	if err == nil {
		err = w.Sync()
	}
	if e := w.Close(); err == nil {
		err = e
	}
	return hex.EncodeToString(h.Sum(nil)), err
}

// disk makes files. Tests replace it to see writes fail.
type disk struct {
	create func(path string) (file, error)
}

type file interface {
	io.WriteCloser
	Sync() error
}

var realDisk = disk{create: func(path string) (file, error) {
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
}}
