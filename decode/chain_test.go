package decode

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
)

// foreign is a processor of another package that does nothing.
type foreign struct{ stateless }

func (foreign) Process(context.Context, Logits) error { return nil }

// raise allows a token again.
type raise struct{ t Token }

func (p raise) Process(_ context.Context, l Logits) error { l[p.t] = 9; return nil }
func (raise) Accept(Token) error                          { return nil }
func (raise) Rewind(int) error                            { return nil }

// log records what it accepted and fails when told to.
type log struct {
	toks                   []Token
	failAccept, failRewind bool
}

var errPlanned = errors.New("planned")

func (p *log) Process(context.Context, Logits) error { return nil }
func (p *log) Accept(t Token) error {
	if p.failAccept {
		return errPlanned
	}
	p.toks = append(p.toks, t)
	return nil
}
func (p *log) Rewind(n int) error {
	if p.failRewind {
		return errPlanned
	}
	p.toks = p.toks[:len(p.toks)-n]
	return nil
}

func TestChainIsAtomic(t *testing.T) {
	a, b, bad := &log{}, &log{}, &log{}
	c := must(NewChain(a, b, bad))
	for _, tok := range []Token{1, 2, 3} {
		must(0, c.Accept(tok))
	}
	check := func(want ...Token) {
		t.Helper()
		for i, p := range []*log{a, b, bad} {
			if !slices.Equal(p.toks, want) {
				t.Errorf("processor %d holds %v, want %v", i, p.toks, want)
			}
		}
	}
	bad.failAccept = true
	if err := c.Accept(4); !errors.Is(err, errPlanned) || !strings.Contains(err.Error(), "processor 2") {
		t.Errorf("accept: %v", err)
	}
	check(1, 2, 3)
	bad.failAccept, bad.failRewind = false, true
	if err := c.Rewind(2); !errors.Is(err, errPlanned) {
		t.Errorf("rewind: %v", err)
	}
	check(1, 2, 3)
	bad.failRewind = false
	must(0, c.Rewind(2))
	check(1)
	if c.Rewind(2) == nil {
		t.Error("rewound more than was accepted")
	}
	check(1)
}

func TestChainThatCannotBeRestored(t *testing.T) {
	a, bad := &log{}, &log{}
	c := must(NewChain(a, bad))
	must(0, c.Accept(1))
	a.failRewind, bad.failAccept = true, true
	if err := c.Accept(2); err == nil || !strings.Contains(err.Error(), "broken") {
		t.Errorf("accept: %v", err)
	}
	bad.failAccept, a.failRewind = false, false
	for _, err := range []error{c.Accept(1), c.Rewind(1), c.Process(t.Context(), Logits{1})} {
		if !errors.Is(err, errPlanned) {
			t.Errorf("a broken chain answered %v", err)
		}
	}
}

func TestChainStopsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := must(NewChain(NewTopK(1))).Process(ctx, Logits{1, 2}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestChainNamesTheStage(t *testing.T) {
	c := must(NewChain(foreign{}, NewTopK(1)))
	err := c.Process(t.Context(), Logits{1, nan})
	if err == nil || !strings.Contains(err.Error(), "processor 1, top-k: logit of token 1 is NaN") {
		t.Error(err)
	}
}

func TestProcessDoesNotKeepTheRow(t *testing.T) {
	p := NewTopK(1)
	c := must(NewChain(p))
	l := Logits{1, 2}
	must(0, p.Process(t.Context(), l))
	must(0, c.Process(t.Context(), l))
	if p.view.row != nil || c.view.row != nil {
		t.Error("a row is kept after Process")
	}
}

func TestNoAllocations(t *testing.T) {
	ctx := t.Context()
	r := NewRand(3)
	row := peaked(r, 5000)
	work := make(Logits, len(row))
	p := DefaultParams()
	p.Repeat, p.DRYMultiplier, p.DRYBreakers, p.Typical, p.TopNSigma, p.XTCProbability = 1.2, 1, nil, 0.9, 2, 0.5
	p.Bias, p.Banned, p.MinTokens = map[Token]float32{4: 1}, []Token{9}, 5
	full := must(p.Chain(Vocab{Size: len(row), End: []Token{1}}, nil))
	d := DefaultParams()
	def := must(d.Chain(Vocab{Size: len(row)}, nil))
	step := func(c *Chain, s Sampler) func() {
		return func() {
			copy(work, row)
			must(0, c.Process(ctx, work))
			must(0, c.Accept(must(s.Sample(work, r))%50))
			must(0, c.Rewind(1))
			must(0, c.Accept(7))
		}
	}
	buf := make([]Logprob, 0, 20)
	for name, f := range map[string]func(){
		"default":  step(def, d.Sampler()),
		"full":     step(full, p.Sampler()),
		"logprobs": func() { must(0, second2(Logprobs(buf, row, 3, 20))) },
		"greedy":   func() { must(Greedy{}.Sample(row, nil)) },
		"all":      func() { must(Categorical{}.Sample(row, r)) },
	} {
		for range 200 {
			f()
		}
		if n := testing.AllocsPerRun(200, f); n != 0 {
			t.Errorf("%s: %v allocations a step", name, n)
		}
	}
}

func second2[A, B any](_ A, _ B, err error) error { return err }
