//go:build unix

package lexicon

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestFIFO: a FIFO that nobody writes to is refused at once.
func TestFIFO(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadFile(path); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("%v", err)
	}
}
