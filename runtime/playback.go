package runtime

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/internal/trace"
	"github.com/trimtab/trimtab/monitors"
	"github.com/trimtab/trimtab/runtime/engine"
	"github.com/trimtab/trimtab/steer"
)

// playback plays the parts of a session as a trace recorded them: the engine,
// and the processor, the sampler, the monitors and the policy where the real
// ones are not at hand.
type playback struct {
	steps  []trace.Step
	at     int // the step being made
	info   engine.Info
	row    decode.Logits // where the trace holds none
	pieces map[decode.Token][]byte
	ends   map[decode.Token]bool
	empty  *steer.Plan
}

// errPlayed ends a session behind the last recorded step.
var errPlayed = errors.New("the recorded session goes no further")

// maxPlayedVocab bounds the rows that are made up for a trace.
const maxPlayedVocab = 1 << 22

func newPlayback(t *trace.Trace) (*playback, error) {
	p := &playback{steps: t.Steps, pieces: map[decode.Token][]byte{}, ends: map[decode.Token]bool{}}
	vocab, width := t.Start.Vocab, t.Start.Width
	if vocab < 1 || vocab > maxPlayedVocab || width < 0 || width > maxPlayedVocab {
		return nil, fmt.Errorf("replay: vocabulary of %d and width %d, must be 1 to %d and at most as much", vocab, width, maxPlayedVocab)
	}
	for i := range t.Steps {
		s := &t.Steps[i]
		if len(s.Raw) > 0 && len(s.Raw) != vocab {
			return nil, fmt.Errorf("replay: step record %d has %d logits, the vocabulary %d", i, len(s.Raw), vocab)
		}
		p.pieces[decode.Token(s.Token)] = s.Piece
		p.ends[decode.Token(s.Token)] = s.End
	}
	p.row = make(decode.Logits, vocab)
	yes := func(steer.Site) error { return nil }
	p.info = engine.Info{
		Name: t.Start.Model, Hash: t.Start.Hash, Tokenizer: p, Vocab: vocab, Width: width,
		Layers: math.MaxInt32, Context: math.MaxInt32, Cells: math.MaxInt32, MaxBatch: math.MaxInt32, MaxSequences: 1,
		Caps: engine.Caps{Rewind: true, Capture: yes, Edit: func(steer.Site, steer.Op) error { return nil }},
	}
	var err error
	p.empty, err = steer.NewPlan()
	return p, err
}

// now is the step being made.
func (p *playback) now() (*trace.Step, error) {
	if p.at >= len(p.steps) {
		return nil, errPlayed
	}
	return &p.steps[p.at], nil
}

// The engine: rows are counted, and shown as they were recorded.

func (p *playback) Info() *engine.Info { return &p.info }
func (p *playback) NewSequence(context.Context, engine.Origin) (engine.Sequence, error) {
	return &played{p: p}, nil
}
func (p *playback) Save(engine.Sequence) ([]byte, error) {
	return nil, engine.Unsupported("save", "a trace is played")
}
func (p *playback) Close() error { return nil }

func (p *playback) Forward(_ context.Context, feeds []engine.Feed) error {
	for i := range feeds {
		feeds[i].Seq.(*played).rows += len(feeds[i].Tokens)
	}
	_, err := p.now()
	return err
}

type played struct {
	p    *playback
	rows int
}

func (s *played) Len() int { return s.rows }

func (s *played) Logits() decode.Logits {
	if rec, err := s.p.now(); err == nil && len(rec.Raw) > 0 {
		return decode.Logits(rec.Raw)
	}
	return s.p.row
}

func (s *played) Activation(site steer.Site) ([]float32, error) {
	rec, err := s.p.now()
	if err != nil {
		return nil, err
	}
	return rec.Activations[site.String()], nil // nil where there is none: then nobody recorded asks
}

func (s *played) Steer(*steer.Plan) error { return nil }
func (s *played) Rewind(n int) error      { s.rows -= n; return nil }
func (s *played) Close() error            { return nil }

// The tokenizer: it knows the tokens of the trace.

func (p *playback) Encode(string, engine.EncodeOptions) ([]decode.Token, error) {
	return nil, engine.Unsupported("encode", "a trace is played")
}
func (p *playback) AppendPiece(dst []byte, t decode.Token) []byte { return append(dst, p.pieces[t]...) }
func (p *playback) Text(t decode.Token) string                    { return string(p.pieces[t]) }
func (p *playback) Kind(t decode.Token) engine.TokenKind {
	if p.ends[t] {
		return engine.KindEnd
	}
	return 0
}
func (p *playback) Specials() engine.Specials {
	return engine.Specials{BOS: -1, EOS: -1, EOT: -1, Newline: -1, Pad: -1, Mask: -1}
}

