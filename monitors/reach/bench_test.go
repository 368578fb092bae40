package reach

import (
	"fmt"
	"testing"

	"github.com/trimtab/trimtab/steer"
)

// BenchmarkPass is one pass of training at full size: the time goal is 2,000
// texts in two minutes on two cores, with early stop after about 15 passes.
func BenchmarkPass(b *testing.B) {
	for _, c := range []struct{ texts, width int }{{2000, 160}, {500, 896}} {
		b.Run(fmt.Sprintf("%d texts, width %d", c.texts, c.width), func(b *testing.B) {
			d := world(1, c.texts, c.width)
			rows := 0
			for i := range d.Trajectories {
				rows += len(d.Trajectories[i].Tokens)
			}
			for range b.N {
				if _, err := Fit(b.Context(), d, Options{Site: site3, Epochs: 1, Seed: 1}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*rows), "ns/row")
		})
	}
}

// BenchmarkValue is what a monitor spends on a token.
func BenchmarkValue(b *testing.B) {
	for _, width := range []int{160, 896} {
		b.Run(fmt.Sprint("mlp 256x256 at ", width), func(b *testing.B) {
			d := world(1, 60, width)
			m, err := Fit(b.Context(), d, Options{Site: site3, Epochs: 1, Seed: 1})
			if err != nil {
				b.Fatal(err)
			}
			work, row := m.Value.NewWork(), d.Row(&d.Trajectories[0], 3, 0)
			for b.Loop() {
				m.Value.At(row, work)
			}
		})
	}
}

// BenchmarkFilter is what the least restrictive filter spends on a row: above
// the level one value, below it up to three gradients and values more.
func BenchmarkFilter(b *testing.B) {
	for _, width := range []int{160, 896} {
		d := world(1, 60, width)
		m, err := Fit(b.Context(), d, Options{Site: site3, Epochs: 1, Seed: 1})
		if err != nil {
			b.Fatal(err)
		}
		for _, c := range []float64{-100, 100} {
			iv, err := m.Filter(FilterOptions{C: c})
			if err != nil {
				b.Fatal(err)
			}
			plan, err := steer.NewPlan(iv)
			if err != nil {
				b.Fatal(err)
			}
			b.Run(fmt.Sprintf("width %d, c %v", width, c), func(b *testing.B) {
				from, row := d.Row(&d.Trajectories[0], 3, 0), make([]float32, width)
				for b.Loop() {
					copy(row, from)
					plan.Edit(site3, steer.Row{}, row, nil)
				}
			})
		}
	}
}
