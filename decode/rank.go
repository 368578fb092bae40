package decode

import (
	"math"
	"math/bits"
	"slices"
)

// A key ranks one entry of a row among others: keys in ascending order are
// logits in descending order, and equal logits by ascending token. The upper
// half is the logit's bits, mapped so that they compare as integers; the lower
// half is the position. Keys of one row are all different.

func key(x float32, j int) uint64 {
	return uint64(^ascending(x))<<32 | uint64(uint32(j))
}

// ascending maps floats to integers of the same order; the two zeros are equal.
func ascending(x float32) uint32 {
	if x == 0 {
		x = 0 // drops the sign
	}
	b := math.Float32bits(x)
	if b>>31 != 0 {
		return ^b
	}
	return b | 1<<31
}

// best returns the keys of the k best allowed values, best first; fewer when
// fewer are allowed. It is valid until the next call. Linear in the row, plus
// a sort of k.
func (v *view) best(vals []float32, k int) ([]uint64, error) {
	k = min(k, len(vals))
	// The buffer is cut back to k whenever it is full: each cut is linear in
	// the buffer and makes room for more than k others, whatever the order.
	limit := min(3*k+64, len(vals)+1)
	buf := slices.Grow(v.keys[:0], limit)
	floor := negInf // nothing at or below it can still get in
	for j, x := range vals {
		if x <= floor {
			continue
		}
		if x-x != 0 {
			return nil, v.bad(j, x)
		}
		buf = append(buf, key(x, j))
		if len(buf) == limit {
			selectLowest(buf, k)
			buf = buf[:k]
			floor = vals[uint32(slices.Max(buf))]
		}
	}
	v.keys = buf
	if len(buf) > k {
		selectLowest(buf, k)
		buf = buf[:k]
	}
	slices.Sort(buf)
	return buf, nil
}

// selectLowest moves the k lowest keys to the front (quickselect; when the
// pivots turn out bad it sorts instead, so n log n is the worst case).
func selectLowest(a []uint64, k int) {
	lo, hi := 0, len(a)
	for rounds := 2 * bits.Len(uint(len(a))); hi-lo > 16 && rounds > 0; rounds-- {
		i, j := partition(a[lo:hi])
		switch i, j = i+lo, j+lo; {
		case k <= j:
			hi = j
		case k > i:
			lo = i
		default:
			return
		}
	}
	slices.Sort(a[lo:hi])
}

// partition returns j <= i such that no key before i is above one at or after
// i, and likewise for j; between them all are equal to the pivot.
func partition(a []uint64) (i, j int) {
	p := median(a[0], a[len(a)/2], a[len(a)-1])
	i, j = 0, len(a)-1
	for i <= j {
		for a[i] < p {
			i++
		}
		for a[j] > p {
			j--
		}
		if i <= j {
			a[i], a[j] = a[j], a[i]
			i++
			j--
		}
	}
	return i, j + 1
}

func median(a, b, c uint64) uint64 {
	return max(min(a, b), min(max(a, b), c))
}
