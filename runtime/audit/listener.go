package audit

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/monitors"
	"github.com/trimtab/trimtab/runtime"
	"github.com/trimtab/trimtab/runtime/engine"
)

// New returns a listener that writes the log of one session to w, record by
// record as it happens. The id may be empty. A write that fails ends the session:
// what cannot be logged is not done.
func New(w io.Writer, id string) runtime.Listener {
	l := &listener{w: w, id: id}
	return runtime.Listener{Start: l.start, Step: l.step, End: l.end}
}

// listener follows one session. It keeps the text, so that it can say what a
// rewind took away.
type listener struct {
	w     io.Writer
	id    string
	tok   engine.Tokenizer
	open  []pending
	n     int // interventions
	told  int // faults
	raw   []byte
	marks []mark // beside the visible tokens
}

type mark struct {
	token decode.Token
	start int // in raw
}

// pending is an intervention without an outcome.
type pending struct {
	n, past int // past: the place of the rejected candidate
	final   bool
}

func (l *listener) start(_ context.Context, b *runtime.Begin) error {
	c := b.Config
	l.tok = b.Info.Tokenizer
	h := Header{
		Kind: "audit", Version: Version, ID: l.id, Model: b.Info.Name, Hash: b.Info.Hash, Seed: c.Seed,
		Prompt: hex(hashTokens(c.Prompt)), Policy: typeOf(c.Policy), HoldBack: c.HoldBack, OnFault: mode(c.OnFault),
	}
	for _, m := range c.Monitors {
		h.Monitors = append(h.Monitors, Monitor{m.Name, hashMonitor(m)})
	}
	var err error
	if h.Config, err = hashConfig(c, h.Monitors); err != nil {
		return err
	}
	return write(l.w, h)
}

func mode(m runtime.FaultMode) Mode {
	if m == runtime.FailOpen {
		return Open
	}
	return Closed
}

func hashTokens(tokens []decode.Token) uint64 {
	b := make([]byte, 0, 4*len(tokens))
	for _, t := range tokens {
		b = binary.LittleEndian.AppendUint32(b, uint32(t))
	}
	return xxhash.Sum64(b)
}

func hashMonitor(m monitors.Monitor) string {
	d := xxhash.New()
	fmt.Fprintf(d, "%q %q", m.Name, m.Doc)
	for _, site := range m.Sites {
		fmt.Fprintf(d, " %s", site)
	}
	return hex(d.Sum64())
}

// hashConfig hashes what of the Config is data, in a fixed form.
func hashConfig(c *runtime.Config, list []Monitor) (string, error) {
	form := []any{
		typeOf(c.Sampler), typeOf(c.Processor), typeOf(c.Policy), hex(c.Plan.Fingerprint()), c.MaxTokens, c.Stop, c.End,
		c.HoldBack, list, c.OnFault, c.ObserveTimeout, c.MaxRewinds, c.MaxDiscarded, c.MaxGuide,
	}
	if c.PlanFrom != 0 {
		form = append(form, "plan from", c.PlanFrom)
	}
	if s := c.Shadow; s != nil {
		form = append(form, "shadow", limit(s.Token), limit(s.Mean), limit(s.Total), s.Window, s.Tries)
	}
	b, err := json.Marshal(form)
	if err != nil {
		return "", fmt.Errorf("audit: config: %w", err)
	}
	return hex(xxhash.Sum64(b)), nil
}

// limit spells a bound that may be infinite, for which JSON has no word.
func limit(x *float64) string {
	if x == nil {
		return ""
	}
	return strconv.FormatFloat(*x, 'g', -1, 64)
}

func typeOf(v any) string {
	if v == nil {
		return ""
	}
	return fmt.Sprintf("%T", v)
}

func hex(n uint64) string { return strconv.FormatUint(n, 16) }

func (l *listener) step(_ context.Context, e *runtime.Event) error {
	for _, err := range e.Faults {
		if err := l.fault(e.Index, err, Open); err != nil {
			return err
		}
	}
	if e.Action.Kind == runtime.Commit {
		return l.commit(e)
	}
	return l.intervene(e)
}

func (l *listener) fault(step int, err error, m Mode) error {
	r := Fault{Kind: "fault", Step: step, Mode: m, Error: firstLine(err.Error())}
	var f *runtime.FaultError
	if errors.As(err, &f) {
		r.Part, r.Name, r.Error = f.Part, f.Name, firstLine(f.Err.Error())
	}
	l.told++
	return write(l.w, r)
}

// firstLine leaves out the stack of a panic, which differs from run to run.
func firstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return s
}

