package eval

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/trimtab/trimtab/cmd/trimtab/internal/checker"
	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/internal/nano/chat"
	"github.com/trimtab/trimtab/runtime/engine"
	prompter "github.com/trimtab/trimtab/runtime/engine/chat"
	"github.com/trimtab/trimtab/runtime/engine/enginetest"
	"github.com/trimtab/trimtab/steer/extract"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func chatML(turns []engine.Message, header bool) ([]decode.Token, error) {
	out := []decode.Token{enginetest.BOS}
	for _, m := range turns {
		out = append(append(out, enginetest.TurnStart), enginetest.Tokens(m.Role+"\n"+m.Content)...)
		out = append(out, enginetest.EOT, '\n')
	}
	if header {
		out = append(append(out, enginetest.TurnStart), enginetest.Tokens("assistant\n")...)
	}
	return out, nil
}

func ask(text string) []engine.Message { return []engine.Message{{Role: "user", Content: text}} }

// behaviour is one whose judge counts letters: cheap, and different from text
// to text.
func behaviour(name string) *Behaviour {
	b := &Behaviour{Name: name, Cues: []string{"be " + name + ".", "please."}}
	for i := range 24 {
		split := []extract.Split{extract.Train, extract.Train, extract.Validation, extract.Test}[i%4]
		q := ask(fmt.Sprintf("%s %d", split, i))
		b.Pairs = append(b.Pairs, extract.Pair{Turns: q, Chosen: fmt.Sprintf("yes %d", i), Rejected: fmt.Sprintf("no %d", i*7), Split: split})
		question := Question{ID: fmt.Sprint(i), Key: q[0].Content, Turns: q}
		switch split {
		case extract.Validation:
			b.Choose = append(b.Choose, question)
		case extract.Test:
			b.Test = append(b.Test, question)
		}
	}
	b.Judge = each(func(_ Question, text string) Verdict {
		n := strings.Count(text, "e") + len(text)
		return Verdict{Shown: float64(n%2) * 1, Broken: n%5 == 0}
	})
	return b
}

func fakeOptions(t *testing.T) Options {
	tick := time.Unix(0, 0)
	var mu sync.Mutex
	turned := func(b *Behaviour) *Behaviour {
		o := *b
		o.Name, o.Pairs = "un"+b.Name, slices.Clone(b.Pairs)
		for i := range o.Pairs {
			p := &o.Pairs[i]
			p.Chosen, p.Rejected = p.Rejected, p.Chosen
		}
		return &o
	}
	kind, brave := behaviour("kind"), behaviour("brave")
	return Options{
		Axes:     []Axis{{Name: "kindness", Is: kind, Opposite: turned(kind)}, {Name: "bravery", Is: brave}},
		Together: [][]string{{"kind", "brave"}},
		Neutral:  Neutral{Choose: extract.Everyday()[:2], Test: extract.Everyday()[2:5]},
		Methods:  []extract.Method{extract.PaLRS, extract.CAA}, Seeds: 2, Counts: []int{6},
		Temperature: 0.8, MaxTokens: 8, MaxKL: 100, Slots: 4, Workers: 2,
		Open: func(context.Context) (engine.Engine, error) {
			return enginetest.NewFake(enginetest.FakeConfig{MaxSequences: 8})
		},
		Render: func(*engine.Info) (extract.Render, error) { return chatML, nil },
		Now: func() time.Time {
			mu.Lock()
			defer mu.Unlock()
			tick = tick.Add(time.Millisecond)
			return tick
		},
	}
}

// TestRun: every row is there, controls included, a second run gives the same,
// and the tables can be written.
func TestRun(t *testing.T) {
	var said [2]string
	for i := range said {
		r, err := Run(t.Context(), fakeOptions(t))
		if err != nil {
			t.Fatal(err)
		}
		check(t, r)
		var page bytes.Buffer
		if err := r.Markdown(&page); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"## kind", "## unkind", "## brave", "| random |", `prompt ("`, "orthogonalise", "How many pairs", "| 6 |"} {
			if !strings.Contains(page.String(), want) {
				t.Errorf("%q is missing in\n%s", want, page.String())
			}
		}
		forget(r)
		b, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		said[i] = string(b)
	}
	if said[0] != said[1] {
		t.Errorf("two runs differ:\n%s\n%s", said[0], said[1])
	}
}

func check(t *testing.T, r *Report) {
	t.Helper()
	for _, o := range r.Outcomes {
		var names []string
		for _, row := range o.Rows {
			names = append(names, row.Way)
			if row.Answers != 12 || len(row.Seeds) != 2 || row.Shown.Low > row.Shown.Mean || row.Shown.High < row.Shown.Mean {
				t.Errorf("%s, %s: %+v", o.Behaviour, row.Way, row)
			}
			if fitted := slices.Contains([]string{"palrs", "caa"}, row.Way); fitted != (row.Fit != nil) {
				t.Errorf("%s, %s: fit %+v", o.Behaviour, row.Way, row.Fit)
			}
		}
		if want := []string{"base", "palrs", "caa", "prompt", "random", "shuffled", "negated"}; !slices.Equal(names, want) {
			t.Errorf("%s: rows %v, want %v", o.Behaviour, names, want)
		}
		if base := o.row("base"); base.KL != 0 || o.row("random").KL == 0 {
			t.Errorf("%s: divergences %v and %v", o.Behaviour, base.KL, o.row("random").KL)
		}
	}
	if len(r.Outcomes) != 3 || len(r.Together) != 2 || len(r.Outcomes[0].Counts) != 1 {
		t.Errorf("%d outcomes, %d combinations", len(r.Outcomes), len(r.Together))
	}
}

