//go:build !unix

package gguf

const openFlags = 0

// syncDir does nothing: directories cannot be flushed here.
func syncDir(string) error { return nil }
