package policy

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/monitors"
	"github.com/trimtab/trimtab/runtime"
)

// heights scores a letter by its case: a capital was written with a sharp look.
type heights struct {
	asked []string
	err   error
	short int
}

func (h *heights) Scores(_ context.Context, tokens []decode.Token, last int) ([]float64, error) {
	var b []byte
	for _, t := range tokens {
		b = append(b, byte(t))
	}
	h.asked = append(h.asked, string(b[:len(b)-last])+"|"+string(b[len(b)-last:]))
	scores := make([]float64, last)
	for i, c := range b[len(b)-last:] {
		scores[i] = 0.05
		if c >= 'A' && c <= 'Z' {
			scores[i] = float64(c-'A'+1) / 10
		}
	}
	return scores[h.short:], h.err
}

func TestReread(t *testing.T) {
	for _, tt := range []struct {
		name  string
		says  string
		o     BacktrackOptions
		hold  int
		asked []string
		acts  []string
	}{
		{"nothing is flagged", "abcdE.", BacktrackOptions{}, 8, nil, nil},
		{"the latest peak", "abCdeFg!", BacktrackOptions{Most: 1}, 8, []string{"?|abCdeFg!"},
			[]string{"7 rewind 2/2 bad: score 1, intervention 1 of 1", "7 stop 0/0 bad: score 1, all 1 interventions are spent"}},
		{"no peak", "abcdefg!", BacktrackOptions{Most: 1}, 8, []string{"?|abcdefg!"},
			[]string{"7 rewind 3/3 bad: score 1, intervention 1 of 1", "7 stop 0/0 bad: score 1, all 1 interventions are spent"}},
		{"after two failures an earlier one", "aEbcFdg!", BacktrackOptions{Most: 3}, 8, []string{"?|aEbcFdg!", "?|aEbcFdg!", "?|aEbcFdg!"},
			[]string{"7 rewind 3/3 bad: score 1, intervention 1 of 3", "7 rewind 3/3 bad: score 1, intervention 2 of 3", "7 rewind 6/6 bad: score 1, intervention 3 of 3",
				"7 stop 0/0 bad: score 1, all 3 interventions are spent"}},
		{"a short look", "aBcdefg!", BacktrackOptions{Most: 1, Reread: &Reread{Last: 3}}, 8, []string{"?aBcde|fg!"},
			[]string{"7 rewind 3/3 bad: score 1, intervention 1 of 1", "7 stop 0/0 bad: score 1, all 1 interventions are spent"}},
		{"no attempt left", "abCd!", BacktrackOptions{Most: -1}, 8, nil,
			[]string{"4 stop 0/0 bad: score 1, all 0 interventions are spent"}},
		{"at the first token", "!", BacktrackOptions{Most: 1}, 8, []string{"?|!"},
			[]string{"0 rewind 0/0 bad: score 1, intervention 1 of 1", "0 stop 0/0 bad: score 1, all 1 interventions are spent"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := &heights{}
			if tt.o.Reread == nil {
				tt.o.Reread = &Reread{}
			}
			tt.o.Reread.Scorer, tt.o.Reread.Prompt, tt.o.Point = h, text("?"), Peak{}
			cfg := runtime.Config{Engine: steady(t, tt.says), MaxTokens: 40, HoldBack: tt.hold,
				Monitors: []monitors.Monitor{letters("bad", "!")}, Policy: must(NewBacktrack(tt.o)), MaxRewinds: 9, MaxDiscarded: 99}
			_, acts, err := run(t, cfg)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tt.asked, h.asked); d != "" {
				t.Errorf("asked (-want +got):\n%s", d)
			}
			if d := cmp.Diff(tt.acts, acts); d != "" {
				t.Errorf("actions (-want +got):\n%s", d)
			}
		})
	}
}

// TestRereadReplays: the same scorer leads to the same decisions.
func TestRereadReplays(t *testing.T) {
	o := BacktrackOptions{Point: Peak{}, Most: 3, Reread: &Reread{Scorer: &heights{}, Prompt: text("?")}}
	var tr bytes.Buffer
	cfg := runtime.Config{Engine: steady(t, "aEbcFdg!"), Prompt: text("?"), MaxTokens: 40, HoldBack: 8, MaxRewinds: 9, MaxDiscarded: 99,
		Monitors: []monitors.Monitor{letters("bad", "!")}, Policy: must(NewBacktrack(o)), Listener: runtime.NewTracer(&tr, runtime.TraceOptions{})}
	s, err := runtime.NewSession(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if r, err := s.Run(t.Context()); err != nil || r.Rewinds != 3 {
		t.Fatal(r, err)
	}
	if err := runtime.Replay(t.Context(), &tr, cfg.Monitors, must(NewBacktrack(o))); err != nil {
		t.Error(err)
	}
}

// TestRereadFails: a scorer that breaks, or says too little, is a fault of the
// policy, which the session takes as it is told to.
func TestRereadFails(t *testing.T) {
	broken := errors.New("the scorer is broken")
	for name, h := range map[string]*heights{"an error": {err: broken}, "too few scores": {short: 1}} {
		for mode, want := range map[runtime.FaultMode]error{runtime.FailClosed: runtime.ErrFault, runtime.FailOpen: nil} {
			o := BacktrackOptions{Point: Peak{}, Reread: &Reread{Scorer: h}}
			_, _, err := run(t, runtime.Config{Engine: steady(t, "ab!"), MaxTokens: 9, HoldBack: 4, OnFault: mode,
				Monitors: []monitors.Monitor{letters("bad", "!")}, Policy: must(NewBacktrack(o))})
			if !errors.Is(err, want) {
				t.Errorf("%s, %v: %v, want %v", name, mode, err, want)
			}
			if h.err != nil && err != nil && !errors.Is(err, broken) {
				t.Errorf("%s: %v does not wrap the scorer's error", name, err)
			}
		}
	}
	for name, q := range map[string]Reread{"no scorer": {}, "a negative window": {Scorer: &heights{}, Last: -1}} {
		if _, err := NewBacktrack(BacktrackOptions{Reread: &q}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestNote: scores that come late stand at their tokens, and go with them.
func TestNote(t *testing.T) {
	var r Record
	for i := range 5 {
		r.See(&runtime.Step{Index: i, Piece: []byte("a")})
	}
	r.Note("late", -1, []float64{9, 0, 1, 2})
	r.Note("late", 2, []float64{3, 4, 5, 6})
	r.See(&runtime.Step{Index: 4, Piece: []byte("b")})
	var got []float64
	for i := -1; i < 6; i++ {
		if score, ok := r.Score("late", i); ok {
			got = append(got, score)
		}
	}
	if want := []float64{0, 1, 3, 4}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
