package enginetest

import (
	"context"
	"fmt"
	goruntime "runtime"
	"slices"
	"testing"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/runtime/engine"
	"github.com/trimtab/trimtab/steer"
)

// mutant is a Fake that breaks one promise. A nil hook keeps the promise.
type mutant struct {
	*Fake
	info     engine.Info
	newSeq   func(m *mutant, ctx context.Context, o engine.Origin) (engine.Sequence, error)
	forward  func(m *mutant, ctx context.Context, feeds []engine.Feed) error // feeds hold the Fake's sequences
	logits   func(q *mutantSequence) decode.Logits
	activate func(q *mutantSequence, site steer.Site) ([]float32, error)
	steer    func(q *mutantSequence, p *steer.Plan) error
	rewind   func(q *mutantSequence, n int) error
	shut     func(q *mutantSequence) error

	seqs  []*mutantSequence
	count int
	last  *steer.Plan
}

type mutantSequence struct {
	engine.Sequence
	m     *mutant
	shuts int
}

func (m *mutant) Info() *engine.Info { return &m.info }

func (m *mutant) NewSequence(ctx context.Context, o engine.Origin) (engine.Sequence, error) {
	if q, ok := o.Fork.(*mutantSequence); ok {
		o.Fork = q.Sequence
	}
	var seq engine.Sequence
	var err error
	if m.newSeq != nil {
		seq, err = m.newSeq(m, ctx, o)
	} else {
		seq, err = m.Fake.NewSequence(ctx, o)
	}
	if err != nil {
		return nil, err
	}
	q := &mutantSequence{Sequence: seq, m: m}
	m.seqs = append(m.seqs, q)
	return q, nil
}

func (m *mutant) Forward(ctx context.Context, feeds []engine.Feed) error {
	m.count++
	inner := slices.Clone(feeds)
	for i := range inner {
		if q, ok := inner[i].Seq.(*mutantSequence); ok {
			inner[i].Seq = q.Sequence
		}
	}
	if m.forward != nil {
		return m.forward(m, ctx, inner)
	}
	return m.Fake.Forward(ctx, inner)
}

func (m *mutant) Save(s engine.Sequence) ([]byte, error) {
	if q, ok := s.(*mutantSequence); ok {
		s = q.Sequence
	}
	return m.Fake.Save(s)
}

func (q *mutantSequence) Logits() decode.Logits {
	if q.m.logits != nil {
		return q.m.logits(q)
	}
	return q.Sequence.Logits()
}

func (q *mutantSequence) Activation(site steer.Site) ([]float32, error) {
	if q.m.activate != nil {
		return q.m.activate(q, site)
	}
	return q.Sequence.Activation(site)
}

func (q *mutantSequence) Steer(p *steer.Plan) error {
	if q.m.steer != nil {
		return q.m.steer(q, p)
	}
	return q.Sequence.Steer(p)
}

func (q *mutantSequence) Rewind(n int) error {
	if q.m.rewind != nil {
		return q.m.rewind(q, n)
	}
	return q.Sequence.Rewind(n)
}

func (q *mutantSequence) Close() error {
	if q.m.shut != nil {
		return q.m.shut(q)
	}
	return q.Sequence.Close()
}

// rewrite steers with an edited copy of every plan that fits the model.
func rewrite(edit func(*steer.Intervention)) func(*mutantSequence, *steer.Plan) error {
	return func(q *mutantSequence, p *steer.Plan) error {
		if p.Len() == 0 || p.Check(q.m.info.Layers, q.m.info.Width) != nil {
			return q.Sequence.Steer(p)
		}
		var list []steer.Intervention
		for i := range p.Len() {
			iv := *p.At(i)
			edit(&iv)
			list = append(list, iv)
		}
		return q.Sequence.Steer(must(steer.NewPlan(list...)))
	}
}

// rewriteGates edits a copy of every gate.
func rewriteGates(edit func(*steer.Intervention, *steer.Gate)) func(*mutantSequence, *steer.Plan) error {
	return rewrite(func(iv *steer.Intervention) {
		if iv.Gate != nil {
			g := *iv.Gate
			iv.Gate = &g
			edit(iv, &g)
		}
	})
}

// rewriteAscents edits a copy of every ascent.
func rewriteAscents(edit func(*steer.Ascent)) func(*mutantSequence, *steer.Plan) error {
	return rewrite(func(iv *steer.Intervention) {
		if iv.Ascent != nil {
			a := *iv.Ascent
			iv.Ascent = &a
			edit(&a)
		}
	})
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// feedsEdited forwards edited feeds.
func feedsEdited(edit func(*engine.Feed)) func(*mutant, context.Context, []engine.Feed) error {
	return func(m *mutant, ctx context.Context, feeds []engine.Feed) error {
		for i := range feeds {
			edit(&feeds[i])
		}
		return m.Fake.Forward(ctx, feeds)
	}
}

// recorder is a TB that notes failures instead of failing.
type recorder struct{ faults []string }

func (r *recorder) Helper()             {}
func (r *recorder) Logf(string, ...any) {}
func (r *recorder) Errorf(format string, a ...any) {
	r.faults = append(r.faults, fmt.Sprintf(format, a...))
}
func (r *recorder) Fatalf(format string, a ...any) {
	r.Errorf(format, a...)
	goruntime.Goexit()
}

// faultsOf runs one check and returns what it complained about.
func faultsOf(c check, open func() engine.Engine, o Options) []string {
	r := &recorder{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if p := recover(); p != nil {
				r.faults = append(r.faults, fmt.Sprintf("panic: %v", p))
			}
		}()
		runCheck(r, c, open, o)
	}()
	<-done
	return r.faults
}

func mutate(t *testing.T, change func(*mutant)) engine.Engine {
	m := &mutant{Fake: newFake(t, FakeConfig{Context: 200, Cells: 512, MaxSequences: 8, MaxBatch: 32})}
	m.info = *m.Fake.Info()
	change(m)
	return m
}

// TestSuiteCatchesMutants proves that the suite can fail: every mutant must be
// noticed by the check that stands for its promise, with any seed.
func TestSuiteCatchesMutants(t *testing.T) {
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			i := slices.IndexFunc(checks, func(c check) bool { return c.name == m.caught })
			if i < 0 {
				t.Fatalf("no check %q", m.caught)
			}
			for seed := range uint64(3) {
				faults := faultsOf(checks[i], func() engine.Engine { return mutate(t, m.make) }, Options{Seed: seed + 1})
				if len(faults) == 0 {
					t.Fatalf("seed %d: check %q noticed nothing", seed+1, m.caught)
				}
				t.Logf("seed %d: %s", seed+1, faults[0])
			}
		})
	}
}

// TestSuitePassesUnmutated shows that the wrapper itself breaks no promise.
func TestSuitePassesUnmutated(t *testing.T) {
	for _, c := range checks {
		for seed := range uint64(3) {
			if faults := faultsOf(c, func() engine.Engine { return mutate(t, func(*mutant) {}) }, Options{Seed: seed + 1}); len(faults) > 0 {
				t.Errorf("%s, seed %d: %s", c.name, seed+1, faults[0])
			}
		}
	}
}

// TestEveryCheckIsProven keeps the table of mutants complete.
func TestEveryCheckIsProven(t *testing.T) {
	for _, c := range checks {
		proven := false
		for _, m := range mutants {
			proven = proven || m.caught == c.name
		}
		if !proven {
			t.Errorf("no mutant proves that check %q can fail", c.name)
		}
	}
}
