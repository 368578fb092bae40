package gguf

import (
	"fmt"
	"os"
)

// Open opens the GGUF file at path and checks its header. Anything but a
// regular file (after following links) is refused without being opened, since
// opening a FIFO blocks and opening a device can act. The caller must Close it.
func Open(path string) (*File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("gguf: %w", err)
	}
	if err := checkRegular(path, info); err != nil {
		return nil, err
	}
	fd, err := os.OpenFile(path, os.O_RDONLY|openFlags, 0)
	if err != nil {
		return nil, fmt.Errorf("gguf: %w", err)
	}
	f, err := readOpened(path, fd)
	if err != nil {
		fd.Close()
		return nil, err
	}
	f.closer = fd
	return f, nil
}

// readOpened looks at the open file again: the path may have been swapped
// since the first look.
func readOpened(path string, fd *os.File) (*File, error) {
	info, err := fd.Stat()
	if err != nil {
		return nil, fmt.Errorf("gguf: %w", err)
	}
	if err := checkRegular(path, info); err != nil {
		return nil, err
	}
	f, err := Read(fd, info.Size())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return f, nil
}

func checkRegular(path string, info os.FileInfo) error {
	if !info.Mode().IsRegular() {
		return fmt.Errorf("gguf: %s: is not a regular file but %s; give the path of a model file", path, info.Mode().Type())
	}
	return nil
}

// Close closes the underlying file. Getters fail afterwards.
func (f *File) Close() error {
	if f.closer == nil {
		return nil
	}
	return f.closer.Close()
}
