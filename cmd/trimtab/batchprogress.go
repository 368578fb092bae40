package main

import (
	"fmt"
	"time"

	"github.com/trimtab/trimtab/cmd/trimtab/internal/batch"
)

// batchProgress shows how far a batch is, on a terminal only.
type batchProgress struct {
	app   *app
	line  *statusLine
	size  int64
	start time.Time
}

func newBatchProgress(a *app, size int64) *batchProgress {
	return &batchProgress{app: a, line: newStatusLine(a), size: size, start: a.now()}
}

func (b *batchProgress) report(p batch.Progress) { b.line.set(b.text(p), false) }

// text is the line of the moment, such as "[##--]  50%  12 answered, 1 faulty, 81.3 tokens/s".
func (b *batchProgress) text(p batch.Progress) string {
	s := fmt.Sprintf("%d answered", p.Answered)
	if p.Skipped > 0 {
		s += fmt.Sprintf(", %d skipped", p.Skipped)
	}
	if p.Failed > 0 {
		s += fmt.Sprintf(", %d faulty", p.Failed)
	}
	if p.Tokens > 0 {
		s += ", " + speed(p.Tokens, b.app.now().Sub(b.start).Seconds())
	}
	if b.size > 0 {
		s = bar(float64(p.Offset)/float64(b.size), 20) + "  " + s
	}
	return s
}

// end removes the bar. The counts stay on a terminal or when asked for.
func (b *batchProgress) end(p batch.Progress, stats bool) {
	b.line.clear()
	if stats || b.app.errTTY {
		fmt.Fprintln(b.app.err, b.text(p))
	}
}
