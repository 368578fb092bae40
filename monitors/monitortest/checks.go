package monitortest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	goruntime "runtime"
	"sync"

	"github.com/trimtab/trimtab/monitors"
)

// walk commits and rewinds at random and compares every verdict with that of a
// fresh watcher over the tokens kept.
func walk(ctx context.Context, m monitors.Monitor, o Options) error {
	flagged := false
	for i := range uint64(o.Walks) {
		f, err := oneWalk(ctx, m, o, rand.New(rand.NewPCG(o.Seed, i)))
		if err != nil {
			return fmt.Errorf("walk %d: %w", i, err)
		}
		flagged = flagged || f
	}
	if !flagged && !o.Quiet {
		return errors.New("nothing was ever flagged: Options.Next does not draw what the monitor looks for")
	}
	return nil
}

func oneWalk(ctx context.Context, m monitors.Monitor, o Options, r *rand.Rand) (flagged bool, err error) {
	l := newLoop(m)
	var kept []Input
	for step := range o.Steps {
		if r.IntN(4) == 0 {
			n := backwards(r, len(kept))
			if err := l.rewind(n); err != nil {
				return flagged, err
			}
			kept = kept[:len(kept)-n]
		}
		in := o.Next(r)
		kept = append(kept, in)
		got, err := l.must(ctx, in)
		if err != nil {
			return flagged, fmt.Errorf("step %d, candidate %q: %w", step, in.Piece, err)
		}
		want, err := fresh(ctx, m, kept)
		if err != nil {
			return flagged, err
		}
		if w := want[len(want)-1]; got != w {
			return flagged, fmt.Errorf("step %d, %d tokens kept, candidate %q: %+v, a fresh watcher says %+v", step, len(kept)-1, in.Piece, got, w)
		}
		flagged = flagged || got.Flag
	}
	return flagged, nil
}

// backwards draws how far to rewind: mostly a little, at times everything.
func backwards(r *rand.Rand, kept int) int {
	if r.IntN(8) == 0 {
		return kept
	}
	return min(kept, r.IntN(6))
}

// texts draws two different texts.
func texts(o Options) (a, b []Input) {
	r := rand.New(rand.NewPCG(o.Seed, 1<<32))
	for range o.Steps {
		a, b = append(a, o.Next(r)), append(b, o.Next(r))
	}
	return a, b
}

// apart interleaves two watchers at random and compares each with itself alone.
func apart(ctx context.Context, m monitors.Monitor, o Options) error {
	for i := range uint64(o.Walks) {
		o.Seed += i
		if err := interleave(ctx, m, o); err != nil {
			return fmt.Errorf("pair %d: %w", i, err)
		}
	}
	return nil
}

func interleave(ctx context.Context, m monitors.Monitor, o Options) error {
	a, b := texts(o)
	both := [2][]Input{a, b}
	var want [2][]monitors.Verdict
	var err error
	for k := range both {
		if want[k], err = fresh(ctx, m, both[k]); err != nil {
			return err
		}
	}
	r := rand.New(rand.NewPCG(o.Seed, 1<<33))
	loops := [2]*loop{newLoop(m), newLoop(m)}
	for loops[0].n < len(a) || loops[1].n < len(b) {
		k := r.IntN(2)
		l := loops[k]
		if l.n == len(both[k]) {
			continue
		}
		i := l.n
		got, err := l.must(ctx, both[k][i])
		if err != nil {
			return fmt.Errorf("watcher %d, candidate %d: %w", k, i, err)
		}
		if got != want[k][i] {
			return fmt.Errorf("watcher %d, candidate %d: %+v beside another watcher, %+v alone", k, i, got, want[k][i])
		}
	}
	return nil
}

