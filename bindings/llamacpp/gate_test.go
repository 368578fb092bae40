package llamacpp

import (
	"math/rand/v2"
	"testing"
	"unsafe"
)

// fakeTensor is as much of struct ggml_tensor as the gate reads.
type fakeTensor [400]byte

func named(name string) *fakeTensor {
	t := new(fakeTensor)
	copy(t[tensorName:], name)
	return t
}

func TestGateAgreesWithGo(t *testing.T) {
	if evalGateAddr == 0 {
		t.Skip("no assembly gate on this architecture")
	}
	names := []string{
		"l_out-0", "l_out-7", "l_out-63", "l_out-64", "l_out-511", "l_out-1023", // want by bit
		"l_out-1024", "l_out-99999999", "l_out-", "l_out", "l_outs-3", "l_out-3 (view)", "l_out-x", "l_out-3x",
		"", "attn_out-3", "ffn_out-3", "cache_k_l3 (view)", "l_out--3", "L_out-3",
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	calls := 0
	g := new(gate)
	callback := newPlainCallback(func() { calls++; g.goOn = uint64(calls % 2) })
	for range 200 {
		g = &gate{active: uint64(r.IntN(2)), callback: callback}
		for i := range g.layers {
			g.layers[i] = r.Uint64()
		}
		for _, name := range names {
			tensor := named(name)
			layer, ok := blockOutput(uintptr(unsafe.Pointer(tensor)))
			want := ok && g.active != 0 && g.watches(layer)
			got := callBool(evalGateAddr, uintptr(unsafe.Pointer(tensor)), 1, uintptr(unsafe.Pointer(g)))
			if got != want {
				t.Fatalf("gate active=%d, node %q: assembly says %v, Go says %v", g.active, name, got, want)
			}
		}
	}
	if calls != 0 {
		t.Fatalf("asking entered Go %d times", calls)
	}
	g = &gate{active: 1, callback: callback}
	node := named("l_out-3")
	for want := 1; want <= 4; want++ {
		goOn := callBool(evalGateAddr, uintptr(unsafe.Pointer(node)), 0, uintptr(unsafe.Pointer(g)))
		if calls != want || goOn != (want%2 == 1) || g.node != uintptr(unsafe.Pointer(node)) {
			t.Fatalf("showing data %d times entered Go %d times with node %#x and said %v", want, calls, g.node, goOn)
		}
	}
}

func BenchmarkGate(b *testing.B) {
	g := &gate{active: 1}
	tensor, f := named("ffn_out-3"), new(frame)
	for b.Loop() {
		f.call(evalGateAddr, uintptr(unsafe.Pointer(tensor)), 1, uintptr(unsafe.Pointer(g)))
	}
}
