package llamacpp

import (
	"fmt"
	"unsafe"

	"github.com/trimtab/trimtab/steer"
)

// hook reads and edits block outputs while llama.cpp computes them. Its address
// is the evaluation callback's user data, so the gate must be its first field.
type hook struct {
	gate    gate
	slot    *slot // nil where there is no assembly
	engine  *Engine
	ubatch  int
	passes  []int32   // per block: how many micro-batches of this call it has put out
	scratch []float32 // rows fetched from a device
	frame   frame     // for calls from inside the callback, while the engine's own is in use
	err     error

	// verdicts holds for each row of the buffer which gates of its plan were
	// open. It is grown when a gated plan first comes by.
	verdicts []steer.Verdicts
}

// init needs the library's mutex.
func (h *hook) init(e *Engine) {
	h.engine = e
	h.passes = make([]int32, e.info.Layers)
	if evalGateAddr != 0 && e.sight == nil {
		h.slot = e.lib.takeSlot(h)
		h.gate.callback = h.slot.addr
	}
}

// entry is the callback and user data for llama.cpp.
func (h *hook) entry() (fn, data uintptr) {
	fn = evalGateAddr
	if fn == 0 || h.engine.sight != nil { // the assembly knows the outputs of blocks only
		fn = h.engine.lib.evalCallback
	}
	return fn, uintptr(unsafe.Pointer(h))
}

// begin opens the gate for the blocks that the buffered rows need.
func (h *hook) begin() {
	e := h.engine
	h.err = nil
	h.gate.clear()
	gated := false
	for b := range e.rows.n {
		j := &e.jobs[e.rows.job[b]]
		if len(j.seq.plan.Sites()) > 0 && !e.native.loadedFor(j.seq) {
			h.watchPlan(j, int(e.rows.row[b]))
			gated = gated || j.seq.plan.Gated()
		}
	}
	if gated {
		if len(h.verdicts) < e.rows.n {
			h.verdicts = make([]steer.Verdicts, len(e.rows.token))
		}
		clear(h.verdicts[:e.rows.n])
	}
	for i := range e.jobs {
		for k := range e.jobs[i].seq.captures {
			if c := &e.jobs[i].seq.captures[k]; c.on && !e.viaInput(c.site.Layer) {
				h.gate.watch(c.site.Layer)
			}
		}
	}
	if e.native.learning() {
		for layer := 1; layer < e.info.Layers; layer++ {
			h.gate.watch(layer)
		}
	}
	if h.gate.active != 0 {
		h.ubatch = e.info.MaxBatch
		clear(h.passes)
	}
}

// watchPlan opens the gate for the blocks where the plan edits or reads a row.
func (h *hook) watchPlan(j *job, r int) {
	plan, place := j.seq.plan, j.place(r)
	for _, site := range plan.Sites() {
		if !h.gate.watches(site.Layer) && plan.Needs(site, place) {
			h.gate.watch(site.Layer)
		}
	}
}

// end closes the gate and returns what went wrong inside the callback.
func (h *hook) end() error {
	h.gate.active = 0
	if h.err == nil {
		h.err = h.engine.sight.end(h.engine.info.Layers)
	}
	return h.err
}

// onEval is the evaluation callback where there is no assembly, and of engines
// that show attention: ask says whether
// llama.cpp wants to know if it should stop at the node, or shows its data.
// Returning false to the latter stops the computation.
func onEval(tensor uintptr, ask bool, data uintptr) (ok bool) {
	h := (*hook)(pointer(data))
	if ask {
		layer, ok := blockOutput(tensor)
		return ok && h.gate.active != 0 && h.gate.watches(layer) || h.engine.sight.wants(tensor)
	}
	return h.show(tensor)
}

// shown is what the gate calls with a node that it was asked to stop at.
func (h *hook) shown() { h.gate.goOn = uint64(word(h.show(h.gate.node))) }

// show handles a node and reports whether the computation shall go on.
func (h *hook) show(tensor uintptr) (ok bool) {
	defer func() {
		if p := recover(); p != nil { // a panic must not unwind through C
			h.err, ok = fmt.Errorf("residual hook: panic: %v", p), false
		}
	}()
	if err := h.node(tensor); err != nil {
		h.err = fmt.Errorf("residual hook: %w", err)
	}
	return h.err == nil
}

