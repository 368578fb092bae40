// Package planfile reads and writes steering plans as JSON and YAML.
//
// A file holds one whole plan, vectors included, so that it means the same
// everywhere and comes back with the same fingerprint:
//
//	version: 1
//	interventions:
//	  - layer: 12
//	    op: add
//	    vector: [0.25, -1.5]
//	    scale: 0.6
//	    when: {from: -1, to: 32, phases: [answer, think], tokens: [42]}
//	    schedule: {kind: decay, start: 1, end: 0.2, over: 16}
//	    gate: {layer: 8, kind: cosine, vector: [1, 0.5], threshold: 0.3}
//	    renorm: true
//	    group: 1
//
// The fields are those of [steer.Intervention] in lower case. Layer, op and
// scale must be given, and what the operation works with: vector, and min and
// max for clamp, value for replace, toward for rotate, and map (rank, down, up)
// for affine, where vector is optional. In place of a vector, ascend has an
// ascent: threshold, radius, steps and value (kind, norm, and layers of in, out,
// weight and bias), and perhaps margin, absolute and always. All else may be
// left out. Readers are strict: a field that is unknown, doubled or of no use to
// its operation is an error, and so is everything [steer.NewPlan] refuses.
//
// The package stands apart from steer so that who only runs plans does not
// import a YAML parser.
package planfile

import (
	"errors"
	"fmt"
	"io"

	"go.yaml.in/yaml/v3"

	"github.com/trimtab/trimtab/steer"
)

// Version is the format that this package writes, and the only one it reads.
const Version = 1

// MaxBytes is the longest file that is read: a plan of 256 interventions on
// rows of 8192 values fits.
const MaxBytes = 64 << 20

type document struct {
	Version       whole  `json:"version" yaml:"version"`
	Interventions []step `json:"interventions" yaml:"interventions"`
}

// step is one intervention. Pointers tell "not given" from zero.
type step struct {
	Layer    *whole    `json:"layer" yaml:"layer"`
	Point    string    `json:"point,omitempty" yaml:"point,omitempty"`
	Op       string    `json:"op" yaml:"op"`
	Scale    *float32  `json:"scale" yaml:"scale"`
	Min      *float32  `json:"min,omitempty" yaml:"min,omitempty"`
	Max      *float32  `json:"max,omitempty" yaml:"max,omitempty"`
	Value    *float32  `json:"value,omitempty" yaml:"value,omitempty"`
	When     *when     `json:"when,omitempty" yaml:"when,omitempty"`
	Schedule *schedule `json:"schedule,omitempty" yaml:"schedule,omitempty"`
	Renorm   bool      `json:"renorm,omitempty" yaml:"renorm,omitempty"`
	Group    whole     `json:"group,omitempty" yaml:"group,omitempty"`
	Gate     *gate     `json:"gate,omitempty" yaml:"gate,omitempty"`
	Vector   []float32 `json:"vector,omitempty" yaml:"vector,omitempty,flow"`
	Toward   []float32 `json:"toward,omitempty" yaml:"toward,omitempty,flow"`
	Map      *lowRank  `json:"map,omitempty" yaml:"map,omitempty"`
	Ascent   *ascent   `json:"ascent,omitempty" yaml:"ascent,omitempty"`
}

// whole is an int that refuses fractions; the YAML parser would cut them off.
type whole int

// UnmarshalYAML takes integers only.
func (w *whole) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!int" {
		return fmt.Errorf("line %d: want a whole number, not %q", n.Line, n.Value)
	}
	return n.Decode((*int)(w))
}

func wholePtr(n *int) *whole {
	if n == nil {
		return nil
	}
	w := whole(*n)
	return &w
}

func (w *whole) ptr() *int { return (*int)(w) }

type when struct {
	From   *whole   `json:"from,omitempty" yaml:"from,omitempty"`
	To     *whole   `json:"to,omitempty" yaml:"to,omitempty"`
	Phases []string `json:"phases,omitempty" yaml:"phases,omitempty,flow"`
	Tokens []whole  `json:"tokens,omitempty" yaml:"tokens,omitempty,flow"`
}

type schedule struct {
	Kind  string  `json:"kind" yaml:"kind"`
	Start float32 `json:"start" yaml:"start"`
	End   float32 `json:"end" yaml:"end"`
	Over  whole   `json:"over" yaml:"over"`
}

type gate struct {
	Layer     *whole    `json:"layer" yaml:"layer"`
	Point     string    `json:"point,omitempty" yaml:"point,omitempty"`
	Kind      string    `json:"kind" yaml:"kind"`
	Bias      float32   `json:"bias,omitempty" yaml:"bias,omitempty"`
	Threshold *float32  `json:"threshold" yaml:"threshold"`
	Below     bool      `json:"below,omitempty" yaml:"below,omitempty"`
	Vector    []float32 `json:"vector" yaml:"vector,flow"`
}

