//go:build !race

package llamacpp

const raceOn = false
