//go:build amd64 || arm64

package llamacpp

// evalGateAddr is the C-callable address of the assembly function evalGate.
var evalGateAddr uintptr
