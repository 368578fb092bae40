package llamacpp

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"github.com/cespare/xxhash/v2"

	"github.com/trimtab/trimtab/runtime/engine"
)

var _ engine.Engine = (*Engine)(nil)

// Engine is one model in one llama.cpp context. It follows the concurrency
// rule of engine.Engine: one driver at a time.
type Engine struct {
	lib                       *Library
	model, vocab, ctx, memory uintptr
	info                      engine.Info
	tokenizer                 *tokenizer
	params                    contextParams
	canvas                    bool // every feed is a whole text, nothing is cached
	plain                     bool // an attention-only model: rows keep their order, rewind is exact
	batchRows                 int  // rows that one llama_decode call takes
	stop                      [2]byte
	closed                    bool

	slots  []*Sequence // by llama.cpp's sequence id
	epoch  uint64      // counts Forwards: results of older ones are invalid
	jobs   []job
	frame  frame
	rows   rowBuffer
	hook   hook
	sight  *sight // nil unless Options.Attention
	pool   pool
	native nativeVector
	inputs []bool // blocks whose input llama.cpp was told to keep
}

// Info describes the model. It is safe for concurrent use.
func (e *Engine) Info() *engine.Info { return &e.info }

// allocate makes the buffers that every Forward uses.
func (e *Engine) allocate() {
	e.slots = make([]*Sequence, e.info.MaxSequences)
	e.inputs = make([]bool, e.info.Layers+1)
	e.rows.init(e.batchRows)
	e.native.init(e)
}

// NewSequence opens a sequence; see engine.Engine. A fork shares the cached
// rows of its origin and costs microseconds.
func (e *Engine) NewSequence(ctx context.Context, from engine.Origin) (engine.Sequence, error) {
	s, err := e.open(ctx, from)
	if err != nil {
		return nil, fmt.Errorf("new sequence: %w", err)
	}
	return s, nil
}

func (e *Engine) open(ctx context.Context, from engine.Origin) (*Sequence, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if e.closed {
		return nil, engine.ErrClosed
	}
	if from.Fork != nil && from.Saved != nil {
		return nil, errors.New("an origin is a fork or saved bytes, not both")
	}
	id := e.freeSlot()
	if id < 0 {
		return nil, fmt.Errorf("%w: all %d are open", engine.ErrNoSequence, len(e.slots))
	}
	s := &Sequence{engine: e, id: id}
	var err error
	switch {
	case from.Fork != nil:
		err = e.fork(s, from)
	case from.Saved != nil:
		err = e.restore(s, from.Saved)
	case from.Len != 0:
		err = errors.New("an origin with a length needs a sequence to fork")
	}
	if err != nil {
		return nil, err
	}
	e.slots[id] = s
	return s, nil
}

func (e *Engine) freeSlot() int {
	for id, s := range e.slots {
		if s == nil {
			return id
		}
	}
	return -1
}

func (e *Engine) fork(s *Sequence, from engine.Origin) error {
	src, err := e.own(from.Fork)
	if err != nil {
		return err
	}
	if !e.info.Caps.Fork {
		return engine.Unsupported("fork", "a recurrent state cannot be split, a canvas model has none")
	}
	if from.Len <= 0 || from.Len > src.len {
		return fmt.Errorf("fork of %d rows from a sequence of %d", from.Len, src.len)
	}
	call(e.lib.memorySeqCp, e.memory, uintptr(src.id), uintptr(s.id), 0, uintptr(from.Len))
	s.len = from.Len
	return nil
}

// own returns the engine's own type for a sequence that is open here.
func (e *Engine) own(seq engine.Sequence) (*Sequence, error) {
	s, ok := seq.(*Sequence)
	if !ok || s == nil || s.engine != e {
		return nil, errors.New("the sequence belongs to another engine")
	}
	if s.closed || e.closed {
		return nil, fmt.Errorf("sequence: %w", engine.ErrClosed)
	}
	return s, nil
}

