package llamacpp

import (
	"unsafe"

	"github.com/trimtab/trimtab/steer"
)

// learning reports that the places of the control vector are not known yet.
// llama.cpp makes them once for each context, so one look at every block's
// output, right after the first load, shows them all.
func (n *nativeVector) learning() bool { return n.active && n.known >= 0 && !n.writable() }

// writable reports that all places are known.
func (n *nativeVector) writable() bool { return n.known == n.engine.info.Layers-1 }

// unknowable means that the graph does not look as expected: the control vector
// is then set through llama.cpp alone.
const unknowable = -1

// learn looks at a block's output while llama.cpp adds the vector: it is a sum,
// and the second term is the block's part of the vector. What lies there must be
// what was loaded. A copy that the scheduler made for another device is not it:
// only the original goes by the name of a leaf of the graph.
func (n *nativeVector) learn(tensor uintptr, layer int) {
	if layer == 0 || n.tensors[layer] != 0 || n.known < 0 {
		return
	}
	e := n.engine
	term := at[uintptr](tensor, tensorSrc+8)
	if term == 0 || at[int32](term, 0) != typeF32 || at[[4]int64](term, tensorNe) != [4]int64{int64(e.info.Width), 1, 1, 1} ||
		at[[5]byte](term, tensorName) != [5]byte([]byte("leaf_")) {
		n.known = unknowable
		return
	}
	e.hook.frame.call(e.lib.tensorGet, term, uintptr(unsafe.Pointer(&n.scratch[0])), 0, uintptr(4*e.info.Width))
	for i, x := range n.row(layer) {
		if x != n.scratch[i] {
			n.known = unknowable
			return
		}
	}
	n.tensors[layer] = term
	n.known++
}

// write puts another plan, or zeros, in the place of the one that is loaded.
func (n *nativeVector) write(plan *steer.Plan) {
	e := n.engine
	n.fill(plan)
	for layer := 1; layer < e.info.Layers; layer++ {
		e.frame.call(e.lib.tensorSet, n.tensors[layer], uintptr(unsafe.Pointer(&n.row(layer)[0])), 0, uintptr(4*e.info.Width))
	}
}
