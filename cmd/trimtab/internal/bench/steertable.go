package bench

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

// Print writes the report as tables for people.
func (r *SteerReport) Print(w io.Writer) error {
	fmt.Fprintf(w, "%s on %s\n", r.Model, r.Backend)
	for i := range r.Sections {
		if err := r.Sections[i].print(w, "steered"); err != nil {
			return err
		}
	}
	fmt.Fprintf(w, "\nswitching plans, goal 1 ms\n")
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "\tSteer us\tlonger by ms (median)\t(95 %)\ta step takes ms\ttimes\t")
	for _, x := range r.Switches {
		fmt.Fprintf(t, "%s\t%.1f\t%.3f\t%.3f\t%.2f\t%d\t\n", x.Name, us(x.Call), ms(x.Median), ms(x.P95), ms(x.Step), x.Times)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "heap objects per token, every block hooked: %.2f\n", r.Objects)
	return err
}

// Markdown writes the report as sections of docs/results.
func (r *SteerReport) Markdown(w io.Writer) error {
	fmt.Fprintf(w, "\n%s, %s.\n", r.Model, r.Backend)
	for i := range r.Sections {
		r.Sections[i].markdown(w, "steered")
	}
	fmt.Fprintf(w, "\n## switching plans\n\nWhat the first step under another plan takes longer than a step under the old one; goal 1 ms.\n\n")
	fmt.Fprintln(w, "| | Steer alone, us | longer by, ms, median | 95 % | a step takes, ms | times |\n|---|---|---|---|---|---|")
	for _, x := range r.Switches {
		fmt.Fprintf(w, "| %s | %.1f | **%.3f** | %.3f | %.2f | %d |\n", x.Name, us(x.Call), ms(x.Median), ms(x.P95), ms(x.Step), x.Times)
	}
	_, err := fmt.Fprintf(w, "\nHeap objects per token with every block hooked: %.2f.\n", r.Objects)
	return err
}

// print writes the section for people; ours names the side that may cost.
func (s *Section) print(w io.Writer, ours string) error {
	fmt.Fprintf(w, "\n%s, against %s%s\n", s.Title, s.Base, s.goal())
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "\tbase tok/s\t%s tok/s\tratio (median)\tsmallest\tlargest\trounds\t\n", ours)
	for _, x := range s.Rows {
		fmt.Fprintf(t, "%s\t%.1f\t%.1f\t%.3f\t%.3f\t%.3f\t%d\t\n", x.Name, x.Bare, x.Ours, x.Ratio, x.Min, x.Max, x.Rounds)
	}
	return t.Flush()
}

// markdown writes the section for docs/results.
func (s *Section) markdown(w io.Writer, ours string) {
	fmt.Fprintf(w, "\n## %s\n\nAgainst %s%s.\n\n", s.Title, s.Base, s.goal())
	fmt.Fprintf(w, "| | tokens a run | base tok/s | %s tok/s | ratio, median | smallest | largest | paired rounds |\n", ours)
	fmt.Fprintln(w, "|---|---|---|---|---|---|---|---|")
	for _, x := range s.Rows {
		fmt.Fprintf(w, "| %s | %d | %.1f | %.1f | **%.3f** | %.3f | %.3f | %d |\n", x.Name, x.Tokens, x.Bare, x.Ours, x.Ratio, x.Min, x.Max, x.Rounds)
	}
}

func (s *Section) goal() string {
	if s.Goal == 0 {
		return ""
	}
	return fmt.Sprintf("; goal %.2f", s.Goal)
}

func us(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
