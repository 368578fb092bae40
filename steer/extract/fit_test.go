package extract

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/runtime/engine"
	"github.com/trimtab/trimtab/runtime/engine/enginetest"
	"github.com/trimtab/trimtab/steer"
)

func allPlaces(t *testing.T) (*layout, []Place) {
	l, err := newLayout(chatML)
	if err != nil {
		t.Fatal(err)
	}
	var places []Place
	for _, k := range []Kind{AnswerEnd, Echo, AnswerMean, PromptEnd} {
		places = append(places, l.places(k)...)
	}
	return l, places
}

// TestLayout: a turn ends with end-of-turn and newline, a header is the start
// of a turn, "assistant" and a newline.
func TestLayout(t *testing.T) {
	l, places := allPlaces(t)
	if l.userTail != 13 || l.answerTail != 13 || len(places) != 40 {
		t.Errorf("tails %d and %d, %d places", l.userTail, l.answerTail, len(places))
	}
	a, err := l.answer([]engine.Message{{Role: "user", Content: "hi"}}, "yes!")
	if err != nil {
		t.Fatal(err)
	}
	if got := a.tokens[a.from:a.to]; !slices.Equal(got, enginetest.Tokens("yes!")) || a.tokens[a.to] != enginetest.EOT {
		t.Errorf("the answer is %v", got)
	}
	if _, err := l.answer(nil, ""); err == nil {
		t.Error("an empty answer was rendered")
	}
	silent := func([]engine.Message, bool) ([]decode.Token, error) { return []decode.Token{1}, nil }
	if l, err := newLayout(silent); err == nil {
		if _, err := l.answer([]engine.Message{{Role: "user", Content: "hi"}}, "yes"); err == nil {
			t.Error("a template that shows no message was taken")
		}
	}
}

