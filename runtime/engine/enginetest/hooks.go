package enginetest

import (
	"context"
	"time"

	"github.com/trimtab/trimtab/runtime/engine"
)

// Hooks make a Fake slow or faulty. All of them act inside Forward, before
// anything is appended, except RowDelay.
type Hooks struct {
	Delay    time.Duration // slows every Forward
	RowDelay time.Duration // slows every row
	// Before runs at the start of the n-th Forward, counted from 1. It may
	// block, panic, or return an error, which Forward then returns with
	// nothing appended.
	Before func(ctx context.Context, n int, feeds []engine.Feed) error
}

// FailAt is a Before hook that fails the n-th Forward with err.
func FailAt(n int, err error) func(context.Context, int, []engine.Feed) error {
	return func(_ context.Context, at int, _ []engine.Feed) error {
		if at == n {
			return err
		}
		return nil
	}
}

// PanicAt is a Before hook that panics in the n-th Forward.
func PanicAt(n int, with any) func(context.Context, int, []engine.Feed) error {
	return func(_ context.Context, at int, _ []engine.Feed) error {
		if at == n {
			panic(with)
		}
		return nil
	}
}

// BlockAt is a Before hook that holds up the n-th Forward until release is
// closed or the context ends. It sends on entered, if not nil, when it begins.
func BlockAt(n int, entered chan<- struct{}, release <-chan struct{}) func(context.Context, int, []engine.Feed) error {
	return func(ctx context.Context, at int, _ []engine.Feed) error {
		if at != n {
			return nil
		}
		if entered != nil {
			entered <- struct{}{}
		}
		select {
		case <-release:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (f *Fake) hooks(ctx context.Context, n int, feeds []engine.Feed) error {
	if h := f.cfg.Hooks.Before; h != nil {
		if err := h(ctx, n, feeds); err != nil {
			return err
		}
	}
	d := f.cfg.Hooks.Delay
	if d <= 0 {
		return nil
	}
	if f.cfg.NoInterrupt {
		time.Sleep(d)
		return nil
	}
	return sleep(ctx, d)
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
