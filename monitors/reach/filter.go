package reach

import (
	"fmt"

	"github.com/trimtab/trimtab/steer"
)

// FilterOptions are the choices of [Model.Filter].
type FilterOptions struct {
	C      float64 // the filter acts where V < C
	Margin float64 // how far above C it goes; default 3, which V hardly ever reaches: as far as Radius lets
	Radius float64 // greatest change of a row, as a share of its norm; default 0.5
	Steps  int     // gradient steps; default 3
	// Always climbs from every row, whatever V is (RE-Control), for comparison.
	Always bool
}

// Filter is the least restrictive edit: rows with V >= C stay as they are, to
// the bit; others move uphill, at most to C + Margin, at most by Radius. It acts
// from the prompt's last row on, as the function was recorded. At the model's
// last block it touches the next token's logits only; at an earlier one the
// change lives on in the cache.
//
// For a linear function it is the closed form of LiSeCo, for facets a
// projection onto the polytope.
func (m *Model) Filter(o FilterOptions) (steer.Intervention, error) {
	if err := m.Validate(); err != nil {
		return steer.Intervention{}, fmt.Errorf("reach filter: %w", err)
	}
	if o.Margin == 0 {
		o.Margin = 3
	}
	if o.Radius == 0 {
		o.Radius = 0.5
	}
	if o.Steps == 0 {
		o.Steps = 3
	}
	first := -1
	iv := steer.Intervention{Site: m.Site, Op: steer.Ascend, Scale: 1, When: steer.When{From: &first},
		Ascent: &steer.Ascent{Value: &m.Value, Threshold: float32(o.C), Margin: float32(o.Margin), Radius: float32(o.Radius), Steps: o.Steps, Always: o.Always}}
	if _, err := steer.NewPlan(iv); err != nil {
		return steer.Intervention{}, fmt.Errorf("reach filter: %w", err)
	}
	return iv, nil
}
