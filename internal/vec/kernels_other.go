//go:build !amd64

package vec

func dotLanes(lanes *[16]float32, a, b []float32) { dotLanesGo(lanes, a, b) }

func addScaled(a []float32, k float32, b []float32) { addScaledGo(a, k, b) }

func addScaled4(a, b []float32, k *[4]float32, rows *[4]int) { addScaled4Go(a, b, k, rows) }
