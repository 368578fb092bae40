package vec

// dotLanesGo is dotLanes for machines without a kernel, and the judge of those
// that have one.
func dotLanesGo(lanes *[16]float32, a, b []float32) {
	b = b[:len(a)]
	for j := 0; j < 16; j += 4 { // four sums at a time stay in registers
		s0, s1, s2, s3 := lanes[j], lanes[j+1], lanes[j+2], lanes[j+3]
		for i := j; i+4 <= len(a); i += 16 {
			p, q := a[i:i+4:i+4], b[i:i+4:i+4]
			s0 += float32(p[0] * q[0])
			s1 += float32(p[1] * q[1])
			s2 += float32(p[2] * q[2])
			s3 += float32(p[3] * q[3])
		}
		lanes[j], lanes[j+1], lanes[j+2], lanes[j+3] = s0, s1, s2, s3
	}
}

// addScaledGo is addScaled likewise, and of any length.
func addScaledGo(a []float32, k float32, b []float32) {
	b = b[:len(a)]
	for i := range a {
		a[i] += float32(k * b[i])
	}
}

// addScaled4Go is addScaled4 likewise.
func addScaled4Go(a, b []float32, k *[4]float32, rows *[4]int) {
	for i, start := range rows {
		addScaledGo(a, k[i], b[start:start+len(a)])
	}
}
