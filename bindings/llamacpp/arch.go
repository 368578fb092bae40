package llamacpp

// layerInputArchs are the architectures whose graph records every block's
// input (src/models/*.cpp sets t_layer_inp for all blocks in v0.5.0) and whose
// input of block L+1 is the very tensor that block L put out. Elsewhere asking
// for it aborts the process, so the evaluation callback serves them.
var layerInputArchs = map[string]bool{
	"llama": true, "qwen3": true, "qwen3moe": true, "qwen35": true, "qwen35moe": true,
	"gemma4": true, "gpt-oss": true, "minimax-m2": true, "hunyuan_vl": true,
}

// noBlockOutputArchs build no plain "l_out" node (their residual is a bundle of
// streams), so their residuals can be neither read nor edited.
var noBlockOutputArchs = map[string]bool{"deepseek4": true, "qwen4exp": true}

// controlVectorArchs are common architectures whose graphs add llama.cpp's own
// control vector right before "l_out" (build_cvec in src/models/*.cpp). Others
// may ignore it silently, so for them the evaluation callback does the adding.
var controlVectorArchs = map[string]bool{
	"llama": true, "mistral3": true, "qwen2": true, "qwen2moe": true, "qwen3": true, "qwen3moe": true,
	"gemma": true, "gemma2": true, "gemma3": true, "phi2": true, "phi3": true, "granite": true,
	"olmo2": true, "smollm3": true, "stablelm": true, "starcoder2": true, "gpt-oss": true,
}

// diffusionArchs denoise a whole canvas; they need another decoder.
var diffusionArchs = map[string]bool{"dream": true, "llada": true, "llada-moe": true, "rnd1": true}
