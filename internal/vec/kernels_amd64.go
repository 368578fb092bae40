package vec

// dotLanes adds the products of a and b to the lanes: element i to lane i mod
// 16. The lengths are equal and a multiple of sixteen.
//
//go:noescape
func dotLanes(lanes *[16]float32, a, b []float32)

// addScaled adds k*b to a. The lengths are equal and a multiple of eight.
//
//go:noescape
func addScaled(a []float32, k float32, b []float32)

// addScaled4 is addScaled with four rows of b in turn, which start at rows and
// are as long as a.
//
//go:noescape
func addScaled4(a, b []float32, k *[4]float32, rows *[4]int)
