package reach

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/steer"
)

// bare makes data of texts that have no features worth mentioning.
func bare(list ...Trajectory) *Data {
	d := &Data{Sites: []steer.Site{site3}, Width: 1, Trajectories: list}
	for i := range list {
		list[i].Features = make([]float32, len(list[i].Tokens))
	}
	return d
}

func said(group string, tokens ...decode.Token) Trajectory {
	return Trajectory{Group: group, Tokens: tokens}
}

func TestTargetsClosedForms(t *testing.T) {
	const gamma = 0.9
	tokens := make([]decode.Token, 12)
	constant := func(l float32) []float32 { return fallAt(12, -1, l, 0) }
	for _, c := range []struct {
		name    string
		margins []float32
		form    Form
		want    func(row int) float64
	}{
		{"always safe", constant(1), RL, func(int) float64 { return 1 }},
		{"a constant", constant(0.25), RL, func(int) float64 { return 0.25 }},
		{"a constant failure", constant(-0.5), RL, func(int) float64 { return -0.5 }},
		{"one failure", fallAt(12, 7, 1, -1), RL, func(row int) float64 {
			return 1 - 2*math.Pow(gamma, float64(max(8-row, 0)))
		}},
		{"failure with the last token", fallAt(12, 11, 1, -1), RL, func(row int) float64 {
			return 1 - 2*math.Pow(gamma, float64(12-row))
		}},
		{"recovers: the failure stays in what came before it", append(append(append([]float32{}, 1, 1, 1), -1), constant(1)[4:]...), RL, func(row int) float64 {
			switch {
			case row < 3:
				return 1 - 2*math.Pow(gamma, float64(3-row))
			case row == 3:
				return -1
			}
			return 1
		}},
		{"sample, failed", fallAt(12, 7, 1, -1), Sample, func(int) float64 { return -1 }},
		{"sample, margin", constant(0.3), Sample, func(int) float64 { return 0.3 }},
	} {
		text := said("a", tokens...)
		text.Margins = c.margins
		got, err := Targets(bare(text), Aim{Form: c.form, Gamma: gamma})
		if err != nil {
			t.Fatal(err)
		}
		for row, v := range got[0] {
			if want := c.want(row); !near(float64(v), want, 1e-6) {
				t.Errorf("%s: row %d is %v, want %v", c.name, row, v, want)
			}
		}
	}
}

// The table of warning distances, and that the targets keep to it.
func TestWarningTokens(t *testing.T) {
	for _, c := range []struct {
		gamma, c float64
		want     int
	}{{0.90, 0, 6}, {0.933, 0, 9}, {0.95, 0, 13}, {0.9, -0.7, 1}, {0.9, 0.8, 21}, {0.5, 0, 0}, {1, 0, 0}, {0.9, 1, 0}} {
		if got := WarningTokens(c.gamma, c.c); got != c.want {
			t.Errorf("gamma %v, c %v: %d tokens, want %d", c.gamma, c.c, got, c.want)
		}
	}
	text := said("a", make([]decode.Token, 40)...)
	text.Margins = fallAt(40, 39, 1, -1)
	for _, gamma := range []float64{0.8, 0.9, 0.933, 0.95, 0.97} {
		got, err := Targets(bare(text), Aim{Form: RL, Gamma: gamma})
		if err != nil {
			t.Fatal(err)
		}
		low := 0
		for _, v := range got[0] {
			if v < -1e-7 {
				low++
			}
		}
		if want := WarningTokens(gamma, 0); low != want { // row 40-n is n tokens before the failing text
			t.Errorf("gamma %v: V < 0 in %d rows, want %d", gamma, low, want)
		}
	}
}

