package gguf

import (
	"encoding/binary"
	"fmt"
	"io"
)

// windowSize is how much of the file a scanner holds at a time. Headers are
// read in order, so a larger window saves little.
const windowSize = 64 << 10

// scanner walks a region of a file in order through a window. Lengths in the
// file are compared with the bytes that are really left before anything is
// allocated or skipped.
type scanner struct {
	src  io.ReaderAt
	end  int64 // first byte after the region
	off  int64 // next byte to deliver
	base int64 // file offset of win[0]
	win  []byte
	buf  []byte
}

func newScanner(src io.ReaderAt, off, end int64) *scanner {
	return &scanner{src: src, off: off, base: off, end: end}
}

func (s *scanner) left() int64 { return s.end - s.off }

// take returns the next n bytes, n at most windowSize. They are valid until the
// next call.
func (s *scanner) take(n int64) ([]byte, error) {
	if n > s.left() {
		return nil, fmt.Errorf("at byte %d: needs %d bytes, %d are left", s.off, n, s.left())
	}
	from := s.off - s.base
	if from+n > int64(len(s.win)) {
		if err := s.fill(); err != nil {
			return nil, err
		}
		from = 0
		if n > int64(len(s.win)) {
			return nil, fmt.Errorf("at byte %d: needs %d bytes, more than the window of %d", s.off, n, windowSize)
		}
	}
	s.off += n
	return s.win[from : from+n], nil
}

func (s *scanner) fill() error {
	if s.buf == nil {
		s.buf = make([]byte, min(windowSize, s.left()))
	}
	n := min(int64(len(s.buf)), s.left())
	if err := readFull(s.src, s.buf[:n], s.off); err != nil {
		return err
	}
	s.base, s.win = s.off, s.buf[:n]
	return nil
}

func (s *scanner) skip(n int64) error {
	if n < 0 || n > s.left() {
		return fmt.Errorf("at byte %d: needs %d bytes, %d are left", s.off, uint64(n), s.left())
	}
	s.off += n
	if s.off-s.base > int64(len(s.win)) {
		s.base, s.win = s.off, nil
	}
	return nil
}

func (s *scanner) u32() (uint32, error) {
	b, err := s.take(4)
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint32(b), nil
}

func (s *scanner) u64() (uint64, error) {
	b, err := s.take(8)
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint64(b), nil
}

// stringLen reads the length that precedes a string.
func (s *scanner) stringLen(limit int64) (int64, error) {
	n, err := s.u64()
	if err != nil {
		return 0, err
	}
	if n > uint64(limit) {
		return 0, fmt.Errorf("at byte %d: string length %d is over the limit of %d", s.off-8, n, limit)
	}
	if int64(n) > s.left() {
		return 0, fmt.Errorf("at byte %d: string length %d runs past the end, %d bytes are left", s.off-8, n, s.left())
	}
	return int64(n), nil
}

// text reads a string of at most limit bytes into memory.
func (s *scanner) text(limit int64) (string, error) {
	n, err := s.stringLen(limit)
	if err != nil {
		return "", err
	}
	if n <= windowSize {
		b, err := s.take(n)
		return string(b), err
	}
	b := make([]byte, n)
	if err := readFull(s.src, b, s.off); err != nil {
		return "", err
	}
	return string(b), s.skip(n)
}

// readFull reads exactly len(b) bytes. A file that has shrunk is an error of
// its own, not an end of file.
func readFull(src io.ReaderAt, b []byte, off int64) error {
	n, err := src.ReadAt(b, off)
	if n == len(b) {
		return nil
	}
	if err == nil || err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("at byte %d: read %d of %d bytes: %w", off, n, len(b), err)
}
