package llamacpp

import (
	"context"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/internal/gguf"
	"github.com/trimtab/trimtab/internal/nano"
	"github.com/trimtab/trimtab/runtime/engine"
	"github.com/trimtab/trimtab/steer"
)

// nanoFile writes nano-chat with its weights as they are shipped (Q8_0), or
// every weight as a float32 of the same value.
func nanoFile(t testing.TB, typ gguf.TensorType) string {
	t.Helper()
	path, err := nano.WriteChat(modelDir)
	if err != nil {
		t.Fatal(err)
	}
	if typ == gguf.Q8_0 {
		return path
	}
	wide := filepath.Join(modelDir, "nano-f32.gguf")
	if _, err := os.Stat(wide); err == nil {
		return wide
	}
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var names []string
	for i := range f.Tensors {
		names = append(names, f.Tensors[i].Name)
	}
	w, err := gguf.CopyOf(context.Background(), f, names...)
	if err != nil {
		t.Fatal(err)
	}
	w.Set("general.file_type", uint32(0)) // all float32
	for i := range f.Tensors {
		values, err := f.ReadTensorF32(f.Tensors[i].Name)
		if err != nil {
			t.Fatal(err)
		}
		w.AddF32(f.Tensors[i].Name, gguf.F32, f.Tensors[i].Shape, values)
	}
	if err := w.WriteFile(wide); err != nil {
		t.Fatal(err)
	}
	return wide
}

// steeredModels are what steering is held against its promises on.
var steeredModels = []struct {
	name string
	typ  gguf.TensorType
}{
	{"tiny", gguf.F32}, {"tiny", gguf.Q8_0}, {"tiny-qwen3", gguf.F32}, {"tiny-qwen3", gguf.Q8_0},
	{"tiny-gemma3", gguf.F32}, {"tiny-gemma3", gguf.Q8_0}, {"nano", gguf.F32}, {"nano", gguf.Q8_0},
}

