// Package onllama runs packages that may not import a back end on llama.cpp, in
// its tests. It has no code of its own.
package onllama
