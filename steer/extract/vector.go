package extract

import (
	"github.com/trimtab/trimtab/steer"
)

// Vector is the result as a steering vector, with its provenance. Dose and
// window are the calibrated ones, so that its interventions at that dose do what
// [Result.Plan] does.
func (r *Result) Vector(name string) *steer.Vector {
	c := r.Chosen
	return &steer.Vector{
		Name: name, Op: steer.Add, Directions: map[int][]float32{c.Cell.Layer: r.Direction}, Dose: float32(c.Dose),
		From: c.Window.From, To: c.Window.To,
		ModelHash: r.model.Hash, Arch: r.model.Arch, TemplateHash: steer.HashTemplate(r.model.Template),
		Method: string(r.Method), Layer: c.Cell.Layer, Position: c.Cell.Place.String(),
		DataHash: r.DataHash, MeanNorm: r.MeanNorm,
		Calibration: &steer.Calibration{Dose: c.Dose, KL: c.KL, Effect: c.Effect.Mean, Metric: "guarded margin gain, nats per answer",
			Low: c.Effect.Mean - 1.96*c.Effect.Error, High: c.Effect.Mean + 1.96*c.Effect.Error, Pairs: c.Effect.N},
	}
}

// Plan is the calibrated way to steer, with the chosen window. share multiplies
// the calibrated dose: 1 as calibrated, -1 for the opposite, 0 for nothing.
func (r *Result) Plan(share float64) (*steer.Plan, error) {
	return r.PlanAt(r.Chosen.Window, share*r.Chosen.Dose)
}

// PlanAt steers in another window and with another dose than the chosen ones.
func (r *Result) PlanAt(w Window, dose float64) (*steer.Plan, error) {
	return plan(r.Chosen.Cell.Layer, r.Direction, w, dose)
}
