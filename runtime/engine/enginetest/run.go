package enginetest

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/runtime/engine"
	"github.com/trimtab/trimtab/steer"
)

// TB is what the checks need of a *testing.T. It is small so that broken
// engines can be run through the suite to see that it fails.
type TB interface {
	Helper()
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any) // must not return
}

// Options adjust [Run] to a back end.
type Options struct {
	// Seed drives every random choice; 0 takes a random one. It is logged.
	Seed uint64
	// Tolerance is the largest difference between a logit and the same logit
	// computed in another batch or after a rewind; 0 demands equal bits.
	// Greedy tokens must agree unless their logits are closer than this.
	Tolerance float64
	// EditTolerance bounds the distance of an edited row from what
	// Intervention.Apply makes of it, relative to the row. Default 1e-4.
	EditTolerance float64
	// Walk is the number of random steps in the random walk. Default 120.
	Walk int
}

// The suite fills contexts to the brim, so it asks for small ones.
const (
	maxContext   = 8192
	maxCells     = 32768
	minContext   = 64
	minSequences = 5
)

// Run checks an engine against the contract of package engine: what Caps claims
// works, what Caps denies returns an error wrapping [engine.ErrUnsupported], no
// sequence sees another, plans do what they say, and rewinding is exact. Open is
// called once or twice per check and must return a fresh engine each time, with
// a context of 64 to 8192 rows, at most 32768 cells and at least 5 sequences; Run
// closes it. Capabilities are tested as declared, so run the suite once for
// every setting that changes them.
func Run(t *testing.T, open func(t *testing.T) engine.Engine, o Options) {
	if o.Seed == 0 {
		o.Seed = rand.Uint64()
	}
	for _, c := range checks {
		t.Run(c.name, func(t *testing.T) {
			runCheck(t, c, func() engine.Engine { return open(t) }, o)
		})
	}
}

type check struct {
	name string
	run  func(*suite)
}

var checks = []check{
	{"info", checkInfo},
	{"tokenizer", checkTokenizer},
	{"denied", checkDenied},
	{"batches", checkBatches},
	{"embeddings", checkEmbeddings},
	{"outputs", checkOutputs},
	{"long feed", checkLongFeed},
	{"lifetime", checkLifetime},
	{"walk", checkWalk},
	{"exact zero", checkExactZero},
	{"edits", checkEdits},
	{"edits of generated rows", checkGeneratedEdits},
	{"plans in order", checkPlanOrder},
	{"composition", checkComposition},
	{"many plans", checkManyPlans},
	{"isolation", checkIsolation},
	{"shared plan", checkSharedPlan},
	{"reuse", checkReuse},
	{"bad plans", checkBadPlans},
	{"bad feeds", checkBadFeeds},
	{"bad origins", checkBadOrigins},
	{"bad rewinds", checkBadRewinds},
	{"context full", checkContextFull},
	{"cells full", checkCellsFull},
	{"no sequence", checkNoSequence},
	{"cancel", checkCancel},
	{"close", checkClose},
}

func runCheck(tb TB, c check, open func() engine.Engine, o Options) {
	tb.Helper()
	if o.EditTolerance == 0 {
		o.EditTolerance = 1e-4
	}
	if o.Walk == 0 {
		o.Walk = 120
	}
	tb.Logf("seed %d", o.Seed)
	eng := open()
	s := &suite{TB: tb, ctx: context.Background(), eng: eng, info: eng.Info(), open: open, o: o, rng: rand.New(rand.NewPCG(o.Seed, 1))}
	s.limits()
	s.pickTokens()
	c.run(s)
	if err := eng.Close(); err != nil {
		tb.Errorf("close: %v", err)
	}
}

// suite is one check at work on one engine.
type suite struct {
	TB
	ctx    context.Context
	eng    engine.Engine
	info   *engine.Info
	open   func() engine.Engine
	o      Options
	rng    *rand.Rand
	usable []decode.Token
}

func (s *suite) limits() {
	s.Helper()
	i := s.info
	if i.Context < minContext || i.Context > maxContext || i.Cells > maxCells || i.Cells < 4*minContext || i.MaxSequences < minSequences {
		s.Fatalf("open the engine with %d to %d rows of context, %d to %d cells and at least %d sequences; it has %d, %d and %d",
			minContext, maxContext, 4*minContext, maxCells, minSequences, i.Context, i.Cells, i.MaxSequences)
	}
	if i.Vocab < 2 || i.Width < 2 || i.Layers < 1 {
		s.Fatalf("vocabulary %d, width %d, layers %d", i.Vocab, i.Width, i.Layers)
	}
}

// pickTokens collects tokens that stand for text, or any where there is no
// tokenizer. The first 4096 are enough.
func (s *suite) pickTokens() {
	for t := decode.Token(0); int(t) < s.info.Vocab && len(s.usable) < 4096; t++ {
		if s.info.Tokenizer == nil || s.info.Tokenizer.Kind(t)&(engine.KindControl|engine.KindEnd|engine.KindUnused) == 0 {
			s.usable = append(s.usable, t)
		}
	}
	if len(s.usable) == 0 {
		s.Fatalf("the vocabulary has no usable token")
	}
}

func (s *suite) token() decode.Token { return s.usable[s.rng.IntN(len(s.usable))] }

func (s *suite) tokens(n int) []decode.Token {
	out := make([]decode.Token, n)
	for i := range out {
		out[i] = s.token()
	}
	return out
}

func (s *suite) noise(n int, size float64) []float32 {
	out := make([]float32, n)
	for i := range out {
		out[i] = float32(size * s.rng.NormFloat64())
	}
	return out
}

func (s *suite) sequence() engine.Sequence {
	s.Helper()
	return s.from(engine.Origin{})
}

func (s *suite) from(o engine.Origin) engine.Sequence {
	s.Helper()
	seq, err := s.eng.NewSequence(s.ctx, o)
	if err != nil {
		s.Fatalf("new sequence: %v", err)
	}
	return seq
}

func (s *suite) forward(feeds ...engine.Feed) {
	s.Helper()
	if err := s.eng.Forward(s.ctx, feeds); err != nil {
		s.Fatalf("forward: %v", err)
	}
}

func (s *suite) steer(seq engine.Sequence, plan *steer.Plan) {
	s.Helper()
	if err := seq.Steer(plan); err != nil {
		s.Fatalf("steer: %v", err)
	}
}

func (s *suite) shut(seqs ...engine.Sequence) {
	s.Helper()
	for _, seq := range seqs {
		if err := seq.Close(); err != nil {
			s.Fatalf("close sequence: %v", err)
		}
	}
}

func (s *suite) plan(list ...steer.Intervention) *steer.Plan {
	s.Helper()
	p, err := steer.NewPlan(list...)
	if err != nil {
		s.Fatalf("the suite made a bad plan: %v", err)
	}
	return p
}

// length checks Sequence.Len.
func (s *suite) length(seq engine.Sequence, want int) {
	s.Helper()
	if got := seq.Len(); got != want {
		s.Fatalf("the sequence has %d rows, want %d", got, want)
	}
}
