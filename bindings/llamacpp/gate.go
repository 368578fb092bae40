package llamacpp

// maxLayers bounds the blocks that hooks can address; llama.cpp's own limit
// (LLAMA_MAX_LAYERS) is 512.
const maxLayers = 1024

// gate answers llama.cpp's evaluation callback. llama.cpp asks about every node
// of the graph, hundreds of times a token; a Go callback for each would cost
// 0.4 us, so a few machine instructions answer instead:
//
//	ask:  is the gate active, is the node named "l_out-<layer>", and is that
//	      layer's bit set? Only then shall llama.cpp stop there.
//	done: store the node, call the Go callback, which reads or edits the node's
//	      data, and return what it left in goOn.
//
// With an inactive gate the hook costs nothing that can be measured. C code
// holds the gate's address, so its layout is fixed (the assembly knows the
// offsets 0, 8, 16, 144 and 152) and it must stay reachable while the context
// lives.
type gate struct {
	active   uint64
	callback uintptr // C-callable, without arguments or a result: see slot
	layers   [maxLayers / 64]uint64
	node     uintptr // the tensor that is shown
	goOn     uint64  // 0 stops the computation
}

func (g *gate) clear() {
	g.active = 0
	g.layers = [maxLayers / 64]uint64{}
}

func (g *gate) watch(layer int) {
	g.active = 1
	g.layers[layer/64] |= 1 << (layer % 64)
}

func (g *gate) watches(layer int) bool { return g.layers[layer/64]>>(layer%64)&1 == 1 }
