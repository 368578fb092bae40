package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/trimtab/trimtab/internal/bake"
	"github.com/trimtab/trimtab/internal/gguf"
	"github.com/trimtab/trimtab/monitors/probe"
	"github.com/trimtab/trimtab/monitors/reach"
	"github.com/trimtab/trimtab/steer"
)

// monitorInfo is what `monitor inspect` says of a file.
type monitorInfo struct {
	File      string        `json:"file"`
	Kind      string        `json:"kind"`
	Name      string        `json:"name"`
	Site      string        `json:"site"`
	Shape     string        `json:"shape"`
	Widths    []int         `json:"widths"` // of the inputs and of each layer
	Aim       string        `json:"aim,omitempty"`
	Threshold *float64      `json:"threshold"`
	Levels    []levelReport `json:"levels,omitempty"`
	Smooth    string        `json:"smooth,omitempty"`
	Labels    []string      `json:"labels,omitempty"`
	AUROC     *float64      `json:"auroc"`
	ModelHash string        `json:"model_hash,omitempty"`
	Arch      string        `json:"arch,omitempty"`
	Template  string        `json:"template_hash,omitempty"`
	DataHash  string        `json:"data_hash,omitempty"`
	Fit       *fitReport    `json:"fit,omitempty"`
}

// levelReport is a threshold with what it promises.
type levelReport struct {
	Threshold float64 `json:"threshold"`
	Alpha     float64 `json:"alpha"`
	Run       int     `json:"run"`
	Texts     int     `json:"texts"`
	On        string  `json:"on,omitempty"`
}

func newMonitorInspect(a *app) *cobra.Command {
	var model string
	var asJSON bool
	c := &cobra.Command{Use: "inspect MONITOR", Short: "Show what a monitor file holds and whether it fits a model", Args: oneArg("a monitor file"),
		Long:    "Read a value function or a probe, without the engine, and print what it reads,\nwhat it was made from, and its thresholds. Every fault of the file is named.",
		Example: "  trimtab monitor inspect unsafe.gguf\n  trimtab monitor inspect unsafe.gguf --model nano --json"}
	f := c.Flags()
	f.StringVarP(&model, "model", "m", "", "also check it against this GGUF `FILE`, or nano")
	f.BoolVar(&asJSON, "json", false, "print one JSON object, without the weights")
	c.RunE = func(_ *cobra.Command, args []string) error {
		info, check, err := inspectMonitor(args[0])
		if err != nil {
			return badInput("monitor %s: %w", args[0], err)
		}
		if model != "" {
			if err := info.compare(a, check, model); err != nil {
				return err
			}
		}
		if asJSON {
			enc := json.NewEncoder(a.out)
			enc.SetIndent("", "  ")
			return enc.Encode(info)
		}
		info.print(a.out)
		return nil
	}
	return c
}

// inspectMonitor reads a file of either kind, and returns what checks it against
// a model.
func inspectMonitor(file string) (*monitorInfo, func(steer.Facts) error, error) {
	kind, err := kindOfMonitor(file)
	if err != nil {
		return nil, nil, err
	}
	if kind == "reach" {
		m, err := reach.ReadModel(file)
		if err != nil {
			return nil, nil, err
		}
		return infoOfValue(file, m), m.Check, nil
	}
	p, err := probe.Read(file)
	if err != nil {
		return nil, nil, err
	}
	return infoOfProbe(file, p), p.Check, nil
}

func infoOfValue(file string, m *reach.Model) *monitorInfo {
	i := &monitorInfo{File: file, Kind: "reach", Name: m.Name, Site: m.Site.String(), Aim: aimOf(m), AUROC: finite(m.Metrics.AUROC),
		ModelHash: m.ModelHash, Arch: m.Arch, Template: m.TemplateHash, DataHash: m.DataHash}
	i.shape(&m.Value)
	for _, l := range m.Levels {
		i.Levels = append(i.Levels, levelReport{l.C, l.Alpha, l.Run, l.Texts, l.On})
	}
	if len(m.Levels) > 0 {
		i.Threshold = new(m.Levels[0].C)
	}
	return i
}

func infoOfProbe(file string, p *probe.Probe) *monitorInfo {
	i := &monitorInfo{File: file, Kind: "probe", Name: p.Name, Site: p.Site.String(), Smooth: p.Smooth, Threshold: new(p.Threshold),
		ModelHash: p.ModelHash, Arch: p.Arch, Template: p.TemplateHash, DataHash: p.DataHash}
	i.shape(p.Value)
	if p.Labels != [2]string{} {
		i.Labels = p.Labels[:]
	}
	if p.Metrics != nil {
		i.AUROC = finite(p.Metrics.AUROC)
	}
	if c := p.Calibration; c != nil {
		i.Levels = []levelReport{{Threshold: p.Threshold, Alpha: c.Rate, Run: 1, Texts: c.Texts}}
	}
	return i
}

func (i *monitorInfo) shape(v *steer.Value) {
	i.Shape, i.Widths = v.Kind.String(), []int{v.Width()}
	for _, l := range v.Layers {
		i.Widths = append(i.Widths, l.Out)
	}
}

// compare adds whether the monitor fits the model.
func (i *monitorInfo) compare(a *app, check func(steer.Facts) error, model string) error {
	facts, err := modelFacts(a, model)
	if err != nil {
		return err
	}
	i.Fit = &fitReport{Model: model, OK: true}
	if err := check(facts); err != nil {
		i.Fit.OK, i.Fit.Why = false, err.Error()
	}
	return nil
}

// modelFacts reads from a model's file what vectors and monitors are held
// against.
func modelFacts(a *app, model string) (steer.Facts, error) {
	path, err := modelPath(model, a.env)
	if err != nil {
		return steer.Facts{}, err
	}
	f, err := gguf.Open(path)
	if err != nil {
		return steer.Facts{}, badInput("inspect: %w", err)
	}
	defer f.Close()
	if err := gguf.CheckModel(f); err != nil {
		return steer.Facts{}, badInput("inspect: %s: %w", model, err)
	}
	facts, err := bake.FactsOf(f)
	if err != nil {
		return facts, badInput("inspect: %s: %w", model, err)
	}
	return facts, nil
}

func (i *monitorInfo) print(w io.Writer) {
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(w, "%-11s %s\n", name, plain(value))
		}
	}
	line("file", i.File)
	line("kind", kindNames[i.Kind])
	line("name", i.Name)
	line("reads", i.Site)
	line("shape", i.Shape+" "+strings.Trim(fmt.Sprint(i.Widths), "[]"))
	line("aim", i.Aim)
	line("smooth", i.Smooth)
	line("labels", strings.Join(i.Labels, " / "))
	line("AUROC", strings.TrimPrefix(figure("%.3f", i.AUROC), "-"))
	if i.Threshold == nil {
		line("threshold", "none: see `trimtab monitor calibrate`")
	} else {
		line("threshold", thresholdText(i.Kind, *i.Threshold))
	}
	for _, l := range i.Levels {
		run := ""
		if l.Run > 1 {
			run = fmt.Sprintf(", %d tokens in a row", l.Run)
		}
		line("", fmt.Sprintf("%s: at most %.3g %% of safe texts, from %d%s %s", thresholdText(i.Kind, l.Threshold), 100*l.Alpha, l.Texts, run, l.On))
	}
	line("model", i.ModelHash)
	line("arch", i.Arch)
	line("template", i.Template)
	line("data", i.DataHash)
	switch {
	case i.Fit == nil:
	case i.Fit.OK:
		line("fits", i.Fit.Model)
	default:
		line("no fit", i.Fit.Model+": "+i.Fit.Why)
	}
}
