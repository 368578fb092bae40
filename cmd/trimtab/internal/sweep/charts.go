package sweep

import (
	"fmt"

	"github.com/trimtab/trimtab/cmd/trimtab/internal/plot"
)

// Charts are the dose-response curves, one chart for each measure that was
// taken and one line for each layer. The first result is the unsteered model.
func Charts(results []Result) []plot.Chart {
	var out []plot.Chart
	for _, m := range []struct {
		title, y string
		of       func(*Result) *Estimate
		zero     bool
	}{
		{"Effect on pairs", "nats", func(r *Result) *Estimate { return r.Effect }, true},
		{"Judged answers", "score", func(r *Result) *Estimate { return r.Score }, true},
		{"Divergence on neutral prompts", "KL(unsteered || steered), nats per token", func(r *Result) *Estimate { return r.KL }, true},
		{"Perplexity of the held-out text", "perplexity", func(r *Result) *Estimate { return r.Perplexity }, false},
		{"Different token pairs in answers", "distinct-2", func(r *Result) *Estimate { return r.Distinct }, false},
		{"Answers that end in a loop", "share", func(r *Result) *Estimate { return r.Loops }, true},
	} {
		l := plot.Lines{Title: m.title, X: "dose", Y: m.y, FromZero: m.zero}
		if l.Series = series(results, m.of); len(l.Series) > 0 {
			out = append(out, l)
		}
	}
	return out
}

// series groups the arms by layer. Every line starts at the unsteered model.
func series(results []Result, of func(*Result) *Estimate) (out []plot.Series) {
	var start []plot.Point
	names := map[string]int{}
	for i := range results {
		r := &results[i]
		e := of(r)
		if e == nil {
			continue
		}
		p := plot.Point{X: r.Dose, Y: e.Mean, Low: e.Low, High: e.High}
		if r.Expression == "" {
			start = append(start, p)
			continue
		}
		name := "all"
		if r.Layer != nil {
			name = fmt.Sprintf("block %d", *r.Layer)
		}
		at, known := names[name]
		if !known {
			at = len(out)
			names[name] = at
			out = append(out, plot.Series{Name: name})
		}
		out[at].Points = append(out[at].Points, p)
	}
	for i := range out {
		out[i].Points = withStart(start, out[i].Points)
	}
	return out
}

// withStart puts the unsteered model among points in the order of their doses,
// unless dose 0 is there, which is then another way to steer.
func withStart(start, points []plot.Point) []plot.Point {
	at := 0
	for at < len(points) && points[at].X < 0 {
		at++
	}
	if at < len(points) && points[at].X == 0 {
		return points
	}
	out := append([]plot.Point{}, points[:at]...)
	return append(append(out, start...), points[at:]...)
}
