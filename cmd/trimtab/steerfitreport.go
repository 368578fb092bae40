package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/trimtab/trimtab/steer/extract"
)

// fitResultReport is what `steer fit` says of a fit.
type fitResultReport struct {
	File      string          `json:"file"`
	Use       string          `json:"expression"` // steers as was measured, with the vector under its own name
	Method    string          `json:"method"`
	Pairs     [3]int          `json:"pairs"` // train, validation, test
	Seed      uint64          `json:"seed"`
	MeanNorm  float64         `json:"mean_norm"`
	Alignment float64         `json:"alignment"`
	Top3      float64         `json:"top3"`
	Chosen    trialReport     `json:"chosen"`
	Controls  []controlReport `json:"controls"`
	Trials    []trialReport   `json:"trials"`
	Warnings  []string        `json:"warnings,omitempty"`
}

type trialReport struct {
	Layer  int            `json:"layer"`
	Place  string         `json:"place"`
	Rows   extract.Window `json:"rows"`
	Dose   float64        `json:"dose"`
	Margin float64        `json:"margin"`
	Effect float64        `json:"effect"`
	Error  float64        `json:"effect_error"`
	KL     float64        `json:"kl"`
}

type controlReport struct {
	Name   string  `json:"name"`
	Margin float64 `json:"margin"`
	Effect float64 `json:"effect"`
	Error  float64 `json:"effect_error"`
	KL     float64 `json:"kl"`
}

func newFitReport(file, name string, r *extract.Result) *fitResultReport {
	out := &fitResultReport{File: file, Use: name, Method: string(r.Method), Pairs: r.Pairs, Seed: r.Seed, MeanNorm: r.MeanNorm,
		Alignment: r.Alignment, Top3: r.TopShare, Chosen: newTrialReport(r.Chosen), Warnings: r.Warnings}
	for _, t := range r.Trials {
		out.Trials = append(out.Trials, newTrialReport(t))
	}
	for _, c := range r.Controls {
		out.Controls = append(out.Controls, controlReport{c.Name, c.Margin.Mean, c.Effect.Mean, c.Effect.Error, c.KL})
	}
	return out
}

func newTrialReport(t extract.Trial) trialReport {
	return trialReport{t.Cell.Layer, t.Cell.Place.String(), t.Window, t.Dose, t.Margin.Mean, t.Effect.Mean, t.Effect.Error, t.KL}
}

func (r *fitResultReport) print(w io.Writer) {
	c := r.Chosen
	fmt.Fprintf(w, "%s: %s, block %d, read at %s, steers %s with dose %.3g\n", r.File, r.Method, c.Layer, c.Place, c.Rows, c.Dose)
	fmt.Fprintf(w, "as an expression, with dose and rows from the file: %s\n", r.Use)
	fmt.Fprintf(w, "pairs: %d for directions, %d for choosing, %d measured\n\n", r.Pairs[0], r.Pairs[1], r.Pairs[2])
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "on the measured pairs\teffect\t\tmargin\tKL(unsteered||steered) on neutral prompts")
	for _, c := range r.Controls {
		fmt.Fprintf(t, "%s\t%+.2f\t± %.2f\t%+.2f\t%.4f\n", c.Name, c.Effect, c.Error, c.Margin, c.KL)
	}
	t.Flush()
	for _, warning := range r.Warnings {
		fmt.Fprintf(w, "\nwarning: %s\n", warning)
	}
}
