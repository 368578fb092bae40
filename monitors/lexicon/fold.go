package lexicon

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// folder turns text into the form in which phrases are compared, one character
// at a time, so that it can follow a stream: it composes nothing, hence no
// character has to wait for the next one. The result is near to NFKC_Casefold
// of Unicode Standard Annex 44, decomposed.
type folder struct {
	space bool // the last character was white space, or there was none
}

// add appends the folded form of r, if it has one.
func (f *folder) add(dst []rune, r rune) []rune {
	if r < utf8.RuneSelf {
		return f.one(dst, r)
	}
	if ignorable(r) {
		return dst
	}
	var in [utf8.UTFMax]byte
	var out [64]byte // the longest decomposition takes 33 bytes
	n := utf8.EncodeRune(in[:], r)
	for b := norm.NFKD.Append(out[:0], in[:n]...); len(b) > 0; {
		d, size := utf8.DecodeRune(b)
		dst = f.one(dst, d)
		b = b[size:]
	}
	return dst
}

// one folds a character that needs no decomposition.
func (f *folder) one(dst []rune, r rune) []rune {
	if unicode.IsSpace(r) {
		if f.space {
			return dst
		}
		f.space = true
		return append(dst, ' ')
	}
	f.space = false
	if r == 'ß' || r == 'ẞ' { // full case folding; NFKD has seen to the others
		return append(dst, 'S', 'S')
	}
	return append(dst, foldCase(r))
}

// foldCase returns the smallest of the characters that differ from r in case only.
func foldCase(r rune) rune {
	if r < utf8.RuneSelf {
		if 'a' <= r && r <= 'z' {
			r -= 'a' - 'A'
		}
		return r
	}
	least := r
	for c := unicode.SimpleFold(r); c != r; c = unicode.SimpleFold(c) {
		least = min(least, c)
	}
	return least
}

// ignorable reports characters that print nothing.
func ignorable(r rune) bool {
	return unicode.In(r, unicode.Cf, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point)
}

// fold folds a whole phrase; white space around it does not count.
func fold(s string) string {
	f := folder{space: true}
	var out []rune
	for _, r := range s {
		out = f.add(out, r)
	}
	return strings.TrimSuffix(string(out), " ")
}

// wordy reports whether a character next to a phrase makes it part of a longer
// word.
func wordy(r rune) bool {
	if r < utf8.RuneSelf {
		return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '_'
	}
	return unicode.In(r, unicode.L, unicode.M, unicode.N, unicode.Pc) && !unicode.In(r, unspaced...)
}

// unspaced are the scripts that put no spaces between words.
var unspaced = []*unicode.RangeTable{
	unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar,
}

// edge reports whether the first or last character of a phrase is wordy.
func edge(s string, last bool) bool {
	r, _ := utf8.DecodeRuneInString(s)
	if last {
		r, _ = utf8.DecodeLastRuneInString(s)
	}
	return wordy(r)
}

// checkText refuses what no text that is shown can contain.
func checkText(s string) error {
	switch {
	case !utf8.ValidString(s):
		return fmt.Errorf("%.40q is not valid UTF-8", s)
	case strings.ContainsRune(s, utf8.RuneError):
		return errors.New("contains U+FFFD, which stands for a broken character")
	case strings.ContainsFunc(s, func(r rune) bool { return unicode.IsControl(r) && r != '\t' }):
		return fmt.Errorf("%.40q contains a control character", s)
	}
	return nil
}
