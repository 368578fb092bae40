package probe

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/trimtab/trimtab/steer"
)

// Example is a residual row with its label.
type Example struct {
	Row      []float32
	Positive bool // it has the property
}

// TrainOptions are the choices of [Train]. Zeros stand for the defaults.
type TrainOptions struct {
	Name   string
	Site   steer.Site // where the rows were read
	Labels [2]string
	// L2 weighs half the squared norm of the weights against the mean loss of
	// an example, with every input scaled to unit variance. Default 0.01.
	L2 float64
	// Unbalanced counts every example alike. Otherwise the two classes weigh
	// the same together, however many examples each has.
	Unbalanced bool
	// Iterations bounds the descent; it ends earlier when the steepest slope
	// is below 1e-6. Default 300.
	Iterations int
	// Progress, if not nil, is called after each iteration with the loss and
	// the steepest slope.
	Progress func(iteration int, loss, slope float64)
}

// Bounds of Train.
const (
	MaxExamples   = 1 << 22
	MaxIterations = 100_000

	defaultL2         = 0.01
	defaultIterations = 300
	slopeEnd          = 1e-6
)

// Train fits a linear probe by logistic regression with a ridge, over inputs
// scaled to zero mean and unit variance; the scaling ends up in the weights. The
// loss has one minimum and the descent (L-BFGS from zero) no randomness: the
// same examples in the same order give the same probe. The threshold is 0.5
// until something better is known. Inputs that never vary get no weight.
//
// It takes about 2 ns per example, input and iteration, and memory for a few
// dozen rows beside the examples, which are read only.
func Train(ctx context.Context, examples []Example, o TrainOptions) (*Probe, error) {
	if o.L2 == 0 {
		o.L2 = defaultL2
	}
	if o.Iterations == 0 {
		o.Iterations = defaultIterations
	}
	if err := o.check(examples); err != nil {
		return nil, fmt.Errorf("probe: train %q: %w", o.Name, err)
	}
	l := newLogistic(examples, o)
	if l.spread == 0 {
		return nil, fmt.Errorf("probe: train %q: all rows are equal", o.Name)
	}
	theta, err := descend(ctx, l, o)
	if err != nil {
		return nil, fmt.Errorf("probe: train %q: %w", o.Name, err)
	}
	p := &Probe{
		Name: o.Name, Site: o.Site, Labels: o.Labels, Threshold: 0.5, Method: "logistic",
		Value: l.value(theta),
	}
	if err := p.Validate(); err != nil {
		return nil, fmt.Errorf("probe: train %q: %w", o.Name, err)
	}
	return p, nil
}

func (o *TrainOptions) check(examples []Example) error {
	var faults []error
	if !(o.L2 > 0 && o.L2 <= 1e6) {
		faults = append(faults, fmt.Errorf("L2 is %v, want more than 0 and at most 1e6", o.L2))
	}
	if o.Iterations < 1 || o.Iterations > MaxIterations {
		faults = append(faults, fmt.Errorf("%d iterations, want 1 to %d", o.Iterations, MaxIterations))
	}
	if _, _, err := checkExamples(examples); err != nil {
		faults = append(faults, err)
	}
	return errors.Join(faults...)
}

// checkExamples counts the classes of examples that can be worked with.
func checkExamples(examples []Example) (positives, negatives int, err error) {
	if n := len(examples); n < 2 || n > MaxExamples {
		return 0, 0, fmt.Errorf("%d examples, want 2 to %d", n, MaxExamples)
	}
	width := len(examples[0].Row)
	if width < 1 || width > steer.MaxValueWidth {
		return 0, 0, fmt.Errorf("rows of %d values, want 1 to %d", width, steer.MaxValueWidth)
	}
	for n, e := range examples {
		if len(e.Row) != width {
			return 0, 0, fmt.Errorf("example %d has %d values, those before %d", n, len(e.Row), width)
		}
		for i, x := range e.Row {
			if x-x != 0 {
				return 0, 0, fmt.Errorf("example %d: value %d is %v", n, i, x)
			}
		}
		if e.Positive {
			positives++
		} else {
			negatives++
		}
	}
	if positives == 0 || negatives == 0 {
		return 0, 0, fmt.Errorf("%d positive and %d negative examples, want some of each", positives, negatives)
	}
	return positives, negatives, nil
}

// logistic is the loss. Its parameters are a weight for each scaled input and,
// last, the bias, which the ridge leaves alone.
type logistic struct {
	examples    []Example
	l2          float64
	weight      [2]float64 // of a negative and a positive example; all together weigh 1
	mean, scale []float64  // of the inputs; scale is 1 over the deviation, 0 without one
	spread      int        // inputs that vary
	u           []float64  // weights in the inputs' own units
}

func newLogistic(examples []Example, o TrainOptions) *logistic {
	d, n := len(examples[0].Row), float64(len(examples))
	l := &logistic{examples: examples, l2: o.L2, mean: make([]float64, d), scale: make([]float64, d), u: make([]float64, d)}
	positives := 0.0
	for _, e := range examples {
		if e.Positive {
			positives++
		}
		for i, x := range e.Row {
			l.mean[i] += float64(x) / n
		}
	}
	for _, e := range examples {
		for i, x := range e.Row {
			c := float64(x) - l.mean[i]
			l.scale[i] += c * c / n
		}
	}
	for i, v := range l.scale {
		l.scale[i] = 0
		if sd := math.Sqrt(v); sd > 1e-6*math.Abs(l.mean[i]) && sd > 0 { // below that it is rounding
			l.scale[i] = 1 / sd
			l.spread++
		}
	}
	l.weight = [2]float64{0.5 / (n - positives), 0.5 / positives}
	if o.Unbalanced {
		l.weight = [2]float64{1 / n, 1 / n}
	}
	return l
}

// at returns the loss and sets g to its gradient.
func (l *logistic) at(theta, g []float64) float64 {
	d := len(l.mean)
	bias, loss := theta[d], 0.0
	for i, s := range l.scale {
		l.u[i] = theta[i] * s
		bias -= l.u[i] * l.mean[i]
		loss += 0.5 * l.l2 * theta[i] * theta[i]
	}
	clear(g)
	for _, e := range l.examples {
		z := bias
		for i, x := range e.Row {
			z += float64(x) * l.u[i]
		}
		y, k := 0.0, l.weight[0]
		if e.Positive {
			y, k = 1, l.weight[1]
		}
		loss += k * (max(z, 0) - y*z + math.Log1p(math.Exp(-math.Abs(z))))
		r := k * (sigmoid(z) - y)
		g[d] += r
		for i, x := range e.Row {
			g[i] += r * float64(x)
		}
	}
	for i, s := range l.scale {
		g[i] = (g[i]-g[d]*l.mean[i])*s + l.l2*theta[i]
	}
	return loss
}

// value puts the scaling into the weights.
func (l *logistic) value(theta []float64) *steer.Value {
	d := len(l.mean)
	w, bias := make([]float32, d), theta[d]
	for i, s := range l.scale {
		w[i] = float32(theta[i] * s)
		bias -= theta[i] * s * l.mean[i]
	}
	return &steer.Value{Kind: steer.Linear, Layers: []steer.Dense{{In: d, Out: 1, Weight: w, Bias: []float32{float32(bias)}}}}
}
