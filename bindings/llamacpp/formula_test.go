package llamacpp

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/runtime/engine"
	"github.com/trimtab/trimtab/steer"
)

// edited is what package steer's documentation says an operation with a dose
// makes of a row, in float64 and by the book: no code is shared with the engine.
// Operations that have no closed form here are taken from package steer.
func edited(iv *steer.Intervention, x []float64, dose float64) []float64 {
	v := wide(iv.Vector)
	out := slices.Clone(x)
	along := func(by float64, dir []float64) {
		for i := range dir {
			out[i] += by * dir[i]
		}
	}
	component := func() float64 { return inner(x, v) / math.Sqrt(inner(v, v)) }
	toward := func(c, to float64) { along(dose*(to-c)/math.Sqrt(inner(v, v)), v) }
	switch iv.Op {
	case steer.Add:
		along(dose, v)
	case steer.Project:
		along(-dose*inner(x, v)/inner(v, v), v)
	case steer.Clamp:
		toward(component(), math.Min(math.Max(component(), float64(iv.Min)), float64(iv.Max)))
	case steer.Replace:
		toward(component(), float64(iv.Value))
	case steer.Affine:
		for k := range iv.Map.Rank {
			down, up := wide(iv.Map.Down[k*len(x):(k+1)*len(x)]), wide(iv.Map.Up[k*len(x):(k+1)*len(x)])
			along(dose*inner(x, down), up)
		}
		along(dose, v)
	case steer.Rotate:
		e := scaled(v, 1/math.Sqrt(inner(v, v)))
		w := wide(iv.Toward)
		f := slices.Clone(w)
		for i := range f {
			f[i] -= inner(w, e) * e[i]
		}
		f = scaled(f, 1/math.Sqrt(inner(f, f)))
		p, q := inner(x, e), inner(x, f)
		along(p*math.Cos(dose)-q*math.Sin(dose)-p, e)
		along(p*math.Sin(dose)+q*math.Cos(dose)-q, f)
	default:
		row := narrowed(x)
		iv.ApplyDose(row, float32(dose))
		return wide(row)
	}
	if iv.Renorm {
		out = scaled(out, math.Sqrt(inner(x, x)/inner(out, out)))
	}
	return out
}

func wide(x []float32) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = float64(v)
	}
	return out
}

func narrowed(x []float64) []float32 {
	out := make([]float32, len(x))
	for i, v := range x {
		out[i] = float32(v)
	}
	return out
}

func inner(a, b []float64) (sum float64) {
	for i := range a {
		sum += a[i] * b[i]
	}
	return sum
}

func scaled(x []float64, by float64) []float64 {
	out := slices.Clone(x)
	for i := range out {
		out[i] *= by
	}
	return out
}

// foretold is what the interventions at one site make of a row; base shows the
// row at every site that a gate reads. It reports whether any acted.
func foretold(list []steer.Intervention, site steer.Site, at steer.Row, base map[steer.Site][]float32) ([]float64, bool) {
	x, acted, group := wide(base[site]), false, 0
	for i := range list {
		iv := &list[i]
		if iv.Site != site || group != 0 && iv.Group != 0 && iv.Group != group {
			continue
		}
		dose := float64(iv.Dose(at))
		if dose == 0 {
			continue
		}
		if g := iv.Gate; g != nil {
			read := wide(base[g.Site])
			w := wide(g.Vector)
			value := inner(read, w) / math.Sqrt(inner(read, read)*inner(w, w))
			if (value > float64(g.Threshold)) == g.Below {
				continue
			}
		}
		x, acted, group = edited(iv, x, dose), true, max(group, iv.Group)
	}
	return x, acted
}

// formulaPrompt is the length of the prompts that are played.
const formulaPrompt = 6

// shownRows plays four sequences in one batch, the one-th of them under the
// plan, each for a prompt and some steps, and returns every row at the sites.
func shownRows(t *testing.T, e *Engine, plan *steer.Plan, one int, sites []steer.Site) (rows [4]map[steer.Site][]float32, texts [4][]decode.Token) {
	t.Helper()
	const prompt, steps = formulaPrompt, 8
	feeds := make([]engine.Feed, 4)
	for i := range feeds {
		s := sequence(t, e)
		defer s.Close()
		if i == one {
			if err := s.Steer(plan); err != nil {
				t.Fatal(err)
			}
		}
		for k := range prompt + steps {
			texts[i] = append(texts[i], decode.Token(40+(11*i+5*k)%64))
		}
		rows[i] = map[steer.Site][]float32{}
		feeds[i] = engine.Feed{Seq: s, Capture: sites, PromptLen: prompt}
	}
	for from, to := 0, prompt; to <= prompt+steps; from, to = to, to+1 {
		for i := range feeds {
			feeds[i].Tokens, feeds[i].Phase = texts[i][from:to], steer.PhaseAnswer
			if from == 0 {
				feeds[i].Phase = steer.PhasePrompt
			}
		}
		if err := e.Forward(context.Background(), feeds); err != nil {
			t.Fatal(err)
		}
		for i := range feeds {
			for _, site := range sites {
				x, err := feeds[i].Seq.Activation(site)
				if err != nil {
					t.Fatal(err)
				}
				rows[i][site] = append(rows[i][site], x...)
			}
		}
	}
	return rows, texts
}

