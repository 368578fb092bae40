package runtime

import (
	"context"
	"slices"
	"time"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/runtime/engine"
	"github.com/trimtab/trimtab/steer"
)

// Listener is told what a session does, in order. Any hook may be nil. Hooks
// run inside the step loop, of a scheduler too, so they must be quick; they
// must not keep what they are handed. An error or a panic ends that session,
// and only that one. A submission that never gets a slot has no events.
type Listener struct {
	Start func(ctx context.Context, b *Begin) error  // before anything is fed
	Step  func(ctx context.Context, e *Event) error  // after each decision was applied
	End   func(ctx context.Context, r *Result) error // once, whatever the reason
}

// Listeners tells several, in order. The first error counts; those behind it
// are not told.
func Listeners(list ...Listener) Listener {
	list = slices.Clone(list)
	return Listener{
		Start: func(ctx context.Context, b *Begin) error {
			return tell(ctx, list, b, func(l *Listener) func(context.Context, *Begin) error { return l.Start })
		},
		Step: func(ctx context.Context, e *Event) error {
			return tell(ctx, list, e, func(l *Listener) func(context.Context, *Event) error { return l.Step })
		},
		End: func(ctx context.Context, r *Result) error {
			return tell(ctx, list, r, func(l *Listener) func(context.Context, *Result) error { return l.End })
		},
	}
}

func tell[T any](ctx context.Context, list []Listener, v T, hook func(*Listener) func(context.Context, T) error) error {
	for i := range list {
		if f := hook(&list[i]); f != nil {
			if err := f(ctx, v); err != nil {
				return err
			}
		}
	}
	return nil
}

// Begin is what a session starts from.
type Begin struct {
	Config *Config // as checked, with defaults filled in
	Info   *engine.Info
	Cached int // prompt rows taken from the prefix cache
}

// Event is one candidate, what was said about it and what became of it.
type Event struct {
	Index      int // visible tokens before it
	Token      decode.Token
	Piece      []byte
	End        bool     // it ends the answer
	Forced     bool     // Step.Forced
	Yielded    bool     // Step.Yielded
	Logprob    *Logprob // nil unless asked for
	Shadow     *Reading // nil without Config.Shadow
	Verdicts   []Verdict
	Rewindable int // Step.Rewindable
	Action     Action
	Rewound    int     // committed tokens really taken back
	Exhausted  string  // why a rewind became a stop, else empty
	Faults     []error // monitors or policies switched off in this step ([FailOpen])

	// Raw is the row as the model gave it: the unsteered one when
	// Shadow.Unsteered says so, and Activation is of the same row.
	Raw    decode.Logits
	Logits decode.Logits // the row after the processor
	// Activation returns the residual of the row that produced Raw, at a site
	// of one of the monitors.
	Activation func(steer.Site) ([]float32, error)

	Text []byte // text that left in this step
}

// Chunk is a part of the text that left, with the tokens that are complete
// with it. Chunks never take anything back: joined they are the final text. The
// slices stay valid and must not be written to.
type Chunk struct {
	Text     []byte // valid UTF-8
	Tokens   []decode.Token
	Logprobs []Logprob // beside Tokens; nil unless Config.Logprobs
}

func (c *Chunk) empty() bool { return len(c.Text) == 0 && len(c.Tokens) == 0 }

// Logprob is how likely a committed token was under the raw logits.
type Logprob struct {
	Logprob float64          // natural logarithm, at most 0
	Top     []decode.Logprob // the likeliest tokens, best first; nil unless Config.TopLogprobs
}

// FinishReason says why a text ended.
type FinishReason string

const (
	FinishStop      FinishReason = "stop"           // an end token or a stop string
	FinishLength    FinishReason = "length"         // MaxTokens, or the context is full
	FinishFilter    FinishReason = "content_filter" // the policy stopped it
	FinishCancelled FinishReason = "cancelled"      // the context ended, or it was closed
	FinishError     FinishReason = "error"          // see the error beside the Result
)

// Result is what a session has made. Text and Tokens hold what was released,
// so after a content_filter, a cancel or an error the held part is missing.
type Result struct {
	Text         string         // valid UTF-8, without the stop string
	Tokens       []decode.Token // visible tokens, without the end token but with those of the stop string
	Logprobs     []Logprob
	FinishReason FinishReason
	StopString   string // the one that was found, if any
	Usage        Usage
	Timings      Timings
	Shadow       *Divergence // nil without Config.Shadow

	Rewinds   int // rewinds of the policy
	Discarded int // tokens thrown away by them, candidates included
	HoldBack  int // the window, in tokens
	MaxHeld   int // most tokens that waited at once

	// Faults are the monitors and the policy that failed: switched off
	// ([FailOpen]), or the one that ended the session ([FailClosed]).
	Faults []error
}

// Usage counts tokens.
type Usage struct {
	PromptTokens     int
	CachedTokens     int // of the prompt, taken from the prefix cache
	CompletionTokens int // Result.Tokens
}

// Timings tell where the time went.
type Timings struct {
	Queued     time.Duration // from Submit to a place in the batch; 0 without a scheduler
	FirstToken time.Duration // from the start of the session to the first committed token
	Total      time.Duration // from the start of the session to its end
}
