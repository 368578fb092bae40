package runtime

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/trimtab/trimtab/decode"
)

// Stream is the reader's end of a session that a [Scheduler] runs. Its methods
// are safe for concurrent use, but text goes to one reader only. Whoever stops
// reading before the end must call Close or end the context of Submit: an
// unread stream keeps its slot.
type Stream struct {
	sched     *Scheduler
	ctx       context.Context // of Submit, and ended by Close
	cancel    context.CancelFunc
	unhook    func() bool // of the context's AfterFunc
	cfg       Config      // filled
	rows      int         // reserved cells
	sequences int         // reserved
	submitted time.Time

	// Of the scheduler's goroutine.
	session *Session
	blocks  []uint64 // hashes of the prompt's blocks
	key     cacheKey
	share   int  // rows in the batch being built
	last    bool // they are of its last token
	batched bool // guarded by Scheduler.mu: in the batch being computed

	mu       sync.Mutex
	ready    chan struct{} // holds one signal: something below has changed
	text     []byte        // all text that has left; only ever grows
	tokens   []decode.Token
	logprobs []Logprob
	given    struct{ text, tokens int }
	discard  bool // nobody reads the text
	paused   bool // the session waits for the reader
	finished bool
	result   *Result
	err      error
	wait     time.Duration // spent in the queue
}

// Next waits for text and returns all that has left. At the end it returns
// io.EOF, or the error that ended the session. Its context bounds the wait only.
func (st *Stream) Next(ctx context.Context) (Chunk, error) {
	for {
		c, finished := st.read()
		if !c.empty() {
			return c, nil
		}
		if finished {
			if st.err != nil {
				return Chunk{}, st.err
			}
			return Chunk{}, io.EOF
		}
		select {
		case <-st.ready:
		case <-ctx.Done():
			return Chunk{}, fmt.Errorf("stream: %w", ctx.Err())
		}
	}
}

// read takes what is there.
func (st *Stream) read() (c Chunk, finished bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	text, tokens := len(st.text), len(st.tokens)
	c = Chunk{Text: st.text[st.given.text:text:text], Tokens: st.tokens[st.given.tokens:tokens:tokens]}
	if st.logprobs != nil {
		c.Logprobs = st.logprobs[st.given.tokens:tokens:tokens]
	}
	st.given.text, st.given.tokens = text, tokens
	if st.paused {
		st.paused = false
		st.sched.poke()
	}
	if st.finished {
		st.signal() // for the next call
	}
	return c, st.finished
}

// Wait drops the text that nobody has read and waits for the end. The Result
// is there even when there is an error, unless that is of ctx, which bounds
// the wait only.
func (st *Stream) Wait(ctx context.Context) (*Result, error) {
	st.mu.Lock()
	st.discard = true
	st.mu.Unlock()
	for {
		if _, finished := st.read(); finished {
			return st.result, st.err
		}
		select {
		case <-st.ready:
		case <-ctx.Done():
			return nil, fmt.Errorf("stream: %w", ctx.Err())
		}
	}
}

// Result is what was made, or nil before the end.
func (st *Stream) Result() *Result {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.result
}

// Place is the number of submissions that are served before this one: 0 when
// it has a slot or has ended.
func (st *Stream) Place() int {
	st.sched.mu.Lock()
	defer st.sched.mu.Unlock()
	for i, other := range st.sched.waiting {
		if other == st {
			return i + 1
		}
	}
	return 0
}

// Close cancels the session if it has not ended. It does not wait for that.
func (st *Stream) Close() error {
	st.cancel()
	return nil
}

func (st *Stream) signal() {
	select {
	case st.ready <- struct{}{}:
	default:
	}
}

// publish shows the reader what has left by now.
func (st *Stream) publish() {
	s := st.session
	st.mu.Lock()
	defer st.mu.Unlock()
	if len(s.text.out) == len(st.text) && s.released == len(st.tokens) {
		return
	}
	st.text, st.tokens = s.text.out, s.tokens[:s.released]
	if s.cfg.Logprobs {
		st.logprobs = s.logprobs[:s.released]
	}
	st.signal()
}

// pause reports whether the reader is so far behind that the session must wait.
func (st *Stream) pause(limit int) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.paused = !st.discard && len(st.text)-st.given.text >= limit
	return st.paused
}

// finish hands over the result. It is called once.
func (st *Stream) finish(r *Result, err error) {
	st.unhook()
	st.cancel()
	st.mu.Lock()
	defer st.mu.Unlock()
	st.result, st.err, st.finished = r, err, true
	st.signal()
}
