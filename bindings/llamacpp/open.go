package llamacpp

import (
	"errors"
	"fmt"
	"path/filepath"
	"unsafe"

	"github.com/trimtab/trimtab/internal/gguf"
	"github.com/trimtab/trimtab/runtime/engine"
	"github.com/trimtab/trimtab/steer"
)

// ErrModel is wrapped by Open when the file is not a model that can be run.
var ErrModel = errors.New("bad model file")

// Open validates the GGUF file at path, loads it and makes a context for it.
// The file is read in Go first: what llama.cpp would abort on is an error here.
// Errors wrap ErrModel for a bad file, ErrOptions for options that are out of
// range, and engine.ErrUnsupported for a sound
// file of a kind that this back end does not run.
func (l *Library) Open(path string, o Options) (*Engine, error) {
	e, err := l.load(path, o)
	if err != nil {
		return nil, fmt.Errorf("open model %s: %w", filepath.Base(path), err)
	}
	return e, nil
}

func (l *Library) load(path string, o Options) (*Engine, error) {
	meta, err := readModel(path, o.Canvas)
	if err != nil {
		return nil, err
	}
	o = o.fill(meta.size, meta.trained, l.hasGPU())
	if err := o.check(); err != nil {
		return nil, err
	}
	if o.Context > meta.trained {
		return nil, fmt.Errorf("%w: option Context is %d, the model was trained for %d", ErrOptions, o.Context, meta.trained)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	model, err := l.loadModel(path, &o)
	if err != nil {
		return nil, err
	}
	e, err := l.newEngine(model, meta, o)
	if err != nil {
		call(l.modelFree, model)
		return nil, err
	}
	return e, nil
}

// modelFile is what Go read from the file before llama.cpp sees it.
type modelFile struct {
	name, arch, template, hash string
	size                       int64 // bytes
	trained                    int   // context length
}

func readModel(path string, canvas bool) (m modelFile, err error) {
	f, err := gguf.Open(path)
	if err != nil {
		return m, fmt.Errorf("%w: %w", ErrModel, err)
	}
	defer f.Close()
	arch, err := f.String("general.architecture")
	if err != nil {
		return m, fmt.Errorf("%w: %w", ErrModel, err)
	}
	if diffusionArchs[arch] && !canvas {
		return m, engine.Unsupported("architecture "+arch, "it is a diffusion model, which has no next token; Options.Canvas opens it for whole canvases")
	}
	if err := gguf.CheckModel(f); err != nil {
		return m, fmt.Errorf("%w: %w", ErrModel, err)
	}
	trained, err := f.Uint(arch + ".context_length")
	if err != nil {
		return m, fmt.Errorf("%w: %w", ErrModel, err)
	}
	m = modelFile{arch: arch, size: f.Size, trained: int(min(trained, maxContext))}
	if m.hash, err = f.Fingerprint(); err != nil {
		return m, fmt.Errorf("%w: %w", ErrModel, err)
	}
	m.template, _ = f.String("tokenizer.chat_template")
	if m.name, _ = f.String("general.name"); m.name == "" {
		m.name = filepath.Base(path)
	}
	return m, nil
}

// loadModel calls llama_model_load_from_file. The library's mutex is held, so
// that a complaint in the log belongs to this load.
func (l *Library) loadModel(path string, o *Options) (uintptr, error) {
	p := l.modelDefaults
	p.nGPULayers = int32(o.GPULayers)
	if o.NoMmap {
		p.loadMode = 0
	}
	if o.Progress != nil {
		l.nextLoad++
		l.loads.Store(l.nextLoad, o.Progress)
		defer l.loads.Delete(l.nextLoad)
		p.progress, p.progressData = l.progress, l.nextLoad
	}
	l.log.take()
	name := cString(path)
	model := callWithStruct(l.modelLoad, uintptr(unsafe.Pointer(name)), unsafe.Pointer(&p), modelParamsWords)
	if model == 0 {
		return 0, fmt.Errorf("%w: llama.cpp refused it: %s", ErrModel, orUnknown(l.log.take()))
	}
	return model, nil
}

func orUnknown(s string) string {
	if s == "" {
		return "it gave no reason (a load stopped by Progress gives none)"
	}
	return s
}

func (l *Library) hasGPU() bool {
	for _, d := range l.Devices() {
		if d.Kind == "gpu" || d.Kind == "igpu" {
			return true
		}
	}
	return false
}

// newEngine makes the context and the Go side around a loaded model.
func (l *Library) newEngine(model uintptr, meta modelFile, o Options) (*Engine, error) {
	if callBool(l.modelHasEncoder, model) {
		return nil, engine.Unsupported("architecture "+meta.arch, "it has an encoder")
	}
	canvas := callBool(l.modelIsDiffusion, model)
	if canvas && !o.Canvas {
		return nil, engine.Unsupported("architecture "+meta.arch, "it is a diffusion model")
	}
	if canvas {
		o.Ubatch = o.Batch // rows that see each other must be computed together
	}
	e := &Engine{
		lib: l, model: model, vocab: call(l.modelGetVocab, model),
		canvas: canvas,
		plain:  !callBool(l.modelIsRecurrent, model) && !callBool(l.modelIsHybrid, model),
	}
	e.info = engine.Info{
		Name: meta.name, Arch: meta.arch, Hash: meta.hash, Template: meta.template,
		Backend:      "llama.cpp " + l.text + ", " + l.deviceNames(),
		Vocab:        callInt(l.vocabNTokens, e.vocab),
		Width:        callInt(l.modelNEmbd, model),
		Layers:       callInt(l.modelNLayer, model),
		MaxSequences: o.MaxSequences,
	}
	if e.info.Layers > maxLayers {
		return nil, engine.Unsupported("model", fmt.Sprintf("it has %d layers, the limit is %d", e.info.Layers, maxLayers))
	}
	if o.Attention {
		e.sight = &sight{windowed: callInt(l.modelNSWA, model) > 0}
	}
	e.hook.init(e)
	if err := e.newContext(o); err != nil {
		l.leaveSlot(e.hook.slot)
		return nil, err
	}
	e.tokenizer = newTokenizer(l, e.vocab, e.info.Vocab)
	e.info.Tokenizer = e.tokenizer
	e.info.Caps = e.caps()
	e.allocate()
	return e, nil
}

func (e *Engine) newContext(o Options) error {
	l := e.lib
	p := l.contextDefaults
	p.nCtx = uint32(o.Cells)
	p.nBatch, p.nUbatch = uint32(o.Batch), uint32(o.Ubatch)
	p.nSeqMax = uint32(o.MaxSequences)
	p.nThreads, p.nThreadsBatch = int32(o.Threads), int32(o.Threads)
	p.flashAttn = flashTypes[o.Flash]
	p.typeK, p.typeV = kvTypes[o.KV], kvTypes[o.KV]
	p.noPerf = true
	p.swaFull = true   // so that a rewind is exact on sliding-window models
	p.kvUnified = true // keeps rows of a batch in order, and lets forks share cells
	p.cbEval, p.cbEvalData = e.hook.entry()
	if l.strlen != 0 {
		// strlen on a byte that is 0 or 1, with a 0 behind it: "has anyone asked
		// to stop?" without entering Go for every node.
		p.abort, p.abortData = l.strlen, uintptr(unsafe.Pointer(&e.stop[0]))
	}
	e.params = p
	l.log.take()
	e.ctx = callWithStruct(l.initFromModel, e.model, unsafe.Pointer(&p), contextParamsWords)
	if e.ctx == 0 {
		return fmt.Errorf("make a context of %d cells: %s", o.Cells, orUnknown(l.log.take()))
	}
	e.attachPool(o.Threads)
	e.memory = call(l.getMemory, e.ctx)
	e.info.Cells = int(uint32(call(l.nCtx, e.ctx)))
	e.info.Context = min(o.Context, e.info.Cells)
	if e.canvas {
		e.info.Context = min(e.info.Context, o.Ubatch)
	}
	e.info.MaxBatch = int(uint32(call(l.nUbatch, e.ctx)))
	e.batchRows = int(uint32(call(l.nBatch, e.ctx)))
	return nil
}

func (l *Library) deviceNames() string {
	s := ""
	for _, d := range l.Devices() {
		if s != "" {
			s += " + "
		}
		s += d.Name
	}
	return s
}

// caps says what this model can do on this engine.
func (e *Engine) caps() engine.Caps {
	c := engine.Caps{
		Embeddings: callInt(e.lib.modelNEmbdInp, e.model) == e.info.Width,
		Rewind:     e.plain && !e.canvas, Fork: e.plain && !e.canvas, Save: !e.canvas, Canvas: e.canvas,
		Interrupt: e.lib.strlen != 0,
	}
	site := func(s steer.Site) error {
		switch {
		case s.Point != steer.ResidPost || s.Layer < 0 || s.Layer >= e.info.Layers:
			return engine.Unsupported("site "+s.String(), fmt.Sprintf("the model has layers 0 to %d", e.info.Layers-1))
		case !e.plain:
			return engine.Unsupported("site "+s.String(), "rows of recurrent models are regrouped inside a batch")
		case noBlockOutputArchs[e.info.Arch]:
			return engine.Unsupported("site "+s.String(), "architecture "+e.info.Arch+" has no plain residual stream")
		}
		return nil
	}
	c.Capture = site
	c.Edit = func(s steer.Site, op steer.Op) error {
		if !op.Known() {
			return engine.Unsupported("operation "+op.String(), "this engine applies what package steer defines")
		}
		return site(s)
	}
	return c
}
