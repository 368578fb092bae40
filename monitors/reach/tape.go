package reach

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/internal/gguf"
	"github.com/trimtab/trimtab/monitors"
	"github.com/trimtab/trimtab/runtime/engine"
	"github.com/trimtab/trimtab/steer"
)

// DefaultRecordBytes is the memory that a [Recorder] may fill when nobody says
// another figure: 2,000 texts of 128 tokens at two sites of 896 take 1.7 GiB,
// at one site of a small model a hundredth.
const DefaultRecordBytes = 2 << 30

// Recorder notes the state of the model before each token, while it decodes.
// It is safe for concurrent use by many sessions; each gets a [Tape].
type Recorder struct {
	sites []steer.Site
	width int
	left  atomic.Int64 // bytes
	data  Data
}

// NewRecorder checks that the model can show the sites. Sites for [DefaultSites]
// when none are given. maxBytes bounds what all tapes hold together, 0 means
// [DefaultRecordBytes]; a session that would exceed it gets an error, as a fault
// of its monitor.
func NewRecorder(info *engine.Info, sites []steer.Site, maxBytes int64) (*Recorder, error) {
	if len(sites) == 0 {
		sites = DefaultSites(info.Layers)
	}
	if maxBytes <= 0 {
		maxBytes = DefaultRecordBytes
	}
	r := &Recorder{sites: slices.Clone(sites), width: info.Width}
	r.left.Store(maxBytes)
	r.data = Data{Sites: r.sites, Width: info.Width, ModelHash: info.Hash, Arch: info.Arch, TemplateHash: steer.HashTemplate(info.Template)}
	if err := r.data.Check(false); err != nil {
		return nil, err
	}
	for _, s := range sites {
		if s.Layer >= info.Layers {
			return nil, fmt.Errorf("reach: site %s: the model has layers 0 to %d", s, info.Layers-1)
		}
		if err := info.Caps.CanCapture(s); err != nil {
			return nil, fmt.Errorf("reach: site %s: %w", s, err)
		}
	}
	return r, nil
}

// DefaultSites are where the state is read unless others are asked for: the
// block at 65 % of the depth, and the last one, whose edit touches the next
// token's logits only.
func DefaultSites(layers int) []steer.Site {
	mid, last := int(0.65*float64(layers-1)+0.5), layers-1
	if mid == last {
		return []steer.Site{{Layer: last}}
	}
	return []steer.Site{{Layer: mid}, {Layer: last}}
}

// Data is empty data for the trajectories of this recorder.
func (r *Recorder) Data() *Data { return r.data.with(nil) }

// Tape is a fresh tape for one text of the prompt that group names.
func (r *Recorder) Tape(group string) *Tape { return &Tape{r: r, group: group} }

// Tape records one text. Its monitor serves one session.
type Tape struct {
	r        *Recorder
	group    string
	used     atomic.Bool
	tokens   []decode.Token
	features []float32
}

// Monitor is what goes into the session's Config. It scores every candidate 0.
func (t *Tape) Monitor() monitors.Monitor {
	return monitors.Monitor{
		Name: "reach-recorder", Doc: "records the state of the model before each token", Sites: t.r.sites,
		Start: func() monitors.Watcher {
			if t.used.Swap(true) {
				return spent{}
			}
			return (*reel)(t)
		},
	}
}

// Take is what was recorded, without margins. Call it after the session ended.
func (t *Tape) Take() (Trajectory, error) {
	if len(t.tokens) == 0 {
		return Trajectory{}, errors.New("reach: the tape is empty: no session ran with its monitor")
	}
	return Trajectory{Group: t.group, Tokens: t.tokens, Features: t.features}, nil
}

// reel is the watcher of a tape.
type reel Tape

// Observe copies the state of the row and the candidate.
func (w *reel) Observe(_ context.Context, o *monitors.Observation) (monitors.Verdict, error) {
	bytes := int64(w.r.width*len(w.r.sites))*4 + 8
	if w.r.left.Add(-bytes) < 0 {
		return monitors.Verdict{}, errors.New("the recorder's memory is full: record fewer texts or allow more bytes")
	}
	for _, s := range w.r.sites {
		row, err := o.Activation(s)
		if err != nil {
			return monitors.Verdict{}, err
		}
		if len(row) != w.r.width {
			return monitors.Verdict{}, fmt.Errorf("state at %s has %d values, want %d", s, len(row), w.r.width)
		}
		w.features = append(w.features, row...)
		halve(w.features[len(w.features)-len(row):])
	}
	w.tokens = append(w.tokens, o.Token)
	return monitors.Verdict{}, nil
}

// halve rounds to half precision, the form in which files keep features: what
// is fitted now is then fitted again from a file, to the bit. Rows with values
// that half precision cannot hold stay as they are.
func halve(row []float32) {
	for _, x := range row {
		if !(x >= -maxHalf && x <= maxHalf) {
			return
		}
	}
	for i, x := range row {
		row[i] = gguf.F32FromF16(gguf.F16FromF32(x))
	}
}

// maxHalf is the largest value of half precision.
const maxHalf = 65504

// Rewind drops the last n rows.
func (w *reel) Rewind(n int) error {
	if n < 0 || n > len(w.tokens) {
		return fmt.Errorf("rewind by %d of %d tokens", n, len(w.tokens))
	}
	width := w.r.width * len(w.r.sites)
	w.tokens = w.tokens[:len(w.tokens)-n]
	w.features = w.features[:len(w.tokens)*width]
	w.r.left.Add(int64(n) * (int64(width)*4 + 8))
	return nil
}

// spent is the watcher of a tape that another session uses already.
type spent struct{}

func (spent) Observe(context.Context, *monitors.Observation) (monitors.Verdict, error) {
	return monitors.Verdict{}, errors.New("this tape belongs to another session")
}

func (spent) Rewind(int) error { return nil }
