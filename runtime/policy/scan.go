package policy

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// scan finds where lines and sentences begin. It is the state after one token,
// a value: whoever keeps one can go on from there.
type scan struct {
	state uint8
	line  bool // the next character begins a line
	rest  [utf8.UTFMax]byte
	n     uint8 // bytes of a character that the token broke off, in rest

	newLine, newSentence bool // one begins in this token
}

const (
	inside  uint8 = iota // of a sentence
	ended                // after its punctuation; a space makes it sure
	atStart              // the next character that is no space begins one
)

// token is the state after more bytes.
func (s scan) token(piece []byte) scan {
	s.newLine, s.newSentence = false, false
	for len(piece) > 0 {
		c, n, whole := s.next(piece)
		if !whole {
			return s
		}
		piece = piece[n:]
		s.char(c)
	}
	return s
}

// next takes a character off the front, with what is left of the token before,
// and says how many bytes of the piece it has: none when what was left is part of
// no character. It is not whole when it breaks off here too.
func (s *scan) next(piece []byte) (c rune, n int, whole bool) {
	held := int(s.n)
	took := copy(s.rest[held:], piece)
	if b := s.rest[:held+took]; !utf8.FullRune(b) {
		s.n = uint8(len(b))
		return 0, 0, false
	}
	c, n = utf8.DecodeRune(s.rest[:held+took])
	s.n = 0
	return c, max(n-held, 0), true
}

// Punctuation that ends a sentence: with a space behind it, or at once.
const (
	endMarks  = ".!?…"
	wideMarks = "。！？"
	closers   = "\"')]}”’»*_"
)

func (s *scan) char(c rune) {
	if c == '\n' {
		s.state, s.line = atStart, true
		return
	}
	if s.line {
		s.line, s.newLine = false, true
	}
	switch {
	case strings.ContainsRune(wideMarks, c):
		s.state = atStart
	case strings.ContainsRune(endMarks, c):
		s.begin()
		s.state = ended
	case s.state == ended && unicode.IsSpace(c):
		s.state = atStart
	case s.state == ended && strings.ContainsRune(closers, c), s.state == atStart && unicode.IsSpace(c):
	default:
		s.begin()
		s.state = inside
	}
}

// begin notes the first character of a sentence.
func (s *scan) begin() { s.newSentence = s.newSentence || s.state == atStart }