// TestReadEqualsNaive holds the batched moments against states read one text at
// a time, for every place, whatever the batch's size.
func TestReadEqualsNaive(t *testing.T) {
	ctx := context.Background()
	l, places := allPlaces(t)
	pairs := somePairs(7, 3)
	layers := []int{0, 2}
	for _, cfg := range []enginetest.FakeConfig{{}, {MaxSequences: 1}, {MaxSequences: 3, MaxBatch: 16}} {
		e := newFake(t, cfg)
		m, err := Read(ctx, e, chatML, pairs, layers, places, ReadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for c, cell := range m.Cells {
			want := make([]float64, m.Width)
			for i := range pairs {
				for side, s := range pairs[i].sides() {
					row := naive(t, e, l, s.turns, s.answer, cell)
					for k := range want {
						want[k] += float64(1-2*side) * row[k] / float64(len(pairs))
					}
				}
			}
			for k, got := range m.Difference(c) {
				near(t, cell.String(), got, want[k], 1e-6)
			}
		}
		if e.OpenSequences() != 0 {
			t.Errorf("%d sequences were left open", e.OpenSequences())
		}
	}
}

func naive(t *testing.T, e engine.Engine, l *layout, turns []engine.Message, answer string, c Cell) []float64 {
	t.Helper()
	a, err := l.answer(turns, answer)
	if err != nil {
		t.Fatal(err)
	}
	tokens, from, to := a.tokens, a.from, a.to
	switch c.Place.Kind {
	case AnswerEnd:
		from, to = a.to+c.Place.Offset, a.to+c.Place.Offset+1
	case Echo, PromptEnd:
		if c.Place.Kind == Echo {
			turns = append(slices.Clone(turns), engine.Message{Role: "assistant", Content: answer}, turns[0])
		}
		tokens, _ = chatML(turns, true)
		from = len(tokens) - 13 + c.Place.Offset
		to = from + 1
	}
	s, err := e.NewSequence(context.Background(), engine.Origin{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	site := steer.Site{Layer: c.Layer}
	if err := e.Forward(context.Background(), []engine.Feed{{Seq: s, Tokens: tokens, Capture: []steer.Site{site}}}); err != nil {
		t.Fatal(err)
	}
	x, err := s.Activation(site)
	if err != nil {
		t.Fatal(err)
	}
	w := e.Info().Width
	out := make([]float64, w)
	for r := from; r < to; r++ {
		for i, v := range x[r*w : (r+1)*w] {
			out[i] += float64(v) / float64(to-from)
		}
	}
	return out
}

// TestMarginsEqualNaive holds the batched scores under three plans against one
// token at a time, and the divergences against their sum over rows.
func TestMarginsEqualNaive(t *testing.T) {
	ctx := context.Background()
	l, _ := allPlaces(t)
	e := newFake(t, enginetest.FakeConfig{MaxSequences: 5})
	list, err := l.contests(somePairs(4, 9), nil)
	if err != nil {
		t.Fatal(err)
	}
	dir := make([]float32, 16)
	dir[2], dir[7] = 3, -2
	now, err := plan(2, dir, Rows(-1, 2), 1)
	if err != nil {
		t.Fatal(err)
	}
	all, _ := plan(1, dir, Window{}, -0.5)
	plans := []*steer.Plan{nil, now, all}
	got, err := scores(ctx, e, plans, list, nil)
	if err != nil {
		t.Fatal(err)
	}
	texts := []*answered{list[0][0], list[1][1]}
	kl, err := divergences(ctx, e, plans, texts, nil)
	if err != nil {
		t.Fatal(err)
	}
	for p, plan := range plans {
		for i, c := range list {
			want := -sumLogp(rowsOf(t, e, c[1], plan), c[1])
			want += sumLogp(rowsOf(t, e, c[0], plan), c[0])
			near(t, "margin", got[p][i].margin(), want, 1e-6)
		}
		want, rows := 0.0, 0
		for _, a := range texts {
			base := rowsOf(t, e, a, nil)
			for r, row := range rowsOf(t, e, a, plan) {
				want += decode.Divergence(base[r], row)
				rows++
			}
		}
		near(t, "divergence", kl[p], want/float64(rows), 1e-6)
	}
	if kl[0] != 0 || kl[1] == 0 || kl[2] == 0 {
		t.Errorf("divergences %v: only the first plan does nothing", kl)
	}
}

func rowsOf(t *testing.T, e engine.Engine, a *answered, plan *steer.Plan) (rows []decode.Logits) {
	t.Helper()
	s, err := e.NewSequence(context.Background(), engine.Origin{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Steer(plan); err != nil {
		t.Fatal(err)
	}
	for i := range a.to - 1 {
		if err := e.Forward(context.Background(), []engine.Feed{{Seq: s, Tokens: a.tokens[i : i+1], PromptLen: a.from}}); err != nil {
			t.Fatal(err)
		}
		if i >= a.from-1 {
			rows = append(rows, slices.Clone(s.Logits()))
		}
	}
	return rows
}

func sumLogp(rows []decode.Logits, a *answered) (sum float64) {
	for i, row := range rows {
		z := 0.0
		for _, x := range row {
			z += math.Exp(float64(x))
		}
		sum += float64(row[a.tokens[a.from+i]]) - math.Log(z)
	}
	return sum
}

// TestFitFindsThePlant runs everything on an engine with a planted direction
// which, added, makes "!" likelier than "?".
func TestFitFindsThePlant(t *testing.T) {
	f := newFake(t, enginetest.FakeConfig{Width: 64, Layers: 4})
	p := &planted{Fake: f, layer: 2, direction: make([]float32, 64)}
	p.direction['!'%64] = 2 * up(t, f, '!')
	p.direction['?'%64] = -2 * up(t, f, '?')
	pairs := somePairs(120, 4)
	o := Options{Layers: []int{1, 2}, Places: []Place{{AnswerEnd, 12}, {AnswerMean, 0}}, Doses: []float64{0.1, 0.4, 0.8},
		Windows: []Window{Rows(-1, 4), Rows(-1, 0)}, Neutral: Everyday()[:4], MaxKL: 5, Seed: 5, Cue: "be quick."}
	for _, o.Method = range []Method{Mean, PCA, Probe} {
		r, err := Fit(context.Background(), p, chatML, pairs, o)
		if err != nil {
			t.Fatal(err)
		}
		if c := cosine(wide(r.Direction), wide(p.direction)); r.Chosen.Cell.Layer != 2 || c < 0.9 {
			t.Errorf("%s chose %s with cosine %.3f", o.Method, r.Chosen.Cell, c)
		}
		near(t, "norm", length(wide(r.Direction)), r.MeanNorm, 1e-3)
		c := controlsByName(r)
		if base := c["unsteered"]; c["fit"] < base+0.2 || c["negated"] > base-0.2 || math.Abs(c["shuffled"]-base) > (c["fit"]-base)/2 {
			t.Errorf("%s: controls %v", o.Method, c)
		}
		if again, err := Fit(context.Background(), p, chatML, pairs, o); err != nil || !cmp.Equal(r.Controls, again.Controls) || !slices.Equal(r.Direction, again.Direction) {
			t.Errorf("%s: a second fit differs, %v", o.Method, err)
		}
		v := r.Vector("excited")
		if err := v.Validate(); err != nil {
			t.Error(err)
		}
		if err := v.Check(steer.Facts{ModelHash: f.Info().Hash, Arch: "fake", Layers: 4, Width: 64, TemplateHash: steer.HashTemplate(f.Info().Template)}); err != nil {
			t.Error(err)
		}
		if plan, err := r.Plan(0); err != nil || plan.Fingerprint() != 0 {
			t.Errorf("no dose: %v", err)
		}
	}
	if f.OpenSequences() != 0 {
		t.Errorf("%d sequences were left open", f.OpenSequences())
	}
}

func controlsByName(r *Result) map[string]float64 {
	out := map[string]float64{}
	for _, c := range r.Controls {
		out[c.Name] = c.Margin.Mean
	}
	return out
}

// up is 1 if adding to a token's residual entry raises its logit, else -1.
func up(t *testing.T, f *enginetest.Fake, token decode.Token) float32 {
	t.Helper()
	dir := make([]float32, f.Info().Width)
	dir[int(token)%len(dir)] = 10
	plan, err := plan(f.Info().Layers-1, dir, Window{}, 1)
	if err != nil {
		t.Fatal(err)
	}
	a := &answered{tokens: []decode.Token{65, 66, 67}, from: 1, to: 3}
	if rowsOf(t, f, a, plan)[0][token] > rowsOf(t, f, a, nil)[0][token] {
		return 1
	}
	return -1
}

func TestFitFaults(t *testing.T) {
	pairs := somePairs(60, 1)
	fit := func(cfg enginetest.FakeConfig, o Options) error {
		_, err := Fit(context.Background(), newFake(t, cfg), chatML, pairs, o)
		return err
	}
	for _, c := range []struct {
		name string
		cfg  enginetest.FakeConfig
		o    Options
		want string
	}{
		{"method", enginetest.FakeConfig{}, Options{Method: "magic"}, `unknown method "magic"`},
		{"dose", enginetest.FakeConfig{}, Options{Doses: []float64{0}}, "dose 0 must be above 0"},
		{"NaN dose", enginetest.FakeConfig{}, Options{Doses: []float64{math.NaN()}}, "dose NaN"},
		{"budget", enginetest.FakeConfig{}, Options{MaxKL: -1}, "the KL budget is -1"},
		{"layer", enginetest.FakeConfig{}, Options{Layers: []int{9}}, "layers 0 to 3"},
		{"place", enginetest.FakeConfig{}, Options{Places: []Place{{Echo, 15}}}, "no place echo+15"},
		{"same prompt", enginetest.FakeConfig{}, Options{Places: []Place{{PromptEnd, 12}}}, "the states of both sides are equal"},
		{"no capture", enginetest.FakeConfig{NoCapture: true}, Options{}, "not supported"},
		{"no edit", enginetest.FakeConfig{NoEdit: true}, Options{}, "not supported"},
		{"no tokenizer", enginetest.FakeConfig{NoTokenizer: true}, Options{}, "no tokenizer"},
		{"context", enginetest.FakeConfig{Context: 20}, Options{}, "context full"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := fit(c.cfg, c.o); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v does not say %q", err, c.want)
			}
		})
	}
}

func TestFitStops(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	f := newFake(t, enginetest.FakeConfig{})
	seen := 0
	_, err := Fit(ctx, f, chatML, somePairs(60, 1), Options{Progress: func(p Progress) {
		if seen++; p.Stage == "reading states" {
			cancel()
		}
	}})
	if !errors.Is(err, context.Canceled) || seen != 1 || f.OpenSequences() != 0 {
		t.Errorf("error %v after %d reports, %d sequences open", err, seen, f.OpenSequences())
	}
}

// TestPick: the smallest dose within a standard error of the best that keeps
// the budget.
func TestPick(t *testing.T) {
	trial := func(dose, mean, kl float64) Trial {
		return Trial{Dose: dose, Effect: Estimate{Mean: mean, Error: 1}, KL: kl}
	}
	for _, c := range []struct {
		name    string
		trials  []Trial
		want    float64
		guarded bool
	}{
		{"the best", []Trial{trial(.1, 1, 0), trial(.2, 3, 0), trial(.3, 5, 0)}, .3, true},
		{"one error below", []Trial{trial(.1, 1, 0), trial(.2, 4.2, 0), trial(.3, 5, 0)}, .2, true},
		{"over the budget", []Trial{trial(.1, 1, 0), trial(.2, 3, .05), trial(.3, 5, .2)}, .2, true},
		{"equal doses", []Trial{trial(.2, 4.5, 0), trial(.2, 5, 0)}, .2, true},
		{"none fits", []Trial{trial(.1, 1, .3), trial(.2, 3, .2)}, .2, false},
	} {
		if at, guarded := pick(c.trials, 0.1); c.trials[at].Dose != c.want || guarded != c.guarded {
			t.Errorf("%s: dose %v (%v)", c.name, c.trials[at].Dose, guarded)
		}
	}
}

// TestEffect: a margin that grows by damage alone is none.
func TestEffect(t *testing.T) {
	base := logps{-10, -12}
	near(t, "both move", logps{-9, -13}.effect(base), 2, 0)
	near(t, "the rejected one collapses", logps{-9.5, -40}.effect(base), 1, 0)
	near(t, "both collapse", logps{-11, -40}.effect(base), -2, 0)
	near(t, "both rise", logps{-9, -11}.effect(base), 0, 0)
}

func TestWindows(t *testing.T) {
	for w, want := range map[*Window]string{{}: "all rows", ptr(Rows(-1, 4)): "rows [-1,4)", ptr(Rows(-1, -1)): "rows [-1,)", ptr(Rows(-1, 0)): "rows [-1,0)"} {
		if w.String() != want {
			t.Errorf("%s, want %s", w, want)
		}
	}
}

func ptr[T any](v T) *T { return &v }

func TestSwapsAreBalanced(t *testing.T) {
	seed := rand.Uint64()
	for n := range 9 {
		count := 0
		for _, s := range swaps(somePairs(n, 1), seed) {
			if s {
				count++
			}
		}
		if count != n/2 {
			t.Errorf("seed %d: %d of %d swapped", seed, count, n)
		}
	}
}

// TestLayoutOfThinkers: some templates open an answer to come with a think
// block that answers given do not have.
func TestLayoutOfThinkers(t *testing.T) {
	thinking := func(turns []engine.Message, header bool) ([]decode.Token, error) {
		out, err := chatML(turns, header)
		if header {
			out = append(out, enginetest.Think, enginetest.EndThink)
		}
		return out, err
	}
	l, err := newLayout(thinking)
	if err != nil {
		t.Fatal(err)
	}
	a, err := l.answer([]engine.Message{{Role: "user", Content: "hi"}}, "yes 0!")
	if err != nil {
		t.Fatal(err)
	}
	if got := a.tokens[a.from:a.to]; !slices.Equal(got, enginetest.Tokens("yes 0!")) {
		t.Errorf("the answer is %v", got)
	}
	if l.userTail != 15 {
		t.Errorf("the user's tail has %d tokens", l.userTail)
	}
}

// TestLeaders: heads are shared by jobs that begin alike, unless a plan acts on
// them.
func TestLeaders(t *testing.T) {
	dir := make([]float32, 16)
	dir[0] = 1
	late, err := plan(1, dir, Rows(-1, 4), 1)
	if err != nil {
		t.Fatal(err)
	}
	all, _ := plan(1, dir, Window{}, 1)
	early, _ := plan(1, dir, Rows(-2, -1), 1)
	of := func(plan *steer.Plan, text string) job {
		return job{tokens: enginetest.Tokens(text), prompt: 5, from: 4, plan: plan}
	}
	jobs := []job{of(late, "abcdefg"), of(all, "abcdefg"), of(nil, "abcdxyz"), of(early, "abcdefg"), of(late, "abcxefg"), of(late, "abcdefg")}
	if got, want := leaders(jobs, true), []int{0, 1, 0, 3, 4, 0}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got := leaders(jobs, false); !slices.Equal(got, []int{0, 1, 2, 3, 4, 5}) {
		t.Errorf("without forks: %v", got)
	}
}
