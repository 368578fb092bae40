package monitortest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/monitors"
	"github.com/trimtab/trimtab/steer"
)

// sound is a watcher without faults: it flags a token that was said before, and
// scores with the row at a site.
type sound struct {
	said []decode.Token
	// The ways to be broken. Each breaks one promise.
	keep    []byte
	log     [][]byte
	shared  *[]decode.Token
	counter *int
	later   func(steer.Site) ([]float32, error)
	failed  bool
	mutant  string
}

var site = steer.Site{Layer: 1}

func (w *sound) Observe(_ context.Context, o *monitors.Observation) (monitors.Verdict, error) {
	row, err := w.row(o)
	if err != nil {
		return monitors.Verdict{}, err
	}
	v := monitors.Verdict{Score: float64(row[0])}
	for i := len(w.said) - 1; i >= 0; i-- {
		if w.said[i] == o.Token {
			v.Flag, v.Onset, v.Note = true, len(w.said)-i, "again"
		}
	}
	w.said = append(w.said, o.Token)
	return v, w.wreck(o, &v)
}

func (w *sound) row(o *monitors.Observation) ([]float32, error) {
	if w.mutant == "final" && w.failed {
		return nil, errors.New("broken for good")
	}
	row, err := o.Activation(site)
	if err == nil && row[0] != row[0] && w.mutant != "passes NaN on" {
		err = errors.New("row is NaN")
	}
	if err != nil {
		w.failed = true
		if w.mutant == "counts failed candidates" {
			w.said = append(w.said, o.Token)
		}
	}
	return row, err
}

// wreck does what the mutant does wrong.
func (w *sound) wreck(o *monitors.Observation, v *monitors.Verdict) error {
	switch w.mutant {
	case "keeps the piece":
		v.Score += float64(len(w.keep))
		if len(w.keep) > 0 {
			v.Score += float64(w.keep[0])
		}
		w.keep = o.Piece
	case "writes to the row":
		o.Raw[0] = 1
	case "writes to the piece":
		o.Piece[0] ^= 1
	case "shares a list":
		*w.shared = append(*w.shared, o.Token)
		v.Score += float64(len(*w.shared))
	case "shares a count":
		*w.counter++
		v.Score += float64(*w.counter % 7)
	case "asks elsewhere":
		_, _ = o.Activation(steer.Site{Layer: 9})
	case "keeps Activation":
		w.later = o.Activation
	case "leaks":
		w.log = append(w.log, make([]byte, 4096))
	case "leaks a little for ever":
		w.log = append(w.log, make([]byte, 256))
	case "forgets to forget":
		w.keep = append(w.keep, 1)
		v.Score = float64(len(w.keep) % 16)
	case "infinite score":
		if v.Flag {
			v.Score = math.Inf(1)
		}
	case "onset before the start":
		if v.Flag {
			v.Onset = len(w.said) + 1
		}
	case "long note":
		v.Note = strings.Repeat("x", maxNote+1)
	case "panics":
		if v.Flag {
			panic("index out of range")
		}
	case "random":
		v.Score = rand.Float64()
	case "fails at times":
		if v.Flag {
			return errors.New("no")
		}
	}
	return nil
}

func (w *sound) Rewind(n int) error {
	switch {
	case w.mutant == "any rewind":
		n = max(0, min(n, len(w.said)))
	case n < 0 || n > len(w.said):
		return fmt.Errorf("rewind by %d of %d", n, len(w.said))
	}
	switch w.mutant {
	case "one too few":
		n = max(0, n-1)
	case "never rewinds":
		n = 0
	case "keeps Activation":
		if w.later != nil {
			_, _ = w.later(site)
		}
	case "leaks":
		w.log = w.log[:len(w.log)-n]
	}
	w.said = w.said[:len(w.said)-n]
	return nil
}

