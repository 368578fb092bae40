package reach

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/cespare/xxhash/v2"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/steer"
)

// Bounds on recorded data.
const (
	MaxSites        = 8
	MaxTrajectories = 1 << 20
	MaxRows         = 1 << 22 // of all trajectories together
	maxGroup        = 4096    // bytes of Trajectory.Group
)

// Trajectory is one generated text: what the model's state was before each of
// its tokens, and how safe the text was up to there.
type Trajectory struct {
	// Group names the prompt. Texts of one group never meet in two splits, and
	// those that begin with equal tokens continue one prefix.
	Group string
	// Tokens are the candidates in order: row i has seen Tokens[:i] and
	// produced Tokens[i]. The last may be the token that ends an answer.
	Tokens []decode.Token
	// Features are len(Tokens) rows; each holds the residuals at Data.Sites,
	// one after the other.
	Features []float32
	// Margins are len(Tokens)+1 text scores in [-1,1], positive meaning safe:
	// Margins[i] is that of Tokens[:i], so the last is that of the whole text.
	// Nil until the text is labelled.
	Margins []float32
}

// Unsafe reports whether the text failed at any point.
func (t *Trajectory) Unsafe() bool { return t.Failure() >= 0 }

// Failure is the index of the first token with which the text is unsafe, -1
// when there is none.
func (t *Trajectory) Failure() int {
	for i, m := range t.Margins {
		if m < 0 {
			return max(i-1, 0)
		}
	}
	return -1
}

// Data are recorded texts of one model.
type Data struct {
	Sites        []steer.Site
	Width        int // of the residual
	Trajectories []Trajectory

	ModelHash    string // engine.Info.Hash
	Arch         string
	TemplateHash string // steer.HashTemplate
}

// rowWidth is the number of features of a row.
func (d *Data) rowWidth() int { return d.Width * len(d.Sites) }

// Row is the residual at a site in a row of a trajectory, shared.
func (d *Data) Row(t *Trajectory, row, site int) []float32 {
	at := row*d.rowWidth() + site*d.Width
	return t.Features[at : at+d.Width]
}

// site finds a site among those recorded.
func (d *Data) site(s steer.Site) (int, error) {
	for i, have := range d.Sites {
		if have == s {
			return i, nil
		}
	}
	return 0, fmt.Errorf("nothing was recorded at %s, only at %v", s, d.Sites)
}

// Check reports the first reason why the data cannot be used. With labelled,
// every text must have margins.
func (d *Data) Check(labelled bool) error {
	switch {
	case d.Width < 1 || d.Width > steer.MaxValueWidth:
		return fmt.Errorf("reach: rows are %d wide, want 1 to %d", d.Width, steer.MaxValueWidth)
	case len(d.Sites) == 0 || len(d.Sites) > MaxSites:
		return fmt.Errorf("reach: %d sites, want 1 to %d", len(d.Sites), MaxSites)
	case len(d.Trajectories) > MaxTrajectories:
		return fmt.Errorf("reach: %d trajectories, the limit is %d", len(d.Trajectories), MaxTrajectories)
	}
	for i, s := range d.Sites {
		if at, _ := d.site(s); at != i || s.Layer < 0 || s.Point != steer.ResidPost {
			return fmt.Errorf("reach: site %d (%s) is there twice or no site", i, s)
		}
	}
	rows := 0
	for i := range d.Trajectories {
		t := &d.Trajectories[i]
		if err := t.check(d.rowWidth(), labelled); err != nil {
			return fmt.Errorf("reach: trajectory %d: %w", i, err)
		}
		if rows += len(t.Tokens); rows > MaxRows {
			return fmt.Errorf("reach: over %d rows", MaxRows)
		}
	}
	return nil
}

func (t *Trajectory) check(width int, labelled bool) error {
	n := len(t.Tokens)
	switch {
	case n == 0:
		return errors.New("it has no tokens")
	case len(t.Group) > maxGroup:
		return fmt.Errorf("its group is named with %d bytes, the limit is %d", len(t.Group), maxGroup)
	case len(t.Features) != n*width:
		return fmt.Errorf("%d features for %d tokens, want %d", len(t.Features), n, n*width)
	case t.Margins == nil && labelled:
		return errors.New("it has no margins: label it first")
	case t.Margins != nil && len(t.Margins) != n+1:
		return fmt.Errorf("%d margins for %d tokens, want one for each prefix, %d", len(t.Margins), n, n+1)
	}
	for i, x := range t.Features {
		if x-x != 0 {
			return fmt.Errorf("feature %d of row %d is %v", i%width, i/width, x)
		}
	}
	for i, m := range t.Margins {
		if !(m >= -1 && m <= 1) {
			return fmt.Errorf("margin %d is %v, want -1 to 1", i, m)
		}
	}
	return nil
}

// with is the data with other trajectories.
func (d *Data) with(list []Trajectory) *Data {
	c := *d
	c.Trajectories = list
	return &c
}

// Filter is the data with the trajectories that keep wants. They are shared.
func (d *Data) Filter(keep func(*Trajectory) bool) *Data {
	var list []Trajectory
	for i := range d.Trajectories {
		if keep(&d.Trajectories[i]) {
			list = append(list, d.Trajectories[i])
		}
	}
	return d.with(list)
}

// Deal splits by prompt into parts of about the given shares: Deal(1, 8, 2) is
// four fifths and one fifth. A group's part depends on the seed and its name
// alone, so further texts move none of the others. [Fit] deals what it is given
// by its own seed in this way: a part dealt before must have used another seed,
// or its groups all fall on one side.
func (d *Data) Deal(seed uint64, shares ...int) []*Data {
	total := uint64(0)
	lists := make([][]Trajectory, len(shares))
	for _, s := range shares {
		total += uint64(max(s, 0))
	}
	for i := range d.Trajectories {
		h := xxhash.NewWithSeed(seed)
		_, _ = h.WriteString(d.Trajectories[i].Group) // never fails
		at := h.Sum64() % max(total, 1)
		for p, s := range shares {
			if at < uint64(max(s, 0)) {
				lists[p] = append(lists[p], d.Trajectories[i])
				break
			}
			at -= uint64(max(s, 0))
		}
	}
	out := make([]*Data, len(shares))
	for p := range out {
		out[p] = d.with(lists[p])
	}
	return out
}

// Hash identifies the data: sites, tokens, features and margins, in order.
func (d *Data) Hash() string {
	h := xxhash.New()
	var b []byte
	num := func(v uint64) { b = binary.LittleEndian.AppendUint64(b, v) }
	num(uint64(d.Width))
	for _, s := range d.Sites {
		num(uint64(s.Layer)<<8 | uint64(s.Point))
	}
	for i := range d.Trajectories {
		t := &d.Trajectories[i]
		num(uint64(len(t.Group)))
		b = append(b, t.Group...)
		num(uint64(len(t.Tokens)))
		for _, k := range t.Tokens {
			num(uint64(k))
		}
		for _, list := range [][]float32{t.Features, t.Margins} {
			num(uint64(len(list)))
			for _, x := range list {
				b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
			}
		}
		_, _ = h.Write(b)
		b = b[:0]
	}
	_, _ = h.Write(b)
	return fmt.Sprintf("%016x", h.Sum64())
}
