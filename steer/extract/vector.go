package extract

import (
	"github.com/trimtab/trimtab/steer"
)

// Vector is the result as a steering vector, with its provenance. Dose and
// window are the calibrated ones, so that its interventions at that dose do what
// [Result.Plan] does. The tokens of a window are not part of a vector: a fit with
// Focus may need the plan.
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

// Beside are the directions that a fit is held against, for its layer, window
// and dose: "negated", "random" of equal length, and "shuffled", from labels of
// which half are exchanged, enlarged as the fit is (missing where nothing is left
// of it). The seed draws the last two; without kept rows there is one shuffled
// direction only.
func (r *Result) Beside(seed uint64) map[string][]float32 {
	f := &fitter{m: r.moments, o: Options{Seed: seed}}
	out := map[string][]float32{"negated": negated(r.Direction), "random": f.random(r.MeanNorm, len(r.Direction))}
	d, whole := r.moments.shuffledBy(r.cell, seed), length(r.moments.Difference(r.cell))
	if length(d) > 0 && whole > 0 {
		for i := range d {
			d[i] *= r.MeanNorm / whole
		}
		out["shuffled"] = narrow(d)
	}
	return out
}

// PlanOf steers as the fit does, along another direction.
func (r *Result) PlanOf(direction []float32) (*steer.Plan, error) {
	return plan(r.Chosen.Cell.Layer, direction, r.Chosen.Window, r.Chosen.Dose)
}
