//go:build race

package llamacpp

// raceOn: the race detector makes sync.Pool drop objects at random, so
// allocations cannot be counted.
const raceOn = true
