//go:build unix

package gguf

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func TestNotRegular(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	must(syscall.Mkfifo(at("fifo"), 0o600))
	must(os.Symlink(at("loop"), at("loop")))
	must(os.Symlink(at("fifo"), at("link-to-fifo")))
	must(modelWriter().WriteFile(at("model.gguf")))
	must(os.Symlink(at("model.gguf"), at("link")))
	for _, c := range []struct{ path, want string }{
		{at("fifo"), "is not a regular file"},
		{at("link-to-fifo"), "is not a regular file"},
		{"/dev/zero", "is not a regular file"},
		{dir, "is not a regular file"},
		{at("loop"), "too many levels of symbolic links"},
		{at("missing"), "no such file"},
	} {
		t.Run(filepath.Base(c.path), func(t *testing.T) {
			refused(t, c.want, func() error { return open(c.path) })
		})
	}
	f, err := Open(at("link")) // a link to a model is fine
	must(err)
	must(f.Close())
}