// blockOutput parses the node name "l_out-<layer>".
func blockOutput(tensor uintptr) (layer int, ok bool) {
	name := at[[16]byte](tensor, tensorName)
	if string(name[:6]) != "l_out-" {
		return 0, false
	}
	for i := 6; i < len(name) && name[i] != 0; i++ {
		if name[i] < '0' || name[i] > '9' {
			return 0, false
		}
		if layer = layer*10 + int(name[i]-'0'); layer >= maxLayers {
			return 0, false
		}
		ok = true
	}
	return layer, ok
}

// node handles one block's output for one micro-batch, or its attention.
func (h *hook) node(tensor uintptr) error {
	e := h.engine
	if e.sight.wants(tensor) {
		return e.sight.take(h, tensor)
	}
	layer, ok := blockOutput(tensor)
	if !ok || layer >= e.info.Layers {
		return fmt.Errorf("stopped at a node that is no block output")
	}
	ne, nb := at[[4]int64](tensor, tensorNe), at[[2]uint64](tensor, tensorNb)
	if at[int32](tensor, 0) != typeF32 || ne[0] != int64(e.info.Width) || ne[2] != 1 || ne[3] != 1 || nb[1] != 4*uint64(ne[0]) {
		return fmt.Errorf("block %d puts out a tensor of shape %v, want rows of %d float32", layer, ne, e.info.Width)
	}
	if e.native.learning() {
		e.native.learn(tensor, layer)
	}
	lo := int(h.passes[layer]) * h.ubatch
	hi := min(lo+h.ubatch, e.rows.n)
	h.passes[layer]++
	return h.block(tensor, layer, lo, hi, int(ne[1]))
}

// block edits and captures the rows lo to hi of the buffer at one block. The
// tensor holds all of them or, near the end of the model where llama.cpp drops
// rows nobody asked for, only the outputs among them.
func (h *hook) block(tensor uintptr, layer, lo, hi, rows int) error {
	e := h.engine
	if lo >= hi || rows == 0 {
		return nil
	}
	all := rows == hi-lo
	data, device := h.part(tensor, 0, rows*e.info.Width)
	edited, i := false, 0
	for b := lo; b < hi; b++ {
		if !all && e.rows.out[b] == 0 {
			continue
		}
		if i == rows {
			return fmt.Errorf("block %d has %d rows for more outputs", layer, rows)
		}
		row := data[i*e.info.Width : (i+1)*e.info.Width]
		edited = h.row(layer, b, row) || edited
		i++
	}
	if i != rows {
		return fmt.Errorf("block %d has %d rows, the batch %d", layer, rows, i)
	}
	if edited && device {
		h.frame.call(e.lib.tensorSet, tensor, uintptr(unsafe.Pointer(&data[0])), 0, uintptr(4*len(data)))
	}
	return nil
}

// part returns n values of a tensor behind the first from: its own memory on the
// host, a copy from a device.
func (h *hook) part(tensor uintptr, from, n int) (data []float32, device bool) {
	e := h.engine
	if buffer := at[uintptr](tensor, tensorBuffer); buffer != 0 && h.frame.call(e.lib.bufferIsHost, buffer)&0xff != 0 {
		return unsafe.Slice((*float32)(pointer(at[uintptr](tensor, tensorData)+uintptr(4*from))), n), false
	}
	h.scratch = grow(h.scratch, n)
	h.frame.call(e.lib.tensorGet, tensor, uintptr(unsafe.Pointer(&h.scratch[0])), uintptr(4*from), uintptr(4*n))
	return h.scratch, true
}

// row applies the plan of the row's sequence and records the captures.
func (h *hook) row(layer, b int, row []float32) (edited bool) {
	e := h.engine
	j, r := &e.jobs[e.rows.job[b]], int(e.rows.row[b])
	site := steer.Site{Layer: layer, Point: steer.ResidPost}
	if plan := j.seq.plan; len(plan.Sites()) > 0 && !e.native.loadedFor(j.seq) {
		var v *steer.Verdicts
		if plan.Gated() {
			v = &h.verdicts[b]
		}
		edited = plan.Edit(site, j.place(r), row, v)
	}
	for k := range j.seq.captures {
		if c := &j.seq.captures[k]; c.on && c.site == site && !e.viaInput(layer) {
			copy(c.data[r*len(row):(r+1)*len(row)], row)
		}
	}
	return edited
}
