// Package shadow holds what the runtime promises of shadows, budgets, clean
// turns and sentinels against llama.cpp itself, on random weights.
package shadow

import (
	"context"
	"errors"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/trimtab/trimtab/bindings/llamacpp"
	"github.com/trimtab/trimtab/bindings/llamacpp/llamatest"
	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/internal/randmodel"
	"github.com/trimtab/trimtab/runtime"
	"github.com/trimtab/trimtab/runtime/engine"
	"github.com/trimtab/trimtab/steer"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// How far the same rows may be from each other in other batches: sums over other
// shapes round otherwise, and the cache holds halves. The largest differences
// seen are 0.009 in a logit and 0.0004 nats.
const (
	ofLogits = 0.02
	ofNats   = 2e-3
)

func open(t *testing.T, preset string) *llamacpp.Engine {
	t.Helper()
	spec, err := randmodel.Preset(preset)
	path := filepath.Join(t.TempDir(), preset+".gguf")
	if err == nil {
		err = randmodel.Write(path, spec)
	}
	if err != nil {
		t.Fatal(err)
	}
	return llamatest.Open(t, path, llamacpp.Options{CPUOnly: true, Threads: 1, MaxSequences: 40, Context: 512, Cells: 8192})
}

var presets = []string{"tiny", "tiny-qwen3", "tiny-gemma3"}

func encode(t *testing.T, e engine.Engine, text string) []decode.Token {
	t.Helper()
	tokens, err := e.Info().Tokenizer.Encode(text, engine.EncodeOptions{Start: true})
	if err != nil {
		t.Fatal(err)
	}
	return tokens
}

// plan adds a vector of the size of the residual's own, at every other block
// and the last one.
func plan(t *testing.T, info *engine.Info, dose float32, when steer.When) *steer.Plan {
	t.Helper()
	if info.Arch == randmodel.Gemma3 {
		dose *= 10 // its residual is as much larger
	}
	var list []steer.Intervention
	for layer := 1; layer < info.Layers; layer++ {
		if layer%2 == 0 && layer < info.Layers-1 {
			continue
		}
		v := make([]float32, info.Width)
		for i := range v {
			v[i] = float32(math.Sin(float64(i * (layer + 1)))) // no direction in particular
		}
		list = append(list, steer.Intervention{Site: steer.Site{Layer: layer}, Vector: v, Scale: dose, When: when})
	}
	p, err := steer.NewPlan(list...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// rows are the logits after each of the last n tokens of a text, fed at once.
func rows(t *testing.T, e engine.Engine, p *steer.Plan, from int, text []decode.Token, n int) []decode.Logits {
	t.Helper()
	seq, err := e.NewSequence(t.Context(), engine.Origin{})
	if err != nil {
		t.Fatal(err)
	}
	defer seq.Close()
	if from > 0 {
		if err := e.Forward(t.Context(), []engine.Feed{{Seq: seq, Tokens: text[:from], PromptLen: len(text), Phase: steer.PhasePrompt, Output: engine.OutputNone}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := seq.Steer(p); err != nil {
		t.Fatal(err)
	}
	if err := e.Forward(t.Context(), []engine.Feed{{Seq: seq, Tokens: text[from:], PromptLen: len(text), Phase: steer.PhasePrompt, Output: engine.OutputAll}}); err != nil {
		t.Fatal(err)
	}
	all, vocab := slices.Clone(seq.Logits()), e.Info().Vocab
	var out []decode.Logits
	for i := len(all)/vocab - n; i < len(all)/vocab; i++ {
		out = append(out, all[i*vocab:(i+1)*vocab])
	}
	return out
}

func kl(p, q []float32) float64 {
	sum := func(row []float32) (s float64) {
		for _, x := range row {
			s += math.Exp(float64(x))
		}
		return s
	}
	sp, sq, out := sum(p), sum(q), 0.0
	for i := range p {
		a := math.Exp(float64(p[i])) / sp
		out += a * (math.Log(a) - float64(q[i]) + math.Log(sq))
	}
	return out
}

func ptr(n int) *int          { return &n }
func nats(x float64) *float64 { return &x }
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// TestSixteen runs sixteen texts together, half of them with a shadow or a
// budget, and holds every divergence against rows that were never steered.
func TestSixteen(t *testing.T) {
	for _, preset := range presets {
		e := open(t, preset)
		s := must(runtime.NewScheduler(e, runtime.Options{Slots: 16}))
		info := e.Info()
		type job struct {
			cfg   runtime.Config
			raw   []decode.Logits
			reads []runtime.Reading
			st    *runtime.Stream
		}
		jobs := make([]*job, 16)
		for i := range jobs {
			j := &job{}
			when := []steer.When{{}, {From: ptr(0)}, {From: ptr(-2)}}[i%3]
			j.cfg = runtime.Config{Prompt: encode(t, e, strings.Repeat("a boat on the river ", 1+i%4)), MaxTokens: 24, End: []decode.Token{},
				Plan: plan(t, info, 0.05+0.05*float32(i%4), when)}
			switch i % 4 {
			case 1:
				j.cfg.Shadow = &runtime.Shadow{}
			case 2:
				j.cfg.Shadow = &runtime.Shadow{Mean: nats(0.002)}
			case 3:
				j.cfg.Shadow = &runtime.Shadow{Token: nats(0.001)}
			}
			j.cfg.Listener.Step = func(_ context.Context, ev *runtime.Event) error {
				j.raw = append(j.raw, slices.Clone(ev.Raw))
				if ev.Shadow != nil {
					j.reads = append(j.reads, *ev.Shadow)
				}
				return nil
			}
			j.st = must(s.Submit(t.Context(), j.cfg))
			jobs[i] = j
		}
		results := make([]*runtime.Result, len(jobs))
		for i, j := range jobs {
			results[i] = must(j.st.Wait(t.Context()))
		}
		s.Close()
		worst, lowered, unsteered, moved := 0.0, 0, 0, 0.0
		for i, j := range jobs {
			r := results[i]
			if (r.Shadow == nil) != (j.cfg.Shadow == nil) {
				t.Fatalf("%s, text %d: %+v", preset, i, r.Shadow)
			}
			if r.Shadow == nil {
				continue
			}
			clean := rows(t, e, nil, 0, slices.Concat(j.cfg.Prompt, r.Tokens[:len(r.Tokens)-1]), len(r.Tokens))
			for k, row := range clean {
				off := math.Abs(kl(j.raw[k], row) - j.reads[k].KL)
				worst = max(worst, off)
				moved = max(moved, j.reads[k].KL)
				if off > ofNats || j.reads[k].KL > limit(j.cfg.Shadow) {
					t.Errorf("%s, text %d, token %d: %+v, by another way %v nats", preset, i, k, j.reads[k], kl(j.raw[k], row))
				}
			}
			lowered, unsteered = lowered+r.Shadow.Lowered, unsteered+r.Shadow.Unsteered
		}
		t.Logf("%s: worst difference %.2g nats of up to %.2g, %d tokens at a lower dose, %d unsteered", preset, worst, moved, lowered, unsteered)
		if lowered == 0 || moved < 0.005 {
			t.Errorf("%s: %d tokens at a lower dose, %v nats at most: the test shows little", preset, lowered, moved)
		}
	}
}

func limit(s *runtime.Shadow) float64 {
	switch {
	case s.Token != nil:
		return *s.Token
	case s.Mean != nil:
		return *s.Mean * runtime.DefaultShadowWindow
	}
	return math.Inf(1)
}

// TestEnds: no nats is the text without a plan, endlessly many the plan's.
func TestEnds(t *testing.T) {
	for _, preset := range presets {
		e := open(t, preset)
		for _, when := range []steer.When{{}, {From: ptr(0)}} {
			cfg := runtime.Config{Engine: e, Prompt: encode(t, e, "the captain said"), MaxTokens: 30, End: []decode.Token{}}
			text := func(p *steer.Plan, s *runtime.Shadow) *runtime.Result {
				c := cfg
				c.Plan, c.Shadow = p, s
				session := must(runtime.NewSession(t.Context(), c))
				defer session.Close()
				return must(session.Run(t.Context()))
			}
			p := plan(t, e.Info(), 0.3, when)
			base, steered := text(nil, nil), text(p, nil)
			if slices.Equal(base.Tokens, steered.Tokens) {
				t.Errorf("%s: the plan changes nothing, the test shows nothing", preset)
			}
			if got := text(p, &runtime.Shadow{Mean: nats(0)}); !slices.Equal(got.Tokens, base.Tokens) || got.Shadow.Total != 0 {
				t.Errorf("%s: with a budget of 0 %q (%+v), unsteered %q", preset, got.Text, got.Shadow, base.Text)
			}
			if got := text(p, &runtime.Shadow{Mean: nats(math.Inf(1))}); !slices.Equal(got.Tokens, steered.Tokens) {
				t.Errorf("%s: with an endless budget %q, steered %q", preset, got.Text, steered.Text)
			}
		}
	}
}

// TestCleanTurns: the turn after a steered one has the logits of a conversation
// with the same text that was never steered, within what another batch rounds.
func TestCleanTurns(t *testing.T) {
	for _, preset := range presets {
		e := open(t, preset)
		for _, clean := range []bool{true, false} {
			s := must(runtime.NewScheduler(e, runtime.Options{Slots: 2}))
			p := plan(t, e.Info(), 0.3, steer.When{})
			first := runtime.Config{Prompt: encode(t, e, strings.Repeat("where does the river go ", 4)), MaxTokens: 40, End: []decode.Token{}, Plan: p}
			one := must(must(s.Submit(t.Context(), first)).Wait(t.Context()))
			turn := slices.Concat(first.Prompt, one.Tokens)
			if clean {
				must(must(s.Warm(t.Context(), turn)).Wait(t.Context()))
			}
			second := runtime.Config{Prompt: slices.Concat(turn, encode(t, e, "and then")), MaxTokens: 8, End: []decode.Token{}, Plan: p}
			if clean {
				second.PlanFrom = len(turn)
			}
			var raw []decode.Logits
			second.Listener.Step = func(_ context.Context, ev *runtime.Event) error {
				raw = append(raw, slices.Clone(ev.Raw))
				return nil
			}
			two := must(must(s.Submit(t.Context(), second)).Wait(t.Context()))
			s.Close()
			if clean && two.Usage.CachedTokens < len(turn)-1 {
				t.Errorf("%s: %d of %d rows were fed again at the turn's end", preset, two.Usage.CachedTokens, len(turn))
			}
			never := rows(t, e, p, len(turn), slices.Concat(second.Prompt, two.Tokens[:7]), 8)
			worst := 0.0
			for k := range never {
				for v := range never[k] {
					worst = max(worst, math.Abs(float64(never[k][v])-float64(raw[k][v])))
				}
			}
			t.Logf("%s: clean %v: logits differ by %.2g from a conversation that was never steered before", preset, clean, worst)
			if clean && worst > ofLogits || !clean && worst < 10*ofLogits {
				t.Errorf("%s: clean %v: logits differ by %v", preset, clean, worst)
			}
		}
	}
}

// deaf is llama.cpp with an architecture that takes plans and ignores them.
type deaf struct{ engine.Engine }

type deafSequence struct{ engine.Sequence }

func (deafSequence) Steer(*steer.Plan) error { return nil }

func (e deaf) NewSequence(ctx context.Context, o engine.Origin) (engine.Sequence, error) {
	s, err := e.Engine.NewSequence(ctx, o)
	if err != nil {
		return nil, err
	}
	return deafSequence{s}, nil
}

func (e deaf) Forward(ctx context.Context, feeds []engine.Feed) error {
	feeds = slices.Clone(feeds)
	for i := range feeds {
		feeds[i].Seq = feeds[i].Seq.(deafSequence).Sequence
	}
	return e.Engine.Forward(ctx, feeds)
}

// TestSentinel: every operation at every block is proved, and an engine that
// ignores it is found out.
func TestSentinel(t *testing.T) {
	for _, preset := range presets {
		e := open(t, preset)
		info := e.Info()
		tokens := encode(t, e, "a boat on the river")
		one := plan(t, info, 1, steer.When{}).At(0).Vector
		toward := slices.Clone(one)
		slices.Reverse(toward)
		for op := steer.Add; op <= steer.Rotate; op++ {
			for _, when := range []steer.When{{}, {From: ptr(-1)}, {Phases: steer.PhaseThink}} {
				var list []steer.Intervention
				for layer := range info.Layers {
					list = append(list, steer.Intervention{Site: steer.Site{Layer: layer}, Op: op, Vector: one, Toward: toward, Scale: 0.5, Min: 5, Max: 6,
						Value: 4, Map: &steer.LowRank{Rank: 1, Down: one, Up: toward}, When: when})
				}
				p := must(steer.NewPlan(list...))
				if err := new(runtime.Sentinel).Prove(t.Context(), e, p, tokens); err != nil {
					t.Errorf("%s: %v", preset, err)
				}
				if err := new(runtime.Sentinel).Prove(t.Context(), deaf{e}, p, tokens); !errors.Is(err, engine.ErrUnsupported) || !strings.Contains(err.Error(), op.String()+" at 0.post") {
					t.Errorf("%s, %s: an engine that ignores it is trusted: %v", preset, op, err)
				}
			}
		}
	}
}
