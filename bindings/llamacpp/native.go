package llamacpp

import (
	"unsafe"

	"github.com/trimtab/trimtab/internal/vec"
	"github.com/trimtab/trimtab/steer"
)

// nativeAfter is how many Forwards in a row must share one additive plan before
// it becomes llama.cpp's own control vector. Setting that costs a new memory
// plan of the graph (milliseconds), a hooked block a few per cent of a step, so
// switching pays only for plans that stay.
const nativeAfter = 32

// restAfter is how many Forwards llama.cpp may add zeros before the control
// vector is taken out of its graph again.
const restAfter = 256

// nativeVector lowers a plan that the whole batch shares to llama.cpp's control
// vector, which is added inside the graph at no measurable cost. The result is
// the same to the bit: one product and one sum for each element.
//
// Once it is there, another shared plan is written over it in place, and zeros
// when the batch no longer shares one: that costs microseconds. Adding zeros
// changes nothing but the sign of a zero.
type nativeVector struct {
	engine *Engine
	data   []float32 // (Layers-1) rows for the blocks 1 to Layers-1
	active bool      // llama.cpp adds data
	loaded uint64    // fingerprint of the plan in data, 0 for zeros or not active
	last   uint64    // shared plan of the last Forward
	streak int       // Forwards in a row that shared it
	rest   int       // Forwards in a row that added zeros
	off    bool      // llama.cpp declined: the hook serves every plan

	tensors [maxLayers]uintptr // where llama.cpp keeps data, by block; see learn
	known   int                // how many of them are known
	scratch []float32          // one row
}

func (n *nativeVector) init(e *Engine) {
	n.engine = e
	n.data = make([]float32, (e.info.Layers-1)*e.info.Width)
	n.scratch = make([]float32, e.info.Width)
}

// loadedFor reports whether the sequence's plan is applied natively.
func (n *nativeVector) loadedFor(s *Sequence) bool {
	return n.loaded != 0 && n.loaded == s.plan.Fingerprint()
}

// choose readies the control vector for the coming Forward.
func (n *nativeVector) choose(jobs []job) {
	plan := n.shared(jobs)
	fp := plan.Fingerprint()
	if n.active && n.loaded != fp {
		if n.writable() {
			n.write(plan)
		} else {
			n.unload()
		}
	}
	if n.active && fp == 0 {
		if n.rest++; n.rest > restAfter {
			n.unload()
		}
		return
	}
	n.rest = 0
	if fp != n.last {
		n.last, n.streak = fp, 0
	}
	n.streak++
	if fp != 0 && !n.active && n.streak >= nativeAfter && !n.off {
		n.load(plan)
	}
}

// shared returns the plan that every job has and that can be lowered, or nil.
func (n *nativeVector) shared(jobs []job) *steer.Plan {
	plan := jobs[0].seq.plan
	for i := range jobs {
		if jobs[i].seq.plan.Fingerprint() != plan.Fingerprint() || !jobs[i].seq.lowerable {
			return nil
		}
	}
	return plan
}

// fill puts a plan into data; nil for zeros.
func (n *nativeVector) fill(plan *steer.Plan) {
	clear(n.data)
	for i := range plan.Len() {
		if iv := plan.At(i); iv.Scale != 0 {
			vec.AddScaled(n.row(iv.Site.Layer), iv.Scale, iv.Vector)
		}
	}
	n.loaded = plan.Fingerprint()
}

// row is what is added after a block.
func (n *nativeVector) row(layer int) []float32 {
	w := n.engine.info.Width
	return n.data[(layer-1)*w : layer*w]
}

func (n *nativeVector) load(plan *steer.Plan) {
	e := n.engine
	n.fill(plan)
	ok := call(e.lib.setAdapterCvec, e.ctx, uintptr(unsafe.Pointer(&n.data[0])), uintptr(len(n.data)),
		uintptr(e.info.Width), 1, uintptr(e.info.Layers-1))
	if n.active = int32(ok) == 0; !n.active {
		n.off, n.loaded = true, 0
	}
}

func (n *nativeVector) unload() {
	call(n.engine.lib.setAdapterCvec, n.engine.ctx, 0, 0, uintptr(n.engine.info.Width), 0, 0)
	n.active, n.loaded, n.rest, n.streak = false, 0, 0, 0
}

// lowerable reports whether llama.cpp's control vector can do all of a plan:
// one addition at most for each block, to every row alike and without schedule
// or gate, and none at block 0.
func lowerable(arch string, plan *steer.Plan) bool {
	if len(plan.Sites()) == 0 || !controlVectorArchs[arch] {
		return false
	}
	for i := range plan.Len() {
		iv := plan.At(i)
		if iv.Scale == 0 {
			continue // does exactly nothing
		}
		if iv.Op != steer.Add || iv.Renorm || !iv.Uniform() || iv.Site.Layer == 0 {
			return false
		}
		for k := range i { // sums in another order would differ in the last bit
			if other := plan.At(k); other.Scale != 0 && other.Site == iv.Site {
				return false
			}
		}
	}
	return true
}
