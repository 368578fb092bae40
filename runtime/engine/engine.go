// Package engine is the contract between the step loop and a back end that
// runs a model.
//
// The model for the reader's head is a table of sequences. An [Engine] holds
// one loaded model and the cached state of many sequences; [Engine.Forward]
// appends tokens to any number of them in one batch, each [Sequence] under its
// own steering plan; the sequence then shows what came out: logits, and the
// activations that the feed asked for. Whoever drives an engine must be its only
// driver: nothing here is safe for concurrent use unless it says so.
//
// What a back end can do is declared in [Caps], as data. A call that needs
// something Caps denies returns an error wrapping [ErrUnsupported]; nothing is
// silently dropped. Back ends that only stream text implement [Generator].
package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/steer"
)

// Sentinels that callers branch on. Back ends wrap them with the operation and
// the numbers involved.
var (
	// ErrUnsupported: the back end cannot do this at all. See [Unsupported].
	ErrUnsupported = errors.New("not supported")
	// ErrContextFull: the tokens do not fit, either into one sequence
	// ([Info.Context]) or into the cache shared by all ([Info.Cells]).
	// Nothing was fed.
	ErrContextFull = errors.New("context full")
	// ErrNoSequence: all of [Info.MaxSequences] are open.
	ErrNoSequence = errors.New("no free sequence")
	// ErrClosed: the engine or the sequence was closed before.
	ErrClosed = errors.New("closed")
)

// Unsupported returns an error that wraps [ErrUnsupported] and names the
// capability that is missing and why, for example
// Unsupported("rewind", "mamba keeps no per-token state").
func Unsupported(capability, why string) error {
	return fmt.Errorf("%s: %w: %s", capability, ErrUnsupported, why)
}

// Engine runs one loaded model over many sequences. It is not safe for
// concurrent use, except Info, whose answer never changes.
type Engine interface {
	// Info describes the model and what the engine can do with it.
	Info() *Info

	// NewSequence opens a sequence: an empty one for the zero Origin, else a
	// copy of another or of saved bytes. It has no plan, a fork neither. Errors: ErrNoSequence, ErrClosed,
	// ErrUnsupported, ErrContextFull, or a context error.
	NewSequence(ctx context.Context, from Origin) (Sequence, error)

	// Forward appends every feed to its sequence, all in one batch, and
	// returns when the results can be read. A sequence may occur in at most
	// one feed. On error nothing was appended: each sequence is as it was
	// before, though its logits and activations are gone. A context that ends
	// interrupts the computation where the back end can.
	Forward(ctx context.Context, feeds []Feed) error

	// Save returns the state of s as bytes for Origin.Saved, usable with the
	// same model file and engine version only. Steering plans are not part of it.
	Save(s Sequence) ([]byte, error)

	// Close frees the model and every sequence. It may be called twice.
	Close() error
}

// Origin says what a new sequence starts from. At most one of Fork and Saved
// may be set; the zero value is an empty sequence.
type Origin struct {
	Fork  Sequence // copy the cached state of this open sequence of the same engine
	Len   int      // with Fork: keep only the first Len tokens, 0 < Len <= Fork.Len()
	Saved []byte   // bytes that Save returned
}

// Feed asks Forward to append rows to one sequence. Exactly one of Tokens and
// Embeddings must be set. The engine reads the slices during Forward only.
type Feed struct {
	Seq        Sequence
	Tokens     []decode.Token
	Embeddings []float32 // row-major, Info.Width wide, as the first block takes them

	Output  Output       // which rows' logits are wanted
	Capture []steer.Site // which activations are wanted, for every row of the feed

	// PromptLen is the sequence position at which generation starts, so a row
	// at position p stands p-PromptLen rows after the prompt's end. Phase is
	// the part of the text that the rows belong to. Both only serve a plan's
	// When conditions.
	PromptLen int
	Phase     steer.Phase
}

