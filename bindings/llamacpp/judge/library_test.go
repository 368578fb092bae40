//go:build linux || darwin

package judge

import (
	"os"
	"sync"
	"testing"

	"github.com/ebitengine/purego"

	"github.com/trimtab/trimtab/bindings/llamacpp/libs"
)

// tokenData, tokenArray and logitBias are llama_token_data, _array and
// llama_logit_bias of llama.h.
type tokenData struct {
	ID       int32
	Logit, P float32
}

type tokenArray struct {
	Data     *tokenData
	Size     uintptr
	Selected int64
	Sorted   bool
}

type logitBias struct {
	Token int32
	Bias  float32
}

// modelParams is llama_model_params.
type modelParams struct {
	Devices, Overrides                       uintptr
	GPULayers, SplitMode, LoadMode, LazyMode int32
	MainGPU                                  int32
	TensorSplit, Progress, ProgressData, KVs uintptr
	VocabOnly, CheckTensors, ExtraBufts      bool
	NoHost, NoAlloc, LoadMTP                 bool
}

// library is the part of llama.h that the tests call.
type library struct {
	handle uintptr

	greedy    func() uintptr
	dist      func(seed uint32) uintptr
	topK      func(k int32) uintptr
	topP      func(p float32, minKeep uintptr) uintptr
	minP      func(p float32, minKeep uintptr) uintptr
	typical   func(p float32, minKeep uintptr) uintptr
	temp      func(t float32) uintptr
	xtc       func(p, t float32, minKeep uintptr, seed uint32) uintptr
	sigma     func(n float32) uintptr
	penalties func(vocab, lastN int32, repeat, frequency, presence float32) uintptr
	bias      func(vocab, n int32, bias *logitBias) uintptr
	dry       func(vocab uintptr, multiplier, base float32, allowed, lastN int32, breakers **byte, n uintptr) uintptr

	apply  func(s uintptr, a *tokenArray)
	accept func(s uintptr, t int32)
	reset  func(s uintptr)
	free   func(s uintptr)

	logSet       func(callback, data uintptr)
	modelDefault func() modelParams
	modelLoad    func(path string, p modelParams) uintptr
	modelFree    func(m uintptr)
	modelVocab   func(m uintptr) uintptr
	vocabSize    func(v uintptr) int32
	tokenize     func(v uintptr, text *byte, n int32, dst *int32, max int32, special, parse bool) int32
	detokenize   func(v uintptr, src *int32, n int32, dst *byte, max int32, remove, unparse bool) int32
}

func (l *library) symbols() map[string]any {
	return map[string]any{
		"llama_sampler_init_greedy": &l.greedy, "llama_sampler_init_dist": &l.dist,
		"llama_sampler_init_top_k": &l.topK, "llama_sampler_init_top_p": &l.topP,
		"llama_sampler_init_min_p": &l.minP, "llama_sampler_init_typical": &l.typical,
		"llama_sampler_init_temp": &l.temp, "llama_sampler_init_xtc": &l.xtc,
		"llama_sampler_init_top_n_sigma": &l.sigma, "llama_sampler_init_penalties": &l.penalties,
		"llama_sampler_init_logit_bias": &l.bias, "llama_sampler_init_dry": &l.dry,
		"llama_sampler_apply": &l.apply, "llama_sampler_accept": &l.accept,
		"llama_sampler_reset": &l.reset, "llama_sampler_free": &l.free,
		"llama_log_set": &l.logSet, "llama_model_default_params": &l.modelDefault,
		"llama_model_load_from_file": &l.modelLoad, "llama_model_free": &l.modelFree,
		"llama_model_get_vocab": &l.modelVocab, "llama_vocab_n_tokens": &l.vocabSize,
		"llama_tokenize": &l.tokenize, "llama_detokenize": &l.detokenize,
	}
}

func open() (*library, error) {
	set, err := libs.Find("", libs.Host())
	if err != nil {
		return nil, err
	}
	l := &library{}
	for _, path := range []string{set.Base, set.GGML, set.Llama} {
		if l.handle, err = purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_GLOBAL); err != nil {
			return nil, err
		}
	}
	for name, f := range l.symbols() {
		p, err := purego.Dlsym(l.handle, name)
		if err != nil {
			return nil, err
		}
		purego.RegisterFunc(f, p)
	}
	l.logSet(purego.NewCallback(func(level int, text, data uintptr) uintptr { return 0 }), 0)
	return l, nil
}

var opened = sync.OnceValues(open)

// llama returns the library, or skips: a failure where CI is true.
func llama(t *testing.T) *library {
	t.Helper()
	l, err := opened()
	if err != nil {
		missing(t, "the libraries of llama.cpp v0.5.0: "+err.Error())
	}
	return l
}

func missing(t *testing.T, what string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("missing: %s", what)
	}
	t.Skipf("missing: %s", what)
}
