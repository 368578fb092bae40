// Package nano holds the embedded default models, so that every example and
// every measurement runs offline and within seconds.
//
// The models are tiny and behave in ways that package
// [github.com/trimtab/trimtab/internal/nano/chat] can judge exactly. They are
// data for tests of steering, monitors and decoding, not assistants. The recipe
// is in the folder's README.
package nano

import (
	"bytes"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
)

//go:embed nano-chat.gguf
var chatModel []byte

// ChatName is the file name under which [WriteChat] stores nano-chat.
const ChatName = "nano-chat.gguf"

// Chat returns nano-chat as a GGUF file. The caller must not change the bytes.
func Chat() []byte { return chatModel }

// WriteChat makes sure that dir holds nano-chat as a file and returns its path.
// An equal file is left alone; a missing or different one is replaced in one
// step, so that other processes see the old file or the new one, never a part.
// It is safe for concurrent use, also by several processes. dir is created if
// need be.
func WriteChat(dir string) (string, error) {
	return write(filepath.Join(dir, ChatName), chatModel)
}

// write stores data at path unless it is there already.
func write(path string, data []byte) (string, error) {
	if same(path, data) {
		return path, nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", fmt.Errorf("write %s: %w", path, err)
	}
	if err := replace(path, data); err != nil {
		return "", fmt.Errorf("write %s: %w", path, err)
	}
	return path, nil
}

// same reports that the file at path holds exactly data.
func same(path string, data []byte) bool {
	info, err := os.Stat(path)
	if err != nil || info.Size() != int64(len(data)) {
		return false
	}
	have, err := os.ReadFile(path)
	return err == nil && bytes.Equal(have, data)
}

// replace writes data beside path and renames it into place.
func replace(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.part")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Chmod(f.Name(), 0o644)
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
		if same(path, data) { // another process was faster and holds the file open
			return nil
		}
	}
	return err
}