// Rows is the number of rows the feed appends, given the model's width.
func (f *Feed) Rows(width int) int {
	if f.Embeddings != nil && width > 0 {
		return len(f.Embeddings) / width
	}
	return len(f.Tokens)
}

// Output selects the rows of a feed whose logits are computed.
type Output uint8

const (
	OutputLast Output = iota // only the last row: the usual decode step
	OutputNone               // none: a prompt chunk that more of the prompt follows
	OutputAll                // every row: scoring, perplexity, divergence
)

// Sequence is the cached state of one text inside an [Engine]. It has one
// owner and follows the engine's concurrency rule.
type Sequence interface {
	// Len is the number of rows in the sequence.
	Len() int

	// Logits are the rows that the last Forward computed for this sequence,
	// in order, each Info.Vocab wide: one row for OutputLast. Nil when there
	// are none. The caller must not write to them. Valid until the next
	// Forward, or until this sequence is rewound or closed.
	Logits() decode.Logits

	// Activation is what the site's residual held, after any edit there, in
	// each row just fed: row-major, Info.Width wide. The site must have been
	// named in the feed's Capture. Valid as Logits are.
	Activation(site steer.Site) ([]float32, error)

	// Steer sets the plan for the rows of later feeds; nil removes it. Rows
	// already cached stay as they were made. A plan that this engine and
	// model cannot apply in full is refused and the old plan kept; a gate
	// reads its site, so CanCapture must allow that.
	Steer(plan *steer.Plan) error

	// Rewind drops the last n rows, exactly: the sequence then continues as
	// if they had never been fed. Rewind(0) does nothing.
	Rewind(n int) error

	// Close frees the sequence. It may be called twice.
	Close() error
}

// Info describes a loaded model and the engine around it. It never changes
// while the engine is open.
type Info struct {
	Name    string // the model's own name, or its file name
	Arch    string // architecture, as GGUF spells it: "llama", "qwen3"
	Backend string // what computes: "llama.cpp v0.5.0, CPU (sapphirerapids)"
	Hash    string // identifies the weights: vectors and probes state it

	Vocab        int // width of a logits row
	Width        int // width of a residual row
	Layers       int // number of blocks
	Context      int // most rows in one sequence
	Cells        int // most rows in all sequences together; a shared fork counts once
	MaxSequences int // most sequences open at once
	MaxBatch     int // rows that one pass of the hardware takes; a longer Forward is split

	Template  string    // chat template (Jinja), empty when the model has none
	Tokenizer Tokenizer // nil when the back end has none
	Caps      Caps
}

// Caps declares what an engine does. False means that the call returns an
// error wrapping [ErrUnsupported].
type Caps struct {
	Embeddings bool // Feed.Embeddings
	Rewind     bool // Sequence.Rewind to any length
	Fork       bool // Origin.Fork
	Save       bool // Engine.Save and Origin.Saved
	Interrupt  bool // a cancelled context stops Forward before it is done

	// Canvas: the model sees texts as a whole and caches nothing, as masked
	// diffusion does. Every feed is then a complete text whose rows all see
	// each other, and its sequence stays empty.
	Canvas bool

	// Capture and Edit answer per site; nil means never. They are pure and
	// safe for concurrent use.
	Capture func(steer.Site) error
	Edit    func(steer.Site, steer.Op) error
}

// CanCapture reports whether activations at the site can be read, as nil or an
// error wrapping [ErrUnsupported].
func (c *Caps) CanCapture(s steer.Site) error {
	if c.Capture == nil {
		return Unsupported("capture", "this engine does not show activations")
	}
	return c.Capture(s)
}

// CanEdit reports whether op can be applied at the site, as nil or an error
// wrapping [ErrUnsupported].
func (c *Caps) CanEdit(s steer.Site, op steer.Op) error {
	if c.Edit == nil {
		return Unsupported("edit", "this engine does not edit activations")
	}
	return c.Edit(s, op)
}
