package bench

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// Print writes the report as a table for people.
func (r *Report) Print(w io.Writer) error {
	fmt.Fprintf(w, "%s on %s\n", r.Model, r.Backend)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "comparison\tbare tok/s\ttrimtab tok/s\tratio (median)\tsmallest\tlargest\trounds\t")
	for _, x := range r.Rows {
		fmt.Fprintf(t, "%s\t%.1f\t%.1f\t%.3f\t%.3f\t%.3f\t%d\t\n", x.Name, x.Bare, x.Ours, x.Ratio, x.Min, x.Max, x.Rounds)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "heap objects per token: engine %.2f, session %.2f\n", r.Engine, r.Session)
	return err
}

// Markdown writes the report as a section of docs/results.
func (r *Report) Markdown(w io.Writer) error {
	fmt.Fprintf(w, "\n## %s\n\n%s\n\n", r.Model, r.Backend)
	fmt.Fprintln(w, "| comparison | tokens a run | bare tok/s | Trimtab tok/s | ratio, median | smallest | largest | paired rounds |")
	fmt.Fprintln(w, "|---|---|---|---|---|---|---|---|")
	for _, x := range r.Rows {
		fmt.Fprintf(w, "| %s | %d | %.1f | %.1f | **%.3f** | %.3f | %.3f | %d |\n", x.Name, x.Tokens, x.Bare, x.Ours, x.Ratio, x.Min, x.Max, x.Rounds)
	}
	_, err := fmt.Fprintf(w, "\nHeap objects per token in the steady state: engine %.2f, session %.2f.\n", r.Engine, r.Session)
	return err
}
