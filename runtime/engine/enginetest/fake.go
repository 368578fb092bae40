package enginetest

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/trimtab/trimtab/runtime/engine"
	"github.com/trimtab/trimtab/steer"
)

// FakeConfig describes a [Fake]. The zero value is a small model that can do
// everything; every size of 0 means its default.
type FakeConfig struct {
	Name         string // default "fake"
	Arch         string // default "fake"
	Seed         uint64 // other seeds make other weights
	Width        int    // default 16
	Layers       int    // default 4
	Context      int    // rows in one sequence, default 4096
	Cells        int    // rows in all sequences, default 16384
	MaxSequences int    // default 64
	MaxBatch     int    // default 512
	// Vocab must not be smaller than the tokenizer's; entries beyond that
	// are unused tokens. Default: the tokenizer's size.
	Vocab int
	// Words are tokens of several bytes, numbered from [FirstWord]. They may
	// cut UTF-8 characters apart.
	Words    []string
	Template string // default [Template]
	// NoTokenizer leaves Info.Tokenizer nil.
	NoTokenizer bool

	// Each of these switches one capability off.
	NoEmbeddings, NoRewind, NoFork, NoSave, NoInterrupt, NoCapture, NoEdit bool
	// CanCapture and CanEdit, if set, may refuse further sites and operations.
	CanCapture func(steer.Site) error
	CanEdit    func(steer.Site, steer.Op) error

	Script Script // nil: pseudo-random text
	Hooks  Hooks
	// Record keeps an entry of every feed for [Fake.Log]. It allocates.
	Record bool
}

// Fake is an [engine.Engine] without a model, for tests of what drives an
// engine. Its numbers come from a small recurrent network with fixed weights:
// logits and activations depend on every row of the sequence, plans edit the
// residual rows, and what a plan changed lives on in the rows that follow, as
// in a real cache. Equal rows under equal plans give equal bits, in whatever
// batches they are fed. A decode step allocates nothing once buffers have grown.
//
// Like every engine it has one driver; unlike most it notices a second one and
// returns an error. The counters may be read at any time.
type Fake struct {
	cfg   FakeConfig
	info  engine.Info
	net   network
	cells cellPool

	seqs   map[int]*fakeSequence
	nextID int
	epoch  uint64 // counts Forwards; outputs of an older one are gone
	closed bool

	busy     atomic.Bool
	forwards atomic.Int64
	rows     atomic.Int64
	open     atomic.Int64
	used     atomic.Int64
	log      []FeedRecord
}

var _ engine.Engine = (*Fake)(nil)

