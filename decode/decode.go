// Package decode turns a row of logits into the next token.
//
// The model for the reader's head is a row that is edited and then read. A
// forward pass gives one [Logits] row; every [Processor] of a [Chain] edits it
// in place, in order (penalties, bans, truncation, temperature); a [Sampler]
// reads it and names a [Token]. Everything random takes the caller's generator,
// so equal seeds give equal tokens.
//
// The package knows no model and no engine: it is plain arithmetic over slices.
package decode

import (
	"context"
	"math/rand/v2"
)

// Token is an index into a model's vocabulary. A valid token t satisfies
// 0 <= t < len(row) for every [Logits] row of that model.
type Token int32

// Logits is one vocabulary-wide row of unnormalised log-probabilities, indexed
// by [Token]. A banned token is -Inf. NaN never belongs in a row.
type Logits []float32

// Processor edits logits before a token is sampled, and may depend on the
// tokens that were committed before.
//
// For each step the owner calls Process once with a row that the processor may
// edit in place but must not keep. Then, when a token is committed, Accept is
// called once with it. Rewind(n) takes back the last n accepted tokens: the
// processor must then behave exactly as if they had never been accepted.
//
// A processor belongs to one sequence and is not safe for concurrent use.
// An error aborts the step; the row's contents are then unspecified.
type Processor interface {
	Process(ctx context.Context, l Logits) error
	Accept(t Token) error
	Rewind(n int) error
}

// Sampler picks the next token from a processed row. It is a pure function of
// its arguments: it keeps no state and draws only from r, so one Sampler may
// serve any number of sequences at once. It must not change l, and returns an
// error when no token is allowed (every entry is -Inf) or an entry is NaN.
type Sampler interface {
	Sample(l Logits, r *rand.Rand) (Token, error)
}
