package llamacpp

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"github.com/ebitengine/purego"
)

// modelParams mirrors struct llama_model_params of llama.h (v0.5.0, 80 bytes).
type modelParams struct {
	devices             uintptr
	tensorBuftOverrides uintptr
	nGPULayers          int32
	splitMode           int32
	loadMode            int32
	lazyMode            int32
	mainGPU             int32
	_                   int32
	tensorSplit         uintptr
	progress            uintptr
	progressData        uintptr
	kvOverrides         uintptr
	vocabOnly           bool
	checkTensors        bool
	useExtraBufts       bool
	noHost              bool
	noAlloc             bool
	loadMTP             bool
	_                   [2]byte
}

// contextParams mirrors struct llama_context_params of llama.h (v0.5.0, 160 bytes).
type contextParams struct {
	nCtx, nBatch, nUbatch, nSeqMax, nRsSeq uint32
	nOutputsMax, nOutputsMaxPerSeq         uint32
	nThreads, nThreadsBatch                int32
	ctxType, ropeScaling, pooling          int32
	attention, flashAttn                   int32
	ropeFreqBase, ropeFreqScale            float32
	yarnExt, yarnAttn, yarnFast, yarnSlow  float32
	yarnOrigCtx                            uint32
	defragThold                            float32
	cbEval, cbEvalData                     uintptr
	typeK, typeV                           int32
	abort, abortData                       uintptr
	embeddings, offloadKQV, noPerf         bool
	opOffload, swaFull, kvUnified          bool
	_                                      [2]byte
	samplers, nSamplers, ctxOther          uintptr
}

// batch mirrors struct llama_batch of llama.h (56 bytes). The arrays are Go
// memory that the engine keeps alive.
type batch struct {
	nTokens int32
	_       int32
	token   unsafe.Pointer
	embd    unsafe.Pointer
	pos     unsafe.Pointer
	nSeqID  unsafe.Pointer
	seqID   unsafe.Pointer
	logits  unsafe.Pointer
}

const (
	modelParamsWords   = 80 / 8
	contextParamsWords = 160 / 8
	batchWords         = 56 / 8
)

// Offsets inside struct ggml_tensor on 64-bit machines, verified by checkTensor.
const (
	tensorBuffer = 8
	tensorNe     = 16
	tensorNb     = 48
	tensorSrc    = 152
	tensorData   = 248
	tensorName   = 256
)

const (
	typeF32  = 0
	typeF16  = 1
	typeQ8_0 = 8
	typeBF16 = 30
)

// structByRef is true where the C ABI passes structs larger than 16 bytes as a
// pointer to a copy (AAPCS64, Windows x64), false where they are copied onto
// the stack (System V).
const structByRef = runtime.GOARCH == "arm64" || runtime.GOOS == "windows"

// intRegisters is the number of integer argument registers before the stack is
// used, in the System V ABI of amd64: the only one here that copies structs.
const intRegisters = 6

// callWithStruct calls fn(first, *words by value) for a struct of n words. What
// first points to is kept alive and in place during the call, as with call.
//
//go:uintptrescapes
func callWithStruct(fn, first uintptr, words unsafe.Pointer, n int) uintptr {
	f := new(frame)
	r := f.withStruct(fn, first, words, n)
	runtime.KeepAlive(f) // where structs go by reference, C reads them from here
	runtime.KeepAlive(words)
	return r
}

// callOnStruct calls fn(*words by value) for a struct of n words.
func callOnStruct(fn uintptr, words unsafe.Pointer, n int) uintptr {
	if structByRef {
		return call(fn, uintptr(words))
	}
	return callWithStruct(fn, 0, words, n)
}

// Opaque words, as many as the parameter structs have: purego returns them whole.
type modelParamsRaw struct{ w [modelParamsWords]uint64 }
type contextParamsRaw struct{ w [contextParamsWords]uint64 }

func defaultModelParams(fn uintptr) modelParams {
	var get func() modelParamsRaw
	purego.RegisterFunc(&get, fn)
	raw := get()
	return *(*modelParams)(unsafe.Pointer(&raw))
}

func defaultContextParams(fn uintptr) contextParams {
	var get func() contextParamsRaw
	purego.RegisterFunc(&get, fn)
	raw := get()
	return *(*contextParams)(unsafe.Pointer(&raw))
}

// checkLayout compares the default parameters with the values that llama.h
// documents for them: a field that moved shows up as a wrong sentinel.
func checkLayout(m modelParams, c contextParams) error {
	var faults []error
	want := func(name string, got, want any) {
		if got != want {
			faults = append(faults, fmt.Errorf("%s reads %v, want %v", name, got, want))
		}
	}
	want("sizeof(llama_model_params)", unsafe.Sizeof(m), uintptr(8*modelParamsWords))
	want("sizeof(llama_context_params)", unsafe.Sizeof(c), uintptr(8*contextParamsWords))
	want("sizeof(llama_batch)", unsafe.Sizeof(batch{}), uintptr(8*batchWords))
	want("model_params.n_gpu_layers", m.nGPULayers, int32(-1))
	want("model_params.vocab_only", m.vocabOnly, false)
	want("model_params.use_extra_bufts", m.useExtraBufts, true)
	want("context_params.n_ctx", c.nCtx, uint32(512))
	want("context_params.n_batch", c.nBatch, uint32(2048))
	want("context_params.n_ubatch", c.nUbatch, uint32(512))
	want("context_params.n_seq_max", c.nSeqMax, uint32(1))
	want("context_params.rope_scaling_type", c.ropeScaling, int32(-1))
	want("context_params.pooling_type", c.pooling, int32(-1))
	want("context_params.attention_type", c.attention, int32(-1))
	want("context_params.flash_attn_type", c.flashAttn, int32(-1))
	want("context_params.yarn_ext_factor", c.yarnExt, float32(-1))
	want("context_params.yarn_attn_factor", c.yarnAttn, float32(-1))
	want("context_params.yarn_beta_fast", c.yarnFast, float32(-1))
	want("context_params.yarn_beta_slow", c.yarnSlow, float32(-1))
	want("context_params.type_k", c.typeK, int32(typeF16))
	want("context_params.type_v", c.typeV, int32(typeF16))
	return errors.Join(faults...)
}

// pointer turns an address from C into a pointer without tripping vet: the
// memory is not Go's.
func pointer(addr uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&addr)) }

// at reads a T that lies off bytes behind addr.
func at[T any](addr uintptr, off uintptr) T { return *(*T)(unsafe.Add(pointer(addr), off)) }

// goString copies the NUL-terminated string at addr, at most 1 MiB of it.
func goString(addr uintptr) string {
	if addr == 0 {
		return ""
	}
	p := pointer(addr)
	n := 0
	for n < 1<<20 && *(*byte)(unsafe.Add(p, n)) != 0 {
		n++
	}
	return string(unsafe.Slice((*byte)(p), n))
}

// cString returns s with a NUL behind it. The caller keeps it alive.
func cString(s string) *byte {
	b := make([]byte, len(s)+1)
	copy(b, s)
	return &b[0]
}
