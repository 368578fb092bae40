package decode

import (
	"context"
	"errors"
	"fmt"
)

// Chain runs processors in order, as one processor. Accept and Rewind reach
// all of them or none: when one refuses, those before it are put back. The
// processors of this package share a list of the tokens still allowed, so that
// only the first truncation scans the row; the results are the same as without.
//
// A chain owns its processors and, as they, belongs to one sequence.
type Chain struct {
	procs  []Processor
	view   view
	past   history // to accept again what a failed Rewind took back
	broken error
}

// NewChain returns the chain of the given processors, which may be none. A nil
// processor is an error.
func NewChain(procs ...Processor) (*Chain, error) {
	for i, p := range procs {
		if p == nil {
			return nil, fmt.Errorf("processor %d of the chain is nil", i)
		}
	}
	return &Chain{procs: append([]Processor(nil), procs...)}, nil
}

// Len is the number of processors.
func (c *Chain) Len() int { return len(c.procs) }

// Process runs the processors over l. It stops between two of them when ctx
// ends. It allocates nothing once its scratch has grown, unless a foreign
// processor does.
func (c *Chain) Process(ctx context.Context, l Logits) error {
	c.view.reset(l)
	err := c.edit(ctx, &c.view)
	c.view.reset(nil)
	return err
}

func (c *Chain) name() string { return "chain" }

func (c *Chain) edit(ctx context.Context, v *view) error {
	if c.broken != nil {
		return c.broken
	}
	for i, p := range c.procs {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := apply(ctx, p, v); err != nil {
			return fmt.Errorf("processor %d, %s: %w", i, title(p), err)
		}
	}
	return nil
}

func apply(ctx context.Context, p Processor, v *view) error {
	if s, ok := p.(stage); ok {
		return s.edit(ctx, v)
	}
	err := p.Process(ctx, v.row)
	v.listed = false // it may have allowed tokens again
	return err
}

func title(p Processor) string {
	if s, ok := p.(stage); ok {
		return s.name()
	}
	return fmt.Sprintf("%T", p)
}

// Accept hands t to every processor. On an error none has accepted it.
func (c *Chain) Accept(t Token) error {
	if c.broken != nil {
		return c.broken
	}
	if err := checkToken(t); err != nil {
		return err
	}
	for i, p := range c.procs {
		if err := p.Accept(t); err != nil {
			err = fmt.Errorf("accept token %d: processor %d, %s: %w", t, i, title(p), err)
			return c.restore(err, i, func(p Processor) error { return p.Rewind(1) })
		}
	}
	return c.past.accept(t)
}

// Rewind takes the last n tokens back from every processor. On an error none
// has been rewound. More than [RewindLimit] tokens is an error when as many
// were accepted and dropped.
func (c *Chain) Rewind(n int) error {
	if c.broken != nil {
		return c.broken
	}
	if err := c.past.canRewind(n); err != nil {
		return err
	}
	for i, p := range c.procs {
		if err := p.Rewind(n); err != nil {
			err = fmt.Errorf("rewind %d tokens: processor %d, %s: %w", n, i, title(p), err)
			return c.restore(err, i, func(p Processor) error { return acceptAll(p, c.past.last(n)) })
		}
	}
	return c.past.rewind(n)
}

func acceptAll(p Processor, tokens []Token) error {
	for _, t := range tokens {
		if err := p.Accept(t); err != nil {
			return err
		}
	}
	return nil
}

// restore undoes a change on the first n processors. When one of them refuses
// that too, the chain has no agreed state left and answers nothing but errors.
func (c *Chain) restore(cause error, n int, undo func(Processor) error) error {
	for i, p := range c.procs[:n] {
		if err := undo(p); err != nil {
			c.broken = errors.Join(cause, fmt.Errorf("undo at processor %d, %s, leaves the chain broken: %w", i, title(p), err))
		}
	}
	if c.broken != nil {
		return c.broken
	}
	return cause
}
