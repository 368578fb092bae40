package perceiver

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

const (
	// minGap is the least number of tokens between two read-outs at sentence
	// ends, so that "..." is not three sentences.
	minGap = 4
	// maxTail bounds the bytes of an unfinished word.
	maxTail = 256
)

// wordEnd is how much of the text can be read for good: all but the last,
// perhaps unfinished word with the space before it. Cut there, words become the
// tokens that they would be in one piece.
func wordEnd(text []byte) int {
	if i := bytes.LastIndexAny(text, " \n\t"); i > 0 && len(text)-i <= maxTail {
		return i
	}
	if len(text) <= maxTail {
		return 0
	}
	return whole(text)
}

// whole is the length of the text without a character that is cut off at its
// end.
func whole(text []byte) int {
	for i := len(text) - 1; i >= max(0, len(text)-utf8.UTFMax); i-- {
		if utf8.RuneStart(text[i]) {
			if !utf8.FullRune(text[i:]) {
				return i
			}
			break
		}
	}
	return len(text)
}

// readable is text that a tokenizer takes.
func readable(text []byte) string {
	return strings.ToValidUTF8(string(text), string(utf8.RuneError))
}

// endsSentence reports whether the text ends with a sentence, a line or a
// closing mark behind one.
func endsSentence(text []byte) bool {
	if bytes.HasSuffix(text, []byte("\n")) {
		return true
	}
	text = bytes.TrimRight(text, " \t\"')]*_")
	for _, mark := range []string{".", "!", "?", "\u3002", "\uff01", "\uff1f", "\u2026"} {
		if bytes.HasSuffix(text, []byte(mark)) {
			return true
		}
	}
	return false
}
