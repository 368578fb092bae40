// Package judge compares package decode with an outside judge: the samplers of
// llama.cpp v0.5.0 itself, loaded as a library. It holds tests only. They need
// the engine's libraries in the folder that TRIMTAB_LLAMA_LIB names or in the
// user's cache, and no model.
package judge
