//go:build !amd64

package vec

func dotLanes(lanes *[16]float32, a, b []float32) { dotLanesGo(lanes, a, b) }

func addScaled(a []float32, k float32, b []float32) { addScaledGo(a, k, b) }
