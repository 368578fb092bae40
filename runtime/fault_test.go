package runtime

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/monitors"
	"github.com/trimtab/trimtab/runtime/engine"
	"github.com/trimtab/trimtab/runtime/engine/enginetest"
	"github.com/trimtab/trimtab/steer"
)

// TestFaults: every part that can fail, in both modes; never a crash.
func TestFaults(t *testing.T) {
	boom := errors.New("boom")
	verdict := func(v monitors.Verdict, err error) monitors.Monitor {
		return (&seen{flag: func(o *monitors.Observation) (monitors.Verdict, error) {
			if o.Step == 3 {
				return v, err
			}
			return monitors.Verdict{}, nil
		}}).monitor("bad")
	}
	panics := (&seen{flag: func(*monitors.Observation) (monitors.Verdict, error) { panic("ouch") }}).monitor("bad")
	acts := func(a Action, err error) Policy {
		return judge(func(s *Step) (Action, error) {
			if s.Index == 3 {
				return a, err
			}
			return Action{}, nil
		})
	}
	for _, tt := range []struct {
		name string
		cfg  Config
		want string
	}{
		{"monitor error", Config{Monitors: []monitors.Monitor{verdict(monitors.Verdict{}, boom)}}, `step 3: monitor "bad" fault: boom`},
		{"monitor NaN", Config{Monitors: []monitors.Monitor{verdict(monitors.Verdict{Score: math.NaN()}, nil)}}, `step 3: monitor "bad" fault: score is NaN`},
		{"monitor Inf", Config{Monitors: []monitors.Monitor{verdict(monitors.Verdict{Score: math.Inf(1)}, nil)}}, "score is +Inf"},
		{"monitor onset", Config{Monitors: []monitors.Monitor{verdict(monitors.Verdict{Onset: 4}, nil)}}, "onset 4 of 3 tokens"},
		{"monitor panic", Config{Monitors: []monitors.Monitor{panics}}, `step 0: monitor "bad" fault: panic: ouch`},
		{"monitor site", Config{Monitors: []monitors.Monitor{(&seen{flag: func(o *monitors.Observation) (monitors.Verdict, error) {
			_, err := o.Activation(steer.Site{Layer: 2})
			return monitors.Verdict{}, err
		}}).monitor("bad")}}, "not named in Monitor.Sites"},
		{"monitor rewind", Config{Monitors: []monitors.Monitor{{Name: "bad", Start: func() monitors.Watcher { return stuck{} }}},
			Policy: acts(Action{Kind: Rewind}, nil), MaxRewinds: 1}, "step 3: monitor \"bad\" fault: rewind 1: stuck"},
		{"policy error", Config{Policy: acts(Action{}, boom)}, "step 3: policy fault: boom"},
		{"policy panic", Config{Policy: judge(func(*Step) (Action, error) { panic("ouch") })}, "step 0: policy fault: panic: ouch"},
		{"policy kind", Config{Policy: acts(Action{Kind: 9}, nil)}, "unknown action kind(9)"},
		{"policy negative", Config{Policy: acts(Action{Kind: Rewind, Rewind: -1}, nil)}, "must not be negative"},
		{"policy commit with rewind", Config{Policy: acts(Action{Rewind: 1}, nil)}, "action commit: rewinds 1 tokens"},
		{"monitor note", Config{Monitors: []monitors.Monitor{verdict(monitors.Verdict{Note: strings.Repeat("x", 2000)}, nil)}}, "note of 2000 bytes"},
		{"policy reason", Config{Policy: acts(Action{Reason: strings.Repeat("x", 2000)}, nil)}, "reason of 2000 bytes"},
		{"policy ban", Config{Policy: acts(Action{Ban: []decode.Token{99999}}, nil)}, "banned token 99999"},
		{"policy guide", Config{Policy: acts(Action{Guide: []decode.Token{-1}}, nil)}, "guidance token -1"},
		{"policy long guide", Config{Policy: acts(Action{Guide: make([]decode.Token, 65)}, nil)}, "65 hidden tokens at once, the limit is 64"},
		{"policy plan", Config{Policy: acts(Action{Plan: must(steer.NewPlan(steer.Intervention{Vector: ones(3), Scale: 1}))}, nil)}, "vector is 3 wide"},
	} {
		for _, mode := range []FaultMode{FailClosed, FailOpen} {
			cfg := tt.cfg
			cfg.Engine, cfg.Prompt, cfg.OnFault, cfg.MaxRewinds = saying(t, "hello"), prompt, mode, 1
			var faults []error
			cfg.Listener.Step = func(_ context.Context, e *Event) error {
				faults = append(faults, e.Faults...)
				return nil
			}
			r, streamed, err := generate(t, cfg)
			if mode == FailOpen && tt.name == "monitor rewind" && r.FinishReason == FinishFilter {
				continue // the policy asks for a second rewind
			}
			if mode == FailOpen {
				if err != nil || r.Text != "hello" || len(r.Faults) != 1 || !errors.Is(r.Faults[0], ErrFault) || len(faults) != 1 {
					t.Errorf("%s, open: %v, %+v, told %v", tt.name, err, r, faults)
				}
				continue
			}
			if !errors.Is(err, ErrFault) || !strings.Contains(err.Error(), tt.want) || r.FinishReason != FinishError || r.Text != streamed {
				t.Errorf("%s, closed: %v, %+v", tt.name, err, r)
			}
		}
	}
}

