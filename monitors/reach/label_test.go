package reach

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/trimtab/trimtab/decode"
)

func spell(t decode.Token) string { return []string{"", "go ", "on ", "bo", "om ", "é"}[t] }

func TestLabelText(t *testing.T) {
	d := bare(said("a", 1, 2, 3, 4, 1, 0), said("a", 5, 1, 2), said("a", 3, 4), said("a", 0))
	LabelText(d, spell, func(text string) int { return strings.Index(text, "boom") })
	var got [][]float32
	for i := range d.Trajectories {
		got = append(got, d.Trajectories[i].Margins)
	}
	want := [][]float32{{1, 1, 1, -1, -1, -1, -1}, {1, 1, 1, 1}, {1, -1, -1}, {1, 1}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if f := d.Trajectories[0].Failure(); f != 2 || d.Trajectories[1].Unsafe() {
		t.Errorf("failure at %d", f)
	}
}

// Halving finds the token at which the judge's verdict turns, in few calls.
func TestBisect(t *testing.T) {
	var texts []Trajectory
	for n := 1; n <= 20; n++ {
		for at := -1; at < n; at++ {
			tokens := make([]decode.Token, n)
			for i := range tokens {
				tokens[i] = 1
			}
			if at >= 0 {
				tokens[at] = 5
			}
			texts = append(texts, said(fmt.Sprint(n, at), tokens...))
		}
	}
	d, calls := bare(texts...), 0
	judge := func(_ context.Context, list []Prefix) ([]float64, error) {
		calls++
		out := make([]float64, len(list))
		for i, p := range list {
			out[i] = 0.1
			if strings.Contains(p.Text, "é") {
				out[i] = 0.9
			}
		}
		return out, nil
	}
	if err := Bisect(t.Context(), d, spell, judge); err != nil {
		t.Fatal(err)
	}
	for i := range d.Trajectories {
		tr := &d.Trajectories[i]
		want := -1
		for k, tok := range tr.Tokens {
			if tok == 5 {
				want = k
			}
		}
		if got := tr.Failure(); got != want {
			t.Errorf("text %s: failure at %d, want %d: %v", tr.Group, got, want, tr.Margins)
		}
		if last := tr.Margins[len(tr.Tokens)]; want >= 0 && !near(float64(last), -0.8, 1e-6) || want < 0 && !near(float64(last), 0.8, 1e-6) {
			t.Errorf("text %s ends with margin %v", tr.Group, last)
		}
	}
	if calls > 6 {
		t.Errorf("%d calls of the judge, want at most 6", calls)
	}
	if err := d.Check(true); err != nil {
		t.Error(err)
	}
}

func TestBisectFaults(t *testing.T) {
	dead := errors.New("the command died")
	for _, c := range []struct {
		judge Judge
		want  string
	}{
		{func(context.Context, []Prefix) ([]float64, error) { return nil, dead }, "the command died"},
		{func(context.Context, []Prefix) ([]float64, error) { return nil, nil }, "0 verdicts on 1 texts"},
		{func(context.Context, []Prefix) ([]float64, error) { return []float64{2}, nil }, "probability 2"},
	} {
		if err := Bisect(t.Context(), bare(said("a", 1, 2)), spell, c.judge); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
	tr := said("a", 1)
	if tr.Give([]float32{1}) == nil || tr.Give([]float32{1, -1}) != nil || !tr.Unsafe() {
		t.Error("given margins")
	}
}