// forget clears the times, which two goroutines share.
func forget(r *Report) {
	r.Seconds = 0
	for _, o := range r.Outcomes {
		o.Reading = 0
		for i := range o.Rows {
			if f := o.Rows[i].Fit; f != nil {
				f.Seconds = 0
			}
		}
		for i := range o.Counts {
			o.Counts[i].Seconds, o.Counts[i].Fit.Seconds = 0, 0
		}
	}
}

// TestClosedEnvelope: no prompt of the test split is rendered, and none of its
// answers judged, before everything is chosen.
func TestClosedEnvelope(t *testing.T) {
	o := fakeOptions(t)
	o.Axes, o.Together, o.Workers, o.Counts = o.Axes[1:], nil, 1, nil
	opened, early := false, 0
	o.Say = func(line string) { opened = opened || strings.HasSuffix(line, "answering the test prompts") }
	o.Render = func(*engine.Info) (extract.Render, error) {
		return func(turns []engine.Message, header bool) ([]decode.Token, error) {
			for _, m := range turns {
				if strings.Contains(m.Content, "test ") && !opened {
					early++
				}
			}
			return chatML(turns, header)
		}, nil
	}
	if _, err := Run(t.Context(), o); err != nil || early > 0 || !opened {
		t.Errorf("%v; %d test prompts were rendered early, opened %v", err, early, opened)
	}
}

func TestFaults(t *testing.T) {
	sick := errors.New("sick")
	for _, c := range []struct {
		name string
		edit func(*Options)
		want string
	}{
		{"nothing", func(o *Options) { o.Axes = nil }, "no behaviour is given"},
		{"a prompt in two splits", func(o *Options) { o.Axes[0].Is.Test[0].Turns = o.Axes[0].Is.Choose[0].Turns }, "is in the splits validation and test"},
		{"no prompts", func(o *Options) { o.Axes[0].Is.Choose = nil }, "0 prompts to choose by"},
		{"unknown behaviour", func(o *Options) { o.Together = [][]string{{"kind", "rude"}} }, "rude is to be combined"},
		{"twice", func(o *Options) { o.Axes = append(o.Axes, o.Axes[1]) }, "brave is given twice"},
		{"seeds", func(o *Options) { o.Seeds = -1 }, "-1 seeds"},
		{"engine", func(o *Options) { o.Open = func(context.Context) (engine.Engine, error) { return nil, sick } }, "sick"},
		{"judge", func(o *Options) {
			o.Axes[1].Is.Judge = func(context.Context, []Question, []string) ([]Verdict, error) { return nil, sick }
		}, "judge brave: sick"},
		{"too few verdicts", func(o *Options) {
			o.Axes[1].Is.Judge = func(context.Context, []Question, []string) ([]Verdict, error) { return nil, nil }
		}, "0 verdicts for 6 answers"},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := fakeOptions(t)
			c.edit(&o)
			if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v does not say %q", err, c.want)
			}
		})
	}
}

// TestStops: an interrupted run ends with the cause and leaves nothing behind.
func TestStops(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	o := fakeOptions(t)
	o.Say = func(line string) {
		if strings.Contains(line, "choosing the dose") {
			cancel(enough)
		}
	}
	if _, err := Run(ctx, o); !errors.Is(err, enough) {
		t.Errorf("error %v", err)
	}
}

func given(command string) Given {
	g := Given{Name: "kind", Checker: &checker.Checker{Command: command}}
	for i := range 60 {
		g.Pairs = append(g.Pairs, extract.Pair{Turns: ask(fmt.Sprintf("question %d", i)), Chosen: fmt.Sprintf("yes %d", i), Rejected: fmt.Sprintf("no %d", i*7)})
	}
	return g
}

