package extract

import (
	"context"
	"fmt"
	"slices"

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
	// groupRows: in a shared cache every row attends, masked, to all texts of
	// its group. On nano-chat 256 rows took a fifth less time than 512, and 128
	// as much as 256.
	groupRows = 256
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
			if n > 0 && rows > min(info.MaxBatch, info.Cells, groupRows) {
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
	of := leaders(jobs, d.e.Info().Caps.Fork)
	for i := range jobs {
		if of[i] == i {
			if err := d.open(ctx, seqs, i, engine.Origin{}, jobs[i].plan); err != nil {
				return err
			}
		}
	}
	if err := d.heads(ctx, jobs, seqs); err != nil {
		return err
	}
	for i := range jobs {
		if of[i] != i {
			if err := d.open(ctx, seqs, i, engine.Origin{Fork: seqs[of[i]], Len: jobs[i].from}, jobs[i].plan); err != nil {
				return err
			}
		}
	}
	for chunk := max(1, d.rows/len(jobs)); ; {
		if more, err := d.chunk(ctx, jobs, seqs, chunk); err != nil || !more {
			return err
		}
	}
}

func (d *driver) open(ctx context.Context, seqs []engine.Sequence, i int, from engine.Origin, plan *steer.Plan) (err error) {
	if seqs[i], err = d.e.NewSequence(ctx, from); err != nil {
		return err
	}
	return seqs[i].Steer(plan)
}

// leaders names for every job the one whose head it can share: the first that
// begins with the same rows and whose plan leaves them alone, as its own does.
// A job without such a one leads itself.
func leaders(jobs []job, forks bool) []int {
	of := make([]int, len(jobs))
	for i := range jobs {
		of[i] = i
		for k := 0; k < i && of[i] == i && forks && jobs[i].late(); k++ {
			if of[k] == k && jobs[k].late() && jobs[k].prompt == jobs[i].prompt && slices.Equal(jobs[k].tokens[:jobs[k].from], jobs[i].tokens[:jobs[i].from]) {
				of[i] = k
			}
		}
	}
	return of
}

// late reports that there is a head and that the plan does not touch it.
func (j *job) late() bool {
	for i := range j.plan.Len() {
		if from := j.plan.At(i).When.From; from == nil || *from < j.from-j.prompt {
			return false
		}
	}
	return j.from > 0
}

// heads feeds what no output is wanted of, to those that are open.
func (d *driver) heads(ctx context.Context, jobs []job, seqs []engine.Sequence) error {
	var feeds []engine.Feed
	for i, j := range jobs {
		if j.from > 0 && seqs[i] != nil {
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
