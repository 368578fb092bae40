package nano

import (
	"bytes"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

func TestChatIsSmallGGUF(t *testing.T) {
	if n := len(Chat()); n > 4<<20 {
		t.Errorf("nano-chat has %d bytes, want at most 4 MiB", n)
	}
	if !bytes.HasPrefix(Chat(), []byte("GGUF")) {
		t.Error("nano-chat is no GGUF file")
	}
}

func TestWriteChat(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "deep", "cache")
	path, err := WriteChat(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("broken"), 0o644); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if _, err := WriteChat(dir); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	got, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(got, Chat()) {
		t.Errorf("file differs from the model, error %v", err)
	}
	left, _ := os.ReadDir(dir)
	if len(left) != 1 {
		t.Errorf("%d files are left, want 1", len(left))
	}
}

func TestWriteChatReportsFolder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := WriteChat(file); err == nil {
		t.Error("a folder that is a file was accepted")
	}
}
