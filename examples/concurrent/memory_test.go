package main

import (
	"context"
	"os"
	goruntime "runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/trimtab/trimtab/bindings/llamacpp"
	"github.com/trimtab/trimtab/bindings/llamacpp/llamatest"
	"github.com/trimtab/trimtab/runtime"
)

// TestThousandSessions: a thousand sessions, alone and through a scheduler,
// leave goroutines and resident memory where they were.
func TestThousandSessions(t *testing.T) {
	const sessions, growth = 1000, 8 << 10 // KB of resident memory that the allocators may keep
	model := llamatest.Open(t, modelFile(t, "nano"), llamacpp.Options{Threads: 1, MaxSequences: 16})
	all := prompts(t, model)
	round := func(n int) {
		for i := 0; i < n; i += len(all) {
			generate(t, model, all)
		}
		for i := range n / 4 {
			s, err := runtime.NewSession(context.Background(), runtime.Config{Engine: model, Prompt: all[i%len(all)], MaxTokens: 4})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.Run(context.Background()); err != nil {
				t.Fatal(err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
		goruntime.GC()
	}
	round(sessions / 5)
	goroutines, before := goruntime.NumGoroutine(), residentKB(t)
	round(sessions)
	after := residentKB(t)
	t.Logf("resident memory %d KB before, %d KB after; goroutines %d and %d", before, after, goroutines, goruntime.NumGoroutine())
	if goruntime.NumGoroutine() > goroutines {
		t.Errorf("%d goroutines, %d before", goruntime.NumGoroutine(), goroutines)
	}
	if after > before+growth {
		t.Errorf("resident memory grew by %d KB", after-before)
	}
}

// residentKB is the process's resident memory, or 0 where it cannot be read.
func residentKB(t *testing.T) int {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	kb, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		t.Fatal(err)
	}
	return kb
}
