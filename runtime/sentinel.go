package runtime

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/runtime/engine"
	"github.com/trimtab/trimtab/steer"
)

// Sentinel proves that an engine does what a plan says, before anyone relies on
// it. A few rows are fed without the plan, with its first site, with its first
// two and so on, on sequences that are closed again; at every site the residual
// must have moved as the operations there say, and not at all in rows that the
// plan excludes: to a hundredth of the edit and a two-thousandth of the row's
// size, which is what the rows of one batch may round differently. Otherwise the error wraps [engine.ErrUnsupported] and names the site,
// the operation and both distances. What it guards against is an architecture,
// a build or a back end that takes a plan and ignores it, or applies it
// elsewhere.
//
// It remembers the outcome by the plan's fingerprint, so a plan costs once:
// at most 4 rows for each site and 4 kinds of rows (prompt, answer, and those
// that windows and phases name), 3 rows for each site for a plan without
// conditions. Sites that the engine cannot show are taken on trust.
//
// Plans that a policy brings are not proved: prove those that it may bring
// beforehand. The zero value is ready. A Sentinel serves one engine and one
// driver of it; it must not be used while a Forward runs.
type Sentinel struct {
	seen map[uint64]error
}

// maxSeen bounds what a Sentinel remembers: then it begins anew.
const maxSeen = 1024

// Prove feeds the first of the given tokens, which must be at least one, and
// returns why the plan does not act as written, or nil. Errors of the engine
// and of the context are returned as they are, and not remembered.
func (s *Sentinel) Prove(ctx context.Context, e engine.Engine, p *steer.Plan, tokens []decode.Token) error {
	return s.prove(ctx, &probe{eng: e, plan: p, open: e.NewSequence}, tokens, maxProbeRows)
}

// prove runs a probe with at most so many rows at a time.
func (s *Sentinel) prove(ctx context.Context, p *probe, tokens []decode.Token, room int) (err error) {
	f := p.plan.Fingerprint()
	if s == nil || f == 0 || len(tokens) == 0 {
		return nil
	}
	if err, ok := s.seen[f]; ok {
		return err
	}
	defer recovered(&err)
	p.prepare(tokens, room)
	err = p.run(ctx)
	if err != nil && !errors.Is(err, errUnproved) {
		return fmt.Errorf("probe of the plan: %w", err)
	}
	if s.seen == nil || len(s.seen) >= maxSeen {
		s.seen = map[uint64]error{}
	}
	s.seen[f] = err
	return err
}

// prove has the plan of a submission proved before its session begins, with
// the cells and the sequence that are reserved for it.
func (d *driver) prove(st *Stream) error {
	if d.opt.NoSentinel {
		return nil
	}
	ctx, cancel := context.WithCancel(d.hard)
	defer cancel()
	defer context.AfterFunc(st.ctx, cancel)()
	p := &probe{eng: d.eng, plan: st.cfg.Plan, open: d.openSequence, evict: func() bool { return d.evict(nil) }}
	err := d.sentinel.prove(ctx, p, st.cfg.Prompt, min(st.rows, maxProbeRows))
	if cause := d.cancelCause(st); err != nil && cause != nil {
		return cause
	}
	return err
}

// errUnproved marks what the engine does not do.
var errUnproved = errors.New("the plan does not act as written")

// unproved says what the engine did instead.
func unproved(ops []string, site steer.Site, at steer.Row, asked, moved, off float64) error {
	what := fmt.Sprintf("plan: %s at %s", joined(ops), site)
	why := fmt.Sprintf("in a row at offset %d (%s) the engine moved the residual by %.3g where the plan says %.3g, and is %.3g away from it",
		at.Offset, at.Phase.Names(), moved, asked, off)
	return fmt.Errorf("%w: %w", engine.Unsupported(what, why), errUnproved)
}

func joined(ops []string) string {
	slices.Sort(ops)
	out := ""
	for _, op := range slices.Compact(ops) {
		if out != "" {
			out += ", "
		}
		out += op
	}
	return out
}