// TestGiven: pairs of the user's own are dealt into disjoint splits, and a
// checker's wrong words are an error.
func TestGiven(t *testing.T) {
	axis, err := given("true").Axis(1)
	if err != nil {
		t.Fatal(err)
	}
	if err := axis.Is.disjoint(); err != nil || len(axis.Is.Test)+len(axis.Is.Choose)+len(only(axis.Is.Pairs, extract.Train)) != 60 {
		t.Errorf("%v: %d to test", err, len(axis.Is.Test))
	}
	for _, c := range []struct{ command, want string }{
		{`sed 's/.*"id":\("[0-9]*"\).*/{"id":\1,"score":0.5,"label":"mixed"}/'`, ""},
		{`sed 's/.*"id":\("[0-9]*"\).*/{"id":\1,"label":"yes"}/'`, ""},
		{`sed 's/.*"id":\("[0-9]*"\).*/{"id":\1,"label":"splendid"}/'`, `the label "splendid" and no score`},
		{`cat >/dev/null; echo nonsense`, "is not a JSON object"},
		{`cat >/dev/null`, "judged only 0 of 1 texts"},
		{`sed 's/.*"id":\("[0-9]*"\).*/{"id":\1,"score":7}/'`, "has score 7"},
		{`exit 3`, "exit status 3"},
	} {
		axis, err := given(c.command).Axis(1)
		if err != nil {
			t.Fatal(err)
		}
		v, err := axis.Is.Judge(t.Context(), axis.Is.Test[:1], []string{"hm"})
		switch {
		case c.want == "" && (err != nil || v[0].Shown == 0):
			t.Errorf("%s: %v, %v", c.command, v, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: error %v does not say %q", c.command, err, c.want)
		}
	}
}

// TestNanoSplits: the built-in behaviours are disjoint too, and the opposite's
// pairs are the behaviour's own, exchanged.
func TestNanoSplits(t *testing.T) {
	var o Options
	if err := (Nano{Train: 30, Choose: 20, Test: 30}).Fill(&o); err != nil {
		t.Fatal(err)
	}
	o.Render, o.Now = nil, time.Now
	o = o.filled()
	if err := o.check(); err != nil {
		t.Error(err)
	}
	if len(o.Axes) != 4 || len(o.Together) != 4 || !o.Axes[0].Is.Rightness {
		t.Errorf("%d axes", len(o.Axes))
	}
	for _, a := range o.Axes[1:] {
		for i, p := range a.Is.Pairs {
			if q := a.Opposite.Pairs[i]; p.Chosen != q.Rejected || p.Rejected != q.Chosen || textOf(p.Turns) != textOf(q.Turns) {
				t.Errorf("%s: pair %d is no mirror image", a.Name, i)
			}
		}
	}
}

// TestNanoVerdicts: the corpus' own answers are judged as what they are.
func TestNanoVerdicts(t *testing.T) {
	for _, name := range []string{"arithmetic-careful", "style-formal", "style-casual", "style-long", "style-short", "style-cheerful", "style-gloomy"} {
		set, err := chat.SetNamed(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range set.Records(chat.Test, 3, 20) {
			p := chat.Probe{Sum: r.Sum}
			if v := nanoVerdict(name, p, r.Chosen); v.Shown != 1 || v.Broken || (r.Sum != nil && v.Right != 1) {
				t.Errorf("%s: %+v of %q", name, v, r.Chosen)
			}
			if v := nanoVerdict(name, p, r.Rejected); v.Shown != 0 || v.Broken {
				t.Errorf("not %s: %+v of %q", name, v, r.Rejected)
			}
			if v := nanoVerdict(name, p, "blue"); v.Shown != 0 || !v.Broken {
				t.Errorf("%s: nonsense is %+v", name, v)
			}
		}
	}
}

func TestRepeated(t *testing.T) {
	for _, c := range []struct {
		tokens     []decode.Token
		all, again int
	}{{nil, 0, 0}, {[]decode.Token{1, 2, 3}, 0, 0}, {[]decode.Token{1, 2, 3, 4, 5}, 2, 0}, {[]decode.Token{1, 1, 1, 1, 1, 1}, 3, 2}} {
		if all, again := repeated(c.tokens); all != c.all || again != c.again {
			t.Errorf("%v: %d of %d", c.tokens, again, all)
		}
	}
}

// TestShare: questions with equal keys are drawn together, so that asking one
// question often makes no narrow interval.
func TestShare(t *testing.T) {
	verdicts := make([]Verdict, 40)
	for i := range verdicts {
		verdicts[i].Shown = float64(i % 2)
	}
	width := func(key func(int) string) float64 {
		qs := make([]Question, len(verdicts))
		for i := range qs {
			qs[i].Key = key(i)
		}
		s := (&tally{verdicts: [][]Verdict{verdicts}}).share(qs, func(v Verdict) float64 { return v.Shown })
		if s.Mean != 0.5 || s.Low > 0.5 || s.High < 0.5 {
			t.Errorf("%+v", s)
		}
		return s.High - s.Low
	}
	apart, together := width(func(i int) string { return fmt.Sprint(i) }), width(func(i int) string { return fmt.Sprint(i % 4) })
	if together < 1.5*apart {
		t.Errorf("intervals %v and %v", apart, together)
	}
}

func rendering(p *prompter.Prompter) extract.Render {
	return func(turns []engine.Message, header bool) ([]decode.Token, error) {
		in := prompter.Input{AddGenerationPrompt: header}
		for _, m := range turns {
			in.Messages = append(in.Messages, prompter.Message{Role: m.Role, Content: m.Content})
		}
		return p.Prompt(in)
	}
}
