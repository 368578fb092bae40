package runtime

import "sync"

// crew advances the sessions of a batch, several at once when it has workers.
// Advancing does not touch the engine.
type crew struct {
	jobs chan *Stream // nil without workers
	busy sync.WaitGroup
	gone sync.WaitGroup
}

func newCrew(n int) *crew {
	c := &crew{}
	if n < 2 {
		return c
	}
	c.jobs = make(chan *Stream)
	for range n {
		c.gone.Go(func() {
			for st := range c.jobs {
				st.advance()
				c.busy.Done()
			}
		})
	}
	return c
}

// advance returns when every session has taken its step.
func (c *crew) advance(list []*Stream) {
	if c.jobs == nil || len(list) < 2 {
		for _, st := range list {
			st.advance()
		}
		return
	}
	c.busy.Add(len(list))
	for _, st := range list {
		c.jobs <- st
	}
	c.busy.Wait()
}

// close waits until the workers are gone.
func (c *crew) close() {
	if c.jobs != nil {
		close(c.jobs)
	}
	c.gone.Wait()
}

// advance takes the step of one session and shows its reader what left.
func (st *Stream) advance() {
	if err := st.session.advance(st.ctx); err != nil {
		st.session.fail(st.ctx, err)
	}
	if !st.session.done {
		st.publish()
	}
}
