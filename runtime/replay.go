package runtime

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/internal/trace"
	"github.com/trimtab/trimtab/monitors"
	"github.com/trimtab/trimtab/runtime/engine"
	"github.com/trimtab/trimtab/steer"
)

// Difference is the first place where a replay does not do what was recorded.
type Difference struct {
	Record   int    // of the step among all steps of the trace, from 0
	Index    int    // visible tokens before the candidate
	What     string // "monitor entropy", "policy"
	Recorded string
	Replayed string
}

func (d *Difference) Error() string {
	return fmt.Sprintf("replay: step record %d (index %d): %s: recorded %s, replayed %s", d.Record, d.Index, d.What, d.Recorded, d.Replayed)
}

// Replay runs the decisions of a trace again, without the engine, and returns
// a [Difference] for the first that comes out otherwise, nil when there is
// none. Each of the monitors sees what it saw then; one that reads logits or
// activations needs a trace with [TraceOptions.Rows]. A monitor of the trace
// that is not among the given ones speaks with its recorded verdicts. A nil
// policy is not asked. A trace that breaks off is replayed as far as it goes.
func Replay(ctx context.Context, r io.Reader, list []monitors.Monitor, p Policy) error {
	t, err := trace.Read(r)
	if err != nil && !errors.Is(err, trace.ErrBreaksOff) {
		return fmt.Errorf("replay: %w", err)
	}
	rp := &replay{start: &t.Start, policy: p}
	if err := rp.watch(list); err != nil {
		return err
	}
	for i := range t.Steps {
		rp.record, rp.rec = i, &t.Steps[i]
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("replay: %w", err)
		}
		if err := rp.step(ctx); err != nil {
			return err
		}
	}
	return nil
}

type replay struct {
	start   *trace.Start
	watches []watch
	policy  Policy
	record  int
	rec     *trace.Step

	tokens             []decode.Token
	plan               uint64
	rewinds, discarded int

	governor *governor // nil without a shadow
	same     bool      // the candidate comes from the row of the last one
	guided   bool      // guidance stands right before the candidate
}

func (r *replay) watch(list []monitors.Monitor) error {
	for _, m := range list {
		if !slices.Contains(r.start.Config.Monitors, m.Name) {
			return fmt.Errorf("replay: the trace has no monitor %q, only %q", m.Name, r.start.Config.Monitors)
		}
		w, err := startWatcher(m)
		if err != nil {
			return fmt.Errorf("replay: monitor %q: %w", m.Name, err)
		}
		r.watches = append(r.watches, watch{m.Name, m.Sites, w, r.activation})
	}
	plan, err := parsePlan(r.start.Config.Plan)
	if r.plan = plan; err != nil {
		return err
	}
	r.governor, err = governorOf(r.start.Config.Shadow)
	return err
}

func (r *replay) step(ctx context.Context) error {
	if r.rec.Index != len(r.tokens) {
		return fmt.Errorf("replay: step record %d has index %d, %d tokens were committed", r.record, r.rec.Index, len(r.tokens))
	}
	if err := r.measure(); err != nil {
		return err
	}
	if err := r.observe(ctx); err != nil {
		return err
	}
	if err := r.decide(ctx); err != nil {
		return err
	}
	return r.apply()
}

// observe runs the monitors on the recorded candidate.
func (r *replay) observe(ctx context.Context) error {
	o := &monitors.Observation{Step: r.rec.Index, Token: decode.Token(r.rec.Token), Piece: r.rec.Piece, Raw: decode.Logits(r.rec.Raw), Logits: decode.Logits(r.rec.Logits)}
	if o.Logits == nil {
		o.Logits = o.Raw
	}
	for i := range r.watches {
		w := &r.watches[i]
		if r.stalled(w.name) {
			w.watcher = nil // it could hold up the replay as well
		}
		if w.watcher == nil {
			continue
		}
		o.Activation = w.activation
		v, err := w.observe(ctx, o)
		if err := r.compare(w, v, err); err != nil {
			return err
		}
	}
	return nil
}

// stalled reports whether a monitor was left behind in this step.
func (r *replay) stalled(name string) bool {
	return slices.ContainsFunc(r.rec.Faults, func(f trace.Fault) bool {
		return f.Part == "monitor" && f.Name == name && f.Stalled
	})
}

