package runtime

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/runtime/engine"
)

// ErrQueueFull is returned by [Scheduler.Submit] at once when every slot is
// taken and the queue is full. Try again later.
var ErrQueueFull = errors.New("queue full")

// Scheduler runs many sessions over one engine, batched together. One
// goroutine of its own drives the engine; all methods are safe for concurrent
// use.
//
// A submission gets a slot when one is free and the cells that it may ever
// need (prompt, MaxTokens, MaxGuide, and the same for its shadow) and its
// sequences can be reserved, so a running session never meets a full cache;
// without MaxTokens that is a whole context. Until then it waits, first come first served: a
// large request at the head is not passed by small ones behind it, so it waits
// no longer than the sessions before it run.
//
// Every Forward takes one token of each running text and fills up with chunks
// of prompts, in equal shares, so a long prompt slows the others by a bounded
// amount ([Options.PrefillRows]). A reader that falls behind pauses its own
// session only. Cancelling, in whatever phase, frees the slot within one Forward.
//
// Finished sequences are kept while cells and sequences allow, and serve later
// prompts that begin with the same tokens under the same plan.
//
// A text's tokens do not depend on what it is batched with, as far as the
// engine's arithmetic does not.
type Scheduler struct {
	eng  engine.Engine
	info *engine.Info
	opt  Options // filled

	wake chan struct{} // holds one signal for the driver
	done chan struct{} // closed when the driver has returned
	halt context.CancelFunc
	hard context.Context // ended by Close

	mu       sync.Mutex
	waiting  []*Stream // first come first
	admitted []*Stream // have a slot, the driver has not seen them yet
	active   int       // slots taken
	reserved int       // cells
	closing  bool
	taken    int                // sequences
	live     int                // sessions in the Forward being computed that are not cancelled
	abandon  context.CancelFunc // of that Forward

	count counters
}

type counters struct {
	forwards, steps, prompt, cached, generated atomic.Int64
	finished, cancelled, failed, refused       atomic.Int64
	keptSequences, keptRows                    atomic.Int64
}

// Stats are counts since the start, and the state of the moment.
type Stats struct {
	Queued   int // submissions that wait for a slot
	Active   int // slots taken
	Reserved int // cells that the active sessions may need

	KeptSequences int // sequences in the prefix cache
	KeptRows      int // their rows

	Forwards        int64
	Steps           int64 // tokens decided on in all sessions
	PromptTokens    int64 // rows of prompts, fed or taken from the cache
	CachedTokens    int64 // of those, taken from the cache
	GeneratedTokens int64 // tokens of the texts that have ended

	Finished  int64 // sessions that ended by themselves
	Cancelled int64
	Failed    int64
	Refused   int64 // submissions that found the queue full
}

// NewScheduler checks the options, all faults at once, and starts. The engine
// must have no other driver until Close has returned; the scheduler does not
// close it.
func NewScheduler(e engine.Engine, o Options) (*Scheduler, error) {
	if e == nil {
		return nil, errors.New("scheduler: no engine")
	}
	info := e.Info()
	o = o.filled(info)
	if err := o.faults(info); err != nil {
		return nil, err
	}
	s := &Scheduler{eng: e, info: info, opt: o, wake: make(chan struct{}, 1), done: make(chan struct{})}
	s.hard, s.halt = context.WithCancel(context.Background())
	go newDriver(s).run()
	return s, nil
}

// Submit checks the Config and queues it, without waiting. The context covers
// the whole session: when it ends, the session is cancelled. Config.Engine may
// be nil. Errors: every fault of the Config; ErrQueueFull; ErrClosed; the
// context's. A request that can never fit wraps [engine.ErrContextFull].
func (s *Scheduler) Submit(ctx context.Context, cfg Config) (*Stream, error) {
	if cfg.Engine != nil && cfg.Engine != s.eng {
		return nil, errors.New("submit: the config names another engine")
	}
	cfg.Engine = s.eng
	cfg = cfg.filled()
	if err := cfg.faults(s.info); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("submit: %w", err)
	}
	cfg.Prompt = slices.Clone(cfg.Prompt) // the caller may use its slice again
	st := &Stream{sched: s, cfg: cfg, rows: cfg.reserve(s.info), sequences: cfg.sequences(), submitted: cfg.Now(), ready: make(chan struct{}, 1)}
	st.key = keyOf(cfg.Plan, len(cfg.Prompt)).from(cfg.PlanFrom)
	if !s.opt.NoCache {
		st.blocks = hashBlocks(cfg.Prompt)
	}
	st.ctx, st.cancel = context.WithCancel(ctx)
	if err := s.enqueue(st); err != nil {
		st.cancel()
		return nil, fmt.Errorf("submit: %w", err)
	}
	s.poke()
	return st, nil
}

