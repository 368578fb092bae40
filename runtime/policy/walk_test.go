package policy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/monitors"
	"github.com/trimtab/trimtab/monitors/entropy"
	"github.com/trimtab/trimtab/runtime"
	"github.com/trimtab/trimtab/runtime/engine/enginetest"
	"github.com/trimtab/trimtab/steer"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// anyPolicy draws a policy with everything in it. Equal seeds give equal ones.
func anyPolicy(r *rand.Rand) runtime.Policy {
	v := make([]float32, 16)
	v[r.IntN(16)] = 1
	o := BacktrackOptions{
		Point: []Point{nil, Fixed(r.IntN(9)), Onset{r.IntN(3)}, Crossing{Above: 2}, Beginning{r.IntN(2) == 0}, Highest{Monitor: "surprise"}, Peak{Monitor: "surprise"}}[r.IntN(7)],
		Ban:   r.IntN(2) == 0, GuideSpan: r.IntN(6), Most: 1 + r.IntN(9), Strict: r.IntN(8) == 0,
	}
	if r.IntN(2) == 0 {
		o.Guide = text("(be kind)")[:1+r.IntN(8)]
	}
	if r.IntN(2) == 0 {
		o.Plan = must(steer.NewPlan(steer.Intervention{Site: steer.Site{Layer: 1}, Vector: v, Scale: 0.5}))
	}
	if r.IntN(4) == 0 {
		o.Point, o.Reread = Peak{}, &Reread{Scorer: &heights{}, Prompt: text("Who are you?")}
	}
	if r.IntN(2) == 0 {
		o.Refusal = text("No, never.")
	}
	back := must(NewBacktrack(o))
	switch r.IntN(5) {
	case 0:
		return back
	case 1:
		return must(NewFiltered(FilteredOptions{Top: 2 + r.IntN(7), Otherwise: back}))
	case 2:
		return Chain{Flag{}, must(NewFiltered(FilteredOptions{Monitors: []string{"state"}})), back}
	case 3:
		return &Cascade{Cheap: []string{"surprise"}, Span: r.IntN(4), Then: back}
	}
	return &Budget{Policy: Chain{back, &Threshold{Do: runtime.Rewind, Back: 2, Ban: true}}, Rewinds: r.IntN(9), Discard: r.IntN(60), Then: Flag{}}
}

// anyConfig is a session with a random policy. The seed says everything.
func anyConfig(seed uint64) (runtime.Config, runtime.Policy) {
	r := rand.New(rand.NewPCG(seed, 10))
	cfg := runtime.Config{Prompt: text("Who are you?"), MaxTokens: 60, HoldBack: r.IntN(14), Seed: seed, Stop: []string{"ab"}, Sampler: decode.Categorical{},
		Monitors:   []monitors.Monitor{letters("letters", "eE.,:+-"), after("aeiouAEIOU!"), must(entropy.New(entropy.Options{Threshold: 3, Run: 2}))},
		MaxRewinds: 1 + r.IntN(40), MaxDiscarded: 1 + r.IntN(300), MaxGuide: 12, OnFault: runtime.FaultMode(r.IntN(2))}
	cfg.Policy = anyPolicy(rand.New(rand.NewPCG(seed, 11)))
	return cfg, anyPolicy(rand.New(rand.NewPCG(seed, 11)))
}

