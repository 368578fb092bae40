package reach

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Form is what V means.
type Form uint8

const (
	// RL is the discounted safety Bellman backup, V(z_t) = (1-gamma) l_t +
	// gamma min(l_t, V(z_{t+1})): it falls as the failure comes nearer. With
	// margins of 1 before and -1 after, V = 1 - 2 gamma^n at n tokens before.
	RL Form = iota
	// Sample is the margin of the finished text, at every token alike: 1 - 2p
	// where a share p of the continuations fails.
	Sample
)

var formNames = [...]string{RL: "rl", Sample: "sample"}

func (f Form) String() string {
	if int(f) < len(formNames) {
		return formNames[f]
	}
	return fmt.Sprintf("form(%d)", uint8(f))
}

// ParseForm reads what String wrote.
func ParseForm(s string) (Form, error) {
	if i := slices.Index(formNames[:], s); i >= 0 {
		return Form(i), nil
	}
	return 0, fmt.Errorf("form %q: want rl or sample", s)
}

// Over says what several continuations of one prefix make of it.
type Over uint8

const (
	Mean Over = iota // the expected case
	Min              // the worst case: the least value of any
)

var overNames = [...]string{Mean: "mean", Min: "min"}

func (o Over) String() string {
	if int(o) < len(overNames) {
		return overNames[o]
	}
	return fmt.Sprintf("over(%d)", uint8(o))
}

// ParseOver reads what String wrote.
func ParseOver(s string) (Over, error) {
	if i := slices.Index(overNames[:], s); i >= 0 {
		return Over(i), nil
	}
	return 0, fmt.Errorf("over %q: want mean or min", s)
}

// Aim is what the function is to learn.
type Aim struct {
	Form  Form
	Over  Over
	Gamma float64 // RL: discount a token, above 0 and below 1; see [WarningTokens]
}

// DefaultGamma makes V negative from 9 tokens before the failure on.
const DefaultGamma = 0.933

func (a *Aim) check() error {
	switch {
	case int(a.Form) >= len(formNames):
		return fmt.Errorf("unknown %s", a.Form)
	case int(a.Over) >= len(overNames):
		return fmt.Errorf("unknown %s", a.Over)
	case a.Form == RL && !(a.Gamma > 0 && a.Gamma < 1):
		return fmt.Errorf("gamma is %v, must be above 0 and below 1", a.Gamma)
	}
	return nil
}

// Targets are what V is to be in each row of each text. Texts of one group that
// begin with equal tokens meet in one state, whose value is their mean or their
// worst: the mean of the RL form is taken after each step, by how many texts go
// each way. The cost is one sweep from the last token to the first and a sort of
// the texts in each group.
func Targets(d *Data, a Aim) ([][]float32, error) {
	if err := a.check(); err != nil {
		return nil, fmt.Errorf("reach: targets: %w", err)
	}
	if err := d.Check(true); err != nil {
		return nil, err
	}
	out := make([][]float32, len(d.Trajectories))
	order := make([]int, len(out))
	for i := range out {
		out[i] = make([]float32, len(d.Trajectories[i].Tokens))
		order[i] = i
	}
	list := d.Trajectories
	slices.SortStableFunc(order, func(i, j int) int {
		return cmp.Or(cmp.Compare(list[i].Group, list[j].Group), slices.Compare(list[i].Tokens, list[j].Tokens))
	})
	for len(order) > 0 {
		n := 1
		for n < len(order) && list[order[n]].Group == list[order[0]].Group {
			n++
		}
		a.sweep(list, order[:n], out)
		order = order[n:]
	}
	return out, nil
}

// sweep fills the targets of the texts of one group, sorted by their tokens.
func (a *Aim) sweep(list []Trajectory, group []int, out [][]float32) {
	longest := 0
	value := make([]float64, len(group)) // of the state after the row at hand, for each text
	for k, i := range group {
		value[k] = float64(list[i].Margins[len(list[i].Tokens)])
		longest = max(longest, len(list[i].Tokens))
	}
	shared := make([]int, len(group)) // tokens in common with the text before
	for k := 1; k < len(group); k++ {
		shared[k] = common(list[group[k-1]].Tokens, list[group[k]].Tokens)
	}
	for row := longest - 1; row >= 0; row-- {
		for from := 0; from < len(group); {
			to := from + 1
			for to < len(group) && shared[to] >= row {
				to++
			}
			a.merge(list, group[from:to], value[from:to], row, out)
			from = to
		}
	}
}

// merge gives the texts that meet in one state its value. Texts that ended
// before the row take no part: they are a beginning of the others, and no two
// texts of which one goes on can share the token that ended one.
func (a *Aim) merge(list []Trajectory, group []int, value []float64, row int, out [][]float32) {
	sum, least, n := 0.0, 1.0, 0
	for k, i := range group {
		t := &list[i]
		if row >= len(t.Tokens) {
			continue
		}
		v := value[k]
		if a.Form == RL {
			l := float64(t.Margins[row])
			v = (1-a.Gamma)*l + a.Gamma*min(l, v)
		}
		sum, least, n = sum+v, min(least, v), n+1
	}
	if n == 0 {
		return
	}
	v := sum / float64(n)
	if a.Over == Min {
		v = least
	}
	for k, i := range group {
		if row < len(list[i].Tokens) {
			value[k], out[i][row] = v, float32(v)
		}
	}
}

func common[T comparable](a, b []T) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// WarningTokens is how many tokens before a failure V lies below c, for margins
// of 1 before and -1 after it: the largest n with 1 - 2 gamma^n < c. It is a
// knob, not a gift: report it together with the rate of false alarms.
func WarningTokens(gamma, c float64) int {
	if !(gamma > 0 && gamma < 1) || c <= -1 || c >= 1 {
		return 0
	}
	n := int(math.Log((1-c)/2) / math.Log(gamma))
	for n > 0 && 1-2*math.Pow(gamma, float64(n)) >= c {
		n--
	}
	return n
}
