package vec

// Dot32 returns the inner product of a and b in float32. It runs in sixteen
// lanes, element i in lane i mod 16, so that no sum is longer than a sixteenth
// of the row; the lanes are joined pairwise at the end. The order is the same on
// every machine and so is the result, to the bit. It is several times faster
// than [Dot], for rows of many weights where the last digits do not matter.
func Dot32(a, b []float32) float32 {
	b = b[:len(a)]
	var lanes [16]float32
	whole := len(a) &^ 15
	dotLanes(&lanes, a[:whole], b[:whole])
	for i := whole; i < len(a); i++ {
		lanes[i-whole] += float32(a[i] * b[i])
	}
	for width := 8; width > 0; width /= 2 {
		for i := range width {
			lanes[i] += lanes[i+width]
		}
	}
	return lanes[0]
}

// Dense sets dst to weight*x + bias: weight is row-major, len(dst) rows of
// len(x). Rows are read once and in order, as they lie in memory.
func Dense(dst, weight, bias, x []float32) {
	bias = bias[:len(dst)]
	for o := range dst {
		dst[o] = bias[o] + Dot32(weight[o*len(x):(o+1)*len(x)], x)
	}
}

// DenseBack sets dst to g*weight, the way back through [Dense]: weight is
// row-major, len(g) rows of len(dst). Rows that g has a zero for are not read.
func DenseBack(dst, weight, g []float32) {
	clear(dst)
	if len(dst) == 0 {
		return
	}
	var k [4]float32
	var rows [4]int // where they start
	n := 0
	for o, x := range g {
		if x == 0 {
			continue
		}
		k[n], rows[n] = x, o*len(dst)
		if n++; n == 4 {
			addRows(dst, weight, &k, &rows)
			n = 0
		}
	}
	for i := range n {
		AddScaled(dst, k[i], weight[rows[i]:rows[i]+len(dst)])
	}
}

// addRows is AddScaled for four rows in turn, with dst read and written once.
func addRows(dst, weight []float32, k *[4]float32, rows *[4]int) {
	whole := len(dst) &^ 7
	for i, start := range rows {
		addScaledGo(dst[whole:], k[i], weight[start+whole:start+len(dst)])
	}
	addScaled4(dst[:whole], weight, k, rows)
}
