package runtime

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/internal/trace"
	"github.com/trimtab/trimtab/monitors"
	"github.com/trimtab/trimtab/steer"
)

// Parts are the real parts of a session for [Rerun]. What is nil or missing is
// played as it was recorded.
type Parts struct {
	// Processor and Sampler draw the tokens again, from the recorded rows:
	// both are needed, and a trace with TraceOptions.Rows. Where that has
	// TraceOptions.Params as well they are made from these.
	Processor decode.Processor
	Sampler   decode.Sampler
	// Monitors observe again. Those of the trace that are not among them
	// speak as recorded.
	Monitors []monitors.Monitor
	// Policy decides again.
	Policy Policy
	// Plan is the one that the session began with, for a Policy that looks at it.
	Plan *steer.Plan
}

// Rerun runs a recorded session again, the whole step loop of it without the
// engine: budgets, bans, guidance, forced tokens, hold-back, stop strings. It
// returns a [Difference] for the first record that comes out otherwise, bit for
// bit, and nil when there is none. A trace that breaks off is run as far as it
// goes. What a [Shadow] measured is left to [Replay], which runs only the
// judgements again: shadow, monitors, policy.
func Rerun(ctx context.Context, r io.Reader, parts Parts) error {
	t, err := trace.Read(r)
	cut := errors.Is(err, trace.ErrBreaksOff)
	if err != nil && !cut {
		return fmt.Errorf("replay: %w", err)
	}
	p, err := newPlayback(t)
	if err != nil {
		return err
	}
	a := &again{trace: t, p: p, parts: parts, cut: cut || t.End.Finish == string(FinishError) || t.End.Finish == string(FinishCancelled)}
	if err := a.sampling(); err != nil {
		return err
	}
	cfg, err := a.config()
	if err != nil {
		return err
	}
	s, err := NewSession(ctx, cfg)
	if err != nil {
		return fmt.Errorf("replay: %w", err)
	}
	result, err := s.Run(ctx)
	if err := errors.Join(s.Close(), ctx.Err()); err != nil {
		return fmt.Errorf("replay: %w", err)
	}
	return a.ended(result, err, cut)
}

// again compares a session with a trace.
type again struct {
	trace *trace.Trace
	p     *playback
	parts Parts
	cut   bool // the session did not end by itself
	diff  *Difference
}

// sampling makes processor and sampler from the parameters in the trace. DRY
// looks at the model's vocabulary, which is not there.
func (a *again) sampling() error {
	start := &a.trace.Start
	norow := func(s trace.Step) bool { return len(s.Raw) == 0 }
	if a.parts.Sampler != nil || a.parts.Processor != nil || start.Params == nil || slices.ContainsFunc(a.trace.Steps, norow) {
		return nil
	}
	var p decode.Params
	d := json.NewDecoder(bytes.NewReader(start.Params))
	d.DisallowUnknownFields()
	if err := d.Decode(&p); err != nil {
		return fmt.Errorf("replay: sampling parameters: %w", err)
	}
	if p.DRYMultiplier != 0 {
		return nil
	}
	chain, err := p.Chain(decode.Vocab{Size: start.Vocab, End: tokensOf(start.Ends)}, tokensOf(start.Prompt))
	if err != nil {
		return fmt.Errorf("replay: sampling parameters: %w", err)
	}
	a.parts.Processor, a.parts.Sampler = chain, p.Sampler()
	return nil
}

// config is that of the trace, with the played parts.
func (a *again) config() (Config, error) {
	c := &a.trace.Start.Config
	if (a.parts.Processor != nil) != (a.parts.Sampler != nil) {
		return Config{}, errors.New("replay: processor and sampler are needed together")
	}
	cfg := Config{
		Engine: a.p, Prompt: tokensOf(a.trace.Start.Prompt), Plan: a.parts.Plan, Seed: c.Seed, MaxTokens: c.MaxTokens, Stop: c.Stop, HoldBack: c.HoldBack,
		MaxRewinds: orNone(c.MaxRewinds), MaxDiscarded: orNone(c.MaxDiscarded), MaxGuide: orNone(c.MaxGuide),
		Processor: a.parts.Processor, Sampler: a.parts.Sampler, Policy: a.parts.Policy, Listener: Listener{Step: a.step},
	}
	if c.FailOpen {
		cfg.OnFault = FailOpen
	}
	if cfg.Sampler == nil {
		cfg.Processor, cfg.Sampler = playedProcessor{a.p}, &playedSampler{a.p, -1}
	}
	if cfg.Policy == nil && c.Policy != "" {
		cfg.Policy = playedPolicy{a.p}
	}
	for _, name := range c.Monitors {
		cfg.Monitors = append(cfg.Monitors, a.monitor(name))
	}
	for _, m := range a.parts.Monitors {
		if !slices.Contains(c.Monitors, m.Name) {
			return cfg, fmt.Errorf("replay: the trace has no monitor %q, only %q", m.Name, c.Monitors)
		}
	}
	if want, err := parsePlan(c.Plan); err != nil || a.parts.Plan != nil && want != a.parts.Plan.Fingerprint() {
		return cfg, cmp.Or(err, fmt.Errorf("replay: the session began with plan %q, not %x", c.Plan, a.parts.Plan.Fingerprint()))
	}
	return cfg, nil
}

