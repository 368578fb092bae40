package jinja

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Marks maps characters of untrusted text to bytes that never occur in valid
// UTF-8, one byte for one byte. A marked text goes through a template like the
// plain one: comparing, searching and look-up see the plain character, while
// slicing and joining carry the mark along. Since every other string of a
// render is valid UTF-8, a mark in the output proves where the byte came from,
// and no content can forge one.
//
// Only ASCII punctuation can be marked, and not the characters that quoting
// or formatting would rewrite.
type Marks struct {
	to   [256]byte // character -> mark, 0 for none
	from [256]byte // mark -> character, 0 for none
}

// markBytes never occur in valid UTF-8.
var markBytes = []byte{0xc0, 0xc1, 0xf5, 0xf6, 0xf7, 0xf8, 0xf9, 0xfa, 0xfb, 0xfc, 0xfd, 0xfe, 0xff}

// Markable reports whether c can be marked.
func Markable(c byte) bool {
	return c > ' ' && c < 0x7f && !isWordByte(c) && strings.IndexByte("\"'\\%{}&", c) < 0
}

func isWordByte(c byte) bool {
	return isDigit(c) || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// NewMarks makes marks for the markable bytes of chars, the first 13 of them.
func NewMarks(chars []byte) *Marks {
	m := &Marks{}
	n := 0
	for _, c := range chars {
		if n < len(markBytes) && Markable(c) && m.to[c] == 0 {
			m.to[c], m.from[markBytes[n]] = markBytes[n], c
			n++
		}
	}
	return m
}

// Has reports whether c is a character that Mark marks.
func (m *Marks) Has(c byte) bool { return m != nil && m.to[c] != 0 }

// Is reports whether b is a mark.
func (m *Marks) Is(b byte) bool { return m != nil && m.from[b] != 0 }

// Mark replaces the characters of s by their marks. A nil m marks nothing.
func (m *Marks) Mark(s string) string {
	if m == nil {
		return s
	}
	return swap(s, &m.to)
}

// Plain is the inverse of Mark; its answer has the length of s.
func (m *Marks) Plain(s string) string {
	if m == nil {
		return s
	}
	return swap(s, &m.from)
}

func swap(s string, table *[256]byte) string {
	for i := 0; i < len(s); i++ {
		if table[s[i]] == 0 {
			continue
		}
		b := []byte(s)
		for ; i < len(b); i++ {
			if t := table[b[i]]; t != 0 {
				b[i] = t
			}
		}
		return string(b)
	}
	return s
}

// isSpace follows Python's str.isspace, which also counts the four ASCII
// separators.
func isSpace(r rune) bool {
	return unicode.IsSpace(r) || r >= 0x1c && r <= 0x1f
}

// mapText applies f to every character and leaves bytes that are no
// character (marks) alone.
func mapText(s string, f func(rune) string) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && n == 1 {
			f(-1) // a mark is no letter, but it stands between letters
			b.WriteByte(s[i])
		} else {
			b.WriteString(f(r))
		}
		i += n
	}
	return b.String()
}

func upper(s string) string { return mapText(s, upperRune) }
func lower(s string) string {
	return mapText(s, func(r rune) string { return string(unicode.ToLower(r)) })
}

func upperRune(r rune) string {
	if r == 'ß' {
		return "SS"
	}
	return string(unicode.ToUpper(r))
}

// capitalize upper-cases the first character and lower-cases the rest.
func capitalize(s string) string {
	first := true
	return mapText(s, func(r rune) string {
		if first {
			first = false
			return upperRune(r)
		}
		return string(unicode.ToLower(r))
	})
}

// title upper-cases each letter that no letter precedes.
func title(s string) string {
	prev := false
	return mapText(s, func(r rune) string {
		was := prev
		prev = unicode.IsLetter(r)
		if was {
			return string(unicode.ToLower(r))
		}
		return upperRune(r)
	})
}

// byteAt is the byte offset of character i, 0 <= i <= number of characters.
func byteAt(s string, i int) int {
	for at := range s {
		if i == 0 {
			return at
		}
		i--
	}
	return len(s)
}
