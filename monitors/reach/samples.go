package reach

import (
	"math"
	"math/rand/v2"

	"github.com/trimtab/trimtab/internal/vec"
)

// samples are the rows of some texts at one site, with what is to be learnt.
type samples struct {
	width   int
	rows    [][]float32 // as recorded, shared
	targets []float32
	unsafe  []bool // the text failed in the end
	norm    bool   // divide rows by their root mean square, as steer.Value does

	mean, spread []float32 // what inputs are standardised by
}

// normEps is what steer.Value adds to the mean square.
const normEps = 1e-6

func gather(d *Data, site int, targets [][]float32, norm bool) *samples {
	s := &samples{width: d.Width, norm: norm}
	for i := range d.Trajectories {
		t := &d.Trajectories[i]
		for row := range t.Tokens {
			s.rows = append(s.rows, d.Row(t, row, site))
			s.targets = append(s.targets, targets[i][row])
			s.unsafe = append(s.unsafe, t.Unsafe())
		}
	}
	return s
}

// scale is what a row is multiplied with before anything else.
func (s *samples) scale(row []float32) float32 {
	if !s.norm {
		return 1
	}
	return float32(1 / math.Sqrt(vec.Dot(row, row)/float64(len(row))+normEps))
}

// measure finds the mean and the spread of every input.
func (s *samples) measure() {
	sum, square := make([]float64, s.width), make([]float64, s.width)
	for _, row := range s.rows {
		k := s.scale(row)
		for i, x := range row {
			y := float64(k * x)
			sum[i] += y
			square[i] += y * y
		}
	}
	s.mean, s.spread = make([]float32, s.width), make([]float32, s.width)
	n := float64(max(len(s.rows), 1))
	for i := range sum {
		m := sum[i] / n
		s.mean[i] = float32(m)
		s.spread[i] = float32(math.Sqrt(max(square[i]/n-m*m, 0)))
	}
	floor := float32(meanOf(s.spread)) // an input that hardly moves must not weigh more than others
	for i := range s.spread {
		s.spread[i] = max(s.spread[i], floor, 1e-6)
	}
}

func meanOf(x []float32) float64 {
	sum := 0.0
	for _, y := range x {
		sum += float64(y)
	}
	return sum / float64(max(len(x), 1))
}

// fill writes row i as the network sees it.
func (s *samples) fill(dst []float32, i int) {
	row := s.rows[i]
	k := s.scale(row)
	for j, x := range row {
		dst[j] = (float32(k*x) - s.mean[j]) / s.spread[j]
	}
}

// shuffled is an order to visit at most n of the samples in.
func (s *samples) shuffled(r *rand.Rand, n int) []int {
	order := r.Perm(len(s.rows))
	return order[:min(n, len(order))]
}

// loss of a value v, and its slope: Huber(v - target) with a width of 1, plus
// weight times the cross-entropy of "the text failed in the end" under the
// probability 1/(1+exp(sharpness v)).
func loss(v, target float32, unsafe bool, weight float64) (sum, slope float64) {
	d := float64(v) - float64(target)
	if math.Abs(d) <= 1 {
		sum, slope = d*d/2, d
	} else {
		sum, slope = math.Abs(d)-0.5, math.Copysign(1, d)
	}
	if weight == 0 {
		return sum, slope
	}
	z := -sharpness * float64(v) // log odds of a failure
	y := 0.0
	if unsafe {
		y = 1
	}
	p := 1 / (1 + math.Exp(-z))
	sum += weight * (softplus(z) - y*z)
	return sum, slope - weight*sharpness*(p-y)
}

// sharpness makes the odds of a failure agree with V = 1 - 2p in value and
// slope where p is a half.
const sharpness = 2

// softplus is ln(1+exp(z)).
func softplus(z float64) float64 { return max(z, 0) + math.Log1p(math.Exp(-math.Abs(z))) }
