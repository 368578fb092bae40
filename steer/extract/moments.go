package extract

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/trimtab/trimtab/decode"
)

// Moments are the running sums of states over pairs, for every cell: what the
// directions are made from. Sums are float64, so that the order of pairs costs
// no accuracy (against float32 rows); memory is three rows a cell, and the rows
// themselves for at most Keep pairs where a method needs them.
type Moments struct {
	Cells []Cell
	Width int
	Pairs int // pairs added
	Keep  int // pairs whose rows are kept for PCA and Probe

	plus, minus, shuffled [][]float64
	squares               []float64 // sums of |x+ - x-|^2
	rowsPlus, rowsMinus   [][][]float32
	occasions             map[decode.Token]float64 // see Occasions
}

// NewMoments makes empty sums. keep bounds how many pairs' rows are kept.
func NewMoments(cells []Cell, width, keep int) *Moments {
	m := &Moments{Cells: slices.Clone(cells), Width: width, Keep: keep, occasions: map[decode.Token]float64{}}
	m.plus, m.minus, m.shuffled = zeros(len(cells), width), zeros(len(cells), width), zeros(len(cells), width)
	m.squares = make([]float64, len(cells))
	m.rowsPlus, m.rowsMinus = make([][][]float32, len(cells)), make([][][]float32, len(cells))
	return m
}

func zeros(n, width int) [][]float64 {
	out := make([][]float64, n)
	for i := range out {
		out[i] = make([]float64, width)
	}
	return out
}

// Add counts one pair: plus and minus hold a row for every cell. swap says that
// the labels of this pair are exchanged in the shuffled control.
func (m *Moments) Add(plus, minus [][]float64, swap bool) {
	sign := 1.0
	if swap {
		sign = -1
	}
	for c := range m.Cells {
		for i, p := range plus[c] {
			q := minus[c][i]
			m.plus[c][i] += p
			m.minus[c][i] += q
			m.shuffled[c][i] += sign * (p - q)
			m.squares[c] += (p - q) * (p - q)
		}
		if m.Pairs < m.Keep {
			m.rowsPlus[c] = append(m.rowsPlus[c], narrow(plus[c]))
			m.rowsMinus[c] = append(m.rowsMinus[c], narrow(minus[c]))
		}
	}
	m.Pairs++
}

func narrow(row []float64) []float32 {
	out := make([]float32, len(row))
	for i, x := range row {
		out[i] = float32(x)
	}
	return out
}

// Mirrored are the moments of the same pairs with both sides exchanged: those of
// the opposite behaviour. They share memory with m.
func (m *Moments) Mirrored() *Moments {
	c := *m
	c.plus, c.minus, c.rowsPlus, c.rowsMinus = m.minus, m.plus, m.rowsMinus, m.rowsPlus
	c.shuffled = zeros(len(m.Cells), m.Width)
	for i, row := range m.shuffled {
		for j, x := range row {
			c.shuffled[i][j] = -x
		}
	}
	return &c
}

// MeanChosen is mu+ of a cell.
func (m *Moments) MeanChosen(cell int) []float64 { return m.mean(m.plus[cell]) }

// Difference is r = mu+ - mu- of a cell.
func (m *Moments) Difference(cell int) []float64 {
	d := m.mean(m.plus[cell])
	for i, x := range m.mean(m.minus[cell]) {
		d[i] -= x
	}
	return d
}

// Shuffled is the difference with the labels of every other pair exchanged.
func (m *Moments) Shuffled(cell int) []float64 { return m.mean(m.shuffled[cell]) }

// shuffledBy draws the half anew, where all rows were kept.
func (m *Moments) shuffledBy(cell int, seed uint64) []float64 {
	if len(m.rowsPlus[cell]) < m.Pairs {
		return m.Shuffled(cell)
	}
	order := rand.New(rand.NewPCG(seed, 0x73687566)).Perm(m.Pairs)
	d := make([]float64, m.Width)
	for k, n := range order {
		sign := 1.0
		if k < m.Pairs/2 {
			sign = -1
		}
		for i, p := range m.rowsPlus[cell][n] {
			d[i] += sign * (float64(p) - float64(m.rowsMinus[cell][n][i])) / float64(m.Pairs)
		}
	}
	return d
}

func (m *Moments) mean(sum []float64) []float64 {
	out := make([]float64, len(sum))
	for i, x := range sum {
		out[i] = x / float64(max(m.Pairs, 1))
	}
	return out
}

// Alignment is cos(r, mu+) of a cell, the measure of PaLRS, Eq. 3; 0 where
// either is zero.
func (m *Moments) Alignment(cell int) float64 {
	return cosine(m.Difference(cell), m.MeanChosen(cell))
}

// Separation is |r|^2 over the variance of the paired differences around r: how
// steady the difference is from pair to pair. +Inf where they are all equal.
func (m *Moments) Separation(cell int) float64 {
	r := m.Difference(cell)
	sq := dot(r, r)
	if sq == 0 {
		return 0
	}
	return sq / max(m.squares[cell]/float64(max(m.Pairs, 1))-sq, 0)
}

// MostAligned is the cell with the highest [Moments.Alignment] among those that
// may be chosen (PaLRS, Eq. 3), -1 if there is none.
func (m *Moments) MostAligned(may func(Cell) bool) int {
	best, at := math.Inf(-1), -1
	for c := range m.Cells {
		if a := m.Alignment(c); may(m.Cells[c]) && a > best {
			best, at = a, c
		}
	}
	return at
}

// scaled gives r the length of mu+ (PaLRS, Eq. 4), so that a dose is a share of
// the activation's norm. A direction that is zero beside it is an error.
func scaled(r []float64, norm float64) ([]float32, error) {
	n := length(r)
	if !(n > 1e-7*norm) || n == 0 || norm == 0 {
		return nil, fmt.Errorf("the states of both sides are equal (|r| is %.3g, |mu+| %.3g)", n, norm)
	}
	out := make([]float32, len(r))
	for i, x := range r {
		out[i] = float32(x * norm / n)
	}
	return out, nil
}

// topShare is the share of |r|^2 in the three largest coordinates. A few huge
// coordinates can dominate Eq. 3.
func topShare(r []float32) float64 {
	sq, sum := make([]float64, len(r)), 0.0
	for i, x := range r {
		sq[i] = float64(x) * float64(x)
		sum += sq[i]
	}
	slices.Sort(sq)
	top := 0.0
	for _, x := range sq[max(0, len(sq)-3):] {
		top += x
	}
	if sum == 0 {
		return 0
	}
	return top / sum
}

func dot(a, b []float64) (sum float64) {
	for i, x := range a {
		sum += x * b[i]
	}
	return sum
}

func length(a []float64) float64 { return math.Sqrt(dot(a, a)) }

func cosine(a, b []float64) float64 {
	n := length(a) * length(b)
	if n == 0 {
		return 0
	}
	return dot(a, b) / n
}
