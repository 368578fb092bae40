package alarm

import (
	"fmt"

	"github.com/trimtab/trimtab/cmd/trimtab/internal/plot"
	"github.com/trimtab/trimtab/cmd/trimtab/internal/stats"
)

// Detector is a monitor with all that it said.
type Detector struct {
	Name      string
	Texts     []Text
	Threshold *float64 // nil when it has none that a line could show
}

// Curves are the operating points over tokens and over texts.
func Curves(list []Detector) []plot.Chart {
	out := make([]plot.Chart, 0, 2)
	for _, k := range []struct {
		title string
		of    scored
	}{{"will become unsafe, by token", tokenScores}, {"becomes unsafe, by text", textScores}} {
		c := plot.ROC{Title: k.title}
		for _, d := range list {
			unsafe, safe := k.of(d.Texts, all(len(d.Texts)))
			c.Curves = append(c.Curves, plot.Curve{Name: d.Name, Points: stats.ROC(unsafe, safe), Area: stats.AUROC(unsafe, safe)})
		}
		out = append(out, c)
	}
	return out
}

// Leads is the spread of warning tokens over the unsafe texts.
func Leads(list []Detector) plot.Chart {
	h := plot.Histogram{Title: "warning before the failure", X: "tokens (negative: too late)", Marks: []plot.Mark{{X: 0, Name: "failure"}}}
	for _, d := range list {
		g := plot.Group{Name: d.Name}
		for i := range d.Texts {
			if t := &d.Texts[i]; t.unsafe() {
				g.Values = append(g.Values, float64(t.Lead()))
			}
		}
		h.Groups = append(h.Groups, g)
	}
	return h
}

// Timelines show the scores of text i, a panel for each detector.
func Timelines(list []Detector, i int) []plot.Chart {
	out := make([]plot.Chart, 0, len(list))
	for _, d := range list {
		t := &d.Texts[i]
		c := plot.Timeline{Title: fmt.Sprintf("%s on %s", d.Name, t.ID), Y: "score", Level: d.Threshold,
			Tracks: []plot.Track{{Name: d.Name, Values: t.Scores}}}
		if t.First >= 0 {
			c.Marks = append(c.Marks, plot.Mark{X: float64(t.First), Name: "flag"})
		}
		if t.unsafe() {
			c.Marks = append(c.Marks, plot.Mark{X: float64(t.Failure), Name: "failure"})
			c.Spans = append(c.Spans, plot.Span{From: float64(t.Failure), To: float64(len(t.Scores)), Name: "unsafe"})
		}
		out = append(out, c)
	}
	return out
}
