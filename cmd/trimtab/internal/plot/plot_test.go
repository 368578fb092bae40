package plot

import (
	"bytes"
	"encoding/xml"
	"errors"
	"image/png"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trimtab/trimtab/cmd/trimtab/internal/stats"
)

func charts() map[string]Chart {
	limit, nan := 0.1, math.NaN()
	pos, neg := []float64{0.9, 0.7, 0.6}, []float64{0.1, 0.65, 0.3}
	return map[string]Chart{
		"lines": Lines{Title: "Effect", X: "dose", Y: "nats", Level: &limit, LevelName: "budget", FromZero: true, Series: []Series{
			{"block 2", []Point{{0, 0, 0, 0}, {0.2, 1, 0.5, 1.5}, {0.4, nan, nan, nan}, {0.8, 2, 1.5, 2.5}}},
			{"block 3", []Point{{0, 0, nan, nan}, {0.8, -1, nan, nan}}}}},
		"single": Lines{Title: "One point", Series: []Series{{"a", []Point{{1, 1, 1, 1}}}}},
		"roc":    ROC{Title: "Detectors", Curves: []Curve{{"entropy", stats.ROC(pos, neg), stats.AUROC(pos, neg)}, {"none", nil, nan}}},
		"histogram": Histogram{Title: "Scores", X: "score", Groups: []Group{{"drifts", pos}, {"stays", append(neg, nan, math.Inf(1))}},
			Marks: []Mark{{0.62, "threshold"}}},
		"constant": Histogram{Title: "Equal", X: "score", Bins: 3, Groups: []Group{{"a", []float64{2, 2}}}},
		"timeline": Timeline{Title: "Along the text", Y: "KL", Level: &limit, Tracks: []Track{{"KL", 0, []float64{0, 0.4, nan, 0.2}}, {"value", -1, []float64{1}}},
			Marks: []Mark{{2, "hazard"}}, Spans: []Span{{0, 1.5, "window"}}},
	}
}

func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	for name, c := range charts() {
		for _, format := range Formats() {
			path := filepath.Join(dir, name+"."+format)
			if err := WriteFile(path, 1, c); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			check(t, path, format, b)
		}
	}
}

// check decodes a file and makes sure that something is on it.
func check(t *testing.T, name, format string, b []byte) {
	t.Helper()
	if format == "svg" {
		d := xml.NewDecoder(bytes.NewReader(b))
		for {
			if _, err := d.Token(); err == io.EOF {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		if n := strings.Count(string(b), "<path"); n < 5 {
			t.Errorf("%s: only %d paths", name, n)
		}
		return
	}
	img, err := png.Decode(bytes.NewReader(b))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	colours := map[[3]uint32]bool{}
	for y := range img.Bounds().Dy() {
		for x := range img.Bounds().Dx() {
			r, g, b, _ := img.At(x, y).RGBA()
			colours[[3]uint32{r, g, b}] = true
		}
	}
	if r, g, b, a := img.At(0, 0).RGBA(); r&g&b&a != 0xffff {
		t.Errorf("%s: the corner is not white", name)
	}
	if len(colours) < 10 {
		t.Errorf("%s: only %d colours", name, len(colours))
	}
}

// TestWriteGrid: charts share a file, and equal ones give equal bytes.
func TestWriteGrid(t *testing.T) {
	c := charts()
	for _, format := range Formats() {
		var a, b bytes.Buffer
		for _, w := range []io.Writer{&a, &b} {
			if err := Write(w, format, 2, c["lines"], c["roc"], c["timeline"]); err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.Equal(a.Bytes(), b.Bytes()) {
			t.Errorf("%s: two drawings differ", format)
		}
		check(t, "grid", format, a.Bytes())
	}
}

func TestFaults(t *testing.T) {
	good := charts()["single"]
	many := make([]Chart, MaxCharts+1)
	for i := range many {
		many[i] = good
	}
	for _, c := range []struct {
		name    string
		path    string
		columns int
		charts  []Chart
		want    string
	}{
		{"format", "x.pdf", 1, []Chart{good}, `charts are written as .png or .svg, not ".pdf"`},
		{"no format", "x", 1, []Chart{good}, `not ""`},
		{"folder", "none/x.png", 1, []Chart{good}, "none"},
		{"no chart", "x.png", 1, nil, "0 charts"},
		{"too many", "x.png", 1, many, "17 charts"},
		{"no column", "x.png", 0, []Chart{good}, "0 columns"},
		{"empty lines", "x.png", 1, []Chart{good, Lines{Title: "E"}}, `chart 2: "E": there is nothing to draw`},
		{"not finite", "x.png", 1, []Chart{Lines{Series: []Series{{"a", []Point{{0, math.NaN(), 0, 0}}}}}}, "nothing to draw"},
		{"too far", "x.png", 1, []Chart{Lines{Series: []Series{{"a", []Point{{0, -1.7e308, 0, 0}, {1, 1.7e308, 0, 0}, {-1.7e308, 1, 0, 0}}}}}}, "nothing to draw"},
		{"too far apart", "x.png", 1, []Chart{Histogram{Groups: []Group{{"a", []float64{-1.7e308, 1.7e308}}}}}, "nothing to draw"},
		{"empty ROC", "x.png", 1, []Chart{ROC{}}, "nothing to draw"},
		{"empty histogram", "x.png", 1, []Chart{Histogram{}}, "nothing to draw"},
		{"bins", "x.png", 1, []Chart{Histogram{Bins: -1}}, "-1 bins"},
		{"span", "x.png", 1, []Chart{Timeline{Tracks: []Track{{"a", 0, []float64{1, 2}}}, Spans: []Span{{2, 1, "s"}}}}, `span "s": [2,1) is empty`},
		{"points", "x.png", 1, []Chart{Lines{Series: []Series{{"a", make([]Point, MaxPoints+1)}}}}, "the limit is"},
	} {
		err := WriteFile(filepath.Join(t.TempDir(), c.path), c.columns, c.charts...)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error is %v, want %q", c.name, err, c.want)
		}
		if strings.HasPrefix(c.name, "empty") && !errors.Is(err, ErrEmpty) {
			t.Errorf("%s: %v does not wrap ErrEmpty", c.name, err)
		}
	}
}
