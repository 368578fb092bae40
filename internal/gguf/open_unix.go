//go:build unix

package gguf

import (
	"os"
	"syscall"
)

// openFlags keeps the open from blocking should the path have become a FIFO
// after it was looked at.
const openFlags = syscall.O_NONBLOCK | syscall.O_CLOEXEC

// syncDir makes a rename in dir durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
