package judge_test

import (
	"context"
	"math"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/trimtab/trimtab/bindings/llamacpp"
	"github.com/trimtab/trimtab/bindings/llamacpp/libs"
	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/internal/bake"
	"github.com/trimtab/trimtab/internal/nano"
	"github.com/trimtab/trimtab/internal/randmodel"
	"github.com/trimtab/trimtab/runtime/engine"
	"github.com/trimtab/trimtab/steer"
)

// TestBakedServedByNode: node-llama-cpp, which knows nothing of our vectors,
// serves a baked model and writes what we write when the vector is added at run
// time to the model as it was.
func TestBakedServedByNode(t *testing.T) {
	node, modules := findNode(t)
	set, err := libs.Find("", libs.Host())
	if err != nil {
		missing(t, err)
	}
	lib, err := llamacpp.Load(set)
	if err != nil {
		t.Fatal(err)
	}
	job := nodeJob{N: greedySteps, Threads: judgeThreads, Batch: judgeBatch, SWAFull: true}
	var ours []nodeResult
	for _, model := range bakeable(t) {
		run, with, without := bakeHere(t, lib, model)
		job.Runs, ours = append(job.Runs, run), append(ours, with)
		if len(differences(with, without)) == 0 {
			t.Errorf("%s: the vector changed nothing, so the test shows nothing", filepath.Base(model))
		}
	}
	for i, result := range askNode(t, node, modules, job).Results {
		for _, fault := range differences(ours[i], result) {
			t.Errorf("%s: %s", job.Runs[i].Model, fault)
		}
		t.Logf("%s: %d prompts, %d tokens compared", filepath.Base(job.Runs[i].Model), len(job.Runs[i].Prompts), count(result.Continuations))
	}
}

// bakeable writes a random llama and the built-in model.
func bakeable(t *testing.T) []string {
	t.Helper()
	dir := t.TempDir()
	spec, err := randmodel.Preset("tiny")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "tiny.gguf")
	if err := randmodel.Write(path, spec); err != nil {
		t.Fatal(err)
	}
	chat, err := nano.WriteChat(dir)
	if err != nil {
		t.Fatal(err)
	}
	return []string{path, chat}
}

// bakeHere bakes a random vector into a copy of the model and continues the
// prompts with the vector at run time, and without it.
func bakeHere(t *testing.T, lib *llamacpp.Library, model string) (run nodeRun, with, without nodeResult) {
	t.Helper()
	e, err := lib.Open(model, llamacpp.Options{CPUOnly: true, Threads: judgeThreads, MaxSequences: 1,
		Batch: judgeBatch, Ubatch: judgeBatch, Flash: llamacpp.FlashOff})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	v := randomVector(e.Info().Width, 0, 2)
	list, err := v.Interventions(0.8)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := steer.NewPlan(list...)
	if err != nil {
		t.Fatal(err)
	}
	baked := filepath.Join(t.TempDir(), "baked-"+filepath.Base(model))
	if _, err := bake.Write(t.Context(), baked, model, v, bake.Options{Scale: 0.8}); err != nil {
		t.Fatal(err)
	}
	run = nodeRun{Model: baked, Context: e.Info().Context, Texts: []string{}}
	for _, text := range greedyTexts[:8] {
		prompt := encode(t, e, text, true)
		run.Prompts = append(run.Prompts, prompt)
		with.Continuations = append(with.Continuations, continueUnder(t, e, prompt, plan))
		without.Continuations = append(without.Continuations, continueHere(t, e, prompt))
	}
	return run, with, without
}

// randomVector has directions of length 3 for the blocks.
func randomVector(width int, blocks ...int) *steer.Vector {
	rng := rand.New(rand.NewPCG(11, 0))
	v := &steer.Vector{Name: "random", Directions: map[int][]float32{}}
	for _, block := range blocks {
		d := make([]float32, width)
		for i := range d {
			d[i] = float32(rng.NormFloat64() * 3 / math.Sqrt(float64(width)))
		}
		v.Directions[block] = d
	}
	return v
}

// continueUnder is continueHere under a plan.
func continueUnder(t *testing.T, e engine.Engine, prompt []decode.Token, plan *steer.Plan) []decode.Token {
	t.Helper()
	return continueHere(t, steered{e, plan}, prompt)
}

// steered is an engine whose sequences start with a plan.
type steered struct {
	engine.Engine
	plan *steer.Plan
}

func (s steered) NewSequence(ctx context.Context, from engine.Origin) (engine.Sequence, error) {
	seq, err := s.Engine.NewSequence(ctx, from)
	if err != nil {
		return nil, err
	}
	return seq, seq.Steer(s.plan)
}
