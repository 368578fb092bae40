package steer

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Expr is a plan in a few words, over vectors that have names:
//
//	polite:0.6@8-14 + !verbose
//	careful[-1:8] + formal:-0.3#answer
//
// The first adds the vector "polite" with dose 0.6 at blocks 8 to 14 and
// removes the direction "verbose" wherever that vector has one. The second adds
// "careful" to the last row of the prompt and the first eight of the answer, and
// the opposite of "formal" to what the user reads. The grammar:
//
//	expr   = term { "+" term } .
//	term   = [ "!" ] name { clause } .        "!" projects the direction out
//	clause = dose | layers | window | phase .
//	dose   = ":" [ "-" ] number .             otherwise the vector's own, or 1
//	layers = "@" range { "," range } .        otherwise all that the vector has
//	range  = integer [ "-" integer ] .        blocks from 0, both ends included
//	window = "[" [ offset ] ":" [ offset ] "]" .   otherwise the vector's own; [:] is every row
//	offset = [ "-" ] integer .                rows from the prompt's end: 0 is the first generated one
//	phase  = "#" ( "prompt" | "answer" | "think" | "constrained" ) .
//	name   = letter { letter | digit | "_" | "." | "-" } .
//	number = digits [ "." digits ] [ "e" [ "-" ] digits ] .
//
// Clauses stand in any order. A term has each of them once at most, except
// phases, of which any may match. Blanks between words do not matter. A window
// starts with its first offset and ends before its second, as slices do. What a
// vector says of dose and window was chosen for what the vector is for, so "!"
// takes neither from a vector that is for adding.
//
// Make an Expr with [ParseExpr] or as a literal; it is data and safe for
// concurrent use as long as nobody writes to it.
type Expr struct {
	Terms []ExprTerm
}

// ExprTerm is one vector of an expression with what is said of it.
type ExprTerm struct {
	Name    string
	Project bool     // "!": project the direction out
	Dose    *float32 // nil: the vector's own dose, or 1
	Layers  []LayerRange
	// From and To are as in When. Both nil: the vector's own window, or every
	// row with Everywhere ("[:]").
	From, To   *int
	Everywhere bool
	Phases     Phase // as in When
	Column     int   // where the name stands, counted in characters from 1; 0 when unknown
}

// LayerRange is a run of blocks, both ends included.
type LayerRange struct{ First, Last int }

// ExprError is a fault in the text or the meaning of an expression.
type ExprError struct {
	Column int // counted in characters from 1; 0 when unknown
	Text   string
}

func (e *ExprError) Error() string {
	if e.Column == 0 {
		return e.Text
	}
	return fmt.Sprintf("column %d: %s", e.Column, e.Text)
}

// String is the expression as [ParseExpr] reads it, with clauses in the order
// of the grammar.
func (e *Expr) String() string {
	terms := make([]string, len(e.Terms))
	for i := range e.Terms {
		terms[i] = e.Terms[i].String()
	}
	return strings.Join(terms, " + ")
}

func (t *ExprTerm) String() string {
	var b strings.Builder
	if t.Project {
		b.WriteByte('!')
	}
	b.WriteString(t.Name)
	if t.Dose != nil {
		b.WriteByte(':')
		b.WriteString(strconv.FormatFloat(float64(*t.Dose), 'f', -1, 32))
	}
	for i, r := range t.Layers {
		b.WriteByte("@,"[min(i, 1)])
		b.WriteString(strconv.Itoa(r.First))
		if r.Last != r.First {
			b.WriteString("-" + strconv.Itoa(r.Last))
		}
	}
	if w := window(t.From, t.To); w != "" {
		b.WriteString(w)
	} else if t.Everywhere {
		b.WriteString("[:]")
	}
	for _, name := range t.Phases.Names() {
		b.WriteString("#" + name)
	}
	return b.String()
}

// window spells offsets; empty when both are open.
func window(from, to *int) string {
	if from == nil && to == nil {
		return ""
	}
	return "[" + offset(from) + ":" + offset(to) + "]"
}

