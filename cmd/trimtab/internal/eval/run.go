package eval

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/trimtab/trimtab/steer/extract"
)

// Report is everything that was measured.
type Report struct {
	Model    string        `json:"model"`
	Hash     string        `json:"hash"`
	Backend  string        `json:"backend"`
	Layers   int           `json:"layers"`
	Width    int           `json:"width"`
	Seeds    int           `json:"seeds"`
	MaxKL    float64       `json:"max_kl"`
	Neutral  [2]int        `json:"neutral"` // prompts to choose by, and to test on
	Outcomes []*Outcome    `json:"outcomes"`
	Together []Combination `json:"together,omitempty"`
	Seconds  float64       `json:"seconds"`

	Temperature float32 `json:"temperature"`
}

// Run measures everything. The same options on the same engine give the same
// report, save for the seconds, as far as the engine's arithmetic does not
// depend on what is batched together. An error names what was being measured.
func Run(ctx context.Context, o Options) (*Report, error) {
	o = o.filled()
	if err := o.check(); err != nil {
		return nil, err
	}
	start := o.Now()
	results := make([][]*Outcome, len(o.Axes))
	r := &Report{Seeds: o.Seeds, MaxKL: o.MaxKL, Temperature: o.Temperature, Neutral: [2]int{len(o.Neutral.Choose), len(o.Neutral.Test)}}
	if err := o.workers(ctx, results, r); err != nil {
		return nil, err
	}
	for _, list := range results {
		r.Outcomes = append(r.Outcomes, list...)
	}
	r.Seconds = o.Now().Sub(start).Seconds()
	return r, nil
}

// workers share the axes, and then the combinations and the smaller fits.
func (o *Options) workers(ctx context.Context, results [][]*Outcome, r *Report) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	axes, fitted := make(chan int, len(o.Axes)), newCountdown(len(o.Axes))
	for i := range o.Axes {
		axes <- i
	}
	close(axes)
	r.Together = make([]Combination, 2*len(o.Together))
	combos := make(chan int, len(r.Together))
	for i := range r.Together {
		combos <- i
	}
	close(combos)
	var group sync.WaitGroup
	var mu sync.Mutex
	var faults []error
	for range min(o.Workers, len(o.Axes)) {
		group.Go(func() {
			err := o.work(ctx, axes, combos, results, r, fitted)
			if err != nil {
				stop(err)
				mu.Lock()
				faults = append(faults, err)
				mu.Unlock()
			}
		})
	}
	group.Wait()
	if len(faults) > 0 {
		return faults[0] // the others are its consequence
	}
	return nil
}

// work is one worker with an engine of its own.
func (o *Options) work(ctx context.Context, axes, combos <-chan int, results [][]*Outcome, r *Report, fitted *countdown) error {
	d, err := newDesk(ctx, o)
	if err != nil {
		return err
	}
	defer d.e.Close()
	for i := range axes {
		if results[i], err = d.measure(ctx, &o.Axes[i]); err != nil {
			return causeOf(ctx, err)
		}
		fitted.tick()
		if i == 0 {
			info := d.e.Info()
			r.Model, r.Hash, r.Backend, r.Layers, r.Width = info.Name, info.Hash, info.Backend, info.Layers, info.Width
		}
	}
	select {
	case <-fitted.done:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	for i := range combos {
		c, err := d.together(ctx, o.Together[i/2], []string{stacked, orthogonal}[i%2], results)
		if err != nil {
			return causeOf(ctx, fmt.Errorf("%v at once: %w", o.Together[i/2], err))
		}
		r.Together[i] = *c
	}
	return nil
}

func causeOf(ctx context.Context, err error) error {
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// together finds the behaviours and their best fits by name.
func (d *desk) together(ctx context.Context, names []string, how string, results [][]*Outcome) (*Combination, error) {
	list := make([]*Behaviour, len(names))
	outcomes := make([]*Outcome, len(names))
	for k, name := range names {
		for i := range d.o.Axes {
			for j, b := range d.o.Axes[i].behaviours() {
				if b.Name == name {
					list[k], outcomes[k] = b, results[i][j]
				}
			}
		}
	}
	return d.combine(ctx, list, bests(outcomes), how)
}

func bests(list []*Outcome) []*extract.Result {
	out := make([]*extract.Result, len(list))
	for i, o := range list {
		out[i] = o.best
	}
	return out
}

// countdown closes done at the n-th tick.
type countdown struct {
	mu   sync.Mutex
	n    int
	done chan struct{}
}

func newCountdown(n int) *countdown { return &countdown{n: n, done: make(chan struct{})} }

func (c *countdown) tick() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n--; c.n == 0 {
		close(c.done)
	}
}