// Continuations of one prefix share its value.
func TestTargetsOverContinuations(t *testing.T) {
	texts := []Trajectory{said("p", 1, 2, 3), said("p", 1, 2, 4), said("p", 1, 5), said("q", 1, 2, 3), said("p", 1, 2, 3)}
	for i, bad := range []bool{true, false, false, false, true} {
		at := -1
		if bad {
			at = 2
		}
		texts[i].Margins = fallAt(len(texts[i].Tokens), at, 1, -1)
	}
	const g = 0.5
	for _, c := range []struct {
		aim  Aim
		want [][]float64
	}{
		{Aim{Form: Sample, Over: Mean}, [][]float64{{0, 0, -1. / 3}, {0, 0, -1. / 3}, {0, 0}, {1, 1, 1}, {0, 0, -1. / 3}}},
		{Aim{Form: Sample, Over: Min}, [][]float64{{-1, -1, -1}, {-1, -1, -1}, {-1, -1}, {1, 1, 1}, {-1, -1, -1}}},
		// One step before the failure V is 0, two before 1/2, each averaged with the safe ways.
		{Aim{Form: RL, Over: Mean, Gamma: g}, [][]float64{{.875, .75, 1. / 3}, {.875, .75, 1. / 3}, {.875, .75}, {1, 1, 1}, {.875, .75, 1. / 3}}},
		{Aim{Form: RL, Over: Min, Gamma: g}, [][]float64{{.75, .5, 0}, {.75, .5, 0}, {.75, .5}, {1, 1, 1}, {.75, .5, 0}}},
	} {
		got, err := Targets(bare(texts...), c.aim)
		if err != nil {
			t.Fatal(err)
		}
		for i := range c.want {
			for row, want := range c.want[i] {
				if !near(float64(got[i][row]), want, 1e-6) {
					t.Errorf("%v %v: text %d row %d is %v, want %v", c.aim.Form, c.aim.Over, i, row, got[i][row], want)
				}
			}
		}
	}
}

// The sweep against the recursion as it is written, over random trees of texts.
func TestTargetsAgainstRecursion(t *testing.T) {
	const seed = 90210
	r := rand.New(rand.NewPCG(seed, 0))
	for round := range 60 {
		var texts []Trajectory
		for range 1 + r.IntN(12) {
			tr := said([]string{"a", "b"}[r.IntN(2)])
			for range 1 + r.IntN(6) {
				tr.Tokens = append(tr.Tokens, decode.Token(r.IntN(2)))
			}
			for range len(tr.Tokens) + 1 {
				tr.Margins = append(tr.Margins, float32(r.Float64()*2-1))
			}
			texts = append(texts, tr)
		}
		a := Aim{Form: Form(r.IntN(2)), Over: Over(r.IntN(2)), Gamma: 0.1 + 0.8*r.Float64()}
		got, err := Targets(bare(texts...), a)
		if err != nil {
			t.Fatal(err)
		}
		for i := range texts {
			for row := range texts[i].Tokens {
				if want := recursion(texts, i, row, a); !near(float64(got[i][row]), want, 1e-5) {
					t.Fatalf("seed %d, round %d, %v %v: text %d row %d is %v, want %v", seed, round, a.Form, a.Over, i, row, got[i][row], want)
				}
			}
		}
	}
}

// recursion is V of the state that text i has in a row, by definition.
func recursion(texts []Trajectory, i, row int, a Aim) float64 {
	sum, least, n := 0.0, 1.0, 0
	for j := range texts {
		t := &texts[j]
		if t.Group != texts[i].Group || len(t.Tokens) <= row || common(t.Tokens, texts[i].Tokens) < row {
			continue
		}
		var next float64
		if row+1 == len(t.Tokens) {
			next = float64(t.Margins[row+1])
		} else {
			next = recursion(texts, j, row+1, a)
		}
		if a.Form == RL {
			l := float64(t.Margins[row])
			next = (1-a.Gamma)*l + a.Gamma*min(l, next)
		}
		sum, least, n = sum+next, min(least, next), n+1
	}
	if a.Over == Min {
		return least
	}
	return sum / float64(n)
}

func TestTargetsFaults(t *testing.T) {
	text := said("a", 1, 2)
	if _, err := Targets(bare(text), Aim{Form: Sample}); err == nil {
		t.Error("a text without margins was taken")
	}
	text.Margins = []float32{1, 1, 1}
	for _, a := range []Aim{{Form: RL}, {Form: RL, Gamma: 1}, {Form: RL, Gamma: math.NaN()}, {Form: 9}, {Form: Sample, Over: 9}} {
		if _, err := Targets(bare(text), a); err == nil {
			t.Errorf("%+v was taken", a)
		}
	}
}
