package main

import (
	"fmt"
	"io"

	"github.com/trimtab/trimtab/cmd/trimtab/internal/alarm"
	"github.com/trimtab/trimtab/monitors/reach"
)

// monitorFitReport is what `monitor fit` says of a monitor.
type monitorFitReport struct {
	File      string       `json:"file"`
	Name      string       `json:"name"`
	Kind      string       `json:"kind"`
	Site      string       `json:"site"`
	Texts     [3]int       `json:"texts"` // learnt from, for the threshold, measured
	Unsafe    [3]int       `json:"unsafe"`
	Rows      int          `json:"rows"`
	Epochs    int          `json:"epochs,omitempty"`
	Aim       string       `json:"aim,omitempty"`
	Seed      uint64       `json:"seed"`
	Threshold float64      `json:"threshold"`
	Alpha     float64      `json:"alpha"`
	SafeTexts int          `json:"safe_texts"` // that the threshold was made from
	Measured  *alarmReport `json:"measured"`
}

func newMonitorFitReport(file string, s *sentry, part []*reach.Data, measured *alarm.Report, seed uint64) *monitorFitReport {
	r := &monitorFitReport{File: file, Name: s.Name, Kind: s.kind(), Site: part[0].Sites[0].String(), Seed: seed, Measured: newAlarmReport(s.Name, measured)}
	for i, d := range part {
		r.Texts[i], r.Unsafe[i] = len(d.Trajectories), failures(d)
	}
	for i := range part[0].Trajectories {
		r.Rows += len(part[0].Trajectories[i].Tokens)
	}
	if s.value == nil {
		r.Threshold, r.Alpha, r.SafeTexts = s.probe.Threshold, s.probe.Calibration.Rate, s.probe.Calibration.Texts
		return r
	}
	r.Aim, r.Epochs = aimOf(s.value), s.value.Metrics.Epochs
	r.Threshold, r.Alpha, r.SafeTexts = s.level.C, s.level.Alpha, s.level.Texts
	return r
}

// aimOf says what a value means.
func aimOf(m *reach.Model) string {
	if m.Aim.Form == reach.Sample {
		return fmt.Sprintf("sample over the %s", m.Aim.Over)
	}
	return fmt.Sprintf("rl over the %s, gamma %.4g", m.Aim.Over, m.Aim.Gamma)
}

func (r *monitorFitReport) print(w io.Writer) {
	fmt.Fprintf(w, "%s: %s at %s", r.File, kindNames[r.Kind], r.Site)
	if r.Aim != "" {
		fmt.Fprintf(w, ", %s", r.Aim)
	}
	fmt.Fprintf(w, "\nlearnt from %d texts (%d unsafe, %d tokens)", r.Texts[0], r.Unsafe[0], r.Rows)
	if r.Epochs > 0 {
		fmt.Fprintf(w, " in %d passes", r.Epochs)
	}
	fmt.Fprintf(w, "\nthreshold %s: flags at most %.3g %% of safe texts, from %d of them\n", thresholdText(r.Kind, r.Threshold), 100*r.Alpha, r.SafeTexts)
	fmt.Fprintf(w, "\nmeasured on %d other texts (%d unsafe), 95 %% intervals\n", r.Texts[2], r.Unsafe[2])
	printAlarms(w, []*alarmReport{r.Measured})
}

// kindNames are the kinds of monitor files, for people.
var kindNames = map[string]string{"reach": "value function", "probe": "probe"}

// thresholdText is a threshold with the side on which it flags.
func thresholdText(kind string, t float64) string {
	if kind == "reach" {
		return fmt.Sprintf("V < %.4g", t)
	}
	return fmt.Sprintf("p >= %.4g", t)
}
