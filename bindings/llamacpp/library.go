package llamacpp

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"unsafe"

	"github.com/ebitengine/purego"

	"github.com/trimtab/trimtab/bindings/llamacpp/libs"
)

// supported lists the llama.cpp releases whose struct layouts this package was
// written against, as llama_version() prints them. The pinned package calls
// itself "-dev", since it was not built from a release archive.
var supported = []string{"0.5.0", "0.5.0-dev"}

// ErrVersion is wrapped by Load when the libraries are not a release that this
// package knows, or do not look like one.
var ErrVersion = errors.New("unsupported llama.cpp libraries")

// Library is llama.cpp loaded into the process. It is safe for concurrent use
// and lives as long as the process: C libraries cannot be unloaded safely.
type Library struct {
	api
	set  libs.Set
	text string // llama_version()
	log  logTail

	modelDefaults   modelParams
	contextDefaults contextParams
	evalCallback    uintptr  // purego callback for evaluation, made once
	progress        uintptr  // purego callback for load progress, made once
	loads           sync.Map // progress handles: uintptr -> func(float32) bool
	nextLoad        uintptr
	slots           []*slot
	mu              sync.Mutex // guards nextLoad, slots and model loading
}

// The process can hold one llama.cpp: a second copy would bind to the symbols
// of the first.
var (
	loadMu sync.Mutex
	loaded *Library
)

// Load opens the libraries of the set, checks their version and memory layout
// before anything else is called, and loads the CPU and GPU back ends that lie
// beside them. A second call returns the same Library, or an error when it asks
// for other files. Errors wrap ErrVersion when the files are not a supported
// release.
func Load(set libs.Set) (*Library, error) {
	loadMu.Lock()
	defer loadMu.Unlock()
	if loaded != nil {
		if loaded.set.Llama != set.Llama {
			return nil, fmt.Errorf("load llama.cpp: %s is loaded already, a process cannot load %s beside it", loaded.set.Llama, set.Llama)
		}
		return loaded, nil
	}
	l := &Library{set: set}
	if err := l.open(); err != nil {
		return nil, fmt.Errorf("load llama.cpp from %s: %w", set.Dir, err)
	}
	loaded = l
	return l, nil
}

func (l *Library) open() error {
	var handles []uintptr
	for _, path := range []string{l.set.Base, l.set.GGML, l.set.Llama} {
		h, err := openLibrary(path)
		if err != nil {
			return err
		}
		handles = append(handles, h)
	}
	slices.Reverse(handles)
	if addr, err := findSymbol(handles[0], "llama_version"); err != nil || addr == 0 {
		return fmt.Errorf("%w: llama_version is missing, so they are older than %s", ErrVersion, supported[0])
	}
	if err := l.resolve(handles); err != nil {
		return fmt.Errorf("%w: %w", ErrVersion, err)
	}
	if err := l.check(); err != nil {
		return fmt.Errorf("%w: %w", ErrVersion, err)
	}
	l.start()
	return nil
}

// check refuses libraries whose version or layout is not the known one. It
// calls nothing that takes a struct.
func (l *Library) check() error {
	l.text = goString(call(l.version))
	if err := checkVersion(l.text); err != nil {
		return err
	}
	l.modelDefaults = defaultModelParams(l.modelDefaultParams)
	l.contextDefaults = defaultContextParams(l.contextDefaultParams)
	if err := checkLayout(l.modelDefaults, l.contextDefaults); err != nil {
		return err
	}
	return l.checkTensor()
}

func checkVersion(text string) error {
	if !slices.Contains(supported, strings.TrimPrefix(text, "v")) {
		return fmt.Errorf("version is %q, supported: %s; run \"trimtab engine install\"", text, strings.Join(supported, ", "))
	}
	return nil
}

