package llamacpp

import (
	"runtime"
	"unsafe"
)

// poolParams mirrors struct ggml_threadpool_params of ggml.h (v0.5.0, 528 bytes).
type poolParams struct {
	cpus     [512]bool // all false: wherever the system likes
	threads  int32
	priority int32
	poll     uint32
	strict   bool
	paused   bool
}

// pollLevel says how long a thread without work looks for some before it goes to
// sleep: 2^17 pauses, some milliseconds, for each level. One covers a stop at a
// block's output and what happens between two tokens. llama.cpp's default of 50
// would burn a core for half a second after each text.
const pollLevel = 1

// pool is the threads that a context computes with. Left to itself llama.cpp
// starts and joins them anew for every part of a graph: once a token, and once
// more for each block that a plan or a capture stops at.
type pool struct{ handle, free uintptr }

// attachPool gives the engine's context threads that stay. Where the libraries
// offer none, or not as they are known here, the engine works without.
func (e *Engine) attachPool(threads int) {
	l := e.lib
	if threads < 2 || l.poolParamsInit == 0 || l.attachThreadpool == 0 || l.regProcAddress == 0 {
		return
	}
	start, free := l.cpuFunction("ggml_threadpool_new"), l.cpuFunction("ggml_threadpool_free")
	if start == 0 || free == 0 {
		return
	}
	p := &poolParams{paused: true, strict: true}
	call(l.poolParamsInit, uintptr(unsafe.Pointer(p)), uintptr(threads))
	if unsafe.Sizeof(*p) != 528 || *p != (poolParams{threads: int32(threads), poll: 50}) {
		return
	}
	p.poll = pollLevel
	e.pool = pool{call(start, uintptr(unsafe.Pointer(p))), free}
	runtime.KeepAlive(p)
	if e.pool.handle != 0 {
		call(l.attachThreadpool, e.ctx, e.pool.handle, e.pool.handle)
	}
}

// close ends the threads. The context must be gone.
func (p *pool) close() {
	if p.handle != 0 {
		call(p.free, p.handle)
		p.handle = 0
	}
}

// cpuFunction finds a function of the loaded CPU back end, 0 if it has none.
func (l *Library) cpuFunction(name string) uintptr {
	c := cString(name)
	for i := range call(l.devCount) {
		dev := call(l.devGet, i)
		if int32(call(l.devType, dev)) != deviceCPU {
			continue
		}
		if f := call(l.regProcAddress, call(l.backendReg, dev), uintptr(unsafe.Pointer(c))); f != 0 {
			return f
		}
	}
	return 0
}

// deviceCPU is GGML_BACKEND_DEVICE_TYPE_CPU.
const deviceCPU = 0
