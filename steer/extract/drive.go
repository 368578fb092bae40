package extract

import (
	"context"
	"fmt"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/runtime/engine"
	"github.com/trimtab/trimtab/steer"
)

// job is one text to run under one plan. Rows before from are fed without
// outputs; then see is called with every chunk of the others, in order.
type job struct {
	tokens []decode.Token
	prompt int // Feed.PromptLen
	plan   *steer.Plan
	from   int
	see    func(seq engine.Sequence, row, rows int) error
}

// driver runs jobs many at a time.
type driver struct {
	e       engine.Engine
	capture []steer.Site
	output  engine.Output
	lanes   int // most sequences at once
	rows    int // most rows with outputs in one Forward, so that memory is bounded
}

// Bounds on one Forward: memory for the outputs, and sequences.
const (
	outputFloats = 32 << 20 // 128 MiB
	maxLanes     = 32
)

func newDriver(e engine.Engine, capture []steer.Site, output engine.Output) *driver {
	info := e.Info()
	per := len(capture) * info.Width
	if output != engine.OutputNone {
		per += info.Vocab
	}
	return &driver{e: e, capture: capture, output: output,
		lanes: max(1, min(info.MaxSequences, maxLanes)), rows: max(1, outputFloats/max(1, per))}
}

// run does all jobs. done, if not nil, hears how many are finished.
func (d *driver) run(ctx context.Context, jobs []job, done func(n int)) error {
	info := d.e.Info()
	for at := 0; at < len(jobs); {
		n, rows := 0, 0
		for at+n < len(jobs) && n < d.lanes {
			rows += len(jobs[at+n].tokens)
			if n > 0 && rows > min(info.MaxBatch, info.Cells) {
				break
			}
			n++
		}
		if err := d.group(ctx, jobs[at:at+n]); err != nil {
			return err
		}
		if at += n; done != nil {
			done(at)
		}
	}
	return nil
}

func (d *driver) group(ctx context.Context, jobs []job) (err error) {
	seqs := make([]engine.Sequence, len(jobs))
	defer func() {
		for _, s := range seqs {
			if s != nil {
				s.Close()
			}
		}
	}()
	for i := range jobs {
		if seqs[i], err = d.e.NewSequence(ctx, engine.Origin{}); err != nil {
			return err
		}
		if err := seqs[i].Steer(jobs[i].plan); err != nil {
			return err
		}
	}
	if err := d.heads(ctx, jobs, seqs); err != nil {
		return err
	}
	for chunk := max(1, d.rows/len(jobs)); ; {
		if more, err := d.chunk(ctx, jobs, seqs, chunk); err != nil || !more {
			return err
		}
	}
}

// heads feeds what no output is wanted of.
func (d *driver) heads(ctx context.Context, jobs []job, seqs []engine.Sequence) error {
	var feeds []engine.Feed
	for i, j := range jobs {
		if j.from > 0 {
			feeds = append(feeds, engine.Feed{Seq: seqs[i], Tokens: j.tokens[:j.from], Output: engine.OutputNone, PromptLen: j.prompt})
		}
	}
	if len(feeds) == 0 {
		return nil
	}
	return d.e.Forward(ctx, feeds)
}

// chunk feeds the next rows of every job and shows what came out; more is false
// when all were done before.
func (d *driver) chunk(ctx context.Context, jobs []job, seqs []engine.Sequence, rows int) (more bool, err error) {
	var feeds []engine.Feed
	var fed []int
	for i, j := range jobs {
		at := seqs[i].Len()
		if n := min(rows, len(j.tokens)-at); n > 0 {
			feeds = append(feeds, engine.Feed{Seq: seqs[i], Tokens: j.tokens[at : at+n], Output: d.output, Capture: d.capture, PromptLen: j.prompt})
			fed = append(fed, i)
		}
	}
	if len(feeds) == 0 {
		return false, nil
	}
	if err := d.e.Forward(ctx, feeds); err != nil {
		return false, err
	}
	for f, i := range fed {
		n := len(feeds[f].Tokens)
		if err := jobs[i].see(seqs[i], seqs[i].Len()-n, n); err != nil {
			return false, fmt.Errorf("text %d of the batch: %w", i, err)
		}
	}
	return true, nil
}