// checkTensor makes a small tensor through the API and reads it back at the
// offsets that the hooks rely on.
func (l *Library) checkTensor() error {
	const rows, cols, poolSize = 3, 5, 1 << 16
	params := struct {
		size   uintptr
		buffer uintptr
		no     bool
		_      [7]byte
	}{size: poolSize}
	ctx := callOnStruct(l.ggmlInit, unsafe.Pointer(&params), int(unsafe.Sizeof(params)/8))
	if ctx == 0 {
		return errors.New("ggml_init failed")
	}
	defer call(l.ggmlFree, ctx)
	t := call(l.newTensor2D, ctx, typeF32, cols, rows)
	name := cString("l_out-7")
	call(l.setName, t, uintptr(unsafe.Pointer(name)))
	got := fmt.Sprint(at[int32](t, 0), at[[4]int64](t, tensorNe), at[[2]uint64](t, tensorNb), at[uintptr](t, tensorData) != 0, at[[8]byte](t, tensorName))
	want := fmt.Sprint(int32(typeF32), [4]int64{cols, rows, 1, 1}, [2]uint64{4, 4 * cols}, true, [8]byte([]byte("l_out-7\x00")))
	if got != want {
		return fmt.Errorf("struct ggml_tensor reads %s, want %s", got, want)
	}
	return nil
}

// start initialises the back ends and installs the process-wide callbacks.
func (l *Library) start() {
	call(l.logSet, purego.NewCallback(func(level int32, text, _ uintptr) { l.log.add(uintptr(level), text) }), 0)
	l.loadBackends()
	call(l.backendInit)
	l.evalCallback = purego.NewCallback(onEval)
	l.progress = purego.NewCallback(l.onProgress)
}

// onProgress passes the share of a load on to its Progress function. A panic
// there stops the load: it must not unwind through C.
func (l *Library) onProgress(share float32, handle uintptr) (goOn bool) {
	defer func() {
		if recover() != nil {
			goOn = false
		}
	}()
	f, ok := l.loads.Load(handle)
	return !ok || f.(func(float32) bool)(share)
}

// loadBackends loads the best CPU variant and every GPU back end of the set's
// folders; builds for older drivers only when no GPU was found.
func (l *Library) loadBackends() {
	load := func(dir string) {
		p := cString(dir)
		call(l.loadAllFromPath, uintptr(unsafe.Pointer(p)))
	}
	for _, dir := range l.set.Modules {
		load(dir)
	}
	if len(l.set.Modules) == 0 {
		load(l.set.Dir)
	}
	if l.set.Fallback != "" && !l.hasGPU() {
		load(l.set.Fallback)
	}
}

// Device is one processor that llama.cpp can compute on.
type Device struct {
	Name        string // "CPU", "CUDA0"
	Backend     string // "CPU", "CUDA", "Vulkan", "Metal"
	Description string // "Intel(R) Xeon(R) Processor"
	Kind        string // "cpu", "gpu", "igpu", "accel" or "other"
	Free, Total uint64 // bytes of memory
}

var deviceKinds = [...]string{"cpu", "gpu", "igpu", "accel"}

// Version is llama.cpp's release, for example "0.5.0".
func (l *Library) Version() string { return l.text }

// Dir is the folder that the libraries were loaded from.
func (l *Library) Dir() string { return l.set.Dir }

// Features lists what each back end was built for, for example
// "CPU : AVX512 = 1 | AMX_INT8 = 1 |", as llama.cpp prints it.
func (l *Library) Features() string { return goString(call(l.printSystemInfo)) }

// Devices lists the processors that the loaded back ends offer.
func (l *Library) Devices() []Device {
	var out []Device
	for i := range call(l.devCount) {
		dev := call(l.devGet, i)
		d := Device{
			Name:        goString(call(l.devName, dev)),
			Description: goString(call(l.devDescription, dev)),
			Backend:     goString(call(l.regName, call(l.backendReg, dev))),
			Kind:        "other",
		}
		var free, total uint64
		call(l.devMemory, dev, uintptr(unsafe.Pointer(&free)), uintptr(unsafe.Pointer(&total)))
		d.Free, d.Total = free, total
		if kind := int(int32(call(l.devType, dev))); kind >= 0 && kind < len(deviceKinds) {
			d.Kind = deviceKinds[kind]
		}
		out = append(out, d)
	}
	return out
}
