package main

import "github.com/spf13/cobra"

const evalLong = `Measures what a method does, on held-out prompts, beside what it damages, and
writes the table. Nothing in a table was chosen by the prompts it shows.`

func newEval(a *app) *cobra.Command {
	return group(a, "eval", "Measure what steering and monitors do", evalLong, newEvalSteering(a), newEvalSafety(a))
}