type stuck struct{}

func (stuck) Observe(context.Context, *monitors.Observation) (monitors.Verdict, error) {
	return monitors.Verdict{}, nil
}
func (stuck) Rewind(int) error { return errors.New("stuck") }

// TestBrokenParts: what is no monitor and no policy ends the session.
func TestBrokenParts(t *testing.T) {
	boom := errors.New("boom")
	for _, tt := range []struct {
		name string
		cfg  Config
		want string
	}{
		{"processor error", Config{Processor: broken{process: boom}}, "step 0: process: boom"},
		{"accept error", Config{Processor: broken{accept: boom}}, "accept token 104: boom"},
		{"processor panic", Config{Processor: broken{panics: true}}, "step 0: panic: ouch"},
		{"sampler error", Config{Sampler: sampler(func() (decode.Token, error) { return 0, boom })}, "step 0: sample: boom"},
		{"sampler range", Config{Sampler: sampler(func() (decode.Token, error) { return -1, nil })}, "token -1 is outside"},
		{"listener error", Config{Listener: Listener{Step: func(context.Context, *Event) error { return boom }}}, "listener: boom"},
		{"listener panic", Config{Listener: Listener{Step: func(context.Context, *Event) error { panic("ouch") }}}, "panic: ouch"},
		{"end error", Config{Listener: Listener{End: func(context.Context, *Result) error { return boom }}}, "listener: boom"},
		{"end panic", Config{Listener: Listener{End: func(context.Context, *Result) error { panic("ouch") }}}, "panic: ouch"},
		{"all banned", Config{Processor: broken{ban: true}}, decode.ErrNoToken.Error()},
	} {
		cfg := tt.cfg
		cfg.Engine, cfg.Prompt = saying(t, "hello"), prompt
		r, _, err := generate(t, cfg)
		if err == nil || !strings.Contains(err.Error(), tt.want) || r.FinishReason != FinishError {
			t.Errorf("%s: %v, %+v", tt.name, err, r)
		}
	}
	for name, start := range map[string]func(context.Context, *Begin) error{
		"error": func(context.Context, *Begin) error { return boom },
		"panic": func(context.Context, *Begin) error { panic("ouch") },
	} {
		if _, err := NewSession(context.Background(), Config{Engine: saying(t, ""), Prompt: prompt, Listener: Listener{Start: start}}); err == nil {
			t.Errorf("start %s: no error", name)
		}
	}
	eng := fake(t, enginetest.FakeConfig{Hooks: enginetest.Hooks{Before: enginetest.FailAt(3, boom)}})
	r, streamed, err := generate(t, Config{Engine: eng, Prompt: prompt})
	if !errors.Is(err, boom) || !strings.Contains(fmt.Sprint(err), "step 2: forward") || r.Text != streamed || len(r.Tokens) != 2 {
		t.Errorf("engine: %v, %+v", err, r)
	}
	if !errors.Is(engine.Unsupported("x", "y"), engine.ErrUnsupported) {
		t.Error("unsupported")
	}
}

type broken struct {
	process, accept error
	panics, ban     bool
}

func (b broken) Process(_ context.Context, l decode.Logits) error {
	if b.panics {
		panic("ouch")
	}
	for i := range l {
		if b.ban {
			l[i] = float32(math.Inf(-1))
		}
	}
	return b.process
}
func (b broken) Accept(decode.Token) error { return b.accept }
func (b broken) Rewind(int) error          { return nil }

type sampler func() (decode.Token, error)

func (s sampler) Sample(decode.Logits, *rand.Rand) (decode.Token, error) { return s() }
