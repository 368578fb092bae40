package extract

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/trimtab/trimtab/runtime/engine"
	"github.com/trimtab/trimtab/steer"
)

// Progress says how far a stage is.
type Progress struct {
	Stage       string // "reading states", "choosing a layer", ...
	Done, Total int
}

// keptBytes bounds the memory of rows kept for PCA and Probe.
const keptBytes = 512 << 20

// stateBytes bounds the memory of the pairs that are being read.
const stateBytes = 256 << 20

// Read runs both sides of every pair through the model and returns the moments
// of all cells: every layer with every place. The result depends on the pairs'
// order, the seed and the engine alone. Errors name the pair, counted from 0.
func Read(ctx context.Context, e engine.Engine, render Render, pairs []Pair, layers []int, places []Place, o ReadOptions) (*Moments, error) {
	l, err := newLayout(render)
	if err != nil {
		return nil, err
	}
	return read(ctx, e, l, pairs, layers, places, o)
}

// ReadOptions are the choices of [Read].
type ReadOptions struct {
	Rows     bool   // keep rows for PCA and Probe
	Seed     uint64 // of the shuffled labels
	Progress func(Progress)
}

func read(ctx context.Context, e engine.Engine, l *layout, pairs []Pair, layers []int, places []Place, o ReadOptions) (*Moments, error) {
	info := e.Info()
	cells, sites, err := grid(info, layers, places)
	if err != nil {
		return nil, err
	}
	keep := 0
	if o.Rows {
		keep = max(1, keptBytes/(8*len(cells)*info.Width))
	}
	r := &reader{layout: l, places: places, sites: sites, width: info.Width, m: NewMoments(cells, info.Width, keep)}
	d := newDriver(e, sites, engine.OutputNone)
	swap := swaps(pairs, o.Seed)
	step := max(1, min(d.lanes/2, stateBytes/(16*len(cells)*info.Width)))
	for at := 0; at < len(pairs); at += step {
		part := pairs[at:min(at+step, len(pairs))]
		if err := r.batch(ctx, d, part, at, swap[at:]); err != nil {
			return nil, err
		}
		if o.Progress != nil {
			o.Progress(Progress{"reading states", at + len(part), len(pairs)})
		}
	}
	return r.m, nil
}

func grid(info *engine.Info, layers []int, places []Place) ([]Cell, []steer.Site, error) {
	if info.Caps.Canvas {
		return nil, nil, engine.Unsupported("extraction", "a masked-diffusion model keeps no sequence")
	}
	if len(layers) == 0 || len(places) == 0 {
		return nil, nil, errors.New("no layer or no place to read at")
	}
	var cells []Cell
	var sites []steer.Site
	for _, layer := range layers {
		s := steer.Site{Layer: layer}
		if err := info.Caps.CanCapture(s); err != nil {
			return nil, nil, err
		}
		sites = append(sites, s)
		for _, p := range places {
			cells = append(cells, Cell{layer, p})
		}
	}
	return cells, sites, nil
}

// swaps exchanges the labels of exactly half of the pairs (one less for an odd
// count), those whose hash comes first: a fair coin would leave a rest of the
// true direction in the control.
func swaps(pairs []Pair, seed uint64) []bool {
	order := make([]int, len(pairs))
	keys := make([]uint64, len(pairs))
	for i := range pairs {
		order[i], keys[i] = i, hash(seed+1, fmt.Sprint(i, pairs[i].key()))
	}
	slices.SortFunc(order, func(a, b int) int {
		if keys[a] < keys[b] {
			return -1
		}
		return 1
	})
	out := make([]bool, len(pairs))
	for _, i := range order[:len(order)/2] {
		out[i] = true
	}
	return out
}

// reader collects the states of a few pairs at a time.
type reader struct {
	layout *layout
	places []Place
	sites  []steer.Site
	width  int
	m      *Moments
}

func (r *reader) batch(ctx context.Context, d *driver, pairs []Pair, first int, swap []bool) error {
	var jobs []job
	states := make([][2][][]float64, len(pairs))
	for i := range pairs {
		p := &pairs[i]
		for side, s := range p.sides() {
			states[i][side] = zeros(len(r.m.Cells), r.width)
			texts, err := r.layout.texts(s.turns, s.answer, r.places)
			if err != nil {
				return fmt.Errorf("pair %d, %s: %w", first+i, s.name, err)
			}
			for _, t := range texts {
				jobs = append(jobs, r.job(t, states[i][side]))
			}
		}
	}
	err := d.run(ctx, jobs, nil)
	if err == nil {
		err = r.shown(ctx, d.e, pairs, first, states)
	}
	if err != nil {
		return fmt.Errorf("pairs %d to %d: %w", first, first+len(pairs)-1, err)
	}
	for i := range pairs {
		if err := finite(states[i]); err != nil {
			return fmt.Errorf("pair %d: %w", first+i, err)
		}
		r.m.Add(states[i][0], states[i][1], swap[i])
	}
	return nil
}

type side struct {
	name   string
	turns  []engine.Message
	answer string
}

func (p *Pair) sides() [2]side {
	yes, no := p.ReadChosen, p.ReadRejected
	if yes == nil {
		yes = p.Turns
	}
	if no == nil {
		no = p.Turns
	}
	return [2]side{{"chosen", yes, p.Chosen}, {"rejected", no, p.Rejected}}
}

// job reads a text's spans into rows, one for every cell, as means.
func (r *reader) job(t text, rows [][]float64) job {
	see := func(seq engine.Sequence, row, n int) error {
		for si, site := range r.sites {
			x, err := seq.Activation(site)
			if err != nil {
				return err
			}
			for _, s := range t.spans {
				dst := rows[si*len(r.places)+s.place]
				for at := max(s.from, row); at < min(s.to, row+n); at++ {
					for i, v := range x[(at-row)*r.width : (at-row+1)*r.width] {
						dst[i] += float64(v) / float64(s.to-s.from)
					}
				}
			}
		}
		return nil
	}
	return job{tokens: t.tokens, prompt: len(t.tokens), from: t.from(), see: see}
}

func finite(states [2][][]float64) error {
	for _, rows := range states {
		for _, row := range rows {
			for _, x := range row {
				if math.IsNaN(x) || math.IsInf(x, 0) {
					return fmt.Errorf("the model's state is %v", x)
				}
			}
		}
	}
	return nil
}
