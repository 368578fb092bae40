package gguf

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"

	"github.com/cespare/xxhash/v2"
)

const (
	// sampleLen is how many bytes of a tensor's beginning and of its middle
	// enter the fingerprint.
	sampleLen = 256
	// maxSampled is how many tensors are sampled; larger files have every
	// n-th one sampled.
	maxSampled = 2048
)

// Fingerprint identifies the model in the file, so that vectors can say which
// one they belong to: 16 hexadecimal digits, an xxhash64 over
//
//   - all bytes before the tensor data (metadata and tensor descriptions),
//   - the size of the file in bytes, as a little-endian u64,
//   - for each tensor in file order (every n-th, n = ceil(count/2048)): its
//     first 256 bytes and 256 bytes from its middle, fewer where it is shorter.
//
// It reads about a megabyte beside the header, whatever the model's size. It
// tells models apart; it is no protection against someone who wants a
// collision or changes weights between the samples.
func (f *File) Fingerprint() (string, error) {
	h := xxhash.New()
	buf := make([]byte, windowSize)
	var err error
	for off, end := int64(0), min(f.DataOffset, f.Size); off < end && err == nil; off += int64(len(buf)) {
		err = f.hashAt(h, buf[:min(int64(len(buf)), end-off)], off)
	}
	if err == nil {
		_, err = h.Write(binary.LittleEndian.AppendUint64(nil, uint64(f.Size)))
	}
	step := (len(f.Tensors) + maxSampled - 1) / maxSampled
	for i := 0; i < len(f.Tensors) && err == nil; i += step {
		t := &f.Tensors[i]
		at, n := f.DataOffset+t.Offset, min(t.Size, sampleLen)
		if err = f.hashAt(h, buf[:n], at); err == nil {
			err = f.hashAt(h, buf[:min(n, t.Size-t.Size/2)], at+t.Size/2)
		}
	}
	if err != nil {
		return "", fmt.Errorf("gguf: fingerprint: %w", err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

func (f *File) hashAt(h *xxhash.Digest, b []byte, off int64) error {
	if err := readFull(f.src, b, off); err != nil {
		return err
	}
	_, err := h.Write(b)
	return err
}
