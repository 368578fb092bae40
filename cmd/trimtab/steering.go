package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/trimtab/trimtab/runtime/engine"
	"github.com/trimtab/trimtab/steer"
)

// steering holds the flags that `run` and `batch` share about how the model is
// steered.
type steering struct {
	text     string   // --steer
	vectors  []string // --vector, name=FILE
	anyModel bool

	expr  *steer.Expr
	files map[string]string // by the vectors' names
}

func newSteering(c *cobra.Command) *steering {
	s := &steering{}
	f := c.Flags()
	f.StringArrayVar(&s.vectors, "vector", nil, "`NAME=FILE` of a steering vector; may be given several times")
	f.StringVar(&s.text, "steer", "", "`EXPR` that says how to use the vectors, such as \"polite:0.6@8-14 + !verbose\" (default: all at their own dose)")
	f.BoolVar(&s.anyModel, "any-model", false, "use vectors and monitors that state another model")
	return s
}

// check reports wrong values before a model is loaded.
func (s *steering) check(c *cobra.Command) (err error) {
	s.files = map[string]string{}
	var names []string
	for _, v := range s.vectors {
		name, file, ok := strings.Cut(v, "=")
		if !ok || name == "" || file == "" {
			return usagef(c, "--vector %s: want NAME=FILE", v)
		}
		if s.files[name] != "" {
			return usagef(c, "--vector: the name %s is given twice", name)
		}
		s.files[name] = file
		names = append(names, name)
	}
	text := s.text
	if text == "" {
		text = strings.Join(names, " + ")
	}
	if text == "" {
		return nil
	}
	if s.expr, err = steer.ParseExpr(text); err != nil {
		return usagef(c, "--steer: %w", err)
	}
	for i := range s.expr.Terms {
		if name := s.expr.Terms[i].Name; s.files[name] == "" {
			return usagef(c, "--steer names %s, but there is no --vector %s=FILE", name, name)
		}
	}
	for _, name := range names {
		if !slices.ContainsFunc(s.expr.Terms, func(t steer.ExprTerm) bool { return t.Name == name }) {
			return usagef(c, "--vector %s is not used by --steer", name)
		}
	}
	return nil
}

// plan reads the vectors, holds them against the model and resolves the
// expression. Nil without one.
func (s *steering) plan(info *engine.Info) (*steer.Plan, error) {
	if s.expr == nil {
		return nil, nil
	}
	vectors, err := s.read(info)
	if err != nil {
		return nil, err
	}
	plan, err := s.expr.Plan(vectors)
	if err != nil {
		return nil, badInput("--steer: %w", err)
	}
	if err := plan.Check(info.Layers, info.Width); err != nil {
		return nil, badInput("--steer: %w", fmt.Errorf("%s does not fit: %w", info.Name, err))
	}
	return plan, nil
}

// read reads the vectors and holds them against the model.
func (s *steering) read(info *engine.Info) (map[string]*steer.Vector, error) {
	facts := factsOf(info)
	vectors := map[string]*steer.Vector{}
	for name, file := range s.files {
		v, err := steer.ReadVector(file, steer.VectorOptions{})
		if err != nil {
			return nil, badInput("vector %s: %w", name, err)
		}
		if err := v.Check(facts); errors.Is(err, steer.ErrWrongModel) && !s.anyModel {
			return nil, badInput("vector %s: %w (use --any-model to steer all the same)", name, err)
		} else if err != nil && !errors.Is(err, steer.ErrWrongModel) {
			return nil, badInput("vector %s: %w", name, err)
		}
		vectors[name] = v
	}
	return vectors, nil
}
