// Package monitortest judges monitors.
//
// The model for the reader's head is a contract with two kinds of evidence.
// [Run] feeds a monitor random texts, as a step loop would that is as unkind as
// the contract of package monitors allows, and finds what no table of cases
// would: state that a rewind leaves behind, a slice kept for later, two
// watchers that share something. [Golden] compares a monitor's opinion of
// written texts with what a file says it should be.
package monitortest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/monitors"
	"github.com/trimtab/trimtab/steer"
)

// Input is what a watcher is shown of one candidate. The checks copy it before
// use and never change it.
type Input struct {
	Token  decode.Token
	Piece  []byte
	Raw    decode.Logits
	Logits decode.Logits            // nil means equal to Raw
	Rows   map[steer.Site][]float32 // activations by site; a site that is not here is an error
}

// Options adjust [Run] to a monitor.
type Options struct {
	// Next draws a candidate. It should draw what the monitor looks for often,
	// and near misses too: a monitor that never flags is not tested. It must
	// depend on r alone.
	Next func(r *rand.Rand) Input
	// Bad are candidates that Observe must refuse with an error.
	Bad []Input
	// Seed drives every random choice; 0 takes a random one. It is in every
	// fault that is reported.
	Seed uint64
	// Walks is the number of random walks, each of Steps candidates. Default
	// 30 of 60.
	Walks, Steps int
	// BytesPerToken bounds the memory that a watcher may take for a token that
	// was not rewound. Default 512.
	BytesPerToken int
	// Quiet allows a monitor that flags nothing of what Next draws.
	Quiet bool
}

// Bounds of Options, so that a slip does not hang a test.
const (
	maxWalks = 10_000
	maxSteps = 10_000
)

func (o Options) filled() (Options, error) {
	if o.Next == nil {
		return o, errors.New("monitortest: Options.Next is nil")
	}
	if o.Seed == 0 {
		o.Seed = rand.Uint64()
	}
	if o.Walks <= 0 {
		o.Walks = 30
	}
	if o.Steps <= 0 {
		o.Steps = 60
	}
	if o.BytesPerToken <= 0 {
		o.BytesPerToken = 512
	}
	o.Walks, o.Steps = min(o.Walks, maxWalks), min(o.Steps, maxSteps)
	return o, nil
}

// Run checks a monitor against the contract of package monitors, one subtest
// for each of [Checks].
func Run(t *testing.T, m monitors.Monitor, o Options) {
	t.Helper()
	o, err := o.filled()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range Checks() {
		t.Run(c.Name, func(t *testing.T) {
			if err := c.Do(t.Context(), m, o); err != nil {
				t.Errorf("%s, seed %d: %v", c.Doc, o.Seed, err)
			}
		})
	}
}

// A Check is one promise of a monitor.
type Check struct {
	Name string
	Doc  string
	run  func(context.Context, monitors.Monitor, Options) error
}

// Do runs the check and returns the first fault found. A panic is a fault.
func (c Check) Do(ctx context.Context, m monitors.Monitor, o Options) (err error) {
	if o, err = o.filled(); err != nil {
		return err
	}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return c.run(ctx, m, o)
}

// Checks lists the promises.
func Checks() []Check {
	return []Check{
		{"describe", "a monitor has a name, a sentence and watchers", describe},
		{"walk", "after any commits and rewinds a watcher answers as a fresh one", walk},
		{"apart", "watchers of one monitor share nothing", apart},
		{"together", "watchers of one monitor may run at the same time", together},
		{"errors", "an error leaves a watcher usable or is final", faults},
		{"memory", "memory is bounded by the tokens kept", memory},
	}
}

func describe(_ context.Context, m monitors.Monitor, _ Options) error {
	switch {
	case m.Name == "":
		return errors.New("Name is empty")
	case m.Doc == "":
		return errors.New("Doc is empty")
	case m.Start == nil:
		return errors.New("Start is nil")
	}
	a, b := m.Start(), m.Start()
	if a == nil || b == nil {
		return errors.New("Start returned no watcher")
	}
	return nil
}
