package runtime

import (
	"testing"

	"github.com/trimtab/trimtab/steer"
)

// TestKeyOfAnswers: rows of an answer serve a later prompt only when the plan
// would have done the same to them there.
func TestKeyOfAnswers(t *testing.T) {
	zero := 0
	for _, c := range []struct {
		name string
		iv   steer.Intervention
		want bool
	}{
		{"every row", steer.Intervention{}, true},
		{"some tokens", steer.Intervention{When: steer.When{Tokens: []int32{1}}}, true},
		{"a window", steer.Intervention{When: steer.When{From: &zero}}, false},
		{"a phase", steer.Intervention{When: steer.When{Phases: steer.PhaseAnswer}}, false},
		{"a schedule", steer.Intervention{Schedule: steer.Schedule{Kind: steer.Decay, Start: 1, Over: 8}}, false},
	} {
		c.iv.Vector, c.iv.Scale = []float32{1}, 1
		p, err := steer.NewPlan(c.iv)
		if err != nil {
			t.Fatal(err)
		}
		if got := keyOf(p, 3).answer; got != c.want {
			t.Errorf("%s: answers are reused: %v, want %v", c.name, got, c.want)
		}
	}
}