// compare holds a verdict, or a fault, against the recorded one.
func (r *replay) compare(w *watch, v monitors.Verdict, err error) error {
	recorded, replayed := "nothing", fmt.Sprintf("%+v", verdictsOf([]Verdict{{w.name, v}})[0])
	if err != nil {
		replayed = "fault: " + firstLine(err.Error())
	}
	for _, rec := range r.rec.Verdicts {
		if rec.Monitor == w.name {
			recorded = fmt.Sprintf("%+v", rec)
		}
	}
	for _, f := range r.rec.Faults {
		if f.Part == "monitor" && f.Name == w.name && recorded == "nothing" {
			recorded, w.watcher = "fault: "+f.Error, nil
		}
	}
	if recorded == replayed {
		return nil
	}
	return &Difference{r.record, r.rec.Index, "monitor " + w.name, recorded, replayed}
}

func (r *replay) decide(ctx context.Context) error {
	if r.policy == nil {
		return nil
	}
	for _, f := range r.rec.Faults {
		if f.Part == "policy" {
			r.policy = nil // it failed here and was not asked again
			return nil
		}
	}
	a, err := r.ask(ctx)
	got := actionOf(&a)
	if err == nil && reflect.DeepEqual(got, r.rec.Action) {
		return nil
	}
	replayed := fmt.Sprintf("%+v", got)
	if err != nil {
		replayed = "fault: " + firstLine(err.Error())
	}
	return &Difference{r.record, r.rec.Index, "policy", fmt.Sprintf("%+v", r.rec.Action), replayed}
}

func (r *replay) ask(ctx context.Context) (a Action, err error) {
	defer recovered(&err)
	c := &r.start.Config
	s := &Step{
		Index: r.rec.Index, Token: decode.Token(r.rec.Token), Piece: r.rec.Piece, End: r.rec.End, Tokens: r.tokens,
		Forced: r.rec.Forced, Yielded: r.rec.Yielded,
		Rewindable: r.rec.Rewindable, RewindsLeft: c.MaxRewinds - r.rewinds, DiscardLeft: c.MaxDiscarded - r.discarded, Plan: r.plan,
	}
	for _, v := range r.rec.Verdicts {
		s.Verdicts = append(s.Verdicts, Verdict{v.Monitor, monitors.Verdict{Score: v.Score, Flag: v.Flag, Onset: v.Onset, Note: v.Note}})
	}
	return r.policy.Decide(ctx, s)
}

// apply follows the recorded action.
func (r *replay) apply() error {
	a := &r.rec.Action
	if a.Plan != "" && r.rec.Exhausted == "" {
		plan, err := parsePlan(a.Plan)
		if err != nil {
			return err
		}
		r.plan = plan
	}
	if a.Kind == Commit.String() && !r.rec.End {
		r.tokens = append(r.tokens, decode.Token(r.rec.Token))
	}
	r.govern()
	if a.Kind != Rewind.String() || r.rec.Exhausted != "" {
		return nil
	}
	n := r.rec.Rewound
	if n < 0 || n > len(r.tokens) {
		return fmt.Errorf("replay: step record %d rewinds %d of %d tokens", r.record, n, len(r.tokens))
	}
	r.tokens = r.tokens[:len(r.tokens)-n]
	r.rewinds++
	r.discarded += n + 1
	return r.unwatch(n + 1)
}

func (r *replay) unwatch(n int) error {
	for i := range r.watches {
		w := &r.watches[i]
		if w.watcher == nil {
			continue
		}
		recorded, replayed := "a rewind", "a rewind"
		if err := w.rewind(n); err != nil {
			replayed = fmt.Sprintf("fault: rewind %d: %s", n, firstLine(err.Error()))
		}
		if f := fault(r.rec, "monitor", w.name); f != nil {
			recorded, w.watcher = "fault: "+f.words, nil
		}
		if recorded != replayed {
			return &Difference{r.record, r.rec.Index, "monitor " + w.name, recorded, replayed}
		}
	}
	return nil
}

func (r *replay) activation(site steer.Site) ([]float32, error) {
	if a, ok := r.rec.Activations[site.String()]; ok {
		return a, nil
	}
	return nil, engine.Unsupported("activation at "+site.String(), "the trace does not hold it, see TraceOptions.Rows")
}

func parsePlan(s string) (uint64, error) {
	if s == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(s, 16, 64)
	if err != nil {
		return 0, fmt.Errorf("replay: plan fingerprint %q: %w", s, err)
	}
	return n, nil
}
