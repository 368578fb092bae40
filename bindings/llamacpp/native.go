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

// nativeVector lowers a plan that the whole batch shares to llama.cpp's control
// vector, which is added inside the graph at no measurable cost. The result is
// the same to the bit: one product and one sum for each element.
type nativeVector struct {
	engine *Engine
	data   []float32 // (Layers-1) rows for the blocks 1 to Layers-1
	loaded uint64    // fingerprint of the plan in llama.cpp, 0 for none
	last   uint64    // shared plan of the last Forward
	streak int
	off    bool // llama.cpp declined: the hook serves every plan
}

func (n *nativeVector) init(e *Engine) {
	n.engine = e
	n.data = make([]float32, (e.info.Layers-1)*e.info.Width)
}

// loadedFor reports whether the sequence's plan is applied natively.
func (n *nativeVector) loadedFor(s *Sequence) bool {
	return n.loaded != 0 && n.loaded == s.plan.Fingerprint()
}

// choose loads or unloads the control vector for the coming Forward.
func (n *nativeVector) choose(jobs []job) {
	plan := n.shared(jobs)
	fp := plan.Fingerprint()
	if n.loaded != 0 && n.loaded != fp {
		call(n.engine.lib.setAdapterCvec, n.engine.ctx, 0, 0, uintptr(n.engine.info.Width), 0, 0)
		n.loaded = 0
	}
	if fp != n.last {
		n.last, n.streak = fp, 0
	}
	n.streak++
	if fp != 0 && n.loaded == 0 && n.streak >= nativeAfter && !n.off {
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

func (n *nativeVector) load(plan *steer.Plan) {
	e := n.engine
	clear(n.data)
	for i := range plan.Len() {
		iv := plan.At(i)
		off := (iv.Site.Layer - 1) * e.info.Width
		if iv.Scale != 0 {
			vec.AddScaled(n.data[off:off+e.info.Width], iv.Scale, iv.Vector)
		}
	}
	ok := call(e.lib.setAdapterCvec, e.ctx, uintptr(unsafe.Pointer(&n.data[0])), uintptr(len(n.data)),
		uintptr(e.info.Width), 1, uintptr(e.info.Layers-1))
	if int32(ok) == 0 {
		n.loaded = plan.Fingerprint()
		return
	}
	n.off = true
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
