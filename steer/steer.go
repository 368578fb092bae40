// Package steer describes edits to a model's residual stream, as data.
//
// The model for the reader's head is a recipe. A [Site] says where in the
// model, an [Intervention] says what to do there and to which rows, and a
// [Plan] is an ordered, immutable list of them with a fingerprint. The package
// runs nothing: an engine takes a plan and applies it with [Intervention.Apply],
// which holds the only copy of the arithmetic.
package steer

import "fmt"

// Point is a place inside a block of the model.
type Point uint8

// ResidPost is the residual stream after the block has added its output: what
// llama.cpp names "l_out", and what a control vector is added to.
const ResidPost Point = 0

func (p Point) String() string {
	if p == ResidPost {
		return "post"
	}
	return fmt.Sprintf("point(%d)", uint8(p))
}

// Site is where an activation is read or edited. Layer counts blocks from 0.
type Site struct {
	Layer int
	Point Point
}

func (s Site) String() string { return fmt.Sprintf("%d.%s", s.Layer, s.Point) }

// Op is what an intervention does to a row x with its vector v and dose a.
type Op uint8

const (
	// Add: x + a*v.
	Add Op = iota
	// Project: x - a*(x.v/|v|^2)*v; a = 1 removes the direction.
	Project
	// Clamp: moves the component c = x.v/|v| along v to the nearest value in
	// [Min,Max], by the share a of the way: x + a*(clamp(c)-c)*v/|v|.
	Clamp
)

var opNames = [...]string{Add: "add", Project: "project", Clamp: "clamp"}

func (o Op) String() string {
	if o.Known() {
		return opNames[o]
	}
	return fmt.Sprintf("op(%d)", uint8(o))
}

// Known reports whether this version of the package defines the operation.
func (o Op) Known() bool { return int(o) < len(opNames) }

// Phase is a set of parts of a conversation that rows belong to. Zero stands
// for a row that says nothing of its phase, and for "any" in [When].
type Phase uint8

const (
	PhasePrompt      Phase = 1 << iota // rows the user or a template wrote
	PhaseAnswer                        // generated text that the user reads
	PhaseThink                         // generated text inside a think block
	PhaseConstrained                   // generated text under a grammar or inside a tool call
)

// Row is what a [When] may ask about one row of a batch.
type Row struct {
	Offset int   // position relative to the prompt's end: -1 is its last token, 0 the first generated one
	Token  int32 // the token fed in this row, -1 for an embedding
	Phase  Phase
}

// When limits an intervention to some rows. The zero value means every row.
// Conditions combine with "and".
type When struct {
	// From and To bound Row.Offset as From <= Offset < To. A nil bound is open.
	From, To *int
	// Phases, if not 0, must contain the row's phase.
	Phases Phase
	// Tokens, if not empty, must contain the row's token.
	Tokens []int32
}

// Active reports whether the row meets every condition.
func (w *When) Active(r Row) bool {
	if w.From != nil && r.Offset < *w.From {
		return false
	}
	if w.To != nil && r.Offset >= *w.To {
		return false
	}
	if w.Phases != 0 && w.Phases&r.Phase == 0 {
		return false
	}
	if len(w.Tokens) == 0 {
		return true
	}
	for _, t := range w.Tokens {
		if t == r.Token {
			return true
		}
	}
	return false
}

// Always reports whether every row meets the conditions.
func (w *When) Always() bool {
	return w.From == nil && w.To == nil && w.Phases == 0 && len(w.Tokens) == 0
}

// actsOnPrompt reports whether any row before the prompt's end can be active.
func (w *When) actsOnPrompt() bool {
	if w.From != nil && *w.From >= 0 {
		return false
	}
	return w.Phases == 0 || w.Phases&PhasePrompt != 0
}

// Intervention is one edit at one site. Vector is as wide as the residual.
type Intervention struct {
	Site   Site
	Op     Op
	Vector []float32
	Scale  float32 // the dose a of the Op; 0 does exactly nothing
	Min    float32 // Clamp only
	Max    float32 // Clamp only
	When   When
	Renorm bool // afterwards scale the row back to the norm it had
}
