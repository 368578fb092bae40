package decode

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func stages(t *testing.T, p Params, v Vocab) (names []string) {
	t.Helper()
	c, err := p.Chain(v, nil, foreign{})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range c.procs {
		names = append(names, title(s))
	}
	return names
}

func TestChainOrder(t *testing.T) {
	v := toy("a", "b", "\n", ":", "\"", "*")
	v.End = []Token{1}
	full := DefaultParams()
	full.Repeat, full.DRYMultiplier, full.TopNSigma, full.Typical, full.XTCProbability = 1.1, 1, 1, 0.9, 0.5
	full.Bias, full.Banned, full.Allowed, full.MinTokens = map[Token]float32{1: 1}, []Token{1}, []Token{0, 1}, 3
	greedy := DefaultParams()
	greedy.Temperature = 0
	greedyTypical := greedy
	greedyTypical.Typical = 0.5
	neutral := Params{Temperature: 1, TopP: 1, Typical: 1, Repeat: 1}
	for _, tt := range []struct {
		name string
		p    Params
		want string
	}{
		{"full", full, "allow ban min-tokens bias penalties dry top-n-sigma top-k typical top-p min-p xtc temperature"},
		{"default", DefaultParams(), "top-k top-p min-p temperature"},
		{"neutral", neutral, ""},
		{"greedy", greedy, "temperature"},
		{"greedy after typical", greedyTypical, "top-k typical top-p min-p temperature"},
	} {
		want := strings.Fields("decode.foreign " + tt.want)
		if diff := cmp.Diff(want, stages(t, tt.p, v)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

// TestGreedyNeedsNoTruncation: leaving the truncations out at temperature 0
// changes no bit.
func TestGreedyNeedsNoTruncation(t *testing.T) {
	seeds(t, 200, func(t *testing.T, r *rand.Rand) {
		row := randomRow(r, 1+r.IntN(300))
		p := DefaultParams()
		p.Temperature, p.TopP, p.MinP, p.TopNSigma = 0, r.Float32(), r.Float32(), r.Float32()
		short := must(p.Chain(Vocab{Size: len(row)}, nil))
		long := must(NewChain(must(NewTopNSigma(p.TopNSigma)), NewTopK(p.TopK), must(NewTopP(p.TopP)), must(NewMinP(p.MinP)), must(NewTemperature(0))))
		a, b := slices.Clone(row), slices.Clone(row)
		must(0, short.Process(t.Context(), a))
		must(0, long.Process(t.Context(), b))
		if !sameBits(a, b) {
			t.Errorf("%v and %v", allowed(a), allowed(b))
		}
		if _, ok := p.Sampler().(Greedy); !ok {
			t.Error("temperature 0 does not sample greedily")
		}
	})
}

func TestValidateReportsAllFaults(t *testing.T) {
	if err := new(Params).Validate(); err == nil || !strings.Contains(err.Error(), "repeat penalty is 0") {
		t.Errorf("the zero value: %v", err)
	}
	def := DefaultParams()
	if err := def.Validate(); err != nil {
		t.Errorf("the defaults: %v", err)
	}
	bad := Params{
		Temperature: -1, TopK: -2, TopP: 2, MinP: nan, Typical: -1, TopNSigma: inf, Repeat: 0, Frequency: 101,
		Presence: nan, LastN: -1, DRYMultiplier: -1, DRYBase: 101, DRYAllowedLength: -1, DRYLastN: MaxWindow + 1,
		DRYBreakers: []string{""}, XTCProbability: 2, XTCThreshold: -1, Bias: map[Token]float32{0: inf},
		Banned: []Token{-1}, Allowed: []Token{-1}, MinTokens: -1,
	}
	err := bad.Validate()
	if err == nil {
		t.Fatal("accepted")
	}
	if n := len(strings.Split(err.Error(), "\n")); n != 21 {
		t.Errorf("%d faults, want one per field:\n%v", n, err)
	}
	if _, err := bad.Chain(Vocab{Size: 9}, nil); err == nil {
		t.Error("built a chain of invalid parameters")
	}
}

func TestChainChecksTokens(t *testing.T) {
	for name, edit := range map[string]func(*Params, *Vocab){
		"bias":     func(p *Params, _ *Vocab) { p.Bias = map[Token]float32{9: 1} },
		"banned":   func(p *Params, _ *Vocab) { p.Banned = []Token{9} },
		"allowed":  func(p *Params, _ *Vocab) { p.Allowed = []Token{9} },
		"end":      func(_ *Params, v *Vocab) { v.End = []Token{9} },
		"no vocab": func(_ *Params, v *Vocab) { v.Size = 0 },
		"breakers": func(p *Params, _ *Vocab) { p.DRYMultiplier = 1 },
	} {
		p, v := DefaultParams(), Vocab{Size: 9}
		edit(&p, &v)
		if _, err := p.Chain(v, nil); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestReadyBreakersAreUsed(t *testing.T) {
	v := toy("a", "\n", ":", "\"", "*")
	p := DefaultParams()
	p.DRYMultiplier = 1
	v.Breakers = must(NewBreakers(v, p.DRYBreakers))
	v.Piece = nil
	if _, err := p.Chain(v, nil); err != nil {
		t.Errorf("ready breakers: %v", err)
	}
	p.DRYBreakers = []string{"a"}
	if _, err := p.Chain(v, nil); err == nil {
		t.Error("breakers of other texts were used")
	}
}

func TestParamsAreData(t *testing.T) {
	p := DefaultParams()
	p.Bias, p.Seed = map[Token]float32{7: -1.5}, 1<<63
	q := DefaultParams()
	if err := json.Unmarshal(must(json.Marshal(p)), &q); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(p, q); diff != "" {
		t.Error(diff)
	}
	if s := fmt.Sprint(string(must(json.Marshal(p)))); !strings.Contains(s, `"logit_bias":{"7":-1.5}`) {
		t.Error(s)
	}
}