// TestReleasedIsFinal: under random policies and windows, read to the end or
// not, alone and in a crowd, what has left is the beginning of the result, the
// budgets hold, every session ends, and its trace replays.
func TestReleasedIsFinal(t *testing.T) {
	rewinds, refusals := 0, 0
	for seed := range uint64(150) {
		cfg, again := anyConfig(seed)
		cfg.Engine = fake(t, enginetest.FakeConfig{Seed: seed % 7})
		var tr bytes.Buffer
		cfg.Listener = runtime.NewTracer(&tr, runtime.TraceOptions{Rows: true})
		s, err := runtime.NewSession(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		left := leave(t.Context(), s, int(seed%9))
		s.Close()
		r := s.Result()
		if bad := broken(&cfg, r, left); bad != "" {
			t.Fatalf("seed %d: %s", seed, bad)
		}
		if err := runtime.Replay(t.Context(), &tr, cfg.Monitors, again); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		rewinds += r.Rewinds
		if strings.HasSuffix(r.Text, "No, never.") {
			refusals++
		}
	}
	if rewinds < 500 || refusals < 10 {
		t.Errorf("%d rewinds and %d refusals only, the test shows little", rewinds, refusals)
	}
}

// leave reads chunks until the end; with a number, that many, and goes away.
func leave(ctx context.Context, s interface {
	Next(context.Context) (runtime.Chunk, error)
}, most int) string {
	var b strings.Builder
	for n := 0; most == 0 || n < 4*most; n++ {
		c, err := s.Next(ctx)
		b.Write(c.Text)
		if err != nil {
			break
		}
	}
	return b.String()
}

// broken says which promise a result breaks.
func broken(cfg *runtime.Config, r *runtime.Result, left string) string {
	switch {
	case r == nil:
		return "it did not end"
	case !strings.HasPrefix(r.Text, left):
		return fmt.Sprintf("%q had left, the result is %q", left, r.Text)
	case strings.Contains(r.Text, "ab"):
		return fmt.Sprintf("a stop string in %q", r.Text)
	case r.Rewinds > cfg.MaxRewinds || r.Discarded > cfg.MaxDiscarded:
		return fmt.Sprintf("%d rewinds of %d, %d tokens of %d", r.Rewinds, cfg.MaxRewinds, r.Discarded, cfg.MaxDiscarded)
	}
	return ""
}

// TestReleasedIsFinalInACrowd is the same with readers at their own pace: some
// read slowly, some stop reading, some leave.
func TestReleasedIsFinalInACrowd(t *testing.T) {
	eng := fake(t, enginetest.FakeConfig{})
	sched, err := runtime.NewScheduler(eng, runtime.Options{Slots: 6, BatchRows: 24, StreamBytes: 16, Workers: 3, Queue: 200})
	if err != nil {
		t.Fatal(err)
	}
	defer sched.Close()
	var readers sync.WaitGroup
	for seed := range uint64(90) {
		cfg, _ := anyConfig(seed)
		st, err := sched.Submit(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		readers.Go(func() {
			left := leave(t.Context(), st, int(seed%4))
			if seed%4 == 3 {
				st.Close() // it stopped reading, and leaves
			}
			r, err := st.Wait(t.Context())
			if err != nil && !errors.Is(err, runtime.ErrFault) && !errors.Is(err, context.Canceled) && !errors.Is(err, io.EOF) {
				t.Errorf("seed %d: %v", seed, err)
			}
			if bad := broken(&cfg, r, left); bad != "" {
				t.Errorf("seed %d: %s", seed, bad)
			}
		})
	}
	readers.Wait()
}

// TestNeverLoops: whatever is flagged all the time, a session ends within the
// tokens of its answer and of its budgets.
func TestNeverLoops(t *testing.T) {
	always := monitors.Monitor{Name: "always", Start: func() monitors.Watcher { return alarm{} }}
	for seed := range uint64(60) {
		cfg, _ := anyConfig(seed)
		steps := 0
		cfg.Engine, cfg.Monitors = fake(t, enginetest.FakeConfig{}), []monitors.Monitor{always}
		cfg.Listener.Step = func(context.Context, *runtime.Event) error { steps++; return nil }
		s, err := runtime.NewSession(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		r, err := s.Run(t.Context())
		s.Close()
		if most := cfg.MaxTokens + cfg.MaxDiscarded + 1; err != nil && !errors.Is(err, runtime.ErrFault) || steps > most {
			t.Errorf("seed %d: %v after %d steps, want at most %d: %+v", seed, err, steps, most, r)
		}
	}
}

type alarm struct{}

func (alarm) Observe(context.Context, *monitors.Observation) (monitors.Verdict, error) {
	return monitors.Verdict{Score: 1, Flag: true}, nil
}
func (alarm) Rewind(int) error { return nil }
