// Package monitors watches tokens before they are committed.
//
// A [Monitor] is a blueprint: immutable data that any number of sequences may
// share. Start makes a [Watcher] from it, which belongs to one sequence and
// sees every candidate token, in order, as an [Observation]. A watcher only
// reads and scores; what follows from its [Verdict] is the policy's business.
package monitors

import (
	"context"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/steer"
)

// Monitor describes a monitor. It is data: copy it, share it.
type Monitor struct {
	Name string // unique within a session; names the score in events and traces
	Doc  string // one sentence for people
	// Sites are the activations the watcher wants to see for every row.
	Sites []steer.Site
	// Start makes the live part for one sequence. It must not share mutable
	// state between the watchers it makes.
	Start func() Watcher
}

// Watcher follows one sequence. It is used by one goroutine at a time.
type Watcher interface {
	// Observe scores a candidate before it is committed. It must not keep
	// any slice of o. An error is a fault of the watcher, not a verdict.
	Observe(ctx context.Context, o *Observation) (Verdict, error)
	// Rewind forgets the last n observed tokens, exactly: the watcher then
	// answers as if it had never seen them. A candidate that was observed but
	// not committed is rewound as well.
	Rewind(n int) error
}

// Observation is what a watcher may see of one step. All slices belong to the
// step loop and are valid during Observe only.
type Observation struct {
	Step   int           // generated tokens before this one
	Token  decode.Token  // the candidate
	Piece  []byte        // its bytes, perhaps part of a UTF-8 character
	Raw    decode.Logits // the row as the model gave it
	Logits decode.Logits // the row after the processors, from which Token was drawn
	// Activation returns the residual of the row that produced Raw, at one of
	// the monitor's Sites.
	Activation func(steer.Site) ([]float32, error)
}

// Verdict is a watcher's opinion of one candidate.
type Verdict struct {
	Score float64 // the monitor's scale; higher means more of what it looks for
	Flag  bool    // the score is past the monitor's own threshold
	// Onset is how many committed tokens before this one the trouble began:
	// a hint for the rollback point. 0 when it begins here or is unknown.
	Onset int
	Note  string // for people and logs; empty when there is nothing to say
}
