package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trimtab/trimtab/bindings/llamacpp/libs"
)

// TestNanoPath: where the cache cannot be written, the folder for temporary
// files serves; where neither can, the error says what would help.
func TestNanoPath(t *testing.T) {
	file := writeFile(t, "file", "a file where a folder would have to be")
	cache, temp := t.TempDir(), t.TempDir()
	for _, c := range []struct{ name, cache, temp, want string }{
		{"cache", cache, temp, cache},
		{"no cache", "", temp, temp},
		{"cache not writable", filepath.Join(file, "cache"), temp, temp},
		{"neither", filepath.Join(file, "cache"), filepath.Join(file, "temp"), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("TMPDIR", c.temp)
			t.Setenv("TMP", c.temp) // Windows
			path, err := nanoPath(libs.Env{Cache: c.cache})
			if c.want == "" {
				if err == nil || !strings.Contains(err.Error(), "HOME or TMPDIR") {
					t.Errorf("error %v", err)
				}
				return
			}
			if err != nil || !strings.HasPrefix(path, c.want) {
				t.Fatalf("%s, %v, want a file below %s", path, err, c.want)
			}
			if _, err := os.Stat(path); err != nil {
				t.Error(err)
			}
		})
	}
}