func offset(n *int) string {
	if n == nil {
		return ""
	}
	return strconv.Itoa(*n)
}

// Plan looks the names up and makes the plan. All faults are reported at once,
// each wrapping an [*ExprError]; the vectors themselves are checked too.
func (e *Expr) Plan(vectors map[string]*Vector) (*Plan, error) {
	groups, err := e.Groups(vectors)
	if err != nil {
		return nil, err
	}
	p, err := NewPlan(slices.Concat(groups...)...)
	if err != nil {
		return nil, fmt.Errorf("expression %q: %w", e, err)
	}
	return p, nil
}

// Groups are the interventions of each term, in order, as [Orthogonalise] takes
// them. They share the vectors' slices.
func (e *Expr) Groups(vectors map[string]*Vector) ([][]Intervention, error) {
	var groups [][]Intervention
	var faults []error
	for i := range e.Terms {
		t := &e.Terms[i]
		list, err := t.interventions(vectors)
		if err != nil {
			faults = append(faults, fmt.Errorf("expression: %w", &ExprError{t.Column, err.Error()}))
		}
		groups = append(groups, list)
	}
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	return groups, nil
}

func (t *ExprTerm) interventions(vectors map[string]*Vector) ([]Intervention, error) {
	v := vectors[t.Name]
	if v == nil {
		return nil, fmt.Errorf("no vector is named %q, only %s", t.Name, strings.Join(slices.Sorted(maps.Keys(vectors)), ", "))
	}
	if err := v.Validate(); err != nil {
		return nil, fmt.Errorf("vector %q: %w", t.Name, err)
	}
	layers, err := t.layers()
	if err != nil {
		return nil, err
	}
	if t.Project {
		v = v.everywhere(layers)
	}
	for _, layer := range layers {
		if v.Directions[layer] == nil {
			return nil, fmt.Errorf("vector %q has no direction for block %d, only for %v", t.Name, layer, v.Layers())
		}
	}
	list, err := v.Interventions(t.dose(v), layers...)
	for i := range list {
		iv := &list[i]
		iv.When = When{Phases: t.Phases}
		iv.When.From, iv.When.To = t.rows(v)
		if t.Project {
			iv.Op = Project
		}
	}
	return list, err
}

// dose: a vector's own was chosen for what the vector is for, so adding it says
// nothing of how much to project out.
func (t *ExprTerm) dose(v *Vector) float32 {
	switch {
	case t.Dose != nil:
		return *t.Dose
	case v.Dose == 0, t.Project && v.Op != Project:
		return 1
	}
	return v.Dose
}

// rows are the term's window, or the vector's own, with the exception of dose.
func (t *ExprTerm) rows(v *Vector) (from, to *int) {
	if t.From != nil || t.To != nil || t.Everywhere || t.Project && v.Op != Project {
		return t.From, t.To
	}
	return v.From, v.To
}

func (t *ExprTerm) layers() ([]int, error) {
	var list []int
	for _, r := range t.Layers {
		if r.First < 0 || r.Last < r.First || r.Last >= MaxVectorLayers {
			return nil, fmt.Errorf("blocks %d-%d: want a range from 0 to %d", r.First, r.Last, MaxVectorLayers-1)
		}
		for layer := r.First; layer <= r.Last; layer++ {
			if slices.Contains(list, layer) {
				return nil, fmt.Errorf("block %d is named twice", layer)
			}
			list = append(list, layer)
		}
	}
	return list, nil
}

// everywhere lets a single direction be projected out at any block, which is
// how directions are ablated (Arditi et al., arXiv 2406.11717).
func (v *Vector) everywhere(layers []int) *Vector {
	if len(v.Directions) != 1 || len(layers) == 0 {
		return v
	}
	wide := *v
	wide.Directions = make(map[int][]float32, len(layers))
	for _, d := range v.Directions {
		for _, layer := range layers {
			wide.Directions[layer] = d
		}
	}
	return &wide
}
