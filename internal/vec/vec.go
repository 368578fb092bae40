// Package vec holds the float32 kernels that several packages share. [Dot] and
// [Norm] sum in float64, [Dot32] and what is built on it in float32. Slices of one
// call must have equal length.
package vec

import "math"

// Dot returns the inner product of a and b.
func Dot(a, b []float32) float64 {
	b = b[:len(a)]
	var s0, s1 float64
	i := 0
	for ; i+1 < len(a); i += 2 {
		s0 += float64(a[i]) * float64(b[i])
		s1 += float64(a[i+1]) * float64(b[i+1])
	}
	if i < len(a) {
		s0 += float64(a[i]) * float64(b[i])
	}
	return s0 + s1
}

// Norm returns the Euclidean length of a.
func Norm(a []float32) float64 { return math.Sqrt(Dot(a, a)) }

// AddScaled adds k*b to a, in place. The product is rounded before it is added,
// on every machine, so that the result equals llama.cpp's own control vector to
// the bit: on arm64 the compiler would otherwise fuse the two.
func AddScaled(a []float32, k float32, b []float32) {
	b = b[:len(a)]
	whole := len(a) &^ 7
	addScaled(a[:whole], k, b[:whole])
	addScaledGo(a[whole:], k, b[whole:])
}

// Scale multiplies a by k, in place.
func Scale(a []float32, k float32) {
	for i := range a {
		a[i] *= k
	}
}