func mutant(name string) monitors.Monitor {
	shared, counter := &[]decode.Token{}, new(int)
	return monitors.Monitor{
		Name: "mutant", Doc: "flags tokens said before, " + name, Sites: []steer.Site{site},
		Start: func() monitors.Watcher {
			return &sound{mutant: name, shared: shared, counter: counter}
		},
	}
}

func draw(r *rand.Rand) Input {
	t := decode.Token(r.IntN(40))
	return Input{
		Token: t, Piece: fmt.Appendf(nil, "t%d", t), Raw: decode.Logits{0, 2},
		Rows: map[steer.Site][]float32{site: {r.Float32(), 1}},
	}
}

func options() Options {
	nan := draw(rand.New(rand.NewPCG(1, 1)))
	nan.Rows = map[steer.Site][]float32{site: {float32(math.NaN())}}
	return Options{Next: draw, Seed: 1, Walks: 10, Steps: 40, Bad: []Input{nan, {Token: 1, Raw: decode.Logits{1}}}}
}

// failures are the names of the checks that a monitor does not pass.
func failures(t *testing.T, m monitors.Monitor, o Options) map[string]error {
	out := map[string]error{}
	for _, c := range Checks() {
		if err := c.Do(t.Context(), m, o); err != nil {
			out[c.Name] = err
		}
	}
	return out
}

func TestSound(t *testing.T) {
	Run(t, mutant(""), options())
	if f := failures(t, mutant("final"), options()); len(f) > 0 {
		t.Errorf("a watcher whose errors are final: %v", f)
	}
}

// TestMutants: the checks can fail, each for its own reason.
func TestMutants(t *testing.T) {
	for _, tt := range []struct{ mutant, check, says string }{
		{"keeps the piece", "walk", "a fresh watcher says"},
		{"writes to the row", "walk", "wrote to Observation.Raw"},
		{"writes to the piece", "walk", "wrote to Observation.Piece"},
		{"shares a list", "apart", "beside another watcher"},
		{"shares a count", "apart", "beside another watcher"},
		{"asks elsewhere", "walk", "does not name"},
		{"keeps Activation", "walk", "after Observe had returned"},
		{"leaks", "memory", "3000 tokens took"},
		{"leaks a little for ever", "memory", "rewinds and as many tokens again"},
		{"forgets to forget", "walk", "a fresh watcher says"},
		{"one too few", "walk", "a fresh watcher says"},
		{"never rewinds", "walk", "a fresh watcher says"},
		{"any rewind", "errors", "rewind by -1 of 20 tokens: no error"},
		{"passes NaN on", "errors", "score is NaN"},
		{"counts failed candidates", "errors", "candidate 35 afterwards"},
		{"infinite score", "walk", "score is +Inf"},
		{"onset before the start", "walk", "onset"},
		{"long note", "walk", "note of 1025 bytes"},
		{"panics", "walk", "panic: index out of range"},
		{"random", "together", "alone"},
		{"fails at times", "walk", "no"},
	} {
		for _, c := range Checks() {
			if c.Name != tt.check {
				continue
			}
			if err := c.Do(t.Context(), mutant(tt.mutant), options()); err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("%s: check %s says %v, want %q", tt.mutant, tt.check, err, tt.says)
			}
		}
	}
	quiet := options()
	quiet.Next = func(r *rand.Rand) Input {
		in := draw(r)
		in.Token = decode.Token(r.IntN(1 << 30))
		return in
	}
	if f := failures(t, mutant(""), quiet); f["walk"] == nil {
		t.Error("a monitor that never flags passed")
	}
	for _, m := range []monitors.Monitor{{}, {Name: "x"}, {Name: "x", Doc: "x"}, {Name: "x", Doc: "x", Start: func() monitors.Watcher { return nil }}} {
		if f := failures(t, m, options()); f["describe"] == nil {
			t.Errorf("%+v passed", m)
		}
	}
	if Checks()[0].Do(t.Context(), mutant(""), Options{}) == nil {
		t.Error("options without Next passed")
	}
}