type lowRank struct {
	Rank whole     `json:"rank" yaml:"rank"`
	Down []float32 `json:"down" yaml:"down,flow"`
	Up   []float32 `json:"up" yaml:"up,flow"`
}

// describe is the document of a plan.
func describe(p *steer.Plan) (*document, error) {
	d := &document{Version: Version, Interventions: []step{}}
	for i := range p.Len() {
		s, err := describeStep(p.At(i))
		if err != nil {
			return nil, fmt.Errorf("plan file: intervention %d: %w", i, err)
		}
		d.Interventions = append(d.Interventions, *s)
	}
	return d, nil
}

func describeStep(iv *steer.Intervention) (*step, error) {
	s := &step{
		Layer: wholePtr(&iv.Site.Layer), Op: iv.Op.String(), Scale: &iv.Scale, Renorm: iv.Renorm, Group: whole(iv.Group),
		Vector: iv.Vector, Toward: iv.Toward,
	}
	if iv.Op == steer.Clamp || iv.Min != 0 || iv.Max != 0 {
		s.Min, s.Max = &iv.Min, &iv.Max
	}
	if iv.Op == steer.Replace || iv.Value != 0 {
		s.Value = &iv.Value
	}
	if m := iv.Map; m != nil {
		s.Map = &lowRank{whole(m.Rank), m.Down, m.Up}
	}
	if iv.Ascent != nil {
		s.Ascent = describeAscent(iv.Ascent)
	}
	if w := &iv.When; !w.Always() {
		s.When = &when{From: wholePtr(w.From), To: wholePtr(w.To), Phases: w.Phases.Names()}
		for _, t := range w.Tokens {
			s.When.Tokens = append(s.When.Tokens, whole(t))
		}
	}
	if c := iv.Schedule; c.Kind != steer.Constant {
		s.Schedule = &schedule{c.Kind.String(), c.Start, c.End, whole(c.Over)}
	}
	if g := iv.Gate; g != nil {
		s.Gate = &gate{Layer: wholePtr(&g.Site.Layer), Kind: g.Kind.String(), Bias: g.Bias, Threshold: &g.Threshold, Below: g.Below, Vector: g.Vector}
	}
	return s, s.useless(iv.Op)
}

// useless reports fields that the operation would ignore.
func (s *step) useless(op steer.Op) error {
	var faults []error
	for _, f := range []struct {
		name string
		set  bool
		of   steer.Op
	}{
		{"min", s.Min != nil, steer.Clamp}, {"max", s.Max != nil, steer.Clamp}, {"value", s.Value != nil, steer.Replace},
		{"toward", len(s.Toward) > 0, steer.Rotate}, {"map", s.Map != nil, steer.Affine},
		{"ascent", s.Ascent != nil, steer.Ascend},
	} {
		if f.set && op != f.of {
			faults = append(faults, fmt.Errorf("%s has no use for %s, only %s has", op, f.name, f.of))
		}
	}
	if op == steer.Ascend && len(s.Vector) > 0 {
		faults = append(faults, errors.New("ascend has no use for vector, its value function says where to go"))
	}
	return errors.Join(faults...)
}

// plan makes the plan of a document. All faults are reported at once.
func (d *document) plan() (*steer.Plan, error) {
	if d.Version != Version {
		return nil, fmt.Errorf("plan file: version is %d, this program reads %d", d.Version, Version)
	}
	if d.Interventions == nil {
		return nil, errors.New("plan file: there is no list of interventions")
	}
	if n := len(d.Interventions); n > steer.MaxInterventions {
		return nil, fmt.Errorf("plan file: %d interventions, the limit is %d", n, steer.MaxInterventions)
	}
	var faults []error
	list := make([]steer.Intervention, len(d.Interventions))
	for i := range d.Interventions {
		if err := d.Interventions[i].intervention(&list[i]); err != nil {
			faults = append(faults, fmt.Errorf("plan file: intervention %d: %w", i, err))
		}
	}
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	p, err := steer.NewPlan(list...)
	if err != nil {
		return nil, fmt.Errorf("plan file: %w", err)
	}
	return p, nil
}

// read takes a whole file of at most MaxBytes.
func read(r io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, MaxBytes+1))
	if err != nil {
		return nil, fmt.Errorf("plan file: %w", err)
	}
	if len(data) > MaxBytes {
		return nil, fmt.Errorf("plan file: longer than %d bytes", MaxBytes)
	}
	return data, nil
}