// orNone writes a budget as a Config does.
func orNone(n int) int {
	if n <= 0 {
		return -1
	}
	return n
}

func (a *again) monitor(name string) monitors.Monitor {
	for _, m := range a.parts.Monitors {
		if m.Name == name && !a.stalled(name) {
			return m
		}
	}
	return monitors.Monitor{Name: name, Start: func() monitors.Watcher { return playedWatcher{a.p, name} }}
}

// stalled reports whether a monitor was left behind: it could hold up this run
// as well.
func (a *again) stalled(name string) bool {
	return slices.ContainsFunc(a.trace.Steps, func(s trace.Step) bool {
		f := fault(&s, "monitor", name)
		return f != nil && f.stalled
	})
}

// step compares what was done with the record.
func (a *again) step(_ context.Context, e *Event) error {
	rec, err := a.p.now()
	if err != nil {
		return err
	}
	want, got := *rec, stepOf(e)
	want.Raw, want.Logits, want.Activations = nil, nil, nil // given, or compared below
	want.Logprob, want.Shadow = nil, nil                    // of the engine's rows
	if a.parts.Policy == nil {
		want.Action.Plan, got.Action.Plan = "", ""
	}
	a.diff = a.compare(&want, &got)
	if a.diff == nil && a.parts.Sampler != nil && len(rec.Raw) > 0 {
		a.diff = a.compareRows(rec, e)
	}
	if a.diff != nil {
		return a.diff
	}
	a.p.at++
	return nil
}

func (a *again) compareRows(rec *trace.Step, e *Event) *Difference {
	row := rec.Logits
	if row == nil {
		row = rec.Raw
	}
	if len(row) != len(e.Logits) {
		return a.difference("logits", fmt.Sprint(len(row)), fmt.Sprint(len(e.Logits)))
	}
	for i := range e.Logits {
		if math.Float32bits(row[i]) != math.Float32bits(e.Logits[i]) {
			return a.difference(fmt.Sprintf("logit %d", i), fmt.Sprint(row[i]), fmt.Sprint(e.Logits[i]))
		}
	}
	return nil
}

// compare finds the first field that differs.
func (a *again) compare(want, got any) *Difference {
	w, errW := fields(want)
	g, errG := fields(got)
	if err := errors.Join(errW, errG); err != nil {
		return a.difference("record", "", err.Error())
	}
	for _, name := range slices.Sorted(maps.Keys(merge(w, g))) {
		if !bytes.Equal(w[name], g[name]) {
			return a.difference(name, said(w[name]), said(g[name]))
		}
	}
	return nil
}

func fields(record any) (map[string]json.RawMessage, error) {
	b, err := json.Marshal(record)
	if err != nil {
		return nil, err
	}
	var m map[string]json.RawMessage
	return m, json.Unmarshal(b, &m)
}

func merge(a, b map[string]json.RawMessage) map[string]bool {
	names := map[string]bool{}
	for name := range a {
		names[name] = true
	}
	for name := range b {
		names[name] = true
	}
	return names
}

// said is a field for people: absent ones are empty.
func said(b []byte) string {
	if b == nil {
		return "nothing"
	}
	return string(b)
}

func (a *again) difference(what, recorded, replayed string) *Difference {
	d := &Difference{Record: a.p.at, What: what, Recorded: recorded, Replayed: replayed}
	if rec, err := a.p.now(); err == nil {
		d.Index = rec.Index
	}
	return d
}

// ended compares the end. A trace that breaks off has none.
func (a *again) ended(r *Result, err error, cut bool) error {
	if a.diff != nil {
		return a.diff
	}
	want, got := a.trace.End, endOf(r)
	switch left := len(a.trace.Steps) - a.p.at; {
	case left > 0 && errors.As(err, new(*Difference)):
		return err
	case left > 0:
		return a.difference("session", "a step", fmt.Sprintf("the end: %s %v", got.Finish, err))
	case cut:
		return nil
	case a.cut:
		want.Finish, got.Finish = "", "" // somebody or something outside ended it
	case err != nil:
		return a.difference("session", "the end: "+want.Finish, err.Error())
	}
	want.Tokens, got.Tokens = cmpNil(want.Tokens), cmpNil(got.Tokens)
	if d := a.compare(&want, &got); d != nil {
		return d
	}
	return nil
}

// cmpNil makes an empty list none.
func cmpNil(list []int32) []int32 {
	if len(list) == 0 {
		return nil
	}
	return list
}
