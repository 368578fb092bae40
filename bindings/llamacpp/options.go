package llamacpp

import (
	"errors"
	"fmt"
	"runtime"
)

// ErrOptions is wrapped by Open when an option is out of range, for any model or
// for this one.
var ErrOptions = errors.New("bad options")

// AllLayers puts every block of the model on the GPU.
const AllLayers = -1

// KVType is the element type of the key/value cache.
type KVType string

// Cache types. Q8_0 halves the memory of F16 at little loss; its V half needs
// flash attention.
const (
	KVF16  KVType = "f16" // default
	KVF32  KVType = "f32"
	KVBF16 KVType = "bf16"
	KVQ8_0 KVType = "q8_0"
)

var kvTypes = map[KVType]int32{"": typeF16, KVF16: typeF16, KVF32: typeF32, KVBF16: typeBF16, KVQ8_0: typeQ8_0}

// Flash says whether attention runs in llama.cpp's fused form.
type Flash string

// Flash attention settings.
const (
	FlashAuto Flash = "auto" // default: off when the CPU computes alone, else llama.cpp's choice
	FlashOn   Flash = "on"
	FlashOff  Flash = "off"
)

var flashTypes = map[Flash]int32{"": -1, FlashAuto: -1, FlashOff: 0, FlashOn: 1}

// Options say how to load a model. The zero value means the defaults.
type Options struct {
	GPULayers    int // blocks to put on the GPU: AllLayers, or a count; default 0 without a GPU, AllLayers with one
	CPUOnly      bool
	Threads      int // default: the machine's cores, at most 16; 1 for a file under 32 MiB
	Context      int // most rows in one sequence; default the smaller of 4096 and what the model was trained for
	Cells        int // most rows in all sequences together; default Context
	MaxSequences int // sequences open at once, 1 to 256; default 16
	Batch        int // rows that one llama_decode call takes; default 2048
	Ubatch       int // rows that one pass of the hardware takes; default 512
	KV           KVType
	Flash        Flash
	NoMmap       bool // read the weights instead of mapping the file

	// Canvas opens masked-diffusion models too, which are refused without it.
	// They see a text as a whole and keep no cache: see engine.Caps.Canvas.
	Canvas bool

	// Attention opens an engine that shows where tokens look: see Engine.Attend.
	// It computes attention in the plain form, whatever the device, and answers
	// every node of the graph in Go: give it to what asks now and then, and let
	// another engine write.
	Attention bool

	// Progress, when not nil, is called with the share of the weights that is
	// loaded, from 0 to 1. Returning false stops the load.
	Progress func(share float32) bool
}

// Bounds on options. They only keep nonsense from reaching C; memory runs out
// long before most of them.
const (
	maxSequences = 256 // LLAMA_MAX_SEQ in llama-cparams.h
	maxContext   = 1 << 24
	maxBatch     = 1 << 16
	maxThreads   = 512
)

// smallModel is the file size in bytes under which one thread is fastest: a
// pass takes less than a millisecond, and llama.cpp's threads spin while they
// wait for each other. On two busy cores a 2 MB model made 1967 tokens/s with
// one thread and 282 with two.
const smallModel = 32 << 20

// fill replaces zero values with the defaults, given the file's size in bytes
// and the model's trained context.
func (o Options) fill(size int64, trained int, gpu bool) Options {
	def := func(p *int, v int) {
		if *p == 0 {
			*p = v
		}
	}
	if o.CPUOnly {
		o.GPULayers = 0
	} else if gpu {
		def(&o.GPULayers, AllLayers)
	}
	if size < smallModel {
		def(&o.Threads, 1)
	}
	def(&o.Threads, min(runtime.NumCPU(), 16))
	if o.Flash == "" {
		o.Flash = FlashAuto
	}
	if o.Flash == FlashAuto && o.Attention {
		o.Flash = FlashOff // the fused form never has the weights
	}
	if o.Flash == FlashAuto && o.KV != KVQ8_0 && (!gpu || o.CPUOnly) {
		// No slower on a CPU (24 against 22 tokens/s at 2000 rows, 494 M
		// weights), and it sums in float32: a text then hardly ever depends on
		// what else is in its batch.
		o.Flash = FlashOff
	}
	def(&o.Context, min(trained, 4096))
	def(&o.Cells, o.Context)
	def(&o.MaxSequences, 16)
	def(&o.Batch, 2048)
	def(&o.Ubatch, min(o.Batch, 512))
	return o
}

// check reports every option that is out of range, after fill.
func (o *Options) check() error {
	var faults []error
	bound := func(name string, v, lo, hi int) {
		if v < lo || v > hi {
			faults = append(faults, fmt.Errorf("option %s is %d, must be between %d and %d", name, v, lo, hi))
		}
	}
	bound("GPULayers", o.GPULayers, AllLayers, maxLayers)
	bound("Threads", o.Threads, 1, maxThreads)
	bound("Context", o.Context, 8, maxContext)
	bound("Cells", o.Cells, o.Context, maxContext)
	bound("MaxSequences", o.MaxSequences, 1, maxSequences)
	bound("Batch", o.Batch, 1, maxBatch)
	bound("Ubatch", o.Ubatch, 1, o.Batch)
	if _, ok := kvTypes[o.KV]; !ok {
		faults = append(faults, fmt.Errorf("option KV is %q, must be f16, f32, bf16 or q8_0", o.KV))
	}
	if _, ok := flashTypes[o.Flash]; !ok {
		faults = append(faults, fmt.Errorf("option Flash is %q, must be auto, on or off", o.Flash))
	}
	if o.KV == KVQ8_0 && o.Flash == FlashOff {
		faults = append(faults, errors.New("option KV q8_0 needs flash attention"))
	}
	if o.Attention && o.Flash != FlashOff {
		faults = append(faults, fmt.Errorf("option Attention needs Flash off, not %q", o.Flash))
	}
	if len(faults) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrOptions, errors.Join(faults...))
}
