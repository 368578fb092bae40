package llamacpp

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/internal/gguf"
	"github.com/trimtab/trimtab/runtime/engine"
	"github.com/trimtab/trimtab/steer"
)

func randomVector(r *rand.Rand, n int) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(r.NormFloat64())
	}
	return v
}

func mustPlan(t testing.TB, list ...steer.Intervention) *steer.Plan {
	t.Helper()
	p, err := steer.NewPlan(list...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// steered runs two sequences under one plan and returns every logits row.
func steered(t *testing.T, e *Engine, plan *steer.Plan, steps int) (rows []decode.Logits) {
	t.Helper()
	ctx := context.Background()
	var feeds []engine.Feed
	for i := range 2 {
		s, err := e.NewSequence(ctx, engine.Origin{})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Steer(plan); err != nil {
			t.Fatal(err)
		}
		feeds = append(feeds, engine.Feed{Seq: s, Tokens: []decode.Token{decode.Token(40 + i), 50, 60}})
	}
	for range steps {
		if err := e.Forward(ctx, feeds); err != nil {
			t.Fatal(err)
		}
		for i := range feeds {
			l := slices.Clone(feeds[i].Seq.Logits())
			rows = append(rows, l)
			feeds[i].Tokens = []decode.Token{argmax(l)}
		}
	}
	return rows
}

// TestNativeVectorEqualsHook: lowering a shared plan to llama.cpp's control
// vector changes not one bit.
func TestNativeVectorEqualsHook(t *testing.T) {
	for _, preset := range []string{"tiny", "tiny-qwen3", "tiny-gemma3", "nano"} {
		for _, typ := range []gguf.TensorType{gguf.F32, gguf.Q8_0} {
			t.Run(preset+" "+typ.String(), func(t *testing.T) {
				const steps = nativeAfter + 8
				lowered, hooked := steeredModel(t, preset, typ, Options{}), steeredModel(t, preset, typ, Options{})
				hooked.native.off = true
				r := rand.New(rand.NewPCG(7, 7))
				plan := mustPlan(t,
					steer.Intervention{Site: steer.Site{Layer: 1}, Vector: randomVector(r, lowered.info.Width), Scale: 0.3},
					steer.Intervention{Site: steer.Site{Layer: lowered.info.Layers - 1}, Vector: randomVector(r, lowered.info.Width), Scale: 0.2})
				a, b := steered(t, lowered, plan, steps), steered(t, hooked, plan, steps)
				if lowered.native.loaded != plan.Fingerprint() || hooked.native.loaded != 0 {
					t.Fatalf("loaded natively: %x and %x, want %x and 0", lowered.native.loaded, hooked.native.loaded, plan.Fingerprint())
				}
				plain := steered(t, steeredModel(t, preset, typ, Options{}), nil, steps)
				if slices.Equal(a[0], plain[0]) {
					t.Fatal("the plan did nothing")
				}
				for i := range a {
					if !slices.Equal(a[i], b[i]) {
						t.Fatalf("row %d differs between native control vector and hook", i)
					}
				}
				// A batch without the plan must not see the vector that is loaded.
				after := steered(t, lowered, nil, 3)
				for i := range after {
					if !slices.Equal(after[i], plain[i]) {
						t.Fatalf("row %d: the control vector leaked into an unsteered batch", i)
					}
				}
			})
		}
	}
}

// TestLowerable: only what the control vector does to the bit is lowered.
// Anything with a condition, a schedule or a gate stays with the hook.
func TestLowerable(t *testing.T) {
	v, w, zero := []float32{1, 2}, []float32{2, 1}, 0
	at := func(layer int) steer.Intervention {
		return steer.Intervention{Site: steer.Site{Layer: layer}, Vector: v, Scale: 1}
	}
	with := func(edit func(*steer.Intervention)) []steer.Intervention {
		iv := at(2)
		edit(&iv)
		return []steer.Intervention{iv}
	}
	off := at(2)
	off.Scale = 0
	for _, c := range []struct {
		name string
		arch string
		list []steer.Intervention
		want bool
	}{
		{"one add", "llama", []steer.Intervention{at(1)}, true},
		{"adds at many blocks", "llama", []steer.Intervention{at(1), at(3), at(2)}, true},
		{"a dose of 0 beside it", "llama", []steer.Intervention{at(2), off}, true},
		{"nothing", "llama", []steer.Intervention{off}, false},
		{"an unknown architecture", "rwkv7", []steer.Intervention{at(1)}, false},
		{"block 0", "llama", []steer.Intervention{at(0)}, false},
		{"two at one block", "llama", []steer.Intervention{at(2), at(2)}, false},
		{"norm kept", "llama", with(func(iv *steer.Intervention) { iv.Renorm = true }), false},
		{"project", "llama", with(func(iv *steer.Intervention) { iv.Op = steer.Project }), false},
		{"replace", "llama", with(func(iv *steer.Intervention) { iv.Op = steer.Replace }), false},
		{"rotate", "llama", with(func(iv *steer.Intervention) { iv.Op, iv.Toward = steer.Rotate, w }), false},
		{"affine", "llama", with(func(iv *steer.Intervention) {
			iv.Op, iv.Map = steer.Affine, &steer.LowRank{Rank: 1, Down: v, Up: w}
		}), false},
		{"window", "llama", with(func(iv *steer.Intervention) { iv.When.From = &zero }), false},
		{"schedule", "llama", with(func(iv *steer.Intervention) {
			iv.Schedule = steer.Schedule{Kind: steer.Decay, Start: 1, Over: 8}
		}), false},
		{"gate", "llama", with(func(iv *steer.Intervention) { iv.Gate = &steer.Gate{Vector: w, Threshold: -1} }), false},
		{"group", "llama", with(func(iv *steer.Intervention) { iv.Group = 1 }), false},
	} {
		if got := lowerable(c.arch, mustPlan(t, c.list...)); got != c.want {
			t.Errorf("%s: lowerable is %v, want %v", c.name, got, c.want)
		}
	}
}

// TestNativeVectorSwitches: once llama.cpp adds a plan's vector, others are
// written over it; every batch gets what the hook would have given it, to the
// bit, and after a rest the vector is gone.
func TestNativeVectorSwitches(t *testing.T) {
	for _, m := range steeredModels {
		t.Run(m.name+" "+m.typ.String(), func(t *testing.T) {
			lowered, hooked := steeredModel(t, m.name, m.typ, Options{Context: 512, Cells: 1024}), steeredModel(t, m.name, m.typ, Options{Context: 512, Cells: 1024})
			hooked.native.off = true
			r := rand.New(rand.NewPCG(2, 7))
			add := func(layers ...int) *steer.Plan {
				var list []steer.Intervention
				for _, l := range layers {
					list = append(list, steer.Intervention{Site: steer.Site{Layer: l}, Vector: randomVector(r, lowered.info.Width), Scale: 0.2})
				}
				return mustPlan(t, list...)
			}
			last := lowered.info.Layers - 1
			a, b, c := add(1, last), add(2), add(1)
			turns := []turn{{nativeAfter + 2, a, a}, {2, b, b}, {2, nil, nil}, {2, a, b}, {1, c, c}, {2, b, b}, {1, a, nil}, {2, nil, nil}, {1, a, a}}
			x, y := taken(t, lowered, turns), taken(t, hooked, turns)
			for i := range x {
				if !slices.Equal(x[i], y[i]) {
					t.Fatalf("row %d differs between native control vector and hook", i)
				}
			}
			if n := &lowered.native; !n.writable() || n.loaded != a.Fingerprint() {
				t.Fatalf("%d places known, %x loaded", n.known, n.loaded)
			}
			taken(t, lowered, []turn{{restAfter + 1, nil, nil}})
			if lowered.native.active {
				t.Error("the vector is still in the graph after a rest")
			}
			for i, row := range taken(t, lowered, turns) {
				if !slices.Equal(row, y[i]) {
					t.Fatalf("row %d differs after a rest", i)
				}
			}
		})
	}
}

// turn is some steps of two sequences under a plan each.
type turn struct {
	steps         int
	first, second *steer.Plan
}

// taken plays turns and returns every row of logits.
func taken(t *testing.T, e *Engine, turns []turn) (rows []decode.Logits) {
	t.Helper()
	var feeds []engine.Feed
	for i := range 2 {
		s := sequence(t, e)
		defer s.Close()
		feeds = append(feeds, engine.Feed{Seq: s, Tokens: []decode.Token{decode.Token(40 + i), 50, 60}})
	}
	for _, turn := range turns {
		for i, p := range []*steer.Plan{turn.first, turn.second} {
			if err := feeds[i].Seq.Steer(p); err != nil {
				t.Fatal(err)
			}
		}
		for range turn.steps {
			if err := e.Forward(context.Background(), feeds); err != nil {
				t.Fatal(err)
			}
			for i := range feeds {
				l := slices.Clone(feeds[i].Seq.Logits())
				rows = append(rows, l)
				feeds[i].Tokens = []decode.Token{argmax(l)}
			}
		}
	}
	return rows
}
