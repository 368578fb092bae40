// Package gguf reads, checks and writes GGUF files, the container of llama.cpp
// models and control vectors, so that no malformed file ever reaches C code:
// llama.cpp ends the process on a file that breaks its invariants.
//
// A file is a table of metadata and a table of tensors, followed by tensor
// data. [Open] walks both tables once through a small window and keeps only
// where things are; values and tensor rows are read from the file when asked
// for, so an open [File] costs a few kilobytes however large the model. Use
// [File.String], [File.Uint] and their kin for metadata, [File.ReadRows] for
// weights, [CheckModel] before a file is given to a language-model engine, and
// [Writer] to make a file.
//
// Sources: the GGUF specification (versions 2 and 3, little endian) and the
// type tables of ggml as shipped with llama.cpp v0.5.0. The checks are at least
// as strict as that release's loader.
package gguf

import "errors"

// Limits. A file beyond one of them is refused with an error that names the
// field. They bound the time and memory that an untrusted header can cost:
// together less than a second and less than 64 MiB.
const (
	// MaxHeader is the number of bytes before the tensor data. The largest
	// headers in use (262,144 tokens with 514,906 merges) are about 20 MiB.
	MaxHeader = 128 << 20
	// MaxKeys is the number of metadata entries; models have fewer than 200.
	MaxKeys = 4096
	// MaxKeyLen is the length of a metadata key in bytes. The specification
	// allows 65,535, llama.cpp's longest is below 64.
	MaxKeyLen = 1024
	// MaxString is the length of one string value in bytes. Chat templates
	// take kilobytes; a whole tokenizer definition embedded as JSON takes
	// some ten megabytes.
	MaxString = 32 << 20
	// MaxArray is the number of elements of one metadata array.
	MaxArray = 1 << 23
	// MaxTensors is the number of tensors; the largest models have a few thousand.
	MaxTensors = 1 << 16
	// MaxTensorName is the length of a tensor name in bytes: ggml keeps 64
	// bytes with the final zero (GGML_MAX_NAME in ggml.h).
	MaxTensorName = 63
	// MaxDims is the number of dimensions of a tensor (GGML_MAX_DIMS in ggml.h).
	MaxDims = 4
	// MaxAlignment is the alignment of tensor data in bytes. 32 is usual; the
	// largest page in use is 64 KiB, more serves nobody.
	MaxAlignment = 1 << 16
	// DefaultAlignment applies when general.alignment is absent.
	DefaultAlignment = 32
)

const (
	magic           = "GGUF"
	keyArchitecture = "general.architecture"
	keyAlignment    = "general.alignment"
	minVersion      = 2
	maxVersion      = 3
)

// ErrMissing is wrapped by the errors of getters whose key or tensor is not in
// the file, so that callers can treat it as optional.
var ErrMissing = errors.New("not in the file")

// ValueType is the type of a metadata value, with the numbers of the GGUF
// specification.
type ValueType uint32

const (
	Uint8   ValueType = 0
	Int8    ValueType = 1
	Uint16  ValueType = 2
	Int16   ValueType = 3
	Uint32  ValueType = 4
	Int32   ValueType = 5
	Float32 ValueType = 6
	Bool    ValueType = 7
	String  ValueType = 8
	Array   ValueType = 9
	Uint64  ValueType = 10
	Int64   ValueType = 11
	Float64 ValueType = 12
)

var valueTypes = [...]struct {
	name string
	size int64 // bytes of one value; 0 where it varies
}{
	Uint8: {"u8", 1}, Int8: {"i8", 1}, Uint16: {"u16", 2}, Int16: {"i16", 2},
	Uint32: {"u32", 4}, Int32: {"i32", 4}, Float32: {"f32", 4}, Bool: {"bool", 1},
	String: {"string", 0}, Array: {"array", 0},
	Uint64: {"u64", 8}, Int64: {"i64", 8}, Float64: {"f64", 8},
}

func (t ValueType) known() bool { return int64(t) < int64(len(valueTypes)) }

// String is the short name, such as "u32".
func (t ValueType) String() string {
	if !t.known() {
		return "unknown"
	}
	return valueTypes[t].name
}

func (t ValueType) size() int64 { return valueTypes[t].size }

// Value says what a metadata entry is and where it lies in the file. It is
// read with the getters of [File].
type Value struct {
	Type ValueType
	Elem ValueType // element type when Type is Array
	Len  int       // number of elements when Type is Array, else 1

	off, size int64 // payload in the file, without type and count
}

func (v Value) describe() string {
	if v.Type == Array {
		return "array of " + v.Elem.String()
	}
	return v.Type.String()
}

// MaxLayers is the number of transformer blocks that llama.cpp v0.5.0 can hold
// (LLAMA_MAX_LAYERS in llama-hparams.h); it ends the process above that.
const MaxLayers = 512
