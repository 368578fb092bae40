//go:build !amd64 && !arm64

package llamacpp

// evalGateAddr is 0 where there is no assembly: the Go callback then answers
// every question itself.
const evalGateAddr uintptr = 0
