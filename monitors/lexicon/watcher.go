package lexicon

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sort"
	"unicode/utf8"

	"github.com/trimtab/trimtab/monitors"
)

// maxSaid bounds the text that one watcher follows, in bytes; longer than any
// context holds.
const maxSaid = 1 << 30

// maxNamed is how much of an entry a note shows, in bytes.
const maxNamed = 200

// mark is the state behind one token.
type mark struct {
	text, folded runLength
	node         int32 // of the automaton
	from         int32 // the token in which the open character began
	open         [utf8.UTFMax - 1]byte
	opened       uint8 // bytes of open
	space        bool
}

// runLength says how far a buffer reached behind a token, and where in it the
// characters start that began in the token itself; those before were open.
type runLength struct{ end, own int32 }

// watcher follows one text. Everything it knows is in marks and in two buffers
// that only grow at their end, so a rewind cuts them.
type watcher struct {
	c            *compiled
	marks        []mark
	text, folded []byte

	// Of the current token only.
	now     mark
	found   found
	runes   []rune
	scratch []byte
}

// found sums up the matches of one token.
type found struct {
	n     int
	token int32 // in which the earliest of them began
	name  string
}

// Observe follows the candidate's bytes. Broken UTF-8 becomes U+FFFD.
func (w *watcher) Observe(_ context.Context, o *monitors.Observation) (monitors.Verdict, error) {
	if len(w.text)+len(w.folded)+len(o.Piece) > maxSaid {
		return monitors.Verdict{}, errors.New("the text is too long to follow")
	}
	before := w.last()
	w.found, w.now = found{}, before
	w.now.text.own, w.now.folded.own = math.MaxInt32, math.MaxInt32 // until an own character comes
	w.read(o.Piece, before)
	w.now.text.end, w.now.folded.end = int32(len(w.text)), int32(len(w.folded))
	w.marks = append(w.marks, w.now)
	w.patterns(before)
	if w.found.n == 0 {
		return monitors.Verdict{}, nil
	}
	onset := len(w.marks) - 1 - int(w.found.token)
	return monitors.Verdict{Score: float64(w.found.n), Flag: true, Onset: min(onset, o.Step), Note: w.found.note()}, nil
}

// last is the state behind the last token; before the first one there is a
// border.
func (w *watcher) last() mark {
	if len(w.marks) == 0 {
		return mark{space: true}
	}
	return w.marks[len(w.marks)-1]
}

// read takes in what is complete of the open bytes and the piece, and leaves
// the rest open.
func (w *watcher) read(piece []byte, before mark) {
	opened := int(before.opened)
	b := append(append(w.scratch[:0], before.open[:opened]...), piece...)
	w.scratch = b
	used, owned := 0, false
	for used < len(b) && (utf8.FullRune(b[used:]) || len(piece) == 0) {
		if !owned && used >= opened {
			w.own()
			owned = true
		}
		r, n := utf8.DecodeRune(b[used:])
		w.add(r)
		used += n
	}
	if !owned {
		w.own()
	}
	if len(piece) == 0 {
		w.add('\n') // a token without text ends a word
	}
	w.leave(b[used:], used < opened, before)
}

// own notes that the characters from here on began in the current token.
func (w *watcher) own() {
	w.now.text.own, w.now.folded.own = int32(len(w.text)), int32(len(w.folded))
}

// leave keeps the bytes of a character that is not complete.
func (w *watcher) leave(b []byte, older bool, before mark) {
	w.now.opened = uint8(copy(w.now.open[:], b))
	clear(w.now.open[len(b):]) // equal states are equal values
	if w.now.from = int32(len(w.marks)); older {
		w.now.from = before.from
	}
}

// add follows one character.
func (w *watcher) add(r rune) {
	w.text = utf8.AppendRune(w.text, r)
	if len(w.c.phrases) == 0 {
		return
	}
	if w.c.exact {
		w.step(r)
		return
	}
	f := folder{space: w.now.space}
	w.runes = f.add(w.runes[:0], r)
	w.now.space = f.space
	for _, r := range w.runes {
		w.step(r)
	}
}

// step moves the automaton by one folded character.
func (w *watcher) step(r rune) {
	if !wordy(r) {
		w.outputs(true)
	}
	n := len(w.folded)
	w.folded = utf8.AppendRune(w.folded, r)
	for _, b := range w.folded[n:] {
		w.now.node = w.c.machine.step(w.now.node, b)
	}
	w.outputs(false)
}

// outputs reports the phrases that end here: those that wanted to see a border
// behind them, or those that did not.
func (w *watcher) outputs(bordered bool) {
	m := w.c.machine
	for n := w.now.node; n != 0; n = m.above[n] {
		if m.out[n] < 0 {
			continue
		}
		p := &w.c.phrases[m.out[n]]
		start := len(w.folded) - p.size
		if p.right != bordered || p.left && w.inWord(start) {
			continue
		}
		w.hit(w.began(start, func(m *mark) runLength { return m.folded }), p.text)
	}
}

func (w *watcher) inWord(start int) bool {
	r, _ := utf8.DecodeLastRune(w.folded[:start])
	return start > 0 && wordy(r)
}

// patterns searches the regular expressions. The current token has its mark.
func (w *watcher) patterns(before mark) {
	from, to := int(before.text.end), len(w.text)
	lo := max(0, from-w.c.window)
	for lo > 0 && lo < to && !utf8.RuneStart(w.text[lo]) {
		lo++
	}
	for i := range w.c.patterns {
		p := &w.c.patterns[i]
		p.scan(w.text, lo, from, to, func(start int) {
			w.hit(w.began(start, func(m *mark) runLength { return m.text }), p.text)
		})
	}
}

// began returns the token in which the character at an offset began.
func (w *watcher) began(start int, of func(*mark) runLength) int32 {
	i := sort.Search(len(w.marks), func(i int) bool { return of(&w.marks[i]).end > int32(start) })
	own := of(&w.now).own
	if i < len(w.marks) {
		own = of(&w.marks[i]).own
	}
	if int32(start) >= own {
		return int32(i)
	}
	return w.marks[i-1].from // it was open then
}

func (w *watcher) hit(token int32, name string) {
	if w.found.n == 0 || token < w.found.token {
		w.found.token, w.found.name = token, name
	}
	w.found.n++
}

func (f *found) note() string {
	name := f.name
	if len(name) > maxNamed {
		cut := maxNamed
		for !utf8.RuneStart(name[cut]) {
			cut--
		}
		name = name[:cut] + "..."
	}
	if f.n == 1 {
		return name
	}
	return fmt.Sprintf("%s and %d more", name, f.n-1)
}

// Rewind forgets the last n tokens.
func (w *watcher) Rewind(n int) error {
	if n < 0 || n > len(w.marks) {
		return fmt.Errorf("rewind by %d of %d tokens", n, len(w.marks))
	}
	w.marks = w.marks[:len(w.marks)-n]
	last := w.last()
	w.text, w.folded = w.text[:last.text.end], w.folded[:last.folded.end]
	return nil
}
