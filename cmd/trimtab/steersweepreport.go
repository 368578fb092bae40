package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/trimtab/trimtab/cmd/trimtab/internal/sweep"
)

// sweepReport is what `steer sweep` says; its JSON form is documented.
type sweepReport struct {
	Model        string         `json:"model"`
	ModelHash    string         `json:"model_hash"`
	Expression   string         `json:"expression"`
	Pairs        int            `json:"pairs"`
	Neutral      int            `json:"neutral"`
	Prompts      int            `json:"prompts"`
	Seeds        int            `json:"seeds"`
	Check        string         `json:"check,omitempty"`
	PerplexityOf string         `json:"perplexity_of"`
	Seed         uint64         `json:"seed"`
	Level        float64        `json:"level"`
	Draws        int            `json:"draws"`
	Rows         []sweep.Result `json:"rows"`
}

// print shows a table with a column for each measure that was taken.
func (r *sweepReport) print(w io.Writer) {
	fmt.Fprintf(w, "%s on %s: %d pairs, %d neutral prompts, %d prompts answered %d times; %.0f %% intervals\n\n",
		r.Expression, r.Model, r.Pairs, r.Neutral, r.Prompts, r.Seeds, 100*r.Level)
	type column struct {
		name, format string
		of           func(*sweep.Result) *sweep.Estimate
	}
	columns := []column{
		{"effect", "%+.2f", func(r *sweep.Result) *sweep.Estimate { return r.Effect }},
		{"margin", "%+.2f", func(r *sweep.Result) *sweep.Estimate { return r.Margin }},
		{"score", "%.2f", func(r *sweep.Result) *sweep.Estimate { return r.Score }},
		{"KL(unsteered||steered)", "%.4f", func(r *sweep.Result) *sweep.Estimate { return r.KL }},
		{"perplexity", "%.4g", func(r *sweep.Result) *sweep.Estimate { return r.Perplexity }},
		{"distinct-2", "%.2f", func(r *sweep.Result) *sweep.Estimate { return r.Distinct }},
		{"loops", "%.2f", func(r *sweep.Result) *sweep.Estimate { return r.Loops }},
	}
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	head := []string{"expression"}
	columns = slices.DeleteFunc(columns, func(c column) bool {
		return !slices.ContainsFunc(r.Rows, func(row sweep.Result) bool { return c.of(&row) != nil })
	})
	for _, c := range columns {
		head = append(head, c.name)
	}
	fmt.Fprintln(t, strings.Join(head, "\t"))
	for i := range r.Rows {
		row := &r.Rows[i]
		cells := []string{row.Expression}
		if row.Expression == "" {
			cells[0] = "unsteered"
		}
		for _, c := range columns {
			if e := c.of(row); e == nil {
				cells = append(cells, "-")
			} else {
				cells = append(cells, fmt.Sprintf(c.format+" ["+c.format+", "+c.format+"]", e.Mean, e.Low, e.High))
			}
		}
		fmt.Fprintln(t, strings.Join(cells, "\t"))
	}
	t.Flush()
	r.printLabels(w)
	fmt.Fprintf(w, "\nperplexity of %s\n", r.PerplexityOf)
}

// printLabels shows what the judge called the answers.
func (r *sweepReport) printLabels(w io.Writer) {
	head := "\nanswers by label:\n"
	for i := range r.Rows {
		row := &r.Rows[i]
		if len(row.Labels) == 0 {
			continue
		}
		fmt.Fprint(w, head)
		head = ""
		var counts []string
		for _, label := range slices.Sorted(maps.Keys(row.Labels)) {
			counts = append(counts, fmt.Sprintf("%q %d", label, row.Labels[label]))
		}
		name := row.Expression
		if name == "" {
			name = "unsteered"
		}
		fmt.Fprintf(w, "  %s: %s\n", name, strings.Join(counts, ", "))
	}
}