// fault is what a part said when it failed, or nil.
func fault(s *trace.Step, part, name string) *playedFault {
	for _, f := range s.Faults {
		if f.Part == part && f.Name == name {
			return &playedFault{f.Error, f.Stalled}
		}
	}
	return nil
}

// playedFault fails in the words of then.
type playedFault struct {
	words   string
	stalled bool
}

func (f *playedFault) Error() string        { return f.words }
func (f *playedFault) Is(target error) bool { return f.stalled && target == ErrStalled }

// playedProcessor gives the rows as they were, and forbids what was forbidden.
type playedProcessor struct{ p *playback }

func (q playedProcessor) Process(_ context.Context, l decode.Logits) error {
	rec, err := q.p.now()
	if err != nil {
		return err
	}
	if len(rec.Logits) == len(l) {
		copy(l, rec.Logits)
	}
	if impossible(rec, "the forced token") {
		for i := range l {
			l[i] = float32(math.Inf(-1))
		}
	}
	return nil
}
func (playedProcessor) Accept(decode.Token) error { return nil }
func (playedProcessor) Rewind(int) error          { return nil }

// impossible reports whether what the policy had asked for could not be had.
func impossible(s *trace.Step, what string) bool {
	err := fault(s, "policy", "")
	return err != nil && strings.HasPrefix(err.Error(), errImpossible.Error()+": ") && strings.Contains(err.Error(), what)
}

// playedSampler draws the recorded tokens. It has state, unlike others: it serves
// one session.
type playedSampler struct {
	p     *playback
	stuck int // the step at which it said that nothing is left; -1 for none
}

func (q *playedSampler) Sample(decode.Logits, *rand.Rand) (decode.Token, error) {
	rec, err := q.p.now()
	if err != nil {
		return 0, err
	}
	if (rec.Yielded || impossible(rec, "nothing is left")) && q.stuck != q.p.at {
		q.stuck = q.p.at
		return 0, decode.ErrNoToken
	}
	return decode.Token(rec.Token), nil
}

// playedWatcher says what the monitor said.
type playedWatcher struct {
	p    *playback
	name string
}

func (w playedWatcher) Observe(context.Context, *monitors.Observation) (v monitors.Verdict, err error) {
	rec, err := w.p.now()
	if err != nil {
		return v, err
	}
	for _, r := range rec.Verdicts {
		if r.Monitor == w.name {
			return monitors.Verdict{Score: r.Score, Flag: r.Flag, Onset: r.Onset, Note: r.Note}, nil
		}
	}
	if err := fault(rec, "monitor", w.name); err != nil {
		return v, err
	}
	return v, errors.New("nothing was recorded")
}

func (w playedWatcher) Rewind(n int) error {
	rec, err := w.p.now()
	if err != nil {
		return err
	}
	f := fault(rec, "monitor", w.name)
	if f == nil {
		return nil
	}
	f.words = strings.TrimPrefix(f.words, fmt.Sprintf("rewind %d: ", n))
	return f
}

// playedPolicy decides as it was decided. Plans are recorded by fingerprint
// only: an empty one stands for each.
type playedPolicy struct{ p *playback }

func (q playedPolicy) Decide(context.Context, *Step) (Action, error) {
	rec, err := q.p.now()
	if err != nil {
		return Action{}, err
	}
	if err := fault(rec, "policy", ""); err != nil {
		return Action{}, err
	}
	a := Action{Rewind: rec.Action.Rewind, Guide: tokensOf(rec.Action.Guide), GuideSpan: rec.Action.GuideSpan, Ban: tokensOf(rec.Action.Ban),
		Yield: rec.Action.Yield, Force: tokensOf(rec.Action.Force), Final: rec.Action.Final, Release: rec.Action.Release, Reason: rec.Action.Reason}
	for k, name := range kindNames {
		if name == rec.Action.Kind {
			a.Kind = Kind(k)
		}
	}
	if rec.Action.Plan != "" {
		a.Plan = q.p.empty
	}
	return a, nil
}

func tokensOf(list []int32) []decode.Token {
	if len(list) == 0 {
		return nil
	}
	out := make([]decode.Token, len(list))
	for i, t := range list {
		out[i] = decode.Token(t)
	}
	return out
}
