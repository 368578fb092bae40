package perceiver

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/trimtab/trimtab/decode"
	"github.com/trimtab/trimtab/runtime/engine"
)

// desk holds the texts that lie open on the engine. A watcher does not own its
// place: one that was not looked at for long gives it up, and its text is read
// again from what the watcher remembers. So a watcher that nobody closes takes
// nothing from the others.
type desk struct {
	e      engine.Engine
	prompt []decode.Token
	most   int // texts
	room   int // rows of one text

	lock   chan struct{} // whoever has put something in drives the engine
	root   engine.Sequence
	places []*place
	clock  uint64
	closed bool
}

// place is one text as the engine has it: the prompt, then pieces.
type place struct {
	seq    engine.Sequence
	owner  *watcher
	pieces []uint64 // serial numbers
	rows   []int    // rows after each piece
	used   uint64
}

// piece is what is fed in one go. The serial number is never used again by the
// same watcher for other tokens.
type piece struct {
	serial uint64
	tokens []decode.Token
}

var errShut = errors.New("the perceiver was closed")

// open reads the prompt, for others to copy.
func (d *desk) open(ctx context.Context) error {
	seq, err := d.e.NewSequence(ctx, engine.Origin{})
	if err != nil {
		return err
	}
	if err := d.feed(ctx, seq, d.prompt, engine.OutputNone); err != nil {
		return errors.Join(err, seq.Close())
	}
	d.root = seq
	if !d.e.Info().Caps.Fork { // nobody can copy it: it becomes the first place
		d.places, d.root = append(d.places, &place{seq: seq}), nil
	}
	return nil
}

// take waits for the engine.
func (d *desk) take(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case d.lock <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	if d.closed {
		<-d.lock
		return errShut
	}
	return nil
}

func (d *desk) leave() { <-d.lock }

func (d *desk) close() error {
	d.lock <- struct{}{}
	defer d.leave()
	if d.closed {
		return nil
	}
	d.closed = true
	var faults []error
	for _, p := range d.places {
		faults = append(faults, p.seq.Close())
	}
	if d.root != nil {
		faults = append(faults, d.root.Close())
	}
	d.places = nil
	return errors.Join(faults...)
}

func (d *desk) feed(ctx context.Context, seq engine.Sequence, tokens []decode.Token, out engine.Output) error {
	if len(tokens) == 0 {
		return nil
	}
	return d.e.Forward(ctx, []engine.Feed{{Seq: seq, Tokens: tokens, Output: out, PromptLen: len(d.prompt)}})
}

// lay brings a watcher's text to a place, feeding only what is not there yet.
// Pieces are always fed one by one, so that a text that is read again gives the
// same batches.
func (d *desk) lay(ctx context.Context, w *watcher, text []piece) (*place, error) {
	p, err := d.place(ctx, w)
	if err != nil {
		return nil, err
	}
	same := 0
	for same < min(len(text), len(p.pieces)) && text[same].serial == p.pieces[same] {
		same++
	}
	if err := d.cut(p, same); err != nil {
		return nil, err
	}
	for _, piece := range text[same:] {
		if err := d.grow(ctx, p, piece.tokens, engine.OutputNone); err != nil {
			return nil, err
		}
		p.pieces, p.rows = append(p.pieces, piece.serial), append(p.rows, p.seq.Len())
	}
	return p, nil
}

// cut rewinds a place to its first pieces. A place that cannot be rewound is
// given up.
func (d *desk) cut(p *place, pieces int) error {
	rows := len(d.prompt)
	if pieces > 0 {
		rows = p.rows[pieces-1]
	}
	if n := p.seq.Len() - rows; n != 0 {
		if err := p.seq.Rewind(n); err != nil {
			return errors.Join(fmt.Errorf("rewind: %w", err), d.drop(p))
		}
	}
	p.pieces, p.rows = p.pieces[:pieces], p.rows[:pieces]
	return nil
}

// grow feeds tokens to a place. When the engine's cells are taken, other texts
// make way.
func (d *desk) grow(ctx context.Context, p *place, tokens []decode.Token, out engine.Output) error {
	for range len(d.places) + 1 {
		err := d.feed(ctx, p.seq, tokens, out)
		if err == nil || !errors.Is(err, engine.ErrContextFull) {
			return err
		}
		other := d.oldest(p)
		if other == nil {
			return err
		}
		if err := d.drop(other); err != nil {
			return err
		}
	}
	return engine.ErrContextFull
}

// place finds the watcher's place, or makes one, or takes the one that was used
// least recently.
func (d *desk) place(ctx context.Context, w *watcher) (*place, error) {
	d.clock++
	for _, p := range d.places {
		if p.owner == w {
			p.used = d.clock
			return p, nil
		}
	}
	p, err := d.free(ctx)
	if err != nil {
		return nil, err
	}
	p.owner, p.used = w, d.clock
	return p, nil
}

func (d *desk) free(ctx context.Context) (*place, error) {
	if old := d.oldest(nil); old != nil && (old.owner == nil || len(d.places) >= d.most) {
		return old, d.cut(old, 0)
	}
	p, err := d.newPlace(ctx)
	if old := d.oldest(nil); old != nil && (errors.Is(err, engine.ErrNoSequence) || errors.Is(err, engine.ErrContextFull)) {
		return old, d.cut(old, 0)
	}
	return p, err
}

func (d *desk) newPlace(ctx context.Context) (*place, error) {
	from := engine.Origin{}
	if d.root != nil {
		from.Fork, from.Len = d.root, len(d.prompt)
	}
	seq, err := d.e.NewSequence(ctx, from)
	if err != nil {
		return nil, err
	}
	if d.root == nil {
		if err := d.feed(ctx, seq, d.prompt, engine.OutputNone); err != nil {
			return nil, errors.Join(err, seq.Close())
		}
	}
	p := &place{seq: seq}
	d.places = append(d.places, p)
	return p, nil
}

// oldest is the place that was used least recently, apart from one.
func (d *desk) oldest(but *place) *place {
	var old *place
	for _, p := range d.places {
		if p != but && (old == nil || p.used < old.used) {
			old = p
		}
	}
	return old
}

func (d *desk) drop(p *place) error {
	if i := slices.Index(d.places, p); i >= 0 {
		d.places = slices.Delete(d.places, i, i+1)
	}
	return p.seq.Close()
}
