package decode

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
)

// Allow bans every token outside a set. The set may be changed between steps.
type Allow struct {
	stateless
	set  *TokenSet
	view view
}

// NewAllow returns a stage that leaves only the tokens of the set. It keeps the
// set. A row of another width than the set's vocabulary is an error.
func NewAllow(set *TokenSet) *Allow { return &Allow{set: set} }

func (p *Allow) name() string { return "allow" }

// Process bans all others. Every token is banned when the set and the row's
// allowed tokens have none in common.
func (p *Allow) Process(ctx context.Context, l Logits) error { return run(ctx, p, &p.view, l) }

func (p *Allow) edit(_ context.Context, v *view) error { return p.set.Restrict(v.row) }

// Ban bans the tokens of a set. The set may be changed between steps.
type Ban struct {
	stateless
	set  *TokenSet
	view view
}

// NewBan returns a stage that bans the tokens of the set. It keeps the set. A
// row of another width than the set's vocabulary is an error.
func NewBan(set *TokenSet) *Ban { return &Ban{set: set} }

func (p *Ban) name() string { return "ban" }

// Process bans the tokens of the set.
func (p *Ban) Process(ctx context.Context, l Logits) error { return run(ctx, p, &p.view, l) }

func (p *Ban) edit(_ context.Context, v *view) error { return p.set.Ban(v.row) }

// Bias adds a number to the logits of chosen tokens.
type Bias struct {
	stateless
	tokens []Token // ascending
	bias   []float32
	view   view
}

// MaxBias bounds a finite bias. 100 already makes or breaks a token.
const MaxBias = 1e6

// NewBias returns a stage that adds bias[t] to the logit of each token t in
// it: a number within [MaxBias], or -Inf for a ban. All faults are reported at
// once. The map is copied.
func NewBias(bias map[Token]float32) (*Bias, error) {
	p := &Bias{tokens: slices.Sorted(maps.Keys(bias))}
	var faults []error
	for _, t := range p.tokens {
		b := bias[t]
		if t < 0 {
			faults = append(faults, fmt.Errorf("bias for token %d: tokens start at 0", t))
		}
		if b != negInf && !(math.Abs(float64(b)) <= MaxBias) {
			faults = append(faults, fmt.Errorf("bias for token %d is %v, want -Inf or a number within %g", t, b, float64(MaxBias)))
		}
		p.bias = append(p.bias, b)
	}
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	return p, nil
}

func (p *Bias) name() string { return "bias" }

// Process adds the biases. A banned token stays banned; a token outside the
// row is an error.
func (p *Bias) Process(ctx context.Context, l Logits) error { return run(ctx, p, &p.view, l) }

func (p *Bias) edit(_ context.Context, v *view) error {
	for i, t := range p.tokens {
		if p.bias[i] == negInf && int(t) < len(v.row) {
			v.row[t] = negInf
			continue
		}
		if err := v.change(t, p.bias[i]); err != nil {
			return err
		}
	}
	return nil
}

// change adds d, which must be finite, to the logit of t. An allowed token
// stays allowed: the sum stops at the largest finite numbers.
func (v *view) change(t Token, d float32) error {
	if int(t) >= len(v.row) {
		return fmt.Errorf("token %d is outside the row of %d", t, len(v.row))
	}
	if x := v.row[t]; x != negInf {
		v.row[t] = finite(x, x+d)
	}
	return nil
}

// finite is y brought back between the largest finite numbers when a change of
// the finite x led beyond them.
func finite(x, y float32) float32 {
	if x-x != 0 {
		return y // x is itself bad, and must stay visible
	}
	return min(max(y, -math.MaxFloat32), math.MaxFloat32)
}

// MinTokens bans the tokens that end an answer until enough were accepted.
type MinTokens struct {
	n        int
	accepted int
	ends     []Token
	view     view
}

// NewMinTokens returns a stage that bans the end tokens while fewer than n
// tokens are accepted. The slice is copied.
func NewMinTokens(n int, ends []Token) (*MinTokens, error) {
	for _, t := range ends {
		if t < 0 {
			return nil, fmt.Errorf("end token %d: tokens start at 0", t)
		}
	}
	if n < 0 {
		return nil, fmt.Errorf("at least %d tokens: the number is negative", n)
	}
	return &MinTokens{n: n, ends: slices.Clone(ends)}, nil
}

func (p *MinTokens) name() string { return "min-tokens" }

// Process bans the end tokens while they would come too early.
func (p *MinTokens) Process(ctx context.Context, l Logits) error { return run(ctx, p, &p.view, l) }

func (p *MinTokens) edit(_ context.Context, v *view) error {
	if p.accepted >= p.n {
		return nil
	}
	for _, t := range p.ends {
		if int(t) >= len(v.row) {
			return fmt.Errorf("end token %d is outside the row of %d", t, len(v.row))
		}
		v.row[t] = negInf
	}
	return nil
}

// Accept counts t.
func (p *MinTokens) Accept(t Token) error { return count(&p.accepted, t) }

// Rewind takes back n of the accepted tokens; more than that is an error.
func (p *MinTokens) Rewind(n int) error { return uncount(&p.accepted, n) }

func count(accepted *int, t Token) error {
	if err := checkToken(t); err != nil {
		return err
	}
	*accepted++
	return nil
}

func uncount(accepted *int, n int) error {
	if err := checkRewind(n); err != nil {
		return err
	}
	if n > *accepted {
		return fmt.Errorf("rewind %d tokens, only %d were accepted", n, *accepted)
	}
	*accepted -= n
	return nil
}
