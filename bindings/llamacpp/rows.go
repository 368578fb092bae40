package llamacpp

import (
	"unsafe"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/runtime/engine"
	"github.com/trimtab/trimtab/steer"
)

// job is one feed on its way through a Forward.
type job struct {
	seq   *Sequence
	feed  *engine.Feed
	rows  int
	start int // sequence length before the feed

	forced bool // every row must be an output: the last block drops the others
	first  int  // index among the current call's outputs of the first wanted row
	wanted int  // wanted rows in the current call
}

// wants reports whether row r of the feed shall have logits.
func (j *job) wants(r int) bool {
	switch j.feed.Output {
	case engine.OutputAll:
		return true
	case engine.OutputNone:
		return false
	}
	return r == j.rows-1
}

// place is what a plan's conditions may ask about row r.
func (j *job) place(r int) steer.Row {
	row := steer.Row{Offset: j.start + r - j.feed.PromptLen, Token: -1, Phase: j.feed.Phase}
	if j.feed.Embeddings == nil {
		row.Token = int32(j.feed.Tokens[r])
	}
	return row
}

// rowBuffer holds the rows of one llama_decode call in llama.cpp's layout, and
// where each came from. It is allocated once.
type rowBuffer struct {
	batch  batch
	token  []decode.Token
	pos    []int32
	count  []int32 // all 1: each row belongs to one sequence
	seq    []int32
	seqPtr []unsafe.Pointer // seqPtr[i] = &seq[i]
	out    []int8
	embd   []float32 // grown on first use

	job, row []int32 // origin of each row: index into the jobs, row of that feed
	n, outs  int
	embedded bool // the rows are embeddings
}

func (b *rowBuffer) init(size int) {
	b.token, b.pos, b.count, b.seq = make([]decode.Token, size), make([]int32, size), make([]int32, size), make([]int32, size)
	b.seqPtr, b.out = make([]unsafe.Pointer, size), make([]int8, size)
	b.job, b.row = make([]int32, size), make([]int32, size)
	for i := range size {
		b.count[i] = 1
		b.seqPtr[i] = unsafe.Pointer(&b.seq[i])
	}
	b.batch = batch{
		pos: unsafe.Pointer(&b.pos[0]), nSeqID: unsafe.Pointer(&b.count[0]),
		seqID: unsafe.Pointer(&b.seqPtr[0]), logits: unsafe.Pointer(&b.out[0]),
	}
}

func (b *rowBuffer) reset(embedded bool) {
	b.n, b.outs, b.embedded = 0, 0, embedded
	b.batch.token, b.batch.embd = unsafe.Pointer(&b.token[0]), nil
	if embedded {
		b.batch.token = nil
	}
}

func (b *rowBuffer) full() bool { return b.n == len(b.token) }

// add appends row r of job j, which has index ji.
func (b *rowBuffer) add(ji int, j *job, r, width int) {
	i := b.n
	b.n++
	b.pos[i], b.seq[i] = int32(j.start+r), int32(j.seq.id)
	b.job[i], b.row[i] = int32(ji), int32(r)
	if b.embedded {
		b.setEmbedding(i, j.feed.Embeddings[r*width:(r+1)*width])
	} else {
		b.token[i] = j.feed.Tokens[r]
	}
	b.out[i] = 0
	want := j.wants(r)
	if !want && !j.forced {
		return
	}
	b.out[i] = 1
	if want {
		if j.wanted == 0 {
			j.first = b.outs
		}
		j.wanted++
	}
	b.outs++
}

func (b *rowBuffer) setEmbedding(i int, x []float32) {
	if b.embd == nil {
		b.embd = make([]float32, len(b.token)*len(x))
	}
	b.batch.embd = unsafe.Pointer(&b.embd[0])
	copy(b.embd[i*len(x):], x)
}