// TestPlansDoWhatTheySay: for every sort of plan the rows of the steered
// sequence change by what the formula says, to 1e-4 of the change, at the lowest
// block that the plan edits; blocks below, rows that no condition names and the
// other sequences of the batch stay as they were, to the bit.
func TestPlansDoWhatTheySay(t *testing.T) {
	for _, m := range steeredModels {
		t.Run(m.name+" "+m.typ.String(), func(t *testing.T) {
			e := steeredModel(t, m.name, m.typ, Options{MaxSequences: 4, Context: 64, Cells: 256})
			layer := e.info.Layers - 2
			f := &formula{t: t, width: e.info.Width, sites: []steer.Site{{Layer: 0}, {Layer: layer}}}
			f.base, f.texts = shownRows(t, e, nil, 0, f.sites)
			for name, list := range anyPlans(rand.New(rand.NewPCG(12, 1)), e.info.Width, 0, layer, rowSize(t, e, layer)) {
				f.one = (f.one + 1) % 4
				got, _ := shownRows(t, e, mustPlan(t, list...), f.one, f.sites)
				f.check(name, list, got)
			}
			if f.acting < 60 {
				t.Errorf("only %d rows were edited: the plans test nothing", f.acting)
			}
			t.Logf("%d edited rows, at most %.2g of the change from the formula", f.acting, f.worst)
		})
	}
}

// formula holds what four sequences show under plans against what they show
// without.
type formula struct {
	t      *testing.T
	width  int
	sites  []steer.Site
	base   [4]map[steer.Site][]float32
	texts  [4][]decode.Token
	one    int // the steered sequence
	acting int // rows that were edited
	worst  float64
}

func (f *formula) check(name string, list []steer.Intervention, got [4]map[steer.Site][]float32) {
	f.t.Helper()
	lowest := f.sites[1]
	for i := range list {
		lowest.Layer = min(lowest.Layer, list[i].Site.Layer)
	}
	for i := range f.base {
		for _, site := range f.sites {
			if (i != f.one || site.Layer < lowest.Layer) && !slices.Equal(got[i][site], f.base[i][site]) {
				f.t.Fatalf("%s: sequence %d at %s changed, steered is %d at %s", name, i, site, f.one, lowest)
			}
		}
	}
	for r := range f.texts[f.one] {
		f.row(name, list, lowest, r, got[f.one][lowest][r*f.width:(r+1)*f.width])
	}
}

// row checks one row of the steered sequence.
func (f *formula) row(name string, list []steer.Intervention, site steer.Site, r int, is []float32) {
	f.t.Helper()
	at := steer.Row{Offset: r - formulaPrompt, Token: int32(f.texts[f.one][r]), Phase: steer.PhasePrompt}
	if r >= formulaPrompt {
		at.Phase = steer.PhaseAnswer
	}
	was := map[steer.Site][]float32{}
	for _, s := range f.sites {
		was[s] = f.base[f.one][s][r*f.width : (r+1)*f.width]
	}
	want, acts := foretold(list, site, at, was)
	if !acts {
		if !slices.Equal(is, was[site]) {
			f.t.Fatalf("%s: row %d, which the plan does not edit, changed", name, r)
		}
		return
	}
	f.acting++
	off, change := 0.0, 0.0
	for i := range want {
		off += (float64(is[i]) - want[i]) * (float64(is[i]) - want[i])
		change += (want[i] - float64(was[site][i])) * (want[i] - float64(was[site][i]))
	}
	// A change of less than a thousandth of the row drowns in its rounding.
	change = max(change, 1e-6*inner(want, want))
	f.worst = max(f.worst, math.Sqrt(off/change))
	if f.worst > 1e-4 {
		f.t.Fatalf("%s: row %d is %.3g of the change from the formula", name, r, f.worst)
	}
}
