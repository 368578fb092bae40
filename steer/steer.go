// Package steer describes edits to a model's residual stream, as data.
//
// The model for the reader's head is a recipe. A [Site] says where in the
// model, an [Intervention] says what to do there and to which rows, and a
// [Plan] is an ordered, immutable list of them with a fingerprint. The package
// runs nothing: an engine takes a plan and calls [Plan.Edit] for the rows that
// [Plan.Needs] names, which hold the only copy of the arithmetic.
//
// Plans come from code, from files (package steer/planfile) or from a short
// expression over named vectors: see [ParseExpr].
package steer

import (
	"fmt"
	"slices"
)

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
	// Replace: moves the component c = x.v/|v| along v to Value, by the share a
	// of the way: x + a*(Value-c)*v/|v|. What x says of the concept is replaced.
	Replace
	// Affine: x + a*(A(Bx)+b) with the matrices of Map and b = Vector, as a
	// low-rank representation edit does (ReFT, arXiv 2404.03592).
	Affine
	// Rotate: turns the part of x that lies in the plane of v and w = Toward by
	// a radians, from v towards w; the rest of x and its norm stay
	// ("Angular Steering", Vu and Nguyen 2025).
	Rotate
	// Ascend: x + u, the least u within a ball that lifts a value function V of
	// the row over a threshold, and nothing at all where V is there already: see
	// [Ascent]. The dose scales the ball's radius.
	Ascend
)

var opNames = [...]string{Add: "add", Project: "project", Clamp: "clamp", Replace: "replace", Affine: "affine", Rotate: "rotate", Ascend: "ascend"}

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

var phaseNames = [...]string{"prompt", "answer", "think", "constrained"} // by bit

// Names are the names of the parts in the set, as files and expressions spell
// them: "prompt", "answer", "think", "constrained".
func (p Phase) Names() []string {
	var names []string
	for i, name := range phaseNames {
		if p>>i&1 == 1 {
			names = append(names, name)
		}
	}
	return names
}

// PhaseNamed is the part of that name; ok is false when there is none.
func PhaseNamed(name string) (p Phase, ok bool) {
	i := slices.Index(phaseNames[:], name)
	if i < 0 {
		return 0, false
	}
	return 1 << i, true
}

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

// Intervention is one edit at one site. Every vector is as wide as the residual.
type Intervention struct {
	Site   Site
	Op     Op
	Vector []float32 // v of the Op; for Affine b, which may be nil for none; not for Ascend
	Scale  float32   // the dose a of the Op; 0 does exactly nothing

	Min, Max float32   // Clamp only, in units of the residual
	Value    float32   // Replace only, in units of the residual
	Toward   []float32 // Rotate only: w, not parallel to v
	Map      *LowRank  // Affine only
	Ascent   *Ascent   // Ascend only

	When     When     // the rows it acts on
	Schedule Schedule // how the dose changes along the answer
	Gate     *Gate    // nil, or a probe that must agree
	Renorm   bool     // afterwards scale the row back to the norm it had

	// Group, if not 0, makes the intervention one of several choices: at each
	// site a row is edited by one group only, the first in the plan's order
	// that has a dose and an open gate for it. See [Prioritise].
	Group int
}

// MaxRank bounds a [LowRank] map.
const MaxRank = 16

// LowRank is the matrix AB of an [Affine] edit in two thin factors, for rows of
// width w.
type LowRank struct {
	Rank int       // 1 to MaxRank
	Down []float32 // B: Rank rows of w, row-major
	Up   []float32 // A by columns: Rank rows of w
}

// Dose is what a row gets of the intervention, as long as no gate is closed:
// Scale times the schedule, or 0 where a condition is not met.
func (iv *Intervention) Dose(r Row) float32 {
	if iv.Scale == 0 || !iv.When.Active(r) {
		return 0
	}
	return iv.Scale * iv.Schedule.At(r.Offset)
}

// Uniform reports whether every row gets the same edit: no condition, schedule
// or gate distinguishes between them.
func (iv *Intervention) Uniform() bool {
	return iv.When.Always() && iv.Schedule.Kind == Constant && iv.Gate == nil && iv.Group == 0
}

// Positional reports whether the edit depends on where a row stands or which
// part of the text it is, so that equal tokens in an answer and in a prompt are
// edited differently.
func (iv *Intervention) Positional() bool {
	w := &iv.When
	return w.From != nil || w.To != nil || w.Phases != 0 || iv.Schedule.Kind != Constant
}

// actsOnPrompt reports whether any row before the prompt's end can be edited.
func (iv *Intervention) actsOnPrompt() bool {
	return iv.When.actsOnPrompt() && iv.Schedule.At(-1) != 0
}
