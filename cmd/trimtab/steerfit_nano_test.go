package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/trimtab/trimtab/bindings/llamacpp"
	"github.com/trimtab/trimtab/bindings/llamacpp/libs"
	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/internal/nano"
	corpus "github.com/trimtab/trimtab/internal/nano/chat"
	"github.com/trimtab/trimtab/runtime/engine"
	"github.com/trimtab/trimtab/runtime/engine/chat"
	"github.com/trimtab/trimtab/steer"
	"github.com/trimtab/trimtab/steer/extract"
)

var (
	fitReportPath = flag.String("fit-report", "", "write what every method does to nano-chat to this file")
	fitSets       = flag.String("fit-sets", "arithmetic-careful style-formal style-cheerful style-long", "data sets of the report")
	fitMethods    = flag.String("fit-methods", "palrs palrs-guarded mean caa pca probe", "methods of the report")
	fitAnswers    = flag.Int("fit-answers", 200, "answers for each row of the report")
)

// fitCues ask for a set's behaviour in words.
var fitCues = map[string]string{"arithmetic-careful": "Show your work.", "arithmetic-hasty": "Be quick.", "style-formal": "Be formal.",
	"style-casual": "Keep it casual.", "style-cheerful": "Be cheerful.", "style-gloomy": "Be gloomy.", "style-long": "Make it long.", "style-short": "Keep it short."}

// nanoBench is nano-chat on the real engine, answered and judged.
type nanoBench struct {
	t      *testing.T
	e      engine.Engine
	render extract.Render
}

