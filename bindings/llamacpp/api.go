package llamacpp

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/ebitengine/purego"
)

// api holds the addresses of the C functions in use.
type api struct {
	version, modelDefaultParams, contextDefaultParams       uintptr
	backendInit, logSet, printSystemInfo                    uintptr
	modelLoad, modelFree, initFromModel, free               uintptr
	modelGetVocab, modelNLayer, modelNEmbd, modelNEmbdInp   uintptr
	modelNCtxTrain, modelIsRecurrent, modelIsHybrid         uintptr
	modelHasEncoder, modelIsDiffusion, modelDesc, modelNSWA uintptr
	getMemory, nCtx, nBatch, nUbatch                        uintptr
	decode, synchronize, getLogits, setThreads              uintptr
	setAdapterCvec                                          uintptr
	memorySeqRm, memorySeqCp, memorySeqPosMax, memoryClear  uintptr
	stateSeqGetSize, stateSeqGetData, stateSeqSetData       uintptr
	tokenize, tokenToPiece, vocabGetText, vocabGetAttr      uintptr
	vocabIsEOG, vocabIsControl, vocabNTokens                uintptr
	vocabBOS, vocabEOS, vocabEOT, vocabNL, vocabPad         uintptr
	vocabMask, vocabAddBOS, vocabAddEOS                     uintptr
	loadAllFromPath, devCount, devGet, devName              uintptr
	devDescription, devMemory, devType, backendReg, regName uintptr
	bufferIsHost, tensorGet, tensorSet                      uintptr
	ggmlInit, ggmlFree, newTensor2D, setName                uintptr
	setLayerInp, getLayerInp, getTokEmbd                    uintptr // staging API: may be 0
	poolParamsInit, attachThreadpool, regProcAddress        uintptr // threads that stay: may be 0
	strlen                                                  uintptr
}

// symbols names each address. The second group may be absent.
func (a *api) symbols() (required, optional map[string]*uintptr) {
	return map[string]*uintptr{
			"llama_version": &a.version, "llama_model_default_params": &a.modelDefaultParams,
			"llama_context_default_params": &a.contextDefaultParams, "llama_backend_init": &a.backendInit,
			"llama_log_set": &a.logSet, "llama_print_system_info": &a.printSystemInfo,
			"llama_model_load_from_file": &a.modelLoad, "llama_model_free": &a.modelFree,
			"llama_init_from_model": &a.initFromModel, "llama_free": &a.free,
			"llama_model_get_vocab": &a.modelGetVocab, "llama_model_n_layer": &a.modelNLayer,
			"llama_model_n_embd": &a.modelNEmbd, "llama_model_n_embd_inp": &a.modelNEmbdInp,
			"llama_model_n_ctx_train": &a.modelNCtxTrain, "llama_model_is_recurrent": &a.modelIsRecurrent,
			"llama_model_is_hybrid": &a.modelIsHybrid, "llama_model_has_encoder": &a.modelHasEncoder,
			"llama_model_is_diffusion": &a.modelIsDiffusion, "llama_model_desc": &a.modelDesc,
			"llama_model_n_swa": &a.modelNSWA, "llama_get_memory": &a.getMemory,
			"llama_n_ctx": &a.nCtx, "llama_n_batch": &a.nBatch, "llama_n_ubatch": &a.nUbatch,
			"llama_decode": &a.decode, "llama_synchronize": &a.synchronize,
			"llama_get_logits": &a.getLogits, "llama_set_n_threads": &a.setThreads,
			"llama_set_adapter_cvec": &a.setAdapterCvec,
			"llama_memory_seq_rm":    &a.memorySeqRm, "llama_memory_seq_cp": &a.memorySeqCp,
			"llama_memory_seq_pos_max": &a.memorySeqPosMax, "llama_memory_clear": &a.memoryClear,
			"llama_state_seq_get_size": &a.stateSeqGetSize, "llama_state_seq_get_data": &a.stateSeqGetData,
			"llama_state_seq_set_data": &a.stateSeqSetData,
			"llama_tokenize":           &a.tokenize, "llama_token_to_piece": &a.tokenToPiece,
			"llama_vocab_get_text": &a.vocabGetText, "llama_vocab_get_attr": &a.vocabGetAttr,
			"llama_vocab_is_eog": &a.vocabIsEOG, "llama_vocab_is_control": &a.vocabIsControl,
			"llama_vocab_n_tokens": &a.vocabNTokens, "llama_vocab_bos": &a.vocabBOS,
			"llama_vocab_eos": &a.vocabEOS, "llama_vocab_eot": &a.vocabEOT, "llama_vocab_nl": &a.vocabNL,
			"llama_vocab_pad": &a.vocabPad, "llama_vocab_mask": &a.vocabMask,
			"llama_vocab_get_add_eos": &a.vocabAddEOS, "llama_vocab_get_add_bos": &a.vocabAddBOS,
			"ggml_backend_load_all_from_path": &a.loadAllFromPath, "ggml_backend_dev_count": &a.devCount,
			"ggml_backend_dev_get": &a.devGet, "ggml_backend_dev_name": &a.devName,
			"ggml_backend_dev_description": &a.devDescription, "ggml_backend_dev_memory": &a.devMemory,
			"ggml_backend_dev_type": &a.devType, "ggml_backend_dev_backend_reg": &a.backendReg,
			"ggml_backend_reg_name": &a.regName, "ggml_backend_buffer_is_host": &a.bufferIsHost,
			"ggml_backend_tensor_get": &a.tensorGet, "ggml_backend_tensor_set": &a.tensorSet,
			"ggml_init": &a.ggmlInit, "ggml_free": &a.ggmlFree,
			"ggml_new_tensor_2d": &a.newTensor2D, "ggml_set_name": &a.setName,
		}, map[string]*uintptr{
			"_Z30llama_set_embeddings_layer_inpP13llama_contextjb": &a.setLayerInp,
			"_Z30llama_get_embeddings_layer_inpP13llama_contextj":  &a.getLayerInp,
			"_Z24llama_model_get_tok_embdPK11llama_modelPf":        &a.getTokEmbd,

			"ggml_threadpool_params_init": &a.poolParamsInit, "llama_attach_threadpool": &a.attachThreadpool,
			"ggml_backend_reg_get_proc_address": &a.regProcAddress,
		}
}

