package runtime

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/monitors"
	"github.com/trimtab/trimtab/runtime/engine/enginetest"
	"github.com/trimtab/trimtab/steer"
)

// staller is a watcher that never answers from one step on, and then reads
// what it was shown.
type staller struct {
	at, rewind int // step, and the count of rewinds, at which it stalls; -1 for never
	until      chan struct{}
	seen       int
	read       chan float32 // what it reads when it comes back
}

func (w *staller) Observe(_ context.Context, o *monitors.Observation) (monitors.Verdict, error) {
	w.seen++
	if o.Step == w.at {
		<-w.until
		a, err := o.Activation(steer.Site{Layer: 1})
		if err != nil {
			return monitors.Verdict{}, err
		}
		w.read <- o.Raw[3] + o.Logits[3] + a[0]
	}
	return monitors.Verdict{Score: float64(w.seen)}, nil
}

func (w *staller) Rewind(n int) error {
	w.seen -= n
	if w.rewind--; w.rewind == -1 {
		<-w.until
	}
	return nil
}

// TestStall: a watcher that never answers is a fault in both modes, in a
// session and in a scheduler, holds up nobody else, and may read what it was
// shown for as long as it likes.
func TestStall(t *testing.T) {
	for _, mode := range []FaultMode{FailClosed, FailOpen} {
		for _, scheduled := range []bool{false, true} {
			for _, inRewind := range []bool{false, true} {
				synctest.Test(t, func(t *testing.T) { stall(t, mode, scheduled, inRewind) })
			}
		}
	}
}

func stall(t *testing.T, mode FaultMode, scheduled, inRewind bool) {
	w := &staller{at: 3, rewind: -1, until: make(chan struct{}), read: make(chan float32, 1)}
	if inRewind {
		w.at, w.rewind = -1, 0
	}
	other := &seen{}
	cfg := Config{Engine: steady(t, "hello"), Prompt: prompt, OnFault: mode, HoldBack: 3, Processor: &shy{}, ObserveTimeout: time.Second,
		Monitors: []monitors.Monitor{
			{Name: "stuck", Sites: []steer.Site{{Layer: 1}}, Start: func() monitors.Watcher { return w }},
			other.monitor("other"),
		},
		Policy: onceAt(2, Action{Kind: Rewind, Rewind: 1}),
	}
	r := runEither(t, cfg, scheduled)
	close(w.until)
	synctest.Wait()
	if !inRewind {
		<-w.read
	}
	if len(r.Faults) != 1 || !errors.Is(r.Faults[0], ErrStalled) || !strings.Contains(r.Faults[0].Error(), `monitor "stuck" fault`) {
		t.Errorf("mode %d: faults %v", mode, r.Faults)
	}
	switch {
	case mode == FailOpen && (r.Text != "hello" || len(other.tokens) != 6):
		t.Errorf("%q, the other monitor saw %d", r.Text, len(other.tokens))
	case mode == FailClosed && r.FinishReason != FinishError:
		t.Errorf("%+v", r)
	}
}

// TestStallCancelled: a cancelled session does not wait for a watcher.
func TestStallCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &staller{at: 0, rewind: -1, until: make(chan struct{}), read: make(chan float32, 1)}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		s := must(NewSession(ctx, Config{Engine: steady(t, "hello"), Prompt: prompt, ObserveTimeout: time.Hour,
			Monitors: []monitors.Monitor{{Name: "stuck", Sites: []steer.Site{{Layer: 1}}, Start: func() monitors.Watcher { return w }}}}))
		r, err := s.Run(ctx)
		if !errors.Is(err, context.DeadlineExceeded) || r.FinishReason != FinishCancelled {
			t.Errorf("%v, %+v", err, r)
		}
		s.Close()
		close(w.until)
	})
}

// TestTimeoutChangesNothing: watchers that answer say the same with a limit.
func TestTimeoutChangesNothing(t *testing.T) {
	for seed := range uint64(20) {
		want := traced(t, busy(t, seed), TraceOptions{Rows: true})
		cfg := busy(t, seed)
		cfg.ObserveTimeout = time.Hour
		if got := traced(t, cfg, TraceOptions{Rows: true}); got != want {
			t.Fatalf("seed %d: the traces differ", seed)
		}
	}
	if err := (&Config{Engine: fake(t, enginetest.FakeConfig{}), Prompt: []decode.Token{1}, ObserveTimeout: -1}).Validate(); err == nil {
		t.Error("a negative limit is accepted")
	}
}

// TestStallReplays: a replay does not wait for a watcher that was left behind.
func TestStallReplays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m monitors.Monitor
		w := &staller{at: 2, rewind: -1, until: make(chan struct{}), read: make(chan float32, 1)}
		m = monitors.Monitor{Name: "stuck", Sites: []steer.Site{{Layer: 1}}, Start: func() monitors.Watcher {
			return &staller{at: w.at, rewind: -1, until: w.until, read: w.read}
		}}
		cfg := Config{Engine: steady(t, "hello"), Prompt: prompt, OnFault: FailOpen, ObserveTimeout: time.Second, Monitors: []monitors.Monitor{m}}
		tr := traced(t, cfg, TraceOptions{Rows: true})
		if !strings.Contains(tr, `"stalled":true`) {
			t.Error("the trace does not say it")
		}
		if err := Replay(t.Context(), strings.NewReader(tr), []monitors.Monitor{m}, nil); err != nil {
			t.Error(err)
		}
		if err := Rerun(t.Context(), strings.NewReader(tr), Parts{Monitors: []monitors.Monitor{m}}); err != nil {
			t.Error(err)
		}
		close(w.until)
	})
}
