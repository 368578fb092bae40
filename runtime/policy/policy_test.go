package policy

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/monitors"
	"github.com/trimtab/trimtab/monitors/entropy"
	"github.com/trimtab/trimtab/runtime"
	"github.com/trimtab/trimtab/runtime/engine/enginetest"
)

func flagged(name string, onset int) runtime.Verdict {
	return runtime.Verdict{Monitor: name, Verdict: monitors.Verdict{Score: 2, Flag: true, Onset: onset}}
}

func TestDecide(t *testing.T) {
	calm := runtime.Verdict{Monitor: "a", Verdict: monitors.Verdict{Score: 9}}
	tokens := []decode.Token{10, 11, 12, 13}
	for _, tt := range []struct {
		name     string
		p        runtime.Policy
		verdicts []runtime.Verdict
		window   int
		want     runtime.Action
	}{
		{"accept", Accept{}, []runtime.Verdict{flagged("a", 0)}, 4, runtime.Action{}},
		{"no flag", &Threshold{Do: runtime.Stop}, []runtime.Verdict{calm}, 4, runtime.Action{}},
		{"no verdict", &Threshold{Do: runtime.Stop}, nil, 4, runtime.Action{}},
		{"stop", &Threshold{Do: runtime.Stop, Release: true}, []runtime.Verdict{calm, flagged("b", 0)}, 4,
			runtime.Action{Kind: runtime.Stop, Release: true, Reason: "b: score 2"}},
		{"another monitor", &Threshold{Do: runtime.Stop, Monitors: []string{"a"}}, []runtime.Verdict{flagged("b", 0)}, 4, runtime.Action{}},
		{"resample", &Threshold{Do: runtime.Rewind, Ban: true}, []runtime.Verdict{flagged("a", 0)}, 4,
			runtime.Action{Kind: runtime.Rewind, Ban: []decode.Token{99}, Reason: "a: score 2"}},
		{"back", &Threshold{Do: runtime.Rewind, Back: 2, Ban: true}, []runtime.Verdict{flagged("a", 1)}, 4,
			runtime.Action{Kind: runtime.Rewind, Rewind: 2, Ban: []decode.Token{12}, Reason: "a: score 2"}},
		{"onset", &Threshold{Do: runtime.Rewind, Back: 1, Ban: true}, []runtime.Verdict{flagged("a", 4)}, 3,
			runtime.Action{Kind: runtime.Rewind, Rewind: 4, Ban: []decode.Token{11}, Reason: "a: score 2"}},
		{"nothing held", &Threshold{Do: runtime.Rewind, Back: 4, Ban: true}, []runtime.Verdict{flagged("a", 0)}, 0,
			runtime.Action{Kind: runtime.Rewind, Rewind: 4, Ban: []decode.Token{99}, Reason: "a: score 2"}},
	} {
		s := &runtime.Step{Index: 4, Token: 99, Tokens: tokens, Verdicts: tt.verdicts, Rewindable: tt.window}
		got, err := tt.p.Decide(context.Background(), s)
		if err != nil || !cmp.Equal(got, tt.want) {
			t.Errorf("%s: %v\n%s", tt.name, err, cmp.Diff(tt.want, got))
		}
	}
}

func TestValidate(t *testing.T) {
	p := &Threshold{Back: -1}
	if err := p.Validate(); err == nil {
		t.Error("no error")
	}
	if _, err := p.Decide(context.Background(), &runtime.Step{Verdicts: []runtime.Verdict{flagged("a", 0)}}); err == nil {
		t.Error("no error from Decide")
	}
}

// TestInSession: a surprising token is taken back and banned; the text goes on
// without it.
func TestInSession(t *testing.T) {
	says := enginetest.Tokens("ab\x01cd") // the byte that unscripted text avoids
	surprise := func(text enginetest.Text) decode.Token {
		if n := len(text.Tokens) - text.PromptLen; n < len(says) {
			return says[n]
		}
		return enginetest.EOS
	}
	eng, err := enginetest.NewFake(enginetest.FakeConfig{Script: surprise})
	if err != nil {
		t.Fatal(err)
	}
	m := monitors.Monitor{Name: "control", Start: func() monitors.Watcher { return control{} }}
	calm, err := entropy.New(entropy.Options{Threshold: 50})
	if err != nil {
		t.Fatal(err)
	}
	s, err := runtime.NewSession(t.Context(), runtime.Config{Engine: eng, Prompt: says[:1], HoldBack: 4, MaxTokens: 8,
		Monitors: []monitors.Monitor{m, calm}, Policy: &Threshold{Do: runtime.Rewind, Ban: true}})
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.Run(t.Context())
	if err != nil || r.Rewinds != 1 || len(r.Text) != 5 || r.Text[:2] != "ab" || r.Text[2] < ' ' || r.Text[3:] != "cd" {
		t.Errorf("%v, %+v", err, r)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := eng.Close(); err != nil {
		t.Error(err)
	}
}

type control struct{}

func (control) Observe(_ context.Context, o *monitors.Observation) (monitors.Verdict, error) {
	return monitors.Verdict{Flag: o.Token < ' '}, nil
}
func (control) Rewind(int) error { return nil }