func (l *listener) commit(e *runtime.Event) error {
	a := &e.Action
	if a.Reason != "" || a.Plan != nil || len(a.Guide)+len(a.Force)+len(a.Ban) > 0 {
		m := Mark{Kind: "mark", Step: e.Index, Scores: scores(e), Reason: a.Reason, Guide: l.text(a.Guide), GuideSpan: a.GuideSpan,
			Force: l.text(a.Force), Final: a.Final, Ban: ints(a.Ban), Plan: plan(a)}
		if err := write(l.w, m); err != nil {
			return err
		}
	}
	if !e.End {
		l.marks = append(l.marks, mark{e.Token, len(l.raw)})
		l.raw = append(l.raw, e.Piece...)
	}
	how := Safe
	for i := range e.Verdicts {
		if e.Verdicts[i].Flag {
			how = Accepted
		}
	}
	return l.settle(func(p pending) Result {
		if p.final || e.Index < p.past && !e.End {
			return ""
		}
		return how
	})
}

// settle writes the outcome of those pending interventions that have one.
func (l *listener) settle(outcome func(pending) Result) error {
	rest := l.open[:0]
	for _, p := range l.open {
		how := outcome(p)
		if how == "" {
			rest = append(rest, p)
			continue
		}
		if err := write(l.w, Outcome{"outcome", p.n, len(l.marks), how}); err != nil {
			return err
		}
	}
	l.open = rest
	return nil
}

func (l *listener) intervene(e *runtime.Event) error {
	if err := l.settle(func(pending) Result { return Violated }); err != nil {
		return err
	}
	a := &e.Action
	l.n++
	kept := len(l.marks) - e.Rewound
	if a.Kind == runtime.Stop && !a.Release || e.Exhausted != "" {
		kept = len(l.marks) - e.Rewindable // what is held back never leaves
	}
	r := Intervention{
		Kind: "intervention", N: l.n, Step: e.Index, Scores: scores(e), Action: a.Kind.String(), Reason: a.Reason,
		Wanted: a.Rewind, Rewound: e.Rewound, Point: kept, Discarded: l.discarded(e, kept),
		Guide: l.text(a.Guide), GuideSpan: a.GuideSpan, Force: l.text(a.Force), Final: a.Final, Ban: ints(a.Ban), Plan: plan(a), Exhausted: e.Exhausted,
	}
	if err := write(l.w, r); err != nil {
		return err
	}
	l.cut(kept)
	l.open = append(l.open, pending{l.n, e.Index, a.Final})
	switch {
	case e.Exhausted != "":
		return l.settle(func(pending) Result { return Exhausted })
	case a.Kind == runtime.Stop:
		return l.settle(func(pending) Result { return Stopped })
	}
	return nil
}

func (l *listener) discarded(e *runtime.Event, kept int) Text {
	var t Text
	for _, m := range l.marks[kept:] {
		t.Tokens = append(t.Tokens, int32(m.token))
	}
	t.Tokens = append(t.Tokens, int32(e.Token))
	t.Text = append(append(t.Text, l.raw[l.length(kept):]...), e.Piece...)
	return t
}

// length is how many bytes the first k tokens have.
func (l *listener) length(k int) int {
	if k < len(l.marks) {
		return l.marks[k].start
	}
	return len(l.raw)
}

func (l *listener) cut(k int) {
	l.raw = l.raw[:l.length(k)]
	l.marks = l.marks[:k]
}

func (l *listener) end(_ context.Context, r *runtime.Result) error {
	for _, err := range r.Faults[min(l.told, len(r.Faults)):] {
		if err := l.fault(len(l.marks), err, Closed); err != nil {
			return err
		}
	}
	err := l.settle(func(p pending) Result {
		switch {
		case r.FinishReason == runtime.FinishCancelled || r.FinishReason == runtime.FinishError:
			return Cut
		case p.final:
			return Refused
		}
		return Safe
	})
	if err != nil {
		return err
	}
	return write(l.w, Footer{
		Kind: "end", Finish: string(r.FinishReason), Tokens: len(r.Tokens), Text: hex(xxhash.Sum64String(r.Text)),
		Interventions: l.n, Rewinds: r.Rewinds, Discarded: r.Discarded, Faults: l.told,
	})
}

func scores(e *runtime.Event) (out []Score) {
	for i := range e.Verdicts {
		v := &e.Verdicts[i]
		out = append(out, Score{v.Monitor, v.Score, v.Flag, v.Onset, v.Note})
	}
	return out
}

// text is what tokens say, nil for none.
func (l *listener) text(tokens []decode.Token) *Text {
	if len(tokens) == 0 {
		return nil
	}
	t := &Text{Tokens: ints(tokens)}
	if l.tok != nil {
		for _, x := range tokens {
			t.Text = l.tok.AppendPiece(t.Text, x)
		}
	}
	return t
}

func ints(tokens []decode.Token) (out []int32) {
	for _, t := range tokens {
		out = append(out, int32(t))
	}
	return out
}

func plan(a *runtime.Action) string {
	if a.Plan == nil {
		return ""
	}
	return hex(a.Plan.Fingerprint())
}
