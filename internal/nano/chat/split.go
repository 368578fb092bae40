package chat

import "hash/fnv"

// Split says what a combination may be used for.
type Split string

// The splits: eight combinations in ten are for training, one for choosing
// (layers, doses, thresholds), one for the final measurement.
const (
	Train      Split = "train"
	Validation Split = "validation"
	Test       Split = "test"
)

// SplitOf deals a combination to its split by hash, so that generators, data
// sets and reports agree without sharing any state.
func SplitOf(key string) Split {
	h := fnv.New64a()
	h.Write([]byte(key))
	x := h.Sum64()
	x ^= x >> 32 // FNV's low bits are weak for short keys
	switch x * 0x9e3779b97f4a7c15 >> 33 % 10 {
	case 8:
		return Validation
	case 9:
		return Test
	}
	return Train
}
