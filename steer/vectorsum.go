package steer

import (
	"errors"
	"fmt"

	"github.com/cespare/xxhash/v2"

	"github.com/trimtab/trimtab/internal/vec"
)

// VectorFormat says who wrote a vector file, as far as the file shows.
type VectorFormat string

const (
	FormatTrimtab   VectorFormat = "trimtab"                  // this package
	FormatGLP       VectorFormat = "glp"                      // has glp keys
	FormatGenerator VectorFormat = "llama.cpp generator"      // plain, counts layers in an i32
	FormatPlain     VectorFormat = "llama.cpp control vector" // plain: repeng, EasySteer and others
)

// HashTemplate identifies a chat template in [Vector.TemplateHash] and [Facts]:
// 16 hexadecimal digits of xxHash64; empty for no template.
func HashTemplate(template string) string {
	if template == "" {
		return ""
	}
	return fmt.Sprintf("%016x", xxhash.Sum64String(template))
}

// Term is one summand of [SumVectors].
type Term struct {
	Vector *Vector
	Dose   float32
}

// SumVectors adds vectors up into one that does at dose 1 what the terms do
// together. Only vectors for [Add] can be summed: two projections, or one and
// an addition, are not a projection along the sum, so they are refused, and so
// are vectors that state different models or windows.
func SumVectors(name string, terms ...Term) (*Vector, error) {
	if len(terms) == 0 {
		return nil, errors.New("a sum needs at least one vector")
	}
	first := terms[0].Vector
	sum := &Vector{Name: name, Op: Add, Dose: 1, Directions: map[int][]float32{},
		ModelHash: first.ModelHash, ModelHint: first.ModelHint, Arch: first.Arch, TemplateHash: first.TemplateHash, From: first.From, To: first.To}
	for _, t := range terms {
		if err := sum.add(t); err != nil {
			return nil, fmt.Errorf("sum: vector %q: %w", t.Vector.Name, err)
		}
	}
	for layer, d := range sum.Directions {
		if vec.Norm(d) == 0 {
			delete(sum.Directions, layer)
		}
	}
	if err := sum.Validate(); err != nil {
		return nil, fmt.Errorf("sum: %w", err)
	}
	return sum, nil
}

func (v *Vector) add(t Term) error {
	o := t.Vector
	if o.Op != Add {
		return fmt.Errorf("%s: %s cannot be summed with other vectors, put it into the plan as a step of its own", keyMode, o.Op)
	}
	if err := o.Validate(); err != nil {
		return err
	}
	if v.Width() > 0 && o.Width() != v.Width() {
		return fmt.Errorf("width: is %d, that of the vectors before it %d", o.Width(), v.Width())
	}
	for layer, d := range o.Directions {
		if v.Directions[layer] == nil {
			v.Directions[layer] = make([]float32, len(d))
		}
		vec.AddScaled(v.Directions[layer], t.Dose, d)
	}
	return v.agree(o)
}

// agree takes over what o states and refuses what contradicts it.
func (v *Vector) agree(o *Vector) error {
	for _, p := range []struct {
		name string
		mine *string
		its  string
	}{{"model hash", &v.ModelHash, o.ModelHash}, {"architecture", &v.Arch, o.Arch}, {"template hash", &v.TemplateHash, o.TemplateHash}} {
		if *p.mine != "" && p.its != "" && *p.mine != p.its {
			return fmt.Errorf("%s: states %s, the vectors before it %s", p.name, p.its, *p.mine)
		}
		if *p.mine == "" {
			*p.mine = p.its
		}
	}
	if mine, its := v.Window(), o.Window(); mine != its {
		return fmt.Errorf("window: is %q, that of the vectors before it %q; put them into the plan one by one", its, mine)
	}
	if v.ModelHint != o.ModelHint {
		v.ModelHint = ""
	}
	return nil
}