// steeredModel opens one of them for exact arithmetic.
func steeredModel(t testing.TB, name string, typ gguf.TensorType, o Options) *Engine {
	t.Helper()
	o.Threads, o.KV, o.Flash = 1, KVF32, FlashOff
	if name != "nano" {
		return open(t, name, typ, o)
	}
	e, err := library(t).Open(nanoFile(t, typ), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

// anyPlans are plans of one intervention or a few: one for each operation, each
// condition and each way to compose. size is the length of a residual row at the
// layer, below a layer under it. One row here adds another.
func anyPlans(r *rand.Rand, width, below, layer int, size float32) map[string][]steer.Intervention {
	at := steer.Site{Layer: layer}
	dir := func(length float32) []float32 {
		v := randomVector(r, width)
		for i := range v {
			v[i] *= length / float32(math.Sqrt(float64(width)))
		}
		return v
	}
	add := func(edit func(*steer.Intervention)) steer.Intervention {
		iv := steer.Intervention{Site: at, Vector: dir(size / 4), Scale: 1}
		edit(&iv)
		return iv
	}
	plain := add(func(*steer.Intervention) {})
	from, to := 0, 6
	group := func(n int, iv steer.Intervention) steer.Intervention { iv.Group = n; return iv }
	late := add(func(iv *steer.Intervention) { iv.When.From = &from })
	return map[string][]steer.Intervention{
		"none":     nil,
		"add":      {plain},
		"subtract": {add(func(iv *steer.Intervention) { iv.Scale = -1; iv.Renorm = true })},
		"project":  {{Site: at, Op: steer.Project, Vector: dir(1), Scale: 1}},
		"clamp":    {{Site: at, Op: steer.Clamp, Vector: dir(1), Scale: 1, Min: size / 4, Max: size / 3}},
		"replace":  {{Site: at, Op: steer.Replace, Vector: dir(1), Scale: 0.7, Value: size / 4, Renorm: true}},
		"affine": {{Site: at, Op: steer.Affine, Vector: dir(size / 8), Scale: 1,
			Map: &steer.LowRank{Rank: 2, Down: append(dir(0.5), dir(0.5)...), Up: append(dir(0.5), dir(0.5)...)}}},
		"rotate":   {{Site: at, Op: steer.Rotate, Vector: dir(1), Toward: dir(1), Scale: 0.8}},
		"window":   {add(func(iv *steer.Intervention) { iv.When.From, iv.When.To = &from, &to })},
		"phase":    {add(func(iv *steer.Intervention) { iv.When.Phases = steer.PhaseAnswer })},
		"tokens":   {add(func(iv *steer.Intervention) { iv.When.Tokens = []int32{65, 66, 67, 68, 101, 102} })},
		"schedule": {add(func(iv *steer.Intervention) { iv.Schedule = steer.Schedule{Kind: steer.Decay, Start: 1, Over: 4} })},
		"gate": {add(func(iv *steer.Intervention) {
			iv.Gate = &steer.Gate{Site: steer.Site{Layer: below}, Vector: dir(1)}
		})},
		"gate beside": {add(func(iv *steer.Intervention) { iv.Gate = &steer.Gate{Site: at, Vector: dir(1), Below: true} })},
		"groups":      {group(1, late), group(2, add(func(*steer.Intervention) {}))},
		"two blocks":  {plain, {Site: steer.Site{Layer: below}, Op: steer.Project, Vector: dir(1), Scale: 0.5}},
	}
}

// rowSize is the mean length of residual rows at a layer.
func rowSize(t testing.TB, e *Engine, layer int) float32 {
	t.Helper()
	s, site := sequence(t, e), steer.Site{Layer: layer}
	defer s.Close()
	if err := e.Forward(context.Background(), []engine.Feed{{Seq: s, Tokens: []decode.Token{65, 66, 67, 68}, Capture: []steer.Site{site}}}); err != nil {
		t.Fatal(err)
	}
	x, err := s.Activation(site)
	if err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for _, v := range x {
		sum += float64(v) * float64(v)
	}
	return float32(math.Sqrt(sum / 4))
}

// speakers decodes greedily, one text for each plan, all in one batch, and
// returns every row of logits.
func speakers(t testing.TB, e *Engine, first int, plans []*steer.Plan, steps int) [][]decode.Logits {
	t.Helper()
	ctx := context.Background()
	feeds, rows := make([]engine.Feed, len(plans)), make([][]decode.Logits, len(plans))
	for i := range plans {
		s := sequence(t, e)
		defer s.Close()
		if err := s.Steer(plans[i]); err != nil {
			t.Fatal(err)
		}
		prompt := make([]decode.Token, 6)
		for k := range prompt {
			prompt[k] = decode.Token(40 + (7*(first+i)+3*k)%60)
		}
		feeds[i] = engine.Feed{Seq: s, Tokens: prompt, PromptLen: len(prompt), Phase: steer.PhasePrompt}
	}
	for range steps {
		if err := e.Forward(ctx, feeds); err != nil {
			t.Fatal(err)
		}
		for i := range feeds {
			l := slices.Clone(feeds[i].Seq.Logits())
			rows[i] = append(rows[i], l)
			feeds[i].Tokens, feeds[i].Phase = []decode.Token{argmax(l)}, steer.PhaseAnswer
		}
	}
	return rows
}

// TestSixteenPlansInOneBatch: sixteen sequences under sixteen sorts of plans in
// one batch write what each writes alone. Logits agree within what another order
// of sums does; the test prints how much that was. Where two tokens are closer
// than that, and only there, a text may part.
func TestSixteenPlansInOneBatch(t *testing.T) {
	for _, m := range steeredModels {
		t.Run(m.name+" "+m.typ.String(), func(t *testing.T) {
			e := steeredModel(t, m.name, m.typ, Options{MaxSequences: 16, Context: 128, Cells: 2048})
			layer := e.info.Layers - 2
			kinds := anyPlans(rand.New(rand.NewPCG(5, 6)), e.info.Width, 0, layer, rowSize(t, e, layer))
			names := slices.Sorted(maps.Keys(kinds))
			var plans []*steer.Plan
			for _, name := range names {
				plans = append(plans, mustPlan(t, kinds[name]...))
			}
			if len(plans) != 16 {
				t.Fatalf("%d plans, want 16", len(plans))
			}
			const steps = 24
			together, equal, worst := speakers(t, e, 0, plans, steps), 0, 0.0
			for i := range plans {
				alone := speakers(t, e, i, plans[i:i+1], steps)[0]
				at, apart := parts(together[i], alone)
				worst = max(worst, apart)
				if at < 0 {
					equal++
				} else if gap := lead(alone[at]); gap > 2*batchTolerance(m.name, m.typ) {
					t.Errorf("%s: the texts part at token %d, where the best two are %.3g apart", names[i], at, gap)
				}
			}
			t.Logf("%d of 16 texts of %d tokens are equal; logits of equal texts differ by %.2g at most", equal, steps, worst)
			if limit := batchTolerance(m.name, m.typ); worst > limit {
				t.Errorf("logits differ by %.3g, at most %.3g is batch numerics", worst, limit)
			}
		})
	}
}

// batchTolerance bounds what another shape of the batch does to a logit: see
// TestConformance for where it comes from.
func batchTolerance(name string, typ gguf.TensorType) float64 {
	switch {
	case typ == gguf.Q8_0:
		return 0.6
	case name == "tiny-gemma3":
		return 3e-2
	}
	return 1e-3
}

// parts returns the first step at which two texts choose different tokens, -1 if
// none, and the largest difference of a logit up to there.
func parts(a, b []decode.Logits) (at int, worst float64) {
	for k := range a {
		for i := range a[k] {
			worst = max(worst, math.Abs(float64(a[k][i])-float64(b[k][i])))
		}
		if argmax(a[k]) != argmax(b[k]) {
			return k, worst
		}
	}
	return -1, worst
}

// lead is how far the likeliest token is ahead of the next.
func lead(l decode.Logits) float64 {
	best, second := math.Inf(-1), math.Inf(-1)
	for _, x := range l {
		if v := float64(x); v > best {
			best, second = v, best
		} else if v > second {
			second = v
		}
	}
	return best - second
}

// TestNothingIsNothing: plans that do nothing leave every logit alone, to the
// bit, for every sort of plan: with dose 0, and behind a gate that is shut.
func TestNothingIsNothing(t *testing.T) {
	for _, m := range steeredModels {
		t.Run(m.name+" "+m.typ.String(), func(t *testing.T) {
			e := steeredModel(t, m.name, m.typ, Options{MaxSequences: 16, Context: 128, Cells: 2048})
			r := rand.New(rand.NewPCG(8, 9))
			layer := e.info.Layers - 2
			want := speakers(t, e, 0, []*steer.Plan{nil}, 6)[0]
			shut := &steer.Gate{Kind: steer.Logistic, Vector: randomVector(r, e.info.Width), Bias: -1e6, Threshold: 0.9}
			for name, list := range anyPlans(r, e.info.Width, 0, layer, rowSize(t, e, layer)) {
				for how, edit := range map[string]func(*steer.Intervention){
					"with dose 0":        func(iv *steer.Intervention) { iv.Scale = 0 },
					"behind a shut gate": func(iv *steer.Intervention) { iv.Gate = shut },
				} {
					quiet := slices.Clone(list)
					for i := range quiet {
						edit(&quiet[i])
					}
					got := speakers(t, e, 0, []*steer.Plan{mustPlan(t, quiet...)}, 6)[0]
					for k := range want {
						if !slices.Equal(got[k], want[k]) {
							t.Fatalf("%s %s: row %d differs", name, how, k)
						}
					}
				}
			}
			if e.native.loaded != 0 {
				t.Errorf("a plan that does nothing became llama.cpp's: %x", e.native.loaded)
			}
		})
	}
}
