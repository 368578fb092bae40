package runtime

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/internal/trace"
	"github.com/trimtab/trimtab/runtime/engine"
	"github.com/trimtab/trimtab/steer"
)

// TraceOptions say what a trace holds beside the decisions.
type TraceOptions struct {
	// Rows adds the logits of every step, and the activations at the sites of
	// the monitors, so that [Replay] can run monitors again. A step then takes
	// 5 to 11 bytes per vocabulary entry.
	Rows bool
	// Params, where the session's processor and sampler come from them, lets
	// [Rerun] draw the tokens again from the rows. Nil for others.
	Params *decode.Params
}

// NewTracer returns a listener that writes one session to w, a JSON record per
// line. A trace holds no times, so equal runs write equal bytes. It holds the
// prompt and the text: mind who may read it. A write that fails ends the session.
func NewTracer(w io.Writer, o TraceOptions) Listener {
	t := &tracer{w: w, rows: o.Rows, params: o.Params}
	return Listener{Start: t.start, Step: t.step, End: t.end}
}

type tracer struct {
	w      io.Writer
	rows   bool
	params *decode.Params
	sites  []steer.Site
}

func (t *tracer) start(_ context.Context, b *Begin) error {
	c := b.Config
	r := trace.Start{Kind: "start", Version: trace.Version, Model: b.Info.Name, Hash: b.Info.Hash, Vocab: b.Info.Vocab, Width: b.Info.Width, Prompt: ints(c.Prompt)}
	r.Config = trace.Config{
		Seed: c.Seed, Sampler: typeOf(c.Sampler), Processor: typeOf(c.Processor), Policy: typeOf(c.Policy),
		MaxTokens: c.MaxTokens, Stop: c.Stop, HoldBack: c.HoldBack,
		MaxRewinds: c.MaxRewinds, MaxDiscarded: c.MaxDiscarded, MaxGuide: c.MaxGuide, FailOpen: c.OnFault == FailOpen,
	}
	if f := c.Plan.Fingerprint(); f != 0 {
		r.Config.Plan = hex(f)
	}
	r.Config.PlanFrom, r.Config.Shadow = c.PlanFrom, limitsOf(c.Shadow)
	for _, m := range c.Monitors {
		r.Config.Monitors = append(r.Config.Monitors, m.Name)
		for _, site := range m.Sites {
			if !slices.Contains(t.sites, site) {
				t.sites = append(t.sites, site)
			}
		}
	}
	if err := t.addParams(&r, b.Info); err != nil {
		return err
	}
	return trace.Write(t.w, r)
}

func (t *tracer) addParams(r *trace.Start, info *engine.Info) (err error) {
	if t.params == nil || !t.rows {
		return nil
	}
	if r.Params, err = json.Marshal(t.params); err != nil {
		return fmt.Errorf("trace: sampling parameters: %w", err)
	}
	for i := range info.Vocab {
		if info.Tokenizer != nil && info.Tokenizer.Kind(decode.Token(i))&engine.KindEnd != 0 {
			r.Ends = append(r.Ends, int32(i))
		}
	}
	return nil
}

func (t *tracer) step(_ context.Context, e *Event) error {
	r := stepOf(e)
	if t.rows {
		if err := t.addRows(&r, e); err != nil {
			return err
		}
	}
	return trace.Write(t.w, r)
}

// stepOf is the record of an event, without its rows.
func stepOf(e *Event) trace.Step {
	r := trace.Step{
		Kind: "step", Index: e.Index, Token: int32(e.Token), Piece: e.Piece, End: e.End, Forced: e.Forced, Yielded: e.Yielded, Rewindable: e.Rewindable,
		Verdicts: verdictsOf(e.Verdicts), Action: actionOf(&e.Action), Rewound: e.Rewound, Exhausted: e.Exhausted, Text: string(e.Text),
	}
	if e.Logprob != nil {
		r.Logprob = &e.Logprob.Logprob
	}
	r.Shadow = readingOf(e.Shadow)
	for _, err := range e.Faults {
		r.Faults = append(r.Faults, faultOf(err))
	}
	return r
}

func (t *tracer) addRows(r *trace.Step, e *Event) error {
	r.Raw = trace.Floats(e.Raw)
	if !slices.Equal(e.Raw, e.Logits) {
		r.Logits = trace.Floats(e.Logits)
	}
	for _, site := range t.sites {
		a, err := e.Activation(site)
		if err != nil {
			return err
		}
		if r.Activations == nil {
			r.Activations = map[string]trace.Floats{}
		}
		r.Activations[site.String()] = a
	}
	return nil
}

func (t *tracer) end(_ context.Context, r *Result) error {
	return trace.Write(t.w, endOf(r))
}

func endOf(r *Result) trace.End {
	return trace.End{
		Kind: "end", Finish: string(r.FinishReason), StopString: r.StopString, Text: r.Text, Tokens: ints(r.Tokens),
		Rewinds: r.Rewinds, Discarded: r.Discarded,
	}
}

func verdictsOf(list []Verdict) (out []trace.Verdict) {
	for _, v := range list {
		out = append(out, trace.Verdict{Monitor: v.Monitor, Score: v.Score, Flag: v.Flag, Onset: v.Onset, Note: v.Note})
	}
	return out
}

func actionOf(a *Action) trace.Action {
	r := trace.Action{
		Kind: a.Kind.String(), Rewind: a.Rewind, Guide: ints(a.Guide), GuideSpan: a.GuideSpan, Ban: ints(a.Ban),
		Yield: a.Yield, Force: ints(a.Force), Final: a.Final, Release: a.Release, Reason: a.Reason,
	}
	if a.Plan != nil {
		r.Plan = hex(a.Plan.Fingerprint())
	}
	return r
}

func faultOf(err error) trace.Fault {
	var f *FaultError
	if errors.As(err, &f) {
		return trace.Fault{Part: f.Part, Name: f.Name, Error: firstLine(f.Err.Error()), Stalled: errors.Is(f.Err, ErrStalled)}
	}
	return trace.Fault{Error: firstLine(err.Error())}
}

// firstLine leaves out the stack of a panic, which differs from run to run.
func firstLine(s string) string {
	for i := range len(s) {
		if s[i] == '\n' {
			return s[:i]
		}
	}
	return s
}

func typeOf(v any) string {
	if v == nil {
		return ""
	}
	return fmt.Sprintf("%T", v)
}

func hex(n uint64) string { return strconv.FormatUint(n, 16) }

func ints(tokens []decode.Token) []int32 {
	if len(tokens) == 0 {
		return nil
	}
	out := make([]int32, len(tokens))
	for i, t := range tokens {
		out[i] = int32(t)
	}
	return out
}
