package llamacpp

import (
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"github.com/ebitengine/purego"
)

// deep moves the goroutine's stack.
func deep(n int) byte {
	var pad [256]byte
	if n > 0 {
		pad[n%len(pad)] = deep(n - 1)
	}
	return pad[0]
}

// What C is given must stay in place and alive until C returns, also when the
// only mention of it is the call itself. A callback stands for C.
func TestCallWithStructKeepsItsArguments(t *testing.T) {
	for _, text := range []string{"short", strings.Repeat("long enough for the heap ", 4)} {
		var seen string
		var heap [][]byte
		c := purego.NewCallback(func(path uintptr) uintptr {
			deep(2000)
			for range 3 {
				runtime.GC()
			}
			for range 2000 {
				heap = append(heap, []byte(strings.Repeat("X", len(text)+1)))
			}
			seen = goString(path)
			return 0
		})
		done := make(chan struct{})
		go func() {
			defer close(done)
			var params modelParams
			name := cString(text)
			callWithStruct(c, uintptr(unsafe.Pointer(name)), unsafe.Pointer(&params), modelParamsWords)
		}()
		<-done
		if seen != text {
			t.Errorf("C saw %.40q, want %q", seen, text)
		}
		runtime.KeepAlive(heap)
	}
}
