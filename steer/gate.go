package steer

import (
	"fmt"
	"math"

	"github.com/trimtab/trimtab/internal/vec"
)

// GateKind is what a [Gate] computes from a row x with its vector w.
type GateKind uint8

const (
	// Cosine: x.w/(|x||w|), from -1 to 1: conditional activation steering
	// (CAST, arXiv 2409.05907).
	Cosine GateKind = iota
	// Logistic: 1/(1+exp(-(x.w+Bias))), the probability that a probe states.
	Logistic
)

var gateNames = [...]string{Cosine: "cosine", Logistic: "logistic"}

func (k GateKind) String() string {
	if k.Known() {
		return gateNames[k]
	}
	return fmt.Sprintf("gate(%d)", uint8(k))
}

// Known reports whether this version of the package defines the probe.
func (k GateKind) Known() bool { return int(k) < len(gateNames) }

// Gate lets an intervention act on a row only if a probe of the same row, at
// the same block or an earlier one, says so. Every row is judged on its own.
//
// The probe reads what the residual holds at that moment. At an earlier block
// that is the row after all edits of the plan there, as a capture shows it; at
// the intervention's own site, the row as earlier interventions of the plan
// left it.
type Gate struct {
	Site      Site
	Kind      GateKind
	Vector    []float32 // w, as wide as the residual
	Bias      float32   // Logistic only
	Threshold float32   // the gate is open where the value is larger
	Below     bool      // open where the value is smaller instead
}

// Value is what the probe says of a row; see [GateKind]. It is NaN for a row
// without a direction. It allocates nothing.
func (g *Gate) Value(row []float32) float64 {
	dot := vec.Dot(row, g.Vector)
	if g.Kind == Logistic {
		return 1 / (1 + math.Exp(-(dot + float64(g.Bias))))
	}
	return dot / (vec.Norm(row) * vec.Norm(g.Vector))
}

// Open reports whether the gate lets the row through. A value of NaN does not.
func (g *Gate) Open(row []float32) bool {
	v := g.Value(row)
	if g.Below {
		return v < float64(g.Threshold)
	}
	return v > float64(g.Threshold)
}

func (g *Gate) faults(site Site) (faults []error) {
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("gate at %s: "+format, append([]any{g.Site}, args...)...))
	}
	if g.Site.Layer < 0 {
		fault("layer %d is negative", g.Site.Layer)
	}
	if g.Site.Layer > site.Layer {
		fault("it reads after the edit at %s that it should decide", site)
	}
	if g.Site.Point != ResidPost {
		fault("unknown point %d", uint8(g.Site.Point))
	}
	if vec.Norm(g.Vector) < minNorm {
		fault("vector is empty or all but zero, the probe would say nothing")
	}
	if !finite(g.Bias) {
		fault("bias is %v", g.Bias)
	}
	lowest := float32(-1)
	switch {
	case !g.Kind.Known():
		fault("unknown kind %d", uint8(g.Kind))
		return faults
	case g.Kind == Logistic:
		lowest = 0
	case g.Bias != 0:
		fault("only a logistic probe has a bias")
	}
	if !finite(g.Threshold) {
		fault("threshold is %v", g.Threshold)
	} else if !g.Below && g.Threshold >= 1 || g.Below && g.Threshold <= lowest {
		fault("a %s is between %v and 1, with threshold %v it never opens", g.Kind, lowest, g.Threshold)
	}
	return faults
}
