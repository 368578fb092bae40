// Package plot draws the charts of the command line as PNG or SVG files: lines
// with bands, ROC curves, histograms and timelines.
//
// A chart is data; [WriteFile] arranges one or several in a grid and encodes
// them. Equal charts give equal bytes. Values that are not finite are left out,
// as a gap is more honest than a guess.
package plot

import (
	"bytes"
	"errors"
	"fmt"
	"image/color"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Chart is one panel: a [Lines], [ROC], [Histogram] or [Timeline].
type Chart interface {
	plot() (*plot.Plot, error)
}

// Bounds, so that a file from outside cannot take memory without limit.
const (
	MaxCharts = 16
	MaxPoints = 1 << 20 // of one chart
)

// ErrEmpty is wrapped by the error for a chart without a finite value.
var ErrEmpty = errors.New("there is nothing to draw")

// Formats are the endings of file names that [WriteFile] knows.
func Formats() []string { return []string{"png", "svg"} }

// FormatOf is the format that a file's name asks for, or an error that names
// those there are.
func FormatOf(path string) (string, error) {
	ending := strings.ToLower(strings.TrimPrefix(filepath.Ext(path), "."))
	for _, f := range Formats() {
		if f == ending {
			return f, nil
		}
	}
	return "", fmt.Errorf("%s: charts are written as .%s, not %q", path, strings.Join(Formats(), " or ."), filepath.Ext(path))
}

// WriteFile writes the charts, columns in a row, in the format of the file's
// name. A file that is there is replaced when the drawing is done.
func WriteFile(path string, columns int, charts ...Chart) error {
	format, err := FormatOf(path)
	if err != nil {
		return fmt.Errorf("plot: %w", err)
	}
	var b bytes.Buffer
	if err := Write(&b, format, columns, charts...); err != nil {
		return err
	}
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
		return fmt.Errorf("plot: %w", err)
	}
	return nil
}

// The size of one panel.
const (
	panelWidth  = 11 * vg.Centimeter
	panelHeight = 8 * vg.Centimeter
	resolution  = 144 // dots per inch of a PNG
)

// Write encodes the charts as "png" or "svg".
func Write(w io.Writer, format string, columns int, charts ...Chart) error {
	if len(charts) == 0 || len(charts) > MaxCharts || columns < 1 {
		return fmt.Errorf("plot: %d charts in %d columns: want 1 to %d, in at least one", len(charts), columns, MaxCharts)
	}
	columns = min(columns, len(charts))
	rows := (len(charts) + columns - 1) / columns
	width, height := panelWidth*vg.Length(columns), panelHeight*vg.Length(rows)
	grid, err := panels(charts, rows, columns)
	if err != nil {
		return fmt.Errorf("plot: %w", err)
	}
	var c vg.CanvasSizer
	var out io.WriterTo
	switch format {
	case "png":
		img := vgimg.NewWith(vgimg.UseWH(width, height), vgimg.UseDPI(resolution))
		c, out = img, vgimg.PngCanvas{Canvas: img}
	case "svg":
		svg := vgsvg.New(width, height)
		c, out = svg, svg
	default:
		return fmt.Errorf("plot: unknown format %q, want %s", format, strings.Join(Formats(), " or "))
	}
	arrange(grid, draw.New(c), rows, columns)
	_, err = out.WriteTo(w)
	return err
}

// panels makes the plots by rows; nil where a row is not full.
func panels(charts []Chart, rows, columns int) ([][]*plot.Plot, error) {
	grid := make([][]*plot.Plot, rows)
	for i := range grid {
		grid[i] = make([]*plot.Plot, columns)
	}
	for i, c := range charts {
		p, err := c.plot()
		if err != nil {
			return nil, fmt.Errorf("chart %d: %w", i+1, err)
		}
		grid[i/columns][i%columns] = p
	}
	return grid, nil
}

// arrange draws the plots with their axes in line.
func arrange(grid [][]*plot.Plot, dc draw.Canvas, rows, columns int) {
	dc.SetColor(color.White)
	dc.Fill(dc.Rectangle.Path())
	pad := vg.Points(8)
	tiles := draw.Tiles{Rows: rows, Cols: columns, PadX: 2 * pad, PadY: 2 * pad, PadTop: pad, PadBottom: pad, PadLeft: pad, PadRight: 2 * pad}
	canvases := plot.Align(grid, tiles, dc)
	for i := range grid {
		for j, p := range grid[i] {
			if p != nil {
				p.Draw(canvases[i][j])
			}
		}
	}
}

// newPlot is an empty panel in the style of all.
func newPlot(title, x, y string) *plot.Plot {
	p := plot.New()
	p.BackgroundColor = color.White
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, x, y
	p.Title.Padding = vg.Points(4)
	for _, f := range []*draw.TextStyle{&p.Title.TextStyle, &p.X.Label.TextStyle, &p.Y.Label.TextStyle, &p.X.Tick.Label, &p.Y.Tick.Label, &p.Legend.TextStyle} {
		f.Font.Variant = "Sans"
	}
	p.Legend.TextStyle.Font.Size = vg.Points(9)
	p.Legend.ThumbnailWidth = vg.Points(16)
	return p
}

// ink is colour i of Okabe and Ito's palette, which colour-blind readers can
// tell apart ("Color Universal Design", 2008).
func ink(i int) color.NRGBA {
	palette := [...]color.NRGBA{
		{0, 114, 178, 255}, {213, 94, 0, 255}, {0, 158, 115, 255}, {204, 121, 167, 255},
		{230, 159, 0, 255}, {86, 180, 233, 255}, {90, 90, 90, 255},
	}
	return palette[i%len(palette)]
}

func faint(c color.NRGBA) color.NRGBA {
	c.A = 56
	return c
}

// farthest bounds what is drawn. The length of an axis must be a number: where it
// is not, the library looks for ticks for ever.
const farthest = 1e300

// finite reports whether all values can be drawn.
func finite(values ...float64) bool {
	for _, x := range values {
		if !(math.Abs(x) <= farthest) {
			return false
		}
	}
	return true
}