// Warm feeds a text without a plan and keeps its rows for later prompts that
// begin with it; nothing is generated. Fed the prompt and the answer of a
// steered turn, it has the next turn find rows that steering never touched: see
// Config.PlanFrom. It waits and runs as a submission does, and may be cancelled:
// what was fed by then is kept.
func (s *Scheduler) Warm(ctx context.Context, text []decode.Token) (*Stream, error) {
	return s.Submit(ctx, Config{Prompt: text, MaxTokens: 1, End: []decode.Token{}, warm: true})
}

func (s *Scheduler) enqueue(st *Stream) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closing:
		return fmt.Errorf("scheduler: %w", ErrClosed)
	case len(s.waiting) == 0 && s.fits(st):
		s.admit(st)
	case len(s.waiting) < s.opt.Queue:
		s.waiting = append(s.waiting, st)
	default:
		s.count.refused.Add(1)
		return fmt.Errorf("%w: %d sessions run and %d wait", ErrQueueFull, s.active, len(s.waiting))
	}
	st.unhook = context.AfterFunc(st.ctx, func() { s.cancelled(st) })
	return nil
}

// fits, admit, leave and promote are called with mu held.
func (s *Scheduler) fits(st *Stream) bool {
	return s.active < s.opt.Slots && s.reserved+st.rows <= s.info.Cells && s.taken+st.sequences <= s.info.MaxSequences
}

func (s *Scheduler) admit(st *Stream) {
	s.active++
	s.reserved += st.rows
	s.taken += st.sequences
	s.admitted = append(s.admitted, st)
}

// leave frees the slot of a session and admits whom it makes room for.
func (s *Scheduler) leave(st *Stream) {
	s.active--
	s.reserved -= st.rows
	s.taken -= st.sequences
	s.promote()
}

// promote admits from the head of the queue.
func (s *Scheduler) promote() {
	for len(s.waiting) > 0 && s.fits(s.waiting[0]) {
		s.admit(s.waiting[0])
		s.waiting = slices.Delete(s.waiting, 0, 1)
	}
}

// cancelled runs when a session's context has ended. One that waits leaves the
// queue at once, the others are the driver's.
func (s *Scheduler) cancelled(st *Stream) {
	s.mu.Lock()
	i := slices.Index(s.waiting, st)
	if i >= 0 {
		s.waiting = slices.Delete(s.waiting, i, i+1)
	}
	if st.batched {
		st.batched = false
		if s.live--; s.live == 0 {
			s.abandon() // nobody wants this Forward any more
		}
	}
	s.promote() // the one that left may have been too large for the room there is
	s.mu.Unlock()
	if i >= 0 {
		s.never(st, fmt.Errorf("queued: %w", context.Cause(st.ctx)))
	}
	s.poke()
}

// never ends a session that was not started.
func (s *Scheduler) never(st *Stream, err error) {
	r := &Result{FinishReason: reasonOf(err), HoldBack: st.cfg.HoldBack}
	r.Usage.PromptTokens = len(st.cfg.Prompt)
	s.tally(r.FinishReason)
	st.finish(r, err)
}

func (s *Scheduler) tally(reason FinishReason) {
	switch reason {
	case FinishCancelled:
		s.count.cancelled.Add(1)
	case FinishError:
		s.count.failed.Add(1)
	default:
		s.count.finished.Add(1)
	}
}

// poke makes the driver look again.
func (s *Scheduler) poke() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Stats reports counts. It is cheap.
func (s *Scheduler) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := &s.count
	return Stats{
		Queued: len(s.waiting), Active: s.active, Reserved: s.reserved,
		KeptSequences: int(c.keptSequences.Load()), KeptRows: int(c.keptRows.Load()),
		Forwards: c.forwards.Load(), Steps: c.steps.Load(), PromptTokens: c.prompt.Load(), CachedTokens: c.cached.Load(), GeneratedTokens: c.generated.Load(),
		Finished: c.finished.Load(), Cancelled: c.cancelled.Load(), Failed: c.failed.Load(), Refused: c.refused.Load(),
	}
}

// Drain takes no more submissions, lets those it has run to their end, and
// closes. When the context ends first, the rest is cancelled, and its error is
// returned once everything is closed.
func (s *Scheduler) Drain(ctx context.Context) error {
	s.mu.Lock()
	s.closing = true
	s.mu.Unlock()
	s.poke()
	select {
	case <-s.done:
		return nil
	case <-ctx.Done():
	}
	s.halt()
	s.poke()
	<-s.done
	return fmt.Errorf("drain: %w", ctx.Err())
}

// Close cancels every session and waits until the engine is free. It may be
// called twice.
func (s *Scheduler) Close() error {
	s.halt()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = s.Drain(ctx) // says only that sessions were cancelled, which was asked for
	return nil
}
