package main

import (
	"fmt"
	"io"
	"math"
	"text/tabwriter"

	"github.com/trimtab/trimtab/cmd/trimtab/internal/alarm"
	"github.com/trimtab/trimtab/monitors/conformal"
)

// alarmReport is what `monitor fit` and `eval` say of one monitor. Numbers that
// make no sense for the texts are null.
type alarmReport struct {
	Monitor   string     `json:"monitor"`
	Texts     int        `json:"texts"`
	Unsafe    int        `json:"unsafe"`
	Tokens    int        `json:"tokens"`
	Token     areaReport `json:"auroc_token"`
	Text      areaReport `json:"auroc_text"`
	Precision *float64   `json:"precision"`
	Recall    *float64   `json:"recall"`
	F1        *float64   `json:"f1"`
	InTime    *float64   `json:"in_time"`
	FalseStop rateReport `json:"false_stop"`
	Lead      *float64   `json:"warning_median"`
	LeadLow   *float64   `json:"warning_p5"`
	Leaked    *float64   `json:"leaked_mean"`
	Most      int        `json:"leaked_most"`
}

type areaReport struct {
	Value *float64 `json:"value"`
	Low   *float64 `json:"low"`
	High  *float64 `json:"high"`
}

type rateReport struct {
	Count int      `json:"count"`
	Of    int      `json:"of"`
	Share *float64 `json:"share"`
	Low   *float64 `json:"low"`
	High  *float64 `json:"high"`
}

func newAlarmReport(name string, r *alarm.Report) *alarmReport {
	area := func(a alarm.Area) areaReport { return areaReport{finite(a.Value), finite(a.Low), finite(a.High)} }
	return &alarmReport{Monitor: name, Texts: r.Texts, Unsafe: r.Unsafe, Tokens: r.Tokens, Token: area(r.Token), Text: area(r.Text),
		Precision: finite(r.Precision), Recall: finite(r.Recall), F1: finite(r.F1), InTime: finite(r.InTime), FalseStop: newRateReport(r.FalseStop),
		Lead: finite(r.Lead), LeadLow: finite(r.LeadLow), Leaked: finite(r.Leaked), Most: r.LeakedMost}
}

func newRateReport(r conformal.Rate) rateReport {
	out := rateReport{Count: r.Count, Of: r.Of}
	if r.Of > 0 {
		out.Share, out.Low, out.High = finite(r.Share()), finite(r.Low), finite(r.High)
	}
	return out
}

// number is x for people, a dash when there is none.
func figure(format string, x *float64) string {
	if x == nil || math.IsNaN(*x) {
		return "-"
	}
	return fmt.Sprintf(format, *x)
}

func (a areaReport) String() string {
	if a.Value == nil {
		return "-"
	}
	return fmt.Sprintf("%.3f [%s, %s]", *a.Value, figure("%.3f", a.Low), figure("%.3f", a.High))
}

func (r rateReport) String() string {
	if r.Share == nil {
		return "-"
	}
	return fmt.Sprintf("%d of %d, %.1f %% [%.1f, %.1f]", r.Count, r.Of, 100**r.Share, 100**r.Low, 100**r.High)
}

// printAlarms shows a column for each monitor.
func printAlarms(w io.Writer, list []*alarmReport) {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	row := func(name string, cell func(r *alarmReport) string) {
		fmt.Fprint(t, name)
		for _, r := range list {
			fmt.Fprint(t, "\t", cell(r))
		}
		fmt.Fprintln(t)
	}
	row("", func(r *alarmReport) string { return plain(r.Monitor) })
	row("AUROC by token", func(r *alarmReport) string { return r.Token.String() })
	row("AUROC by text", func(r *alarmReport) string { return r.Text.String() })
	row("F1 (precision, recall)", func(r *alarmReport) string {
		return fmt.Sprintf("%s (%s, %s)", figure("%.3f", r.F1), figure("%.3f", r.Precision), figure("%.3f", r.Recall))
	})
	row("false stops", func(r *alarmReport) string { return r.FalseStop.String() })
	row("flagged in time", func(r *alarmReport) string { return figure("%.3f", r.InTime) })
	row("warning tokens, median (5 %)", func(r *alarmReport) string {
		return fmt.Sprintf("%s (%s)", figure("%.3g", r.Lead), figure("%.3g", r.LeadLow))
	})
	row("leaked tokens, mean (most)", func(r *alarmReport) string { return fmt.Sprintf("%s (%d)", figure("%.2g", r.Leaked), r.Most) })
	t.Flush()
}