// NewFake makes a Fake. Negative sizes and a Vocab smaller than the tokenizer
// are errors.
func NewFake(cfg FakeConfig) (*Fake, error) {
	cfg.fill()
	tok := newBytesTokenizer(cfg.Words, cfg.Vocab)
	if cfg.Vocab == 0 {
		cfg.Vocab = tok.size()
	}
	var faults []error
	for _, n := range []struct {
		name  string
		value int
	}{{"width", cfg.Width}, {"layers", cfg.Layers}, {"context", cfg.Context}, {"cells", cfg.Cells},
		{"sequences", cfg.MaxSequences}, {"batch", cfg.MaxBatch}} {
		if n.value < 1 {
			faults = append(faults, fmt.Errorf("fake engine: %s is %d, must be at least 1", n.name, n.value))
		}
	}
	if cfg.Vocab < tok.size() {
		faults = append(faults, fmt.Errorf("fake engine: vocabulary of %d is smaller than the tokenizer's %d", cfg.Vocab, tok.size()))
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	f := &Fake{
		cfg:   cfg,
		net:   newNetwork(cfg, tok),
		cells: newCellPool(cfg.Cells, cfg.Layers*cfg.Width),
		seqs:  map[int]*fakeSequence{},
	}
	f.info = f.describe(tok)
	return f, nil
}

func (c *FakeConfig) fill() {
	set := func(p *int, v int) {
		if *p == 0 {
			*p = v
		}
	}
	set(&c.Width, 16)
	set(&c.Layers, 4)
	set(&c.Context, 4096)
	set(&c.Cells, 16384)
	set(&c.MaxSequences, 64)
	set(&c.MaxBatch, 512)
	if c.Name == "" {
		c.Name = "fake"
	}
	if c.Arch == "" {
		c.Arch = "fake"
	}
	if c.Template == "" {
		c.Template = Template
	}
}

func (f *Fake) describe(tok *bytesTokenizer) engine.Info {
	c := &f.cfg
	info := engine.Info{
		Name: c.Name, Arch: c.Arch, Backend: "enginetest.Fake", Hash: fmt.Sprintf("%016x", f.net.fingerprint()),
		Vocab: c.Vocab, Width: c.Width, Layers: c.Layers, Context: c.Context, Cells: c.Cells,
		MaxSequences: c.MaxSequences, MaxBatch: c.MaxBatch, Template: c.Template, Tokenizer: tok,
		Caps: engine.Caps{
			Embeddings: !c.NoEmbeddings, Rewind: !c.NoRewind, Fork: !c.NoFork,
			Save: !c.NoSave, Interrupt: !c.NoInterrupt,
		},
	}
	if c.NoTokenizer {
		info.Tokenizer = nil
	}
	if !c.NoCapture {
		info.Caps.Capture = f.canCapture
	}
	if !c.NoEdit {
		info.Caps.Edit = f.canEdit
	}
	return info
}

func (f *Fake) checkSite(what string, s steer.Site) error {
	if s.Layer < 0 || s.Layer >= f.cfg.Layers {
		return engine.Unsupported(what+" at "+s.String(), fmt.Sprintf("the model has layers 0 to %d", f.cfg.Layers-1))
	}
	if s.Point != steer.ResidPost {
		return engine.Unsupported(what+" at "+s.String(), "only the residual after a block is known")
	}
	return nil
}

func (f *Fake) canCapture(s steer.Site) error {
	if err := f.checkSite("capture", s); err != nil || f.cfg.CanCapture == nil {
		return err
	}
	return f.cfg.CanCapture(s)
}

func (f *Fake) canEdit(s steer.Site, op steer.Op) error {
	if !op.Known() {
		return engine.Unsupported(op.String(), "unknown operation")
	}
	if err := f.checkSite("edit", s); err != nil || f.cfg.CanEdit == nil {
		return err
	}
	return f.cfg.CanEdit(s, op)
}

// Info describes the made-up model.
func (f *Fake) Info() *engine.Info { return &f.info }

// Close frees every sequence.
func (f *Fake) Close() error {
	if err := f.enter("close engine"); err != nil && !errors.Is(err, engine.ErrClosed) {
		return err
	} else if err != nil {
		return nil
	}
	defer f.leave()
	for _, s := range f.seqs {
		s.release()
	}
	f.closed = true
	return nil
}

// Forwards counts the calls of Forward that computed something, also those
// that were interrupted or failed by a hook.
func (f *Fake) Forwards() int { return int(f.forwards.Load()) }

// RowsFed counts the rows of all Forwards that succeeded.
func (f *Fake) RowsFed() int { return int(f.rows.Load()) }

// OpenSequences counts the sequences that are open now.
func (f *Fake) OpenSequences() int { return int(f.open.Load()) }

// UsedCells counts the rows cached now; a row shared by forks counts once.
func (f *Fake) UsedCells() int { return int(f.used.Load()) }

// Embedding returns the input row of a token: fed as an embedding, it does
// exactly what the token does.
func (f *Fake) Embedding(t int32) []float32 {
	row := make([]float32, f.cfg.Width)
	f.net.embed(row, t)
	return row
}

// enter claims the engine for one call, so that a second driver is noticed.
func (f *Fake) enter(op string) error {
	if !f.busy.CompareAndSwap(false, true) {
		return fmt.Errorf("%s: the engine is driven by two goroutines at once", op)
	}
	if f.closed {
		f.busy.Store(false)
		return fmt.Errorf("%s: engine: %w", op, engine.ErrClosed)
	}
	return nil
}

func (f *Fake) leave() {
	f.used.Store(int64(f.cells.used))
	f.busy.Store(false)
}
