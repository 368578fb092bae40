package llamacpp

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/trimtab/trimtab/runtime/engine"
)

// AttendRows is the most rows of one Attend, over all feeds: the weights of
// every row over every cell are kept until it returns.
const AttendRows = 64

// CanAttend reports whether Attend works, as nil or an error wrapping
// engine.ErrUnsupported. It is safe for concurrent use.
func (e *Engine) CanAttend() error {
	switch {
	case e.sight == nil:
		return engine.Unsupported("attention", "the engine was opened without Options.Attention")
	case !e.plain || e.canvas:
		return engine.Unsupported("attention", "only models that cache a key for every token have rows of it")
	case e.sight.windowed && e.info.MaxSequences > 1:
		// Blocks with a window have a cache of their own, which may place rows
		// in other cells as soon as a second sequence leaves holes.
		return engine.Unsupported("attention", "a model with a sliding window shows it with Options.MaxSequences 1 only")
	}
	return nil
}

// Attend is Forward that also shows where each row looked. Afterwards it calls
// see for every row, feed by feed, with the row's attention averaged over the
// heads and the last blocks: one weight for each place that the row may look at
// in one of these blocks, its own included, in no order that means anything.
// They sum to 1, or to less where the model lets heads look at nothing. The
// slice is valid during the call only. see must not call the engine.
//
// The feeds must be of tokens, at most AttendRows and Info.MaxBatch of them.
// Nothing is shown, and nothing was fed, after an error. Reading costs the CPU
// one addition for each row, cell, head and block, and a GPU a copy of the
// tables as well.
func (e *Engine) Attend(ctx context.Context, feeds []engine.Feed, blocks int, see func(feed, row int, weights []float32)) error {
	if err := e.mayAttend(feeds, blocks); err != nil {
		return fmt.Errorf("attend: %w", err)
	}
	s := e.sight
	s.begin(e.info.Layers - blocks)
	err := e.Forward(ctx, feeds)
	s.on = false
	if err != nil {
		return err
	}
	for b := range e.rows.n {
		see(int(e.rows.job[b]), int(e.rows.row[b]), s.row(b))
	}
	return nil
}

func (e *Engine) mayAttend(feeds []engine.Feed, blocks int) error {
	if e.closed {
		return engine.ErrClosed
	}
	if err := e.CanAttend(); err != nil {
		return err
	}
	if blocks < 1 || blocks > e.info.Layers {
		return fmt.Errorf("the last %d blocks of a model of %d", blocks, e.info.Layers)
	}
	rows := 0
	for i := range feeds {
		if feeds[i].Embeddings != nil {
			return fmt.Errorf("feed %d: %w", i, engine.Unsupported("attention of embeddings", "only tokens are fed"))
		}
		rows += len(feeds[i].Tokens)
	}
	if most := min(AttendRows, e.info.MaxBatch, e.batchRows); rows > most {
		return fmt.Errorf("%d rows, the limit is %d", rows, most)
	}
	return nil
}

// sight gathers the attention of the rows in the buffer while llama.cpp
// computes them.
type sight struct {
	windowed bool // some blocks see the last tokens only

	on    bool // Attend runs
	first int  // block

	seen   int // blocks that were shown
	cells  int // of the cache that a row is laid over
	weight []float32
	open   []bool // cells that a row may look at in one of the blocks
	given  []float32
}

func (s *sight) begin(first int) { s.on, s.first, s.seen = true, first, 0 }

// wants reports whether the node is a table of weights that is to be shown.
func (s *sight) wants(tensor uintptr) bool {
	if s == nil || !s.on {
		return false
	}
	block, ok := attentionOf(tensor)
	return ok && block >= s.first
}

const attentionName = "kq_soft_max-"

// attentionOf parses the node name "kq_soft_max-<block>".
func attentionOf(tensor uintptr) (block int, ok bool) {
	name := at[[20]byte](tensor, tensorName)
	if string(name[:len(attentionName)]) != attentionName {
		return 0, false
	}
	for i := len(attentionName); i < len(name) && name[i] != 0; i++ {
		if name[i] < '0' || name[i] > '9' {
			return 0, false
		}
		if block = block*10 + int(name[i]-'0'); block >= maxLayers {
			return 0, false
		}
		ok = true
	}
	return block, ok
}

// take adds one block's table: cells times rows times heads, and the mask over
// cells times rows that made it.
func (s *sight) take(h *hook, tensor uintptr) error {
	rows, ne := h.engine.rows.n, at[[4]int64](tensor, tensorNe)
	cells, heads := int(ne[0]), int(ne[2])
	mask := at[uintptr](tensor, tensorSrc+8)
	if mask == 0 || int(ne[1]) != rows || ne[3] != 1 || heads < 1 || !dense(tensor, ne) {
		return fmt.Errorf("attention is a table of shape %v with the mask %#x, want %d rows", ne, mask, rows)
	}
	if s.seen == 0 {
		s.cells = cells
		s.weight, s.open = grow(s.weight, rows*cells), growBools(s.open, rows*cells)
		clear(s.weight)
		clear(s.open)
	}
	if cells != s.cells {
		return fmt.Errorf("attention over %d cells, over %d in the block before", cells, s.cells)
	}
	if err := s.look(h, mask, rows); err != nil {
		return err
	}
	s.seen++
	share := 1 / float32(heads)
	for head := range heads {
		data, _ := h.part(tensor, head*rows*cells, rows*cells)
		weight := s.weight[:len(data)]
		for i, w := range data {
			weight[i] += share * w
		}
	}
	return nil
}

// dense reports whether a tensor is float32 without gaps.
func dense(tensor uintptr, ne [4]int64) bool {
	nb := at[[4]uint64](tensor, tensorNb)
	return at[int32](tensor, 0) == typeF32 && nb[0] == 4 && nb[1] == 4*uint64(ne[0]) && nb[2] == nb[1]*uint64(ne[1])
}

var errPlaces = errors.New("two blocks see different cells of a model without a sliding window")

// look notes which cells the rows may look at: the others have minus infinity
// in the mask.
func (s *sight) look(h *hook, mask uintptr, rows int) error {
	ne := at[[4]int64](mask, tensorNe)
	if !dense(mask, ne) || int(ne[0]) != s.cells || int(ne[1]) < rows || ne[2] != 1 || ne[3] != 1 {
		return fmt.Errorf("the mask of the attention has the shape %v, want %d cells and %d rows of float32", ne, s.cells, rows)
	}
	hidden := float32(math.Inf(-1))
	data, _ := h.part(mask, 0, rows*s.cells)
	for i, x := range data {
		open := x != hidden
		if s.seen > 0 && open != s.open[i] && !s.windowed {
			return errPlaces
		}
		s.open[i] = s.open[i] || open
	}
	return nil
}

// end reports what the computation did not show.
func (s *sight) end(blocks int) error {
	if s == nil || !s.on || s.seen == blocks-s.first {
		return nil
	}
	return engine.Unsupported("attention", fmt.Sprintf("the model showed that of %d blocks among the last %d", s.seen, blocks-s.first))
}

// row collects the weights that row b gave the cells it may look at.
func (s *sight) row(b int) []float32 {
	s.given = s.given[:0]
	share := 1 / float32(s.seen)
	for i := b * s.cells; i < (b+1)*s.cells; i++ {
		if s.open[i] {
			s.given = append(s.given, share*s.weight[i])
		}
	}
	return s.given
}

func growBools(s []bool, n int) []bool {
	if cap(s) < n {
		return make([]bool, n)
	}
	return s[:n]
}