// resolve looks every symbol up in the given libraries, in order.
func (a *api) resolve(libs []uintptr) error {
	find := func(name string) uintptr {
		for _, lib := range libs {
			if addr, err := findSymbol(lib, name); err == nil && addr != 0 {
				return addr
			}
		}
		return 0
	}
	required, optional := a.symbols()
	var faults []error
	for name, addr := range required {
		if *addr = find(name); *addr == 0 {
			faults = append(faults, fmt.Errorf("symbol %s is missing", name))
		}
	}
	for name, addr := range optional {
		*addr = find(name)
	}
	if addr, err := libcSymbol("strlen"); err == nil {
		a.strlen = addr
	}
	return errors.Join(faults...)
}

// call invokes a C function with integer and pointer arguments only. What a
// pointer argument points to is moved to the heap and kept alive during the
// call, at the price of an allocation; frame.call is the form for hot paths.
//
//go:uintptrescapes
func call(fn uintptr, args ...uintptr) uintptr {
	r, _, _ := purego.SyscallN(fn, args...)
	return r
}

// callBool reads a C bool, of which only the low byte is defined.
//
//go:uintptrescapes
func callBool(fn uintptr, args ...uintptr) bool { return call(fn, args...)&0xff != 0 }

//go:uintptrescapes
func callInt(fn uintptr, args ...uintptr) int { return int(int32(call(fn, args...))) }

// frame holds the arguments of one C call, so that hot paths do not allocate.
// It lives on the heap and has one user at a time.
type frame struct {
	args [intRegisters + contextParamsWords]uintptr
}

// call invokes a C function. Unlike the function call it does not keep its
// arguments alive: pointers must be to heap memory that something else holds.
func (f *frame) call(fn uintptr, args ...uintptr) uintptr {
	n := copy(f.args[:], args)
	r, _, _ := purego.SyscallN(fn, f.args[:n]...)
	return r
}

// withStruct calls fn(first, *words by value), words being n words long and
// under the same rule as call's pointers. By reference C gets the copy in the
// frame: it may write to it, and words may lie on a stack that moves.
func (f *frame) withStruct(fn, first uintptr, words unsafe.Pointer, n int) uintptr {
	copy(f.args[intRegisters:], unsafe.Slice((*uintptr)(words), n))
	if structByRef {
		return f.call(fn, first, uintptr(unsafe.Pointer(&f.args[intRegisters])))
	}
	f.args[0] = first
	r, _, _ := purego.SyscallN(fn, f.args[:intRegisters+n]...)
	return r
}
