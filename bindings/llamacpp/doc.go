// Package llamacpp runs GGUF models in-process through llama.cpp's shared
// libraries, without cgo.
//
// The model for the reader's head: [Load] opens the libraries once for the
// process and checks that they are the release whose memory layout this package
// knows; [Library.Open] validates a model file in Go, loads it, and returns an
// [Engine], which implements engine.Engine: one llama.cpp context that holds the
// cached state of many sequences.
//
// Residuals are read and edited per sequence and per row, in the middle of one
// batch, through llama.cpp's evaluation callback. While no plan and no capture
// is active a few instructions of assembly answer that callback, so an engine
// that could steer but does not is as fast as one that cannot.
//
// llama.cpp aborts the process on a broken invariant. Therefore every file is
// validated by internal/gguf and every integer is range checked before it
// crosses, and this is the only package that may import unsafe.
package llamacpp