// together runs watchers at the same time; the race detector does the rest.
func together(ctx context.Context, m monitors.Monitor, o Options) error {
	a, b := texts(o)
	both := [2][]Input{a, b}
	var want [2][]monitors.Verdict
	for k := range both {
		var err error
		if want[k], err = fresh(ctx, m, both[k]); err != nil {
			return err
		}
	}
	var wg sync.WaitGroup
	errs := make([]error, 4)
	for i := range errs {
		wg.Go(func() {
			defer func() {
				if p := recover(); p != nil {
					errs[i] = fmt.Errorf("watcher %d: panic: %v", i, p)
				}
			}()
			got, err := fresh(ctx, m, both[i%2])
			if err != nil {
				errs[i] = err
				return
			}
			for at, v := range got {
				if v != want[i%2][at] {
					errs[i] = fmt.Errorf("watcher %d, candidate %d: %+v beside others, %+v alone", i, at, v, want[i%2][at])
					return
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// faults shows what must be refused, and asks for rewinds that cannot be.
func faults(ctx context.Context, m monitors.Monitor, o Options) error {
	text, _ := texts(o)
	want, err := fresh(ctx, m, text)
	if err != nil {
		return err
	}
	for i, bad := range o.Bad {
		for _, at := range []int{0, len(text) / 2} {
			do := func(l *loop) (error, error) {
				_, err, broken := l.observe(ctx, bad)
				return err, broken
			}
			if err := afterFault(ctx, m, text, want, at, do); err != nil {
				return fmt.Errorf("bad candidate %d behind %d tokens: %w", i, at, err)
			}
		}
	}
	at := len(text) / 2
	for _, n := range []int{-1, at + 1, math.MaxInt} {
		do := func(l *loop) (error, error) { return l.w.Rewind(n), nil }
		if err := afterFault(ctx, m, text, want, at, do); err != nil {
			return fmt.Errorf("rewind by %d of %d tokens: %w", n, at, err)
		}
	}
	return nil
}

// afterFault does something that must fail behind a part of the text. From then
// on the watcher either fails for good or answers as if nothing had been.
func afterFault(ctx context.Context, m monitors.Monitor, text []Input, want []monitors.Verdict, at int, do func(*loop) (error, error)) error {
	l := newLoop(m)
	for _, in := range text[:at] {
		if _, err := l.must(ctx, in); err != nil {
			return err
		}
	}
	if err, broken := do(l); err == nil || broken != nil {
		return fmt.Errorf("no error, or a broken promise: %v, %v", err, broken)
	}
	final := false
	for i := at; i < len(text); i++ {
		v, err, broken := l.observe(ctx, text[i])
		switch {
		case broken != nil:
			return fmt.Errorf("candidate %d afterwards: %w", i, broken)
		case err != nil && i == at:
			final = true
		case (err != nil) != final:
			return fmt.Errorf("candidate %d afterwards: %v, though it answered otherwise before: an error is final or it is not", i, err)
		case !final && v != want[i]:
			return fmt.Errorf("candidate %d afterwards: %+v, without the fault %+v", i, v, want[i])
		}
	}
	return nil
}

// Sizes of the memory check: long enough that what a token costs stands out
// from what the test itself allocates.
const (
	memoryTokens = 3000
	memoryTurns  = 3000
	memorySlack  = 1 << 20 // bytes
)

// memory measures what a long text costs, and what going back and forth does.
func memory(ctx context.Context, m monitors.Monitor, o Options) error {
	r := rand.New(rand.NewPCG(o.Seed, 1<<34))
	pool := make([]Input, 64)
	for i := range pool {
		pool[i] = o.Next(r)
	}
	l := newLoop(m)
	before := heap()
	for i := range memoryTokens {
		if _, err := l.must(ctx, pool[i%len(pool)]); err != nil {
			return fmt.Errorf("candidate %d: %w", i, err)
		}
	}
	grown := heap() - before
	if limit := int64(memoryTokens*o.BytesPerToken) + memorySlack; grown > limit {
		return fmt.Errorf("%d tokens took %d bytes, the limit is %d", memoryTokens, grown, limit)
	}
	before = heap()
	for i := range memoryTurns {
		n := 1 + i%3
		if err := l.rewind(n); err != nil {
			return err
		}
		for k := range n {
			if _, err := l.must(ctx, pool[(i+k)%len(pool)]); err != nil {
				return err
			}
		}
	}
	if grown := heap() - before; grown > memorySlack {
		return fmt.Errorf("%d rewinds and as many tokens again took %d bytes, the limit is %d", memoryTurns, grown, memorySlack)
	}
	goruntime.KeepAlive(l)
	return nil
}

// heap is what is in use after a collection, in bytes.
func heap() int64 {
	goruntime.GC()
	var s goruntime.MemStats
	goruntime.ReadMemStats(&s)
	return int64(s.HeapAlloc)
}