// Saved bytes: magic, model hash, rows, llama.cpp's own bytes, and a checksum
// over all of it, since llama.cpp does not survive every kind of damage.
const savedMagic = "trimtab1"

// Save returns the sequence's state; see engine.Engine.
func (e *Engine) Save(seq engine.Sequence) ([]byte, error) {
	s, err := e.own(seq)
	if err != nil {
		return nil, fmt.Errorf("save: %w", err)
	}
	if !e.info.Caps.Save {
		return nil, engine.Unsupported("save", "a canvas model caches nothing")
	}
	size := call(e.lib.stateSeqGetSize, e.ctx, uintptr(s.id))
	head := e.savedHead(s.len)
	out := make([]byte, len(head)+int(size)+8)
	copy(out, head)
	body := out[len(head) : len(head)+int(size)]
	if got := call(e.lib.stateSeqGetData, e.ctx, uintptr(unsafe.Pointer(unsafe.SliceData(body))), size, uintptr(s.id)); got != size {
		return nil, fmt.Errorf("save: llama.cpp wrote %d of %d bytes: %s", got, size, e.lib.log.take())
	}
	binary.LittleEndian.PutUint64(out[len(out)-8:], xxhash.Sum64(out[:len(out)-8]))
	return out, nil
}

func (e *Engine) savedHead(rows int) []byte {
	h := append([]byte(savedMagic), fmt.Sprintf("%s %s %d %d %d\n", e.lib.text, e.info.Hash, e.info.Cells, e.params.typeK, e.params.flashAttn)...)
	return binary.LittleEndian.AppendUint64(h, uint64(rows))
}

func (e *Engine) restore(s *Sequence, saved []byte) error {
	if !e.info.Caps.Save {
		return engine.Unsupported("restore", "a canvas model caches nothing")
	}
	head := e.savedHead(0)
	fixed := len(head) - 8
	if len(saved) < len(head)+8 || !bytes.HasPrefix(saved, []byte(savedMagic)) {
		return errors.New("restore: these are not saved sequence bytes")
	}
	if !bytes.Equal(saved[:fixed], head[:fixed]) {
		return errors.New("restore: the bytes were saved by another model or engine version, or with another context size, cache type or attention")
	}
	if binary.LittleEndian.Uint64(saved[len(saved)-8:]) != xxhash.Sum64(saved[:len(saved)-8]) {
		return errors.New("restore: the bytes are damaged (checksum)")
	}
	rows := binary.LittleEndian.Uint64(saved[fixed:])
	if rows > uint64(e.info.Context) {
		return fmt.Errorf("restore %d rows: %w", rows, engine.ErrContextFull)
	}
	s.len = int(rows)
	if rows == 0 {
		return nil
	}
	body := saved[len(head) : len(saved)-8]
	if call(e.lib.stateSeqSetData, e.ctx, uintptr(unsafe.Pointer(unsafe.SliceData(body))), uintptr(len(body)), uintptr(s.id)) == 0 {
		call(e.lib.memorySeqRm, e.memory, uintptr(s.id), 0, minusOne)
		return fmt.Errorf("restore %d rows: %w: %s", rows, engine.ErrContextFull, e.lib.log.take())
	}
	return nil
}

// minusOne is the C int -1 as an argument word.
const minusOne = ^uintptr(0)

// Close frees the context and the model. It may be called twice.
func (e *Engine) Close() error {
	if e.closed {
		return nil
	}
	e.closed = true
	for _, s := range e.slots {
		if s != nil {
			s.closed = true
		}
	}
	e.tokenizer.close()
	call(e.lib.free, e.ctx)
	e.pool.close()
	call(e.lib.modelFree, e.model)
	e.lib.mu.Lock()
	e.lib.leaveSlot(e.hook.slot)
	e.lib.mu.Unlock()
	runtime.KeepAlive(e) // C held the address of the hook's gate until here
	return nil
}
