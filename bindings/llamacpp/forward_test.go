package llamacpp

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/internal/gguf"
	"github.com/trimtab/trimtab/runtime/engine"
	"github.com/trimtab/trimtab/steer"
)

func sequence(t testing.TB, e *Engine) engine.Sequence {
	t.Helper()
	s, err := e.NewSequence(context.Background(), engine.Origin{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestForwardDoesNotAllocate: a decode step, plain, captured on either path, or
// with every block hooked, costs the Go heap nothing.
func TestForwardDoesNotAllocate(t *testing.T) {
	if raceOn {
		t.Log("not counted under the race detector")
		return
	}
	e := open(t, "tiny", gguf.F32, Options{Threads: 1})
	last := steer.Site{Layer: e.info.Layers - 1} // shown by the hook only
	for _, c := range []struct {
		name    string
		capture []steer.Site
		plan    *steer.Plan
	}{
		{"plain", nil, nil},
		{"captured", []steer.Site{{Layer: 1}}, nil},
		{"captured by the hook", []steer.Site{last}, nil},
		{"every block hooked", []steer.Site{last}, everyBlock(t, e)},
	} {
		ctx, s := context.Background(), sequence(t, e)
		if err := s.Steer(c.plan); err != nil {
			t.Fatal(err)
		}
		feeds := []engine.Feed{{Seq: s, Tokens: []decode.Token{65}, Capture: c.capture}}
		buf := make([]byte, 0, 256)
		step := func() {
			if err := e.Forward(ctx, feeds); err != nil {
				t.Fatal(err)
			}
			feeds[0].Tokens[0] = argmax(s.Logits())
			buf = e.info.Tokenizer.AppendPiece(buf[:0], feeds[0].Tokens[0])
		}
		step()
		if n := testing.AllocsPerRun(200, step); n > 0 {
			t.Errorf("%s: %v allocations per token, want 0", c.name, n)
		}
		s.Close()
	}
}

// everyBlock rotates every row a little after every block, behind gates.
func everyBlock(t testing.TB, e *Engine) *steer.Plan {
	r := rand.New(rand.NewPCG(3, 3))
	var list []steer.Intervention
	for layer := range e.info.Layers {
		v := randomVector(r, e.info.Width)
		list = append(list, steer.Intervention{Site: steer.Site{Layer: layer}, Op: steer.Rotate, Vector: v, Toward: randomVector(r, e.info.Width),
			Scale: 0.1, Renorm: true, Gate: &steer.Gate{Vector: v, Threshold: -0.99}})
	}
	return mustPlan(t, list...)
}

// TestSlotsAreReused: engines that were closed leave their callback to the next.
func TestSlotsAreReused(t *testing.T) {
	l := library(t)
	path := modelFileFor(t, "tiny", gguf.F32)
	before := len(l.slots)
	for range 8 {
		e, err := l.Open(path, Options{Threads: 2, Context: 64})
		if err != nil {
			t.Fatal(err)
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(l.slots); n > before+1 {
		t.Errorf("%d callbacks for 8 engines one after the other", n-before)
	}
}

// TestCancelInterruptsPrefill: a context that ends during a long prefill stops
// it between two graph nodes, and the sequence is as it was.
func TestCancelInterruptsPrefill(t *testing.T) {
	e := open(t, "tiny", gguf.F32, Options{Threads: 1, KV: KVF32})
	s := sequence(t, e)
	prompt := make([]decode.Token, 2000)
	for i := range prompt {
		prompt[i] = decode.Token(i % 256)
	}
	if err := e.Forward(context.Background(), []engine.Feed{{Seq: s, Tokens: prompt[:5]}}); err != nil {
		t.Fatal(err)
	}
	want := append(decode.Logits(nil), s.Logits()...)
	s.Rewind(1)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Millisecond)
	defer cancel()
	err := e.Forward(ctx, []engine.Feed{{Seq: s, Tokens: prompt}})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %v, want a deadline error", err)
	}
	if s.Len() != 4 || e.stop[0] != 0 {
		t.Fatalf("after the cancel: %d rows, stop byte %d; want 4 and 0", s.Len(), e.stop[0])
	}
	if err := e.Forward(context.Background(), []engine.Feed{{Seq: s, Tokens: prompt[4:5]}}); err != nil {
		t.Fatal(err)
	}
	for i, x := range s.Logits() {
		if d := x - want[i]; d > 1e-4 || d < -1e-4 {
			t.Fatalf("logit %d is %v after a cancelled prefill, %v before", i, x, want[i])
		}
	}
}

// TestSequencesLeaveNothingBehind opens and closes 1,000 sequences.
func TestSequencesLeaveNothingBehind(t *testing.T) {
	e := open(t, "tiny", gguf.F32, Options{Threads: 1, MaxSequences: 64})
	ctx := context.Background()
	round := func(n int) {
		for range n {
			s := sequence(t, e)
			if err := e.Forward(ctx, []engine.Feed{{Seq: s, Tokens: []decode.Token{65, 66, 67}}}); err != nil {
				t.Fatal(err)
			}
			s.Close()
		}
	}
	round(100)
	goroutines, before := runtime.NumGoroutine(), residentKB(t)
	round(1000)
	runtime.GC()
	after := residentKB(t)
	t.Logf("resident %d KB before, %d KB after; goroutines %d and %d", before, after, goroutines, runtime.NumGoroutine())
	if runtime.NumGoroutine() > goroutines {
		t.Errorf("%d goroutines, %d before", runtime.NumGoroutine(), goroutines)
	}
	if after > before+8<<10 {
		t.Errorf("resident memory grew from %d to %d KB", before, after)
	}
}

// residentKB is the process's resident memory, 0 where it cannot be read.
func residentKB(t testing.TB) int {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "VmRSS:" {
			kb, err := strconv.Atoi(f[1])
			if err != nil {
				t.Fatal(err)
			}
			return kb
		}
	}
	return 0
}
