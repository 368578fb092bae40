package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/trimtab/trimtab/internal/vec"
	"github.com/trimtab/trimtab/steer"
	"github.com/trimtab/trimtab/steer/extract"
)

// vectorReport is what `steer inspect` says of a vector; its JSON form is
// documented.
type vectorReport struct {
	Name         string             `json:"name"`
	Format       string             `json:"format"`
	Op           string             `json:"op"`
	Width        int                `json:"width"`
	Dose         float32            `json:"dose,omitempty"`
	Digest       string             `json:"digest"`
	ModelHint    string             `json:"model_hint,omitempty"`
	ModelHash    string             `json:"model_hash,omitempty"`
	Arch         string             `json:"arch,omitempty"`
	TemplateHash string             `json:"template_hash,omitempty"`
	Method       string             `json:"method,omitempty"`
	Layer        *int               `json:"layer,omitempty"`
	Position     string             `json:"position,omitempty"`
	Window       *extract.Window    `json:"window,omitempty"`
	expression   string             // the window as expressions write it
	MeanNorm     float64            `json:"mean_norm,omitempty"`
	DataHash     string             `json:"data_hash,omitempty"`
	Calibration  *calibrationReport `json:"calibration,omitempty"`
	Directions   []directionReport  `json:"directions"`
	Notes        []string           `json:"notes,omitempty"`
	Fit          *fitReport         `json:"fit,omitempty"`
}

type calibrationReport struct {
	Dose   float64 `json:"dose"`
	KL     float64 `json:"kl"`
	Effect float64 `json:"effect"`
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
	Metric string  `json:"metric,omitempty"`
	Pairs  int     `json:"pairs"`
}

type directionReport struct {
	Block int     `json:"block"`
	Norm  float64 `json:"norm"`
	Top3  float64 `json:"top3"` // share of the squared norm in the three largest coordinates
	// Previous is the cosine with the direction before it in the list.
	Previous *float64 `json:"cosine_with_previous,omitempty"`
}

type fitReport struct {
	Model string `json:"model"`
	OK    bool   `json:"ok"`
	Why   string `json:"why,omitempty"`
}

func vectorReportOf(v *steer.Vector) *vectorReport {
	r := &vectorReport{Name: v.Name, Format: string(v.Format), Op: v.Op.String(), Width: v.Width(), Dose: v.Dose,
		Digest: v.Digest(), ModelHint: v.ModelHint, ModelHash: v.ModelHash, Arch: v.Arch, TemplateHash: v.TemplateHash,
		Method: v.Method, Position: v.Position, MeanNorm: v.MeanNorm, DataHash: v.DataHash}
	if v.Method != "" && v.Format == steer.FormatTrimtab {
		r.Layer = &v.Layer
	}
	if v.Window() != "" {
		r.Window, r.expression = &extract.Window{From: v.From, To: v.To}, v.Window()
	}
	if v.Calibration != nil {
		c := calibrationReport(*v.Calibration)
		r.Calibration = &c
	}
	var before []float32
	for _, layer := range v.Layers() {
		d := v.Directions[layer]
		row := directionReport{Block: layer, Norm: vec.Norm(d), Top3: topShare(d, 3)}
		if before != nil {
			cos := vec.Dot(before, d) / vec.Norm(before) / row.Norm
			row.Previous = &cos
		}
		r.Directions, before = append(r.Directions, row), d
	}
	r.note(v)
	return r
}

// topShare is the share of the squared norm in the n largest coordinates.
func topShare(d []float32, n int) float64 {
	squares := make([]float64, len(d))
	sum := 0.0
	for i, x := range d {
		squares[i] = float64(x) * float64(x)
		sum += squares[i]
	}
	slices.Sort(squares)
	top := 0.0
	for _, s := range squares[max(0, len(squares)-n):] {
		top += s
	}
	return top / sum
}

// note says what the reader should know before using the vector.
func (r *vectorReport) note(v *steer.Vector) {
	add := func(format string, args ...any) { r.Notes = append(r.Notes, fmt.Sprintf(format, args...)) }
	if v.Format == steer.FormatGenerator {
		add("it looks like the work of llama-cvector-generator, which names directions one block late; see --one-late")
	}
	if v.ModelHash == "" {
		add("it does not state the model it was made on, so only a wrong size is noticed")
	}
	for _, d := range r.Directions {
		if d.Block == 0 {
			add("the direction of block 0 is seen by Trimtab only: control vectors have no place for it")
		}
		if d.Top3 > 0.5 && r.Width > 16 {
			add("block %d: three coordinates hold %.0f %% of the direction; such a vector often breaks text before it steers", d.Block, 100*d.Top3)
		}
	}
}

func (r *vectorReport) print(out io.Writer, path string) {
	fmt.Fprintf(out, "%s: %s file, for %s, %d wide\n", path, r.Format, r.Op, r.Width)
	line := func(name, format string, args ...any) {
		if s := fmt.Sprintf(format, args...); strings.Trim(s, " ,0") != "" {
			fmt.Fprintf(out, "  %-12s %s\n", name, s)
		}
	}
	line("name", "%s", r.Name)
	line("dose", "%v", r.Dose)
	if r.Window != nil {
		line("acts on", "rows %s, counted from the prompt's end", r.expression)
	}
	hint := r.ModelHint
	if hint == r.Arch {
		hint = ""
	}
	line("model", "%s", strings.Join(stated(r.Arch, hint, prefixed("hash ", r.ModelHash), prefixed("template ", r.TemplateHash)), ", "))
	line("method", "%s", strings.Join(stated(r.Method, r.chosen(), prefixed("position ", r.Position), prefixed("data ", r.DataHash)), ", "))
	if r.MeanNorm != 0 {
		line("mean norm", "%.4g", r.MeanNorm)
	}
	if c := r.Calibration; c != nil {
		line("calibration", "dose %.3g, KL(unsteered || steered) %.3g, effect %.3g [%.3g, %.3g] %s on %d pairs", c.Dose, c.KL, c.Effect, c.Low, c.High, c.Metric, c.Pairs)
	}
	line("digest", "%s", r.Digest)
	fmt.Fprintf(out, "\n  block        norm  top 3  cosine with the one before\n")
	for _, d := range r.Directions {
		cos := ""
		if d.Previous != nil {
			cos = fmt.Sprintf("%6.3f", *d.Previous)
		}
		fmt.Fprintln(out, strings.TrimRight(fmt.Sprintf("  %5d  %10.4g  %4.0f%%  %s", d.Block, d.Norm, 100*d.Top3, cos), " "))
	}
	for _, n := range r.Notes {
		fmt.Fprintf(out, "note: %s\n", n)
	}
	if f := r.Fit; f != nil && f.OK {
		fmt.Fprintf(out, "fits %s\n", f.Model)
	} else if f != nil {
		fmt.Fprintf(out, "does not fit %s: %s\n", f.Model, f.Why)
	}
}

func (r *vectorReport) chosen() string {
	if r.Layer == nil {
		return ""
	}
	return fmt.Sprintf("block %d", *r.Layer)
}

func prefixed(prefix, s string) string {
	if s == "" {
		return ""
	}
	return prefix + s
}

// stated leaves out what the file does not say.
func stated(parts ...string) []string {
	return slices.DeleteFunc(parts, func(s string) bool { return s == "" })
}
