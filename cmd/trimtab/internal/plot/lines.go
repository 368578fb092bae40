package plot

import (
	"fmt"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/trimtab/trimtab/cmd/trimtab/internal/stats"
)

// Point is a measured value with its interval. Low and High are equal to Y, or
// not finite, where there is none.
type Point struct{ X, Y, Low, High float64 }

// Series is one line with its band.
type Series struct {
	Name   string
	Points []Point
}

// Lines is a line chart.
type Lines struct {
	Title, X, Y string
	Series      []Series
	Level       *float64 // a dashed horizontal line, such as a limit
	LevelName   string
	FromZero    bool // 0 is on the vertical axis
}

func (l Lines) plot() (*plot.Plot, error) {
	p := newPlot(l.Title, l.X, l.Y)
	drawn, total := 0, 0
	for i, s := range l.Series {
		if total += len(s.Points); total > MaxPoints {
			return nil, fmt.Errorf("%d points, the limit is %d", total, MaxPoints)
		}
		n, err := addSeries(p, s, i, len(l.Series) > 1)
		if err != nil {
			return nil, fmt.Errorf("series %q: %w", s.Name, err)
		}
		drawn += n
	}
	if drawn == 0 {
		return nil, fmt.Errorf("%q: %w", l.Title, ErrEmpty)
	}
	if l.Level != nil && finite(*l.Level) {
		addLevel(p, *l.Level, l.LevelName)
	}
	if l.FromZero {
		p.Y.Min = math.Min(p.Y.Min, 0)
		if p.Y.Max == 0 && p.Y.Min == 0 {
			p.Y.Max = 1
		}
	}
	widen(&p.Y)
	widen(&p.X)
	p.Legend.Top = true
	return p, nil
}

// widen keeps an axis of equal values from having no length.
func widen(a *plot.Axis) {
	if a.Max-a.Min < 1e-12*math.Max(1, math.Abs(a.Max)) {
		a.Min, a.Max = a.Min-0.5, a.Max+0.5
	}
}

// addSeries returns how many points were drawn.
func addSeries(p *plot.Plot, s Series, i int, named bool) (int, error) {
	var xys, band plotter.XYs
	var high []plotter.XY
	for _, pt := range s.Points {
		if !finite(pt.X, pt.Y) {
			continue
		}
		xys = append(xys, plotter.XY{X: pt.X, Y: pt.Y})
		if finite(pt.Low, pt.High) {
			band, high = append(band, plotter.XY{X: pt.X, Y: pt.Low}), append(high, plotter.XY{X: pt.X, Y: pt.High})
		}
	}
	if len(xys) == 0 {
		return 0, nil
	}
	for k := len(high) - 1; k >= 0; k-- {
		band = append(band, high[k])
	}
	if len(high) > 1 {
		area, err := plotter.NewPolygon(band)
		if err != nil {
			return 0, err
		}
		area.Color, area.LineStyle.Width = faint(ink(i)), 0
		p.Add(area)
	}
	line, dots, err := plotter.NewLinePoints(xys)
	if err != nil {
		return 0, err
	}
	line.Color, line.Width = ink(i), vg.Points(1.5)
	dots.Color, dots.Shape, dots.Radius = ink(i), draw.CircleGlyph{}, vg.Points(2)
	p.Add(line, dots)
	if named {
		p.Legend.Add(s.Name, line)
	}
	return len(xys), nil
}

// addLevel draws a horizontal line across the panel.
func addLevel(p *plot.Plot, y float64, name string) {
	f := plotter.NewFunction(func(float64) float64 { return y })
	f.Color, f.Dashes = ink(6), []vg.Length{vg.Points(4), vg.Points(3)}
	p.Add(f)
	p.Y.Min, p.Y.Max = math.Min(p.Y.Min, y), math.Max(p.Y.Max, y)
	if name != "" {
		p.Legend.Add(name, f)
	}
}

// Curve is one detector's operating points, from stats.ROC, and the area under
// them.
type Curve struct {
	Name   string
	Points []stats.Operating
	Area   float64 // shown beside the name if finite
}

// ROC is a chart of detectors: the share of positives found against the share
// of false alarms.
type ROC struct {
	Title  string
	Curves []Curve
}

func (r ROC) plot() (*plot.Plot, error) {
	p := newPlot(r.Title, "false alarms", "found")
	drawn, total := 0, 0
	for i, c := range r.Curves {
		if total += len(c.Points); total > MaxPoints {
			return nil, fmt.Errorf("%d points, the limit is %d", total, MaxPoints)
		}
		var xys plotter.XYs
		for _, o := range c.Points {
			if finite(o.FalsePositive, o.TruePositive) {
				xys = append(xys, plotter.XY{X: o.FalsePositive, Y: o.TruePositive})
			}
		}
		if len(xys) == 0 {
			continue
		}
		line, err := plotter.NewLine(xys)
		if err != nil {
			return nil, fmt.Errorf("curve %q: %w", c.Name, err)
		}
		line.Color, line.Width = ink(i), vg.Points(1.5)
		p.Add(line)
		name := c.Name
		if finite(c.Area) {
			name = fmt.Sprintf("%s (%.3f)", name, c.Area)
		}
		p.Legend.Add(name, line)
		drawn += len(xys)
	}
	if drawn == 0 {
		return nil, fmt.Errorf("%q: %w", r.Title, ErrEmpty)
	}
	chance := plotter.NewFunction(func(x float64) float64 { return x })
	chance.Color, chance.Dashes = ink(6), []vg.Length{vg.Points(2), vg.Points(3)}
	p.Add(chance)
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = 0, 1, 0, 1
	return p, nil
}
