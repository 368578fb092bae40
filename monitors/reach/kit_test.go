package reach

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/steer"
)

var site3 = steer.Site{Layer: 3}

// world draws texts of a process whose odds are known: the state walks towards
// +1 or -1 along a direction, and the text fails when it has been told to. Only
// the first inputs matter, the rest is noise.
func world(seed uint64, texts, width int) *Data {
	r := rand.New(rand.NewPCG(seed, 77))
	d := &Data{Sites: []steer.Site{site3}, Width: width, ModelHash: "m", Arch: "a", TemplateHash: "t"}
	for i := range texts {
		n, unsafe := 12+r.IntN(8), r.IntN(2) == 0
		decided, failure := 3+r.IntN(3), -1
		if unsafe {
			failure = decided + 4 + r.IntN(3)
		}
		t := Trajectory{Group: fmt.Sprint("prompt ", i/3)}
		for row := range n {
			x := make([]float32, width)
			for k := range x {
				x[k] = float32(r.NormFloat64())
			}
			x[0] = 0
			if row > decided {
				x[0] = 3
				if unsafe {
					x[0] = -3 - float32(row-decided)/2
				}
			}
			x[1] *= 20 // loud and useless
			halve(x)
			t.Features = append(t.Features, x...)
			t.Tokens = append(t.Tokens, decode.Token(r.IntN(50)))
		}
		t.Margins = fallAt(n, failure, 1, -1)
		d.Trajectories = append(d.Trajectories, t)
	}
	return d
}

// quick are options that train in a moment.
func quick() Options {
	return Options{Name: "quick", Site: site3, Hidden: []int{16, 16}, Epochs: 12, Batch: 64, Rate: 3e-3, Seed: 5, Raw: true}
}

func near(a, b, tolerance float64) bool { return math.Abs(a-b) <= tolerance }
