package reach

import (
	"math"
	"math/rand/v2"
	"sync"

	"github.com/trimtab/trimtab/internal/vec"
	"github.com/trimtab/trimtab/steer"
)

// network is a steer.Value while it is being trained: its parameters and
// gradients, each as one list, and the activations of one batch. Every sum runs
// in an order that depends neither on the number of goroutines nor on the
// machine, so equal seeds give equal weights.
type network struct {
	kind   steer.ValueKind
	layers []layer
	params []float32 // of all layers: weights, then biases
	grads  []float32
	crew   int // goroutines

	x    []float32   // input rows of the batch
	acts [][]float32 // outputs of each layer, rows by Out
	back [][]float32 // gradients by those
	low  []int       // facets: the least output of each row
}

type layer struct {
	in, out      int
	weight, bias []float32 // parts of params
	dw, db       []float32 // parts of grads
}

// newNetwork makes a network with widths[0] inputs and widths[last] outputs for
// batches of so many rows. Weights are drawn as He et al. (2015) do.
func newNetwork(kind steer.ValueKind, widths []int, batch, crew int, r *rand.Rand) *network {
	n := &network{kind: kind, crew: max(crew, 1), low: make([]int, batch)}
	size := 0
	for i := 1; i < len(widths); i++ {
		size += widths[i] * (widths[i-1] + 1)
	}
	n.params, n.grads = make([]float32, size), make([]float32, size)
	p, g := n.params, n.grads
	cut := func(list *[]float32, k int) []float32 {
		part := (*list)[:k:k]
		*list = (*list)[k:]
		return part
	}
	for i := 1; i < len(widths); i++ {
		in, out := widths[i-1], widths[i]
		l := layer{in: in, out: out, weight: cut(&p, in*out), bias: cut(&p, out), dw: cut(&g, in*out), db: cut(&g, out)}
		scale := math.Sqrt(2 / float64(in))
		if i == len(widths)-1 {
			scale = math.Sqrt(1 / float64(in))
		}
		for k := range l.weight {
			l.weight[k] = float32(r.NormFloat64() * scale)
		}
		n.layers = append(n.layers, l)
		n.acts = append(n.acts, make([]float32, batch*out))
		n.back = append(n.back, make([]float32, batch*out))
	}
	n.x = make([]float32, batch*widths[0])
	return n
}

// each runs do over [0,n) in as many parts as there are goroutines.
func (n *network) each(count int, do func(from, to int)) {
	crew := min(n.crew, count)
	if crew <= 1 {
		do(0, count)
		return
	}
	var wg sync.WaitGroup
	for w := range crew {
		wg.Go(func() { do(w*count/crew, (w+1)*count/crew) })
	}
	wg.Wait()
}

// forward sets v to the values of the first rows of x.
func (n *network) forward(rows int, v []float32) {
	n.each(rows, func(from, to int) {
		x, width := n.x, n.layers[0].in
		for i := range n.layers {
			l := &n.layers[i]
			y := n.acts[i]
			for r := from; r < to; r++ {
				out := y[r*l.out : (r+1)*l.out]
				vec.Dense(out, l.weight, l.bias, x[r*width:(r+1)*width])
				if i < len(n.layers)-1 {
					for k, a := range out {
						out[k] = max(a, 0)
					}
				}
			}
			x, width = y, l.out
		}
		for r := from; r < to; r++ {
			out := x[r*width : (r+1)*width]
			n.low[r] = least(out)
			v[r] = out[n.low[r]]
		}
	})
}

func least(x []float32) int {
	at := 0
	for i, y := range x {
		if y < x[at] {
			at = i
		}
	}
	return at
}

// backward sets the gradients from dv, those of the loss by the values of the
// last forward.
func (n *network) backward(rows int, dv []float32) {
	last := len(n.layers) - 1
	top := n.back[last][:rows*n.layers[last].out]
	clear(top)
	for r, g := range dv[:rows] {
		top[r*n.layers[last].out+n.low[r]] = g
	}
	for i := last; i >= 0; i-- {
		if i > 0 {
			n.through(i, rows)
		}
		n.accumulate(i, rows)
	}
}

// through takes the gradients of layer i back to its inputs.
func (n *network) through(i, rows int) {
	l, g, below, acts := &n.layers[i], n.back[i], n.back[i-1], n.acts[i-1]
	n.each(rows, func(from, to int) {
		for r := from; r < to; r++ {
			d := below[r*l.in : (r+1)*l.in]
			vec.DenseBack(d, l.weight, g[r*l.out:(r+1)*l.out])
			for k, a := range acts[r*l.in : (r+1)*l.in] {
				if a == 0 {
					d[k] = 0
				}
			}
		}
	})
}

// accumulate sums the gradients of layer i's parameters over the rows, each
// output by one goroutine.
func (n *network) accumulate(i, rows int) {
	l, g, x := &n.layers[i], n.back[i], n.x
	if i > 0 {
		x = n.acts[i-1]
	}
	n.each(l.out, func(from, to int) {
		for o := from; o < to; o++ {
			dw, db := l.dw[o*l.in:(o+1)*l.in], float32(0)
			clear(dw)
			for r := range rows {
				if k := g[r*l.out+o]; k != 0 {
					vec.AddScaled(dw, k, x[r*l.in:(r+1)*l.in])
					db += k
				}
			}
			l.db[o] = db
		}
	})
}

// value is the network as data, for inputs that were not standardised: those of
// the network are (x-mean)/spread.
func (n *network) value(norm bool, mean, spread []float32) steer.Value {
	v := steer.Value{Kind: n.kind, Norm: norm}
	for i := range n.layers {
		l := &n.layers[i]
		d := steer.Dense{In: l.in, Out: l.out, Weight: append([]float32(nil), l.weight...), Bias: append([]float32(nil), l.bias...)}
		if i == 0 {
			unstandardise(&d, mean, spread)
		}
		v.Layers = append(v.Layers, d)
	}
	return v
}

// unstandardise folds (x-mean)/spread into a layer.
func unstandardise(d *steer.Dense, mean, spread []float32) {
	for o := range d.Out {
		w, shift := d.Weight[o*d.In:(o+1)*d.In], 0.0
		for k := range w {
			w[k] /= spread[k]
			shift += float64(w[k]) * float64(mean[k])
		}
		d.Bias[o] -= float32(shift)
	}
}

// adam is AdamW (Loshchilov and Hutter 2019) over a list of parameters.
type adam struct {
	rate, decay  float64
	m, v         []float32
	power1, pow2 float64 // beta^steps
}

const beta1, beta2, adamEps = 0.9, 0.999, 1e-8

func newAdam(size int, rate, decay float64) *adam {
	return &adam{rate: rate, decay: decay, m: make([]float32, size), v: make([]float32, size), power1: 1, pow2: 1}
}

// step moves the parameters; share scales the rate.
func (a *adam) step(params, grads []float32, share float64) {
	a.power1 *= beta1
	a.pow2 *= beta2
	rate := a.rate * share
	scale := float32(rate / (1 - a.power1))
	fix := float32(1 / (1 - a.pow2))
	keep := float32(1 - rate*a.decay)
	for i, g := range grads {
		a.m[i] += float32((1 - beta1) * (g - a.m[i]))
		a.v[i] += float32((1 - beta2) * (float32(g*g) - a.v[i]))
		root := float32(math.Sqrt(float64(a.v[i] * fix)))
		params[i] = float32(keep*params[i]) - scale*a.m[i]/(root+adamEps)
	}
}