func newNanoBench(t *testing.T) *nanoBench {
	set, err := libs.Find("", libs.Host())
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	l, err := llamacpp.Load(set)
	if err != nil {
		t.Fatal(err)
	}
	path, err := nano.WriteChat(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	e, err := l.Open(path, llamacpp.Options{CPUOnly: true, Threads: 1, MaxSequences: 32, Cells: 32 * 512})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	p, err := chat.NewPrompter(e.Info(), chat.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return &nanoBench{t, e, renderWith(p)}
}

func turnsOf(ms []corpus.Message) (out []engine.Message) {
	for _, m := range ms {
		out = append(out, engine.Message{Role: string(m.Role), Content: m.Content})
	}
	return out
}

// pairs are 200 pairs of a set, 100 of them for directions.
func (b *nanoBench) pairs(name string) (out []extract.Pair) {
	set, err := corpus.SetNamed(name)
	if err != nil {
		b.t.Fatal(err)
	}
	for _, r := range set.All(1) {
		out = append(out, extract.Pair{Turns: turnsOf(r.Messages), Chosen: r.Chosen, Rejected: r.Rejected, Split: extract.Split(r.Split), Key: r.Key})
	}
	return out
}

func (b *nanoBench) neutral() (out [][]engine.Message) {
	set, err := corpus.SetNamed("neutral")
	if err != nil {
		b.t.Fatal(err)
	}
	for _, r := range set.Records(corpus.Validation, 1, 24) {
		out = append(out, turnsOf(r.Messages))
	}
	return out
}

// answers samples one answer to each prompt at temperature 0.8 under a plan.
func (b *nanoBench) answers(prompts [][]corpus.Message, plan *steer.Plan, seed uint64) (out []string) {
	ctx := context.Background()
	for at := 0; at < len(prompts); at += 32 {
		group := prompts[at:min(at+32, len(prompts))]
		seqs, feeds, texts := make([]engine.Sequence, len(group)), make([][]decode.Token, len(group)), make([][]byte, len(group))
		plens := make([]int, len(group))
		rs := make([]*rand.Rand, len(group))
		for i, ms := range group {
			var err error
			if seqs[i], err = b.e.NewSequence(ctx, engine.Origin{}); err != nil {
				b.t.Fatal(err)
			}
			if err := seqs[i].Steer(plan); err != nil {
				b.t.Fatal(err)
			}
			if feeds[i], err = b.render(turnsOf(ms), true); err != nil {
				b.t.Fatal(err)
			}
			plens[i] = len(feeds[i])
			rs[i] = rand.New(rand.NewPCG(seed, uint64(at+i)))
		}
		for range 140 {
			var fs []engine.Feed
			for i := range group {
				if feeds[i] != nil {
					fs = append(fs, engine.Feed{Seq: seqs[i], Tokens: feeds[i], PromptLen: plens[i]})
				}
			}
			if len(fs) == 0 {
				break
			}
			if err := b.e.Forward(ctx, fs); err != nil {
				b.t.Fatal(err)
			}
			for i := range group {
				if feeds[i] == nil {
					continue
				}
				tok := sampleAt(seqs[i].Logits(), corpus.Temperature, rs[i])
				if b.e.Info().Tokenizer.Kind(tok)&engine.KindEnd != 0 {
					feeds[i] = nil
					continue
				}
				feeds[i] = []decode.Token{tok}
				texts[i] = b.e.Info().Tokenizer.AppendPiece(texts[i], tok)
			}
		}
		for i := range group {
			seqs[i].Close()
			out = append(out, string(texts[i]))
		}
	}
	return out
}

func sampleAt(l decode.Logits, temp float64, r *rand.Rand) decode.Token {
	top := l[0]
	for _, x := range l {
		top = max(top, x)
	}
	sum := 0.0
	w := make([]float64, len(l))
	for i, x := range l {
		w[i] = math.Exp(float64(x-top) / temp)
		sum += w[i]
	}
	u := r.Float64() * sum
	for i, x := range w {
		if u -= x; u < 0 {
			return decode.Token(i)
		}
	}
	return 0
}

// shares are what was counted over answers.
type shares struct{ shown, broken, right float64 }

// judge counts over n answers at temperature 0.8 how many show the set's
// behaviour, are broken (neither value, or both), and for sums are right. A cue
// is put in front of every question.
func (b *nanoBench) judge(set, cue string, plan *steer.Plan, n int, seed uint64) (s shares) {
	kind := corpus.KindStyle
	if strings.HasPrefix(set, "arithmetic-") {
		kind = corpus.KindArithmetic
	}
	probes, err := corpus.Probes(kind, corpus.Test, 7, n)
	if err != nil {
		b.t.Fatal(err)
	}
	prompts := make([][]corpus.Message, n)
	for i := range probes {
		prompts[i] = probes[i].Messages
		if last := &prompts[i][len(prompts[i])-1]; cue != "" {
			last.Content = cue + " " + last.Content
		}
	}
	count := func(to *float64, yes bool) {
		if yes {
			*to += 1 / float64(n)
		}
	}
	for i, text := range b.answers(prompts, plan, seed) {
		if kind == corpus.KindArithmetic {
			r := corpus.CheckArithmetic(*probes[i].Sum, text)
			count(&s.shown, "arithmetic-"+string(r.Mode) == set)
			count(&s.broken, r.Mode == corpus.ModeUnknown)
			count(&s.right, r.Correct)
			continue
		}
		r := corpus.CheckStyle(text)
		count(&s.broken, !r.Unambiguous())
		for k, a := range corpus.Attributes() {
			count(&s.shown, r.Clear[k] && "style-"+corpus.ValueName(a, r.Style.Get(a)) == set)
		}
	}
	return s
}

// TestNanoSteerFit fits one vector from 100 pairs and needs it to turn a style
// both ways: a coin's toss is 0.5, so 40 of 48 would come by chance once in a
// million. The method is the guarded one: Eq. 3 as it stands may choose block 0,
// where a few coordinates dominate, and did so on some weights.
func TestNanoSteerFit(t *testing.T) {
	b := newNanoBench(t)
	start := time.Now()
	r, err := extract.Fit(context.Background(), b.e, b.render, b.pairs("style-formal"), extract.Options{Method: extract.Guarded,
		Windows: []extract.Window{extract.Rows(-1, 0)}, Doses: []float64{0.2, 0.4, 0.8}, Neutral: b.neutral()[:8], Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("fitted in %v: %s, dose %.2f, effect %.2f, KL %.3f", time.Since(start), r.Chosen.Cell, r.Chosen.Dose, r.Chosen.Effect.Mean, r.Chosen.KL)
	for set, share := range map[string]float64{"style-formal": 1, "style-casual": -1} {
		p, err := r.Plan(share)
		if err != nil {
			t.Fatal(err)
		}
		if s := b.judge(set, "", p, 48, 3); s.shown < 40.0/48 || s.broken > 0.1 {
			t.Errorf("%s: %.2f show it, %.2f are broken", set, s.shown, s.broken)
		}
	}
	if fit, no := r.Controls[1], r.Controls[2]; fit.Effect.Mean < 0.3 || no.Effect.Mean > 0 {
		t.Errorf("on the test pairs: %+v, negated %+v", fit, no)
	}
}

// TestNanoReadSpeed logs how long 200 pairs take at every layer and place.
func TestNanoReadSpeed(t *testing.T) {
	b := newNanoBench(t)
	var places []extract.Place
	for _, s := range []string{"answer-end+0", "answer-end+1", "echo+0", "echo+1", "answer-mean"} {
		p, err := extract.ParsePlace(s)
		if err != nil {
			t.Fatal(err)
		}
		places = append(places, p)
	}
	start := time.Now()
	m, err := extract.Read(context.Background(), b.e, b.render, b.pairs("arithmetic-careful"), []int{0, 1, 2, 3, 4}, places, extract.ReadOptions{Rows: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d pairs at %d cells in %v", m.Pairs, len(m.Cells), time.Since(start))
}

// TestNanoFitReport writes the table of methods when -fit-report names a file.
func TestNanoFitReport(t *testing.T) {
	if *fitReportPath == "" {
		t.Skip("no -fit-report given")
	}
	b := newNanoBench(t)
	f, err := os.Create(*fitReportPath)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	fmt.Fprintf(f, "| set | method | read at | rows | dose | KL | effect | negated | shuffled | shows it | broken | right | time |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|\n")
	for _, set := range strings.Fields(*fitSets) {
		for _, row := range [][2]string{{"unsteered", ""}, {"asked", fitCues[set]}} {
			s := b.judge(set, row[1], nil, *fitAnswers, 3)
			fmt.Fprintf(f, "| %s | %s | | | 0 | 0 | 0 | | | %.3f | %.3f | %.3f | |\n", set, row[0], s.shown, s.broken, s.right)
		}
		for _, m := range strings.Fields(*fitMethods) {
			b.row(f, set, extract.Method(m))
		}
	}
}

func (b *nanoBench) row(w io.Writer, set string, m extract.Method) {
	start := time.Now()
	r, err := extract.Fit(context.Background(), b.e, b.render, b.pairs(set), extract.Options{Method: m, Neutral: b.neutral(), Seed: 1})
	if err != nil {
		b.t.Errorf("%s, %s: %v", set, m, err)
		return
	}
	took := time.Since(start)
	p, err := r.Plan(1)
	if err != nil {
		b.t.Fatal(err)
	}
	s := b.judge(set, "", p, *fitAnswers, 3)
	effect := map[string]float64{}
	for _, c := range r.Controls {
		effect[c.Name] = c.Effect.Mean
	}
	fmt.Fprintf(w, "| %s | %s | %s | %s | %.3g | %.4f | %.2f | %.2f | %.2f | %.3f | %.3f | %.3f | %.0f s |\n", set, m, r.Chosen.Cell, r.Chosen.Window, r.Chosen.Dose,
		r.Chosen.KL, effect["fit"], effect["negated"], effect["shuffled"], s.shown, s.broken, s.right, took.Seconds())
	for _, warning := range r.Warnings {
		b.t.Logf("%s, %s: %s", set, m, warning)
	}
}
