package llamacpp

import (
	"fmt"
	"unsafe"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/runtime/engine"
)

// Bare is llama_decode and an argmax with nothing around them: the yardstick of
// "trimtab bench". It has its own context on an engine's model, without
// callbacks, so both can be timed in turn in one process. Not for concurrent
// use; close it before the engine.
type Bare struct {
	lib         *Library
	ctx, memory uintptr
	vocab, size int
	rows        rowBuffer
	frame       frame
}

// Bare opens a bare context with the same sizes, threads and cache type as the
// engine's own.
func (e *Engine) Bare() (*Bare, error) {
	if e.closed {
		return nil, engine.ErrClosed
	}
	p := e.params
	p.cbEval, p.cbEvalData, p.abort, p.abortData = 0, 0, 0, 0
	b := &Bare{lib: e.lib, vocab: e.info.Vocab, size: e.batchRows}
	b.ctx = callWithStruct(e.lib.initFromModel, e.model, unsafe.Pointer(&p), contextParamsWords)
	if b.ctx == 0 {
		return nil, fmt.Errorf("bare context: %s", orUnknown(e.lib.log.take()))
	}
	b.memory = call(e.lib.getMemory, b.ctx)
	b.rows.init(b.size)
	b.rows.reset(false)
	return b, nil
}

// Reset empties every sequence.
func (b *Bare) Reset() { b.frame.call(b.lib.memoryClear, b.memory, 0) }

// Prefill appends tokens to sequence seq from position start and returns the
// likeliest next token.
func (b *Bare) Prefill(seq, start int, tokens []decode.Token) (decode.Token, error) {
	for len(tokens) > 0 {
		n := min(len(tokens), b.size)
		for i, t := range tokens[:n] {
			b.set(i, t, start+i, seq, i == len(tokens)-1)
		}
		if err := b.decode(n); err != nil {
			return 0, err
		}
		tokens, start = tokens[n:], start+n
	}
	return b.argmax(0), nil
}

// Start appends prompts[i] to the empty sequence i, all in one batch, and
// writes the likeliest next token of each to next.
func (b *Bare) Start(prompts [][]decode.Token, next []decode.Token) error {
	n := 0
	for i, p := range prompts {
		for k, t := range p {
			if n == b.size {
				return fmt.Errorf("prompts of more than %d tokens together", b.size)
			}
			b.set(n, t, k, i, k == len(p)-1)
			n++
		}
	}
	if err := b.decode(n); err != nil {
		return err
	}
	for i := range prompts {
		next[i] = b.argmax(i)
	}
	return nil
}

// Step appends tokens[i] to sequence i at position pos, all in one batch, and
// replaces it by the likeliest next token.
func (b *Bare) Step(pos int, tokens []decode.Token) error {
	for i, t := range tokens {
		b.set(i, t, pos, i, true)
	}
	if err := b.decode(len(tokens)); err != nil {
		return err
	}
	for i := range tokens {
		tokens[i] = b.argmax(i)
	}
	return nil
}

func (b *Bare) set(i int, t decode.Token, pos, seq int, out bool) {
	r := &b.rows
	r.token[i], r.pos[i], r.seq[i], r.out[i] = t, int32(pos), int32(seq), int8(word(out))
}

func (b *Bare) decode(n int) error {
	b.rows.batch.nTokens = int32(n)
	if rc := int32(b.frame.withStruct(b.lib.decode, b.ctx, unsafe.Pointer(&b.rows.batch), batchWords)); rc != 0 {
		return fmt.Errorf("llama_decode returned %d: %s", rc, b.lib.log.take())
	}
	return nil
}

// argmax returns the likeliest token of output row i. llama_get_logits waits
// for the computation.
func (b *Bare) argmax(i int) decode.Token {
	base := b.frame.call(b.lib.getLogits, b.ctx)
	row := unsafe.Slice((*float32)(unsafe.Add(pointer(base), 4*i*b.vocab)), b.vocab)
	best := 0
	for t, x := range row {
		if x > row[best] {
			best = t
		}
	}
	return decode.Token(best)
}

// Close frees the context.
func (b *Bare) Close() {
	call(b.lib.free, b.ctx)
}
