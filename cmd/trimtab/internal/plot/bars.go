package plot

import (
	"fmt"
	"image/color"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
)

// Group is one of the samples that a histogram compares.
type Group struct {
	Name   string
	Values []float64
}

// Mark is a vertical line with a name, such as a threshold or the moment of an
// event.
type Mark struct {
	X    float64
	Name string
}

// Histogram shows how values of groups are spread, each group as shares of its
// own size, in common bins.
type Histogram struct {
	Title, X string
	Groups   []Group
	Bins     int // 0 for 30, at most 1000
	Marks    []Mark
}

const (
	defaultBins = 30
	maxBins     = 1000
)

func (h Histogram) plot() (*plot.Plot, error) {
	bins := h.Bins
	if bins == 0 {
		bins = defaultBins
	}
	if bins < 1 || bins > maxBins {
		return nil, fmt.Errorf("%d bins, want 1 to %d", bins, maxBins)
	}
	lo, hi, err := h.span()
	if err != nil {
		return nil, err
	}
	p := newPlot(h.Title, h.X, "share")
	for i, g := range h.Groups {
		outline, err := plotter.NewLine(h.outline(g, lo, hi, bins))
		if err != nil {
			return nil, fmt.Errorf("group %q: %w", g.Name, err)
		}
		outline.Color, outline.Width, outline.FillColor = ink(i), vg.Points(1.2), faint(ink(i))
		p.Add(outline)
		p.Legend.Add(g.Name, outline)
	}
	p.Y.Min = 0
	addMarks(p, h.Marks)
	p.Legend.Top = true
	return p, nil
}

// span is the range of all finite values.
func (h *Histogram) span() (lo, hi float64, err error) {
	lo, hi = math.Inf(1), math.Inf(-1)
	total := 0
	for _, g := range h.Groups {
		total += len(g.Values)
		for _, x := range g.Values {
			if finite(x) {
				lo, hi = math.Min(lo, x), math.Max(hi, x)
			}
		}
	}
	switch {
	case total > MaxPoints:
		return 0, 0, fmt.Errorf("%d points, the limit is %d", total, MaxPoints)
	case lo > hi:
		return 0, 0, fmt.Errorf("%q: %w", h.Title, ErrEmpty)
	case hi-lo < 1e-12*math.Max(1, math.Abs(hi)):
		lo, hi = lo-0.5, hi+0.5
	}
	return lo, hi, nil
}

// outline is the upper edge of a group's bars, from and to the axis.
func (h *Histogram) outline(g Group, lo, hi float64, bins int) plotter.XYs {
	counts, n := make([]float64, bins), 0
	for _, x := range g.Values {
		if finite(x) {
			counts[min(int((x-lo)/(hi-lo)*float64(bins)), bins-1)]++
			n++
		}
	}
	step := (hi - lo) / float64(bins)
	xys := plotter.XYs{{X: lo}}
	for i, c := range counts {
		share := c / math.Max(1, float64(n))
		xys = append(xys, plotter.XY{X: lo + float64(i)*step, Y: share}, plotter.XY{X: lo + float64(i+1)*step, Y: share})
	}
	return append(xys, plotter.XY{X: hi})
}

// addMarks draws vertical lines over the height of what was drawn before.
func addMarks(p *plot.Plot, marks []Mark) {
	for i, m := range marks {
		if !finite(m.X) {
			continue
		}
		line := &plotter.Line{XYs: plotter.XYs{{X: m.X, Y: p.Y.Min}, {X: m.X, Y: p.Y.Max}}, LineStyle: plotter.DefaultLineStyle}
		line.Color, line.Dashes = ink(len(marks)+6-i), []vg.Length{vg.Points(4), vg.Points(3)}
		p.Add(line)
		if m.Name != "" {
			p.Legend.Add(m.Name, line)
		}
	}
}

// Span is a run of positions that is shaded, [From,To).
type Span struct {
	From, To float64
	Name     string
}

// Timeline shows values along a text, one per token, with marks at moments and
// shaded spans.
type Timeline struct {
	Title, Y string
	Tracks   []Track
	Marks    []Mark
	Spans    []Span
	Level    *float64 // a dashed line, such as a threshold
}

// Track is a named value at each position from Start on.
type Track struct {
	Name   string
	Start  int
	Values []float64
}

func (t Timeline) plot() (*plot.Plot, error) {
	l := Lines{Title: t.Title, X: "token", Y: t.Y, Level: t.Level}
	for _, track := range t.Tracks {
		s := Series{Name: track.Name}
		for i, y := range track.Values {
			s.Points = append(s.Points, Point{X: float64(track.Start + i), Y: y, Low: math.NaN()})
		}
		l.Series = append(l.Series, s)
	}
	p, err := l.plot()
	if err != nil {
		return nil, err
	}
	for i, s := range t.Spans {
		if !finite(s.From, s.To) || s.From >= s.To {
			return nil, fmt.Errorf("span %q: [%v,%v) is empty", s.Name, s.From, s.To)
		}
		area, err := plotter.NewPolygon(plotter.XYs{{X: s.From, Y: p.Y.Min}, {X: s.To, Y: p.Y.Min}, {X: s.To, Y: p.Y.Max}, {X: s.From, Y: p.Y.Max}})
		if err != nil {
			return nil, fmt.Errorf("span %q: %w", s.Name, err)
		}
		var shade color.Color = faint(ink(i + len(t.Tracks)))
		area.Color, area.LineStyle.Width = shade, 0
		p.Add(area)
		if s.Name != "" {
			p.Legend.Add(s.Name, area)
		}
	}
	addMarks(p, t.Marks)
	return p, nil
}
