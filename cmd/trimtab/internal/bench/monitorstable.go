package bench

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

// Print writes the report as tables for people.
func (r *MonitorsReport) Print(w io.Writer) error {
	fmt.Fprintf(w, "%s on %s\n", r.Model, r.Backend)
	for i := range r.Sections {
		if err := r.Sections[i].print(w, "monitored"); err != nil {
			return err
		}
	}
	fmt.Fprintln(w, "\nbeside the model, us a call")
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "\tmedian\t95 %\tgoal\t")
	for _, k := range r.Kernels {
		fmt.Fprintf(t, "%s\t%.1f\t%.1f\t%s\t\n", k.Name, us(k.Median), us(k.P95), k.goal())
	}
	return t.Flush()
}

// Markdown writes the report as sections of docs/results.
func (r *MonitorsReport) Markdown(w io.Writer) error {
	fmt.Fprintf(w, "\n%s, %s.\n", r.Model, r.Backend)
	for i := range r.Sections {
		r.Sections[i].markdown(w, "monitored")
	}
	fmt.Fprintln(w, "\n## beside the model\n\n| | us a call, median | 95 % | goal |\n|---|---|---|---|")
	for _, k := range r.Kernels {
		if _, err := fmt.Fprintf(w, "| %s | **%.1f** | %.1f | %s |\n", k.Name, us(k.Median), us(k.P95), k.goal()); err != nil {
			return err
		}
	}
	return nil
}

func (k *KernelTime) goal() string {
	if k.Goal == 0 {
		return ""
	}
	return fmt.Sprintf("%.0f", float64(k.Goal)/float64(time.Microsecond))
}
